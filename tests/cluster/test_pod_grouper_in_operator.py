"""The operator as pod-grouper of the whole cluster, under the rights that the option's manifest adds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from grouper_on_cluster import ROOT, STATEFUL_SETS, Bench, watching
from operator_process import OperatorProcess
from owner_kinds import stateful_set

from grove.localcluster import RunningCluster

DEFAULTS = "grove-pod-grouper-defaults"
HOME = "grove-system"


@pytest.fixture(scope="module")
def grouping_operator(cluster: RunningCluster, operator: OperatorProcess) -> None:
    """The operator, told to group all pods, with a default for one kind of owner."""
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy/options/embedded-pod-grouper.yaml"))
    types = '[{"typeName": "StatefulSet", "group": "apps", "priorityName": "build"}]'
    cluster.kubectl("create", "configmap", DEFAULTS, f"--namespace={HOME}", f"--from-literal=types={types}")
    operator.start(
        podGrouper={
            "enabled": True,
            "defaultPrioritiesConfigMapName": DEFAULTS,
            "defaultPrioritiesConfigMapNamespace": HOME,
        }
    )


@pytest.fixture
async def bench(cluster: RunningCluster, namespace: str, grouping_operator: None) -> AsyncIterator[Bench]:
    async with watching(cluster, namespace) as bench:
        yield bench


async def test_pods_of_owners_and_workloads_run_with_the_operator_alone(bench: Bench) -> None:
    name = f"w-{bench.namespace}"
    owner = await bench.create(STATEFUL_SETS, "s", spec=stateful_set("s", replicas=1))
    await bench.pod("p", {"name": name, "podGroup": "g"})
    await bench.until(lambda: "WorkloadMissing" in bench.told("p"), "the event on the pod")
    await bench.workload(name, g=1)
    await bench.until(lambda: bench.running == {"p", "s-0"}, "both pods run")
    group = f"pg-s-{owner.metadata.uid}"
    assert bench.groups == {f"{name}-g": 1, group: 1}
    assert bench.group(group).spec["priorityClassName"] == "build"
