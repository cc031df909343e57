"""Schemas, rules and webhooks on a real API server.

That whatever passes validation renders into pods the API server accepts is shown where the operator renders them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from workbench import eventually

from grove.admission import default
from grove.admission.authorization import Identities
from grove.api.pod_clique_set import PodCliqueSet
from grove.cli import crds
from grove.cli.validate import check
from grove.localcluster import ClusterSpec, LocalClusterError, RunningCluster, reset, up
from grove.localcluster.progress import PlainProgress
from grove.runtime import certs
from grove.runtime.server import TlsServer
from grove.webhooks import Router, Surroundings
from grove.webhooks.routes import routes
from manifests import tables
from manifests.drawn import drawn

WEBHOOKS = tables.HERE.parent.parent / "deploy" / "webhooks.yaml"
ALL_CREATIONS = tables.entries("refused_creations.yaml")
ALL_UPDATES = tables.entries("refused_updates.yaml")
CREATIONS = [entry for entry in ALL_CREATIONS if "server" in entry]
UPDATES = [entry for entry in ALL_UPDATES if "server" in entry]
SAMPLES = [(name, document) for name, document in tables.samples() if document["kind"] != "OperatorConfiguration"]
CONTEXT = tables.context()

OPERATOR = ("--as=system:serviceaccount:grove-system:grove-operator", "--as-group=system:masters")
MANAGED = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "base"}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster of this module's own: webhooks are everybody's, and other tests must not meet these."""
    spec = ClusterSpec(name="admission", nodes=1, racks=1, blocks=1, data_dir=tmp_path_factory.mktemp("admission"))
    yield up(spec, PlainProgress())
    reset(spec.name, spec.data_dir)


@pytest.fixture(scope="module")
def kinds(cluster: RunningCluster) -> RunningCluster:
    """The cluster with Grove's kinds in it."""
    crds.crds.main(["install", "--kubeconfig", str(cluster.kubeconfig)], standalone_mode=False)
    return cluster


def refused(cluster: RunningCluster, *arguments: str, document: Json | None = None) -> str:
    """What the API server says against a request; empty when it has nothing against it."""
    try:
        cluster.kubectl(*arguments, stdin=None if document is None else json.dumps(document))
    except LocalClusterError as error:
        return str(error)
    return ""


def placed(document: Json, namespace: str) -> Json:
    return {**document, "metadata": {**document.get("metadata", {}), "namespace": namespace}}


def test_installing_twice_changes_nothing(kinds: RunningCluster, capsys: pytest.CaptureFixture[str]) -> None:
    crds.crds.main(["install", "--kubeconfig", str(kinds.kubeconfig)], standalone_mode=False)
    assert capsys.readouterr().out.count("unchanged") == 5
    with pytest.raises(SystemExit) as ended:
        crds.crds.main(["diff", "--kubeconfig", str(kinds.kubeconfig)], standalone_mode=False)
    assert ended.value.code == 0


def test_the_kinds_explain_themselves(kinds: RunningCluster) -> None:
    text = kinds.kubectl("explain", "pcs.spec.template")
    assert "What one replica of the system consists of." in text
    assert "cliqueStartupType" in text
    assert "In which order cliques start" in text
    assert "containers" in kinds.kubectl("explain", "pcs.spec.template.cliques.spec.podSpec")


def test_the_kinds_answer_to_their_short_names_and_category(kinds: RunningCluster, namespace: str) -> None:
    for name in ("pcs", "pclq", "pcsg", "pg"):
        kinds.kubectl("get", name, "-n", namespace)
    kinds.kubectl("get", "ct")
    kinds.kubectl("get", "grove", "-n", namespace)


@pytest.mark.parametrize(("name", "document"), SAMPLES, ids=[f"{name}:{d['kind']}" for name, d in SAMPLES])
def test_every_example_is_admitted(kinds: RunningCluster, name: str, document: Json) -> None:
    assert refused(kinds, "create", "--dry-run=server", "-f", "-", document=document) == ""


@pytest.mark.parametrize("entry", CREATIONS, ids=lambda entry: str(entry["case"]))
def test_the_schema_alone_refuses_a_bad_manifest(kinds: RunningCluster, entry: Json) -> None:
    document = tables.varied(tables.base(), entry.get("set"), entry.get("remove"))
    said = refused(kinds, "create", "--dry-run=server", "-f", "-", document=document)
    assert entry["server"] in said, said


