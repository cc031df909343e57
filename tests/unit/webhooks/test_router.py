"""Reviews in, answers out."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from grove.admission import Context, default
from grove.admission.authorization import Identities
from grove.api.pod_clique_set import PodCliqueSet
from grove.webhooks import Router, Surroundings, router
from grove.webhooks.routes import routes
from manifests import tables

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
CONFIGURATIONS = tables.HERE.parent.parent / "deploy" / "webhooks.yaml"


async def minimum(resource: str, namespace: str, name: str) -> int | None:
    return {("podcliques", "base-0-router"): 2, ("podcliquescalinggroups", "base-0-pool"): 1}.get((resource, name))


async def owner(namespace: str, name: str) -> PodCliqueSet | None:
    return None


@pytest.fixture
def served() -> Router:
    return Router(Surroundings(Context, Identities(OPERATOR), minimum, owner))


def review(operation: str = "CREATE", user: str = "alice", **request: Any) -> dict[str, Any]:
    content = {"uid": "u-1", "operation": operation, "userInfo": {"username": user}, "namespace": "default", **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": content}


async def test_defaulting_answers_with_a_patch(served: Router) -> None:
    answer = await served.review(router.DEFAULT_SET, review(object=tables.base()))
    response = answer["response"]
    assert (answer["apiVersion"], answer["kind"], response["uid"]) == ("admission.k8s.io/v1", "AdmissionReview", "u-1")
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(response["patch"]))
    assert {"op": "add", "path": "/spec/template/terminationDelay", "value": "4h"} in patch
    assert {"op": "add", "path": "/spec/template/cliques/1/spec/minAvailable", "value": 1} in patch


async def test_a_complete_object_gets_no_patch(served: Router) -> None:
    answer = await served.review(router.DEFAULT_SET, review(object=default(tables.base())))
    assert answer["response"] == {"uid": "u-1", "allowed": True}


async def test_an_object_that_is_being_deleted_gets_no_patch(served: Router) -> None:
    document = tables.varied(tables.base(), {"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
    answer = await served.review(router.DEFAULT_SET, review("UPDATE", object=document, oldObject=document))
    assert "patch" not in answer["response"]


async def test_a_refusal_names_every_cause(served: Router) -> None:
    document = tables.varied(default(tables.base()), {"spec.replicas": -1, "router.spec.minAvailable": 9})
    response = (await served.review(router.VALIDATE_SET, review(object=document)))["response"]
    assert not response["allowed"]
    assert response["status"]["code"] == 422
    causes = response["status"]["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.replicas", "spec.template.cliques[0].spec.minAvailable"]
    assert {cause["reason"] for cause in causes} == {"FieldValueInvalid"}
    assert "must not be greater than replicas 3" in response["status"]["message"]


async def test_a_new_set_is_held_to_the_sets_around_it() -> None:
    standing = msgspec.convert(tables.base(), PodCliqueSet)

    def neighbours(namespace: str, name: str) -> list[PodCliqueSet]:
        return [standing] if (namespace, name) == ("default", "base-0-pool") else []

    served = Router(Surroundings(Context, Identities(OPERATOR), neighbours=neighbours))
    document = tables.varied(default(tables.base()), {"metadata.name": "base-0-pool"})
    response = (await served.review(router.VALIDATE_SET, review(object=document, name="base-0-pool")))["response"]
    assert "would be called like one of PodCliqueSet 'base'" in response["status"]["message"]


async def test_warnings_come_with_an_admitted_object(served: Router) -> None:
    document = tables.varied(default(tables.base()), {"worker.spec.startsAfter": ["leader"]})
    response = (await served.review(router.VALIDATE_SET, review(object=document)))["response"]
    assert response["allowed"]
    assert len(response["warnings"]) == 1


def scale(replicas: int) -> dict[str, Any]:
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": replicas}}


@pytest.mark.parametrize(
    ("resource", "name", "replicas", "allowed"),
    [
        ("podcliques", "base-0-router", 1, False),
        ("podcliques", "base-0-router", 2, True),
        ("podcliquescalinggroups", "base-0-pool", 0, False),
        ("podcliquescalinggroups", "base-0-pool", 9, True),
        ("podcliques", "unknown", 0, True),
        ("podcliquesets", "base", 0, True),
    ],
)
async def test_a_scale_below_the_minimum_is_refused(
    served: Router, resource: str, name: str, replicas: int, allowed: bool
) -> None:
    request = {"resource": {"resource": resource}, "subResource": "scale", "name": name}
    asked = review("UPDATE", object=scale(replicas), oldObject=scale(3), **request)
    response = (await served.review(router.VALIDATE_SCALE, asked))["response"]
    assert response["allowed"] == allowed
    if not allowed:
        assert "must not have fewer replicas than its minAvailable" in response["status"]["message"]


async def test_a_clique_written_whole_is_judged_by_its_own_minimum(served: Router) -> None:
    def clique(replicas: int, **metadata: Any) -> dict[str, Any]:
        return {"metadata": {"name": "x", **metadata}, "spec": {"replicas": replicas, "minAvailable": 2}}

    request = {"resource": {"resource": "podcliques"}, "name": "x"}
    shrink = review("UPDATE", object=clique(1), oldObject=clique(3), **request)
    assert not (await served.review(router.VALIDATE_SCALE, shrink))["response"]["allowed"]
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    dying = review("UPDATE", object=clique(1, **gone), oldObject=clique(3, **gone), **request)
    assert (await served.review(router.VALIDATE_SCALE, dying))["response"]["allowed"]


async def test_a_topology_is_written_by_the_operator_alone(served: Router) -> None:
    request = {"resource": {"resource": "clustertopologies"}, "name": "grove-topology", "object": {}}
    refused = (await served.review(router.AUTHORIZE_TOPOLOGY, review("CREATE", **request)))["response"]
    assert refused["status"]["message"] == "ClusterTopology can only be created by the operator"
    assert refused["status"]["code"] == 403
    allowed = await served.review(router.AUTHORIZE_TOPOLOGY, review("CREATE", OPERATOR, **request))
    assert allowed["response"]["allowed"]


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ([{"domain": "rack", "key": "a"}, {"domain": "rack", "key": "b"}], "must not be repeated"),
        ([{"domain": "rack", "key": "a"}, {"domain": "host", "key": "a"}], "another level has this key"),
        ([{"domain": "galaxy", "key": "a"}], "must be one of"),
        ([{"domain": "rack", "key": "a/b/c"}], "must be a label key"),
        ([], "at least 1 items"),
    ],
)
async def test_a_malformed_topology_is_refused(served: Router, levels: list[dict[str, str]], says: str) -> None:
    document = {"metadata": {"name": "grove-topology"}, "spec": {"levels": levels}}
    response = (await served.review(router.VALIDATE_TOPOLOGY, review("CREATE", object=document)))["response"]
    assert not response["allowed"]
    assert says in response["status"]["message"]


async def test_a_label_key_may_use_the_whole_of_its_length(served: Router) -> None:
    key = ".".join(["a" * 62] * 4) + "/" + "b" * 63
    document = {"metadata": {"name": "grove-topology"}, "spec": {"levels": [{"domain": "rack", "key": key}]}}
    assert (await served.review(router.VALIDATE_TOPOLOGY, review(object=document)))["response"]["allowed"]


async def test_managed_objects_are_protected(served: Router) -> None:
    made = {"metadata": {"name": "x", "labels": {}}}
    request = {"resource": {"resource": "podcliques"}, "name": "x", "oldObject": made}
    response = (await served.review(router.AUTHORIZE_MANAGED, review("DELETE", **request)))["response"]
    assert response["allowed"]
    assert "part-of" in response["warnings"][0]


async def test_a_responder_speaks_without_the_envelope(served: Router) -> None:
    respond = served.responder(router.VALIDATE_SET)
    assert (await respond(review(object=default(tables.base()))["request"]))["allowed"]


def test_every_configured_webhook_is_served_and_every_handler_is_configured(served: Router) -> None:
    configured = [
        webhook for document in yaml.safe_load_all(CONFIGURATIONS.read_text()) for webhook in document["webhooks"]
    ]
    assert {webhook["clientConfig"]["service"]["path"] for webhook in configured} == set(served.handlers)
    assert {webhook["failurePolicy"] for webhook in configured} == {"Fail"}
    assert {webhook["timeoutSeconds"] for webhook in configured} == {5}


async def test_reviews_are_answered_over_http(served: Router) -> None:
    app = web.Application()
    app.add_routes(routes(served))
    async with TestClient(TestServer(app)) as client:
        answer = await client.post(router.VALIDATE_SET, json=review(object=default(tables.base())))
        assert (await answer.json())["response"]["allowed"]
        assert (await client.post(router.VALIDATE_SET, data=b"nonsense")).status == 400
        assert (await client.post(router.VALIDATE_SET, json={"request": {}})).status == 400
        assert (await client.post("/webhooks/unknown", json={})).status == 404
