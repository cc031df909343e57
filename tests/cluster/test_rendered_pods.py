"""Whatever admission lets through becomes pods that the API server accepts.

Workloads are drawn at random, judged by the operator's own rules, and those admitted are planned in memory to the pods
they become. Each of these is sent to the real API server as a dry run.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from own_namespace import own_namespace

from grove.admission import Context, default, validate
from grove.api import crd
from grove.api.crd import conformance
from grove.api.kinds import PODS
from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.model import Model
from grove.insight.objects import Objects
from grove.localcluster import RunningCluster
from grove.localcluster.rest import ApiServer
from grove.plan.actions import Action, Create

SCHEMA = crd.schema("PodCliqueSet")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORD = st.sampled_from(["a", "b", "main", "side-car", "x9", "Not-a-name", "dotted.name", ""])
QUANTITY = st.sampled_from(["1", "500m", "1Gi", "0", "-1", "many"])


def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


ENV = st.fixed_dictionaries({"name": st.sampled_from(["A", "GROVE_PCS_NAME", "lower", "1x", ""]), "value": WORD})
PORT = sometimes(name=WORD, containerPort=st.sampled_from([80, 0, 70000]), protocol=st.sampled_from(["TCP", "tcp"]))
RESOURCES = sometimes(
    requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITY, max_size=2),
    limits=st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "gpus"]), QUANTITY, max_size=2),
)
PROBE = sometimes(
    exec=st.just({"command": ["true"]}),
    tcpSocket=st.just({"port": 80}),
    periodSeconds=st.just(5),
)
HOOK = sometimes(exec=st.just({"command": ["true"]}), sleep=st.just({"seconds": 1}))
SOURCE = sometimes(configMapRef=st.just({"name": "a"}), secretRef=st.just({"name": "a"}))
TOLERATION = sometimes(
    key=st.just("example.com/a"),
    operator=st.sampled_from(["Exists", "Equal", "Never"]),
    value=st.just("b"),
    effect=st.sampled_from(["NoSchedule", "NoExecute", "Never"]),
    tolerationSeconds=st.just(5),
)
VOLUME = st.builds(
    lambda sources: {"name": "scratch", **sources},
    sometimes(emptyDir=st.just({}), configMap=st.just({"name": "a"})),
)
CONTAINER = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries({"name": WORD, "image": st.sampled_from(["i:1", "i", ""])}),
    sometimes(
        env=st.lists(ENV, max_size=2),
        envFrom=st.lists(SOURCE, max_size=1),
        ports=st.lists(PORT, max_size=2),
        resources=RESOURCES,
        imagePullPolicy=st.sampled_from(["Always", "Never", "Maybe"]),
        livenessProbe=PROBE,
        lifecycle=st.fixed_dictionaries({"preStop": HOOK}),
    ),
)
POD_SPEC = st.builds(
    lambda containers, more: {"containers": containers, **more},
    st.lists(CONTAINER, min_size=1, max_size=2),
    sometimes(
        initContainers=st.lists(CONTAINER, max_size=1),
        schedulerName=st.sampled_from(["default-scheduler", "kai-scheduler"]),
        schedulingGates=st.just([{"name": "example.com/hold"}]),
        restartPolicy=st.sampled_from(["Always", "Never", "Sometimes"]),
        terminationGracePeriodSeconds=st.sampled_from([0, 30, -1]),
        serviceAccountName=st.sampled_from(["default", "Not Valid"]),
        hostname=WORD,
        volumes=st.lists(VOLUME, max_size=1),
        tolerations=st.lists(TOLERATION, max_size=1),
        dnsPolicy=st.sampled_from(["Default", "Unknown"]),
        hostAliases=st.lists(st.builds(lambda ip: {"ip": ip}, st.sampled_from(["10.0.0.1", "here"])), max_size=1),
    ),
)
CLIQUE = st.builds(
    lambda name, labels, spec: {"name": name, "labels": labels, "spec": {"roleName": name, **spec}},
    st.sampled_from(["one", "two", "three"]),
    st.dictionaries(st.sampled_from(["team", "bad key!"]), WORD, max_size=1),
    st.fixed_dictionaries({"podSpec": POD_SPEC}, optional={"replicas": st.integers(1, 2)}),
)
TEMPLATE = st.builds(
    lambda cliques, startup, priority: {
        "cliques": cliques,
        "cliqueStartupType": startup,
        **({"priorityClassName": priority} if priority else {}),
    },
    st.lists(CLIQUE, min_size=1, max_size=2, unique_by=lambda clique: clique["name"]),
    st.sampled_from(["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder"]),
    st.sampled_from(["", "system-node-critical"]),
)


@pytest.fixture(scope="module")
def room(cluster: RunningCluster, api: ApiServer) -> Iterator[str]:
    """A namespace in which everything is only tried."""
    with own_namespace(cluster, api, f"rendered-{uuid.uuid4().hex[:8]}") as name:
        cluster.kubectl("create", "serviceaccount", "drawn", "-n", name)
        yield name


class RecordingObjects(Objects):
    """Remembers the pods it was asked to create, as they would go over the wire."""

    def __init__(self) -> None:
        super().__init__("set-uid")
        self.pods: list[dict[str, Any]] = []

    def carry_out(self, action: Action, now: datetime) -> bool:
        if isinstance(action, Create) and action.resource == PODS:
            self.pods.append(copy.deepcopy(dict(action.body)))
        return super().carry_out(action, now)


def rendered(document: dict[str, Any]) -> list[dict[str, Any]]:
    objects = RecordingObjects()
    owner = msgspec.convert(document, PodCliqueSet)
    Model(owner, objects).settle(NOW)
    return objects.pods


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(template=TEMPLATE)
def test_an_admitted_workload_renders_into_acceptable_pods(api: ApiServer, room: str, template: dict[str, Any]) -> None:
    meta = {"name": "drawn", "namespace": room, "uid": "set-uid", "generation": 1}
    document = default({"metadata": meta, "spec": {"replicas": 1, "template": template}})
    # Both judges of a real write: the schema in the CRD, and the rules of the webhook.
    assume(not any(conformance.mismatches(document, SCHEMA)))
    assume(validate(document, None, Context()).allowed)
    pods = rendered(document)
    assert pods, "an admitted workload becomes pods"
    for pod in pods:
        api.create(f"/api/v1/namespaces/{room}/pods?dryRun=All", pod)