@pytest.mark.parametrize("entry", UPDATES, ids=lambda entry: str(entry["case"]))
def test_the_schema_alone_refuses_a_bad_change(kinds: RunningCluster, namespace: str, entry: Json) -> None:
    before = default(tables.varied(tables.base(), entry.get("before")))
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(placed(before, namespace)))
    after = default(tables.varied(before, entry.get("set"), entry.get("remove")), before)
    said = refused(kinds, "replace", "--dry-run=server", "-f", "-", document=placed(after, namespace))
    assert entry["server"] in said, said


def clique(namespace: str) -> Json:
    spec = default(tables.base())["spec"]["template"]["cliques"][0]["spec"]
    metadata = {"name": "base-0-router", "namespace": namespace}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata, "spec": spec}


def group(namespace: str) -> Json:
    metadata = {"name": "base-0-pool", "namespace": namespace}
    spec = {"cliqueNames": ["leader"], "replicas": 3, "minAvailable": 2}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup", "metadata": metadata, "spec": spec}


def test_the_schema_alone_refuses_a_scale_below_the_minimum(kinds: RunningCluster, namespace: str) -> None:
    for document in (clique(namespace), group(namespace)):
        kinds.kubectl("create", "-f", "-", stdin=json.dumps(document))
        target = f"{document['kind']}/{document['metadata']['name']}"
        said = refused(kinds, "scale", target, "-n", namespace, "--replicas=1")
        assert "replicas must not be below minAvailable" in said, said
        assert refused(kinds, "scale", target, "-n", namespace, "--replicas=2") == ""


def test_a_set_scales_to_nothing(kinds: RunningCluster, namespace: str) -> None:
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(placed(tables.base(), namespace)))
    assert refused(kinds, "scale", "pcs/base", "-n", namespace, "--replicas=0") == ""


def test_a_status_may_be_written_in_part(kinds: RunningCluster, namespace: str) -> None:
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(placed(tables.base(), namespace)))
    status = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert (
        refused(kinds, "patch", "pcs", "base", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
        == ""
    )


def _closing(route: web.RouteDef) -> web.RouteDef:
    """The same route on a connection that ends with the answer, so that none is left when the server stops."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await route.handler(request)
        response.force_close()
        return response

    return web.post(route.path, answer)


class Server:
    """The webhooks, served over TLS by a thread of the test."""

    def __init__(self) -> None:
        self._authority = certs.new_authority(datetime.now(UTC))
        self._pair = certs.issue(self._authority, ["127.0.0.1"], datetime.now(UTC))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.context = CONTEXT
        """The operator these webhooks speak for; a test may put another in its place."""

    def pair(self) -> tuple[bytes, bytes]:
        return self._pair.certificate, self._pair.key

    def subscribe(self, changed: Any) -> None:
        """The certificate of a test does not change."""

    def start(self) -> None:
        self._thread.start()
        identities = Identities("system:serviceaccount:grove-system:grove-operator")
        router = Router(Surroundings(lambda: self.context, identities, owner=self._owner))
        self._server = TlsServer([_closing(route) for route in routes(router)], self, host="127.0.0.1")
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(30)

    async def _owner(self, namespace: str, name: str) -> PodCliqueSet | None:
        """Objects of every other set are not protected, because it does not stand."""
        return msgspec.convert(tables.base(), PodCliqueSet) if name == "base" else None

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def configurations(self) -> list[Json]:
        """The published webhook configurations, pointed at this server."""
        found = list(yaml.safe_load_all(WEBHOOKS.read_text()))
        bundle = base64.b64encode(self._authority.certificate).decode()
        for configuration in found:
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"]["service"]["path"]
                url = f"https://127.0.0.1:{self._server.port}{path}"
                webhook["clientConfig"] = {"url": url, "caBundle": bundle}
        return found


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@pytest.fixture(scope="module")
def webhooks(kinds: RunningCluster, server: Server) -> Iterator[RunningCluster]:
    """The cluster with admission switched on."""
    server.start()
    configurations = {"apiVersion": "v1", "kind": "List", "items": server.configurations()}
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(configurations))
    try:
        _wait_until_asked(kinds)
        yield kinds
    finally:
        kinds.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(configurations))
        server.stop()


def _wait_until_asked(cluster: RunningCluster) -> None:
    """The API server takes a moment to notice new webhooks; tries that one changes or refuses show that it has."""
    wrong = tables.varied(tables.base(), {"spec.template.topologyConstraint": {"packDomain": "numa"}})
    guarded = clique("default")
    guarded["metadata"]["labels"] = MANAGED

    def defaulted() -> bool:
        answer = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(tables.base()))
        return "terminationDelay" in json.loads(answer)["spec"]["template"]

    def denied(document: Json) -> bool:
        return bool(refused(cluster, "create", "--dry-run=server", "-f", "-", document=document))

    eventually("sets to be defaulted", defaulted)
    eventually("sets to be judged", lambda: denied(wrong))
    eventually("managed objects to be guarded", lambda: denied(guarded))


def test_a_set_is_defaulted_on_its_way_in(webhooks: RunningCluster, namespace: str) -> None:
    document = json.dumps(placed(tables.base(), namespace))
    stored = json.loads(webhooks.kubectl("create", "-o", "json", "-f", "-", stdin=document))
    template = stored["spec"]["template"]
    assert template["terminationDelay"] == "4h"
    assert template["cliques"][2]["spec"]["minAvailable"] == 2
    assert template["cliques"][2]["spec"]["podSpec"]["restartPolicy"] == "Always"


@pytest.mark.parametrize("entry", ALL_CREATIONS, ids=lambda entry: str(entry["case"]))
def test_a_bad_manifest_is_refused_with_its_message(webhooks: RunningCluster, server: Server, entry: Json) -> None:
    """By the schema where that has the rule, in its words; by the webhook where it has not."""
    document = tables.varied(tables.base(), entry.get("set"), entry.get("remove"))
    server.context = tables.context(entry)
    try:
        said = refused(webhooks, "create", "--dry-run=server", "-f", "-", document=document)
    finally:
        server.context = CONTEXT
    assert entry.get("server", entry["says"]) in said, said


@pytest.mark.parametrize("entry", ALL_UPDATES, ids=lambda entry: str(entry["case"]))
def test_a_bad_change_is_refused_with_its_message(webhooks: RunningCluster, namespace: str, entry: Json) -> None:
    before = placed(tables.varied(tables.base(), entry.get("before")), namespace)
    webhooks.kubectl("create", "-f", "-", stdin=json.dumps(before))
    after = tables.varied(before, entry.get("set"), entry.get("remove"))
    said = refused(webhooks, "replace", "--dry-run=server", "-f", "-", document=after)
    assert entry.get("server", entry["says"]) in said, said


@pytest.mark.parametrize("make", [tables.spoilt, drawn])
@pytest.mark.parametrize("seed", range(60))
def test_the_cluster_and_the_command_line_judge_alike(webhooks: RunningCluster, make: Any, seed: int) -> None:
    """Documents nobody wrote by hand: what `grove validate` has against them, the cluster has, and nothing else."""
    document = make(seed)
    said = refused(webhooks, "create", "--dry-run=server", "-f", "-", document=document)
    offline = check(document, CONTEXT)
    assert offline is not None
    assert bool(said) == bool(offline.errors), (said, [str(error) for error in offline.errors])


def test_a_rule_beyond_the_schema_is_told_by_the_webhook(webhooks: RunningCluster, namespace: str) -> None:
    document = tables.varied(tables.base(), {"spec.template.topologyConstraint": {"packDomain": "numa"}})
    said = refused(webhooks, "create", "-f", "-", document=placed(document, namespace))
    assert "topology level 'numa' not defined in ClusterTopology 'grove-topology'" in said


def test_applying_with_other_replicas_keeps_the_minimum(webhooks: RunningCluster, namespace: str) -> None:
    first = placed(tables.varied(tables.base(), None, ["router.spec.minAvailable"]), namespace)
    second = tables.varied(first, {"router.spec.replicas": 5})
    for document in (first, second):
        assert refused(webhooks, "apply", "--server-side", "-f", "-", document=document) == ""
    stored = json.loads(webhooks.kubectl("get", "pcs", "base", "-n", namespace, "-o", "json"))
    assert stored["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 3


def test_mnnvl_cannot_be_asked_for_later(webhooks: RunningCluster, namespace: str) -> None:
    webhooks.kubectl("create", "-f", "-", stdin=json.dumps(placed(tables.base(), namespace)))
    said = refused(webhooks, "annotate", "pcs", "base", "-n", namespace, "grove.io/mnnvl-enabled=true")
    assert "field is immutable" in said, said


def test_a_topology_is_not_for_administrators_to_write(webhooks: RunningCluster) -> None:
    document = next(d for _, d in SAMPLES if d["kind"] == "ClusterTopology")
    said = refused(webhooks, "create", "-f", "-", document=document)
    assert "ClusterTopology can only be created by the operator" in said


def test_the_operator_may_write_a_topology_and_others_may_not_touch_it(webhooks: RunningCluster) -> None:
    document = next(d for _, d in SAMPLES if d["kind"] == "ClusterTopology")
    assert refused(webhooks, "create", "-f", "-", *OPERATOR, document=document) == ""
    change = json.dumps({"spec": {"levels": [{"domain": "rack", "key": "other"}]}})
    said = refused(webhooks, "patch", "ct", "grove-topology", "--type=merge", "-p", change)
    assert "ClusterTopology can only be modified by the operator" in said
    said = refused(webhooks, "delete", "ct", "grove-topology")
    assert "ClusterTopology can only be deleted by the operator" in said
    assert refused(webhooks, "delete", "ct", "grove-topology", *OPERATOR) == ""


def test_managed_objects_are_the_operators_with_their_status_and_claims(
    webhooks: RunningCluster, namespace: str
) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "base-0-mnnvl-claim", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "a"}}]}},
    }
    for document in (clique(namespace), claim):
        document["metadata"]["labels"] = MANAGED
        target = f"{document['kind']}/{document['metadata']['name']}"
        if document["kind"] == "PodClique":
            said = refused(webhooks, "create", "-f", "-", document=document)
            assert "is managed by the operator and cannot be created by grove-local-admin" in said, said
        assert refused(webhooks, "create", "-f", "-", *OPERATOR, document=document) == ""
        said = refused(webhooks, "delete", target, "-n", namespace)
        assert "is managed by the operator and cannot be deleted by grove-local-admin" in said, said
    patch = ("patch", "pclq", "base-0-router", "-n", namespace, "--type=merge", "-p")
    said = refused(webhooks, *patch, '{"status":{"replicas":9}}', "--subresource=status")
    assert "cannot be changed by grove-local-admin" in said, said
    assert refused(webhooks, *patch, '{"status":{"replicas":9}}', "--subresource=status", *OPERATOR) == ""
    assert refused(webhooks, "scale", "pclq/base-0-router", "-n", namespace, "--replicas=4") == ""
    # Whoever may delete a namespace may delete what is in it.
    assert refused(webhooks, "delete", "namespace", namespace, "--timeout=60s") == ""
    webhooks.kubectl("create", "namespace", namespace)


def test_finalizers_come_off_while_the_operator_is_away(kinds: RunningCluster, namespace: str) -> None:
    """Webhooks that answer nobody must not keep an object that is being deleted, nor a namespace."""
    document = tables.varied(tables.base(), {"metadata.finalizers": ["grove.io/podcliqueset.grove.io"]})
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(placed(document, namespace)))
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(clique(namespace)))
    configurations = _unanswered()
    kinds.kubectl("create", "-f", "-", stdin=json.dumps(configurations))
    try:
        kinds.kubectl("annotate", "pcs", "base", "-n", namespace, "example.com/note=kept")
        kinds.kubectl("label", "pcs", "base", "-n", namespace, "example.com/team=a")
        kinds.kubectl("delete", "namespace", namespace, "--wait=false")
        kinds.kubectl("wait", "--for=delete", "pclq/base-0-router", "-n", namespace, "--timeout=60s")
        kinds.kubectl(
            "patch",
            "pcs",
            "base",
            "-n",
            namespace,
            "--type=json",
            "-p",
            '[{"op":"remove","path":"/metadata/finalizers"}]',
        )
        kinds.kubectl("wait", "--for=delete", f"namespace/{namespace}", "--timeout=60s")
        kinds.kubectl("create", "namespace", namespace)
    finally:
        kinds.kubectl("delete", "-f", "-", stdin=json.dumps(configurations))


def _unanswered() -> Json:
    items = list(yaml.safe_load_all(WEBHOOKS.read_text()))
    for configuration in items:
        configuration["metadata"]["name"] = f"unanswered-{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = {"url": "https://127.0.0.1:9/away"}
    return {"apiVersion": "v1", "kind": "List", "items": items}
