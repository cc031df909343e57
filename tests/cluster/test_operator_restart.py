"""An operator that starts again on a settled cluster finds nothing to write."""

from __future__ import annotations

import time
from collections import Counter

from operator_process import OperatorProcess
from scenario_objects import clique, pod_clique_set
from workbench import CLIQUES, GANGS, GROUPS, POD_GROUPS, PODS, SETS, Workbench

PART_OF = "app.kubernetes.io/part-of"
SHARED = ["controllerrevisions", "serviceaccounts", "roles", "rolebindings"]
WRITTEN = [SETS, CLIQUES, GROUPS, GANGS, POD_GROUPS, PODS, "services", *SHARED]


def versions(bench: Workbench) -> dict[str, str]:
    """The version of everything of the set `quiet`; of PodGroups, whose status is KAI's, that of their spec."""
    return {
        f"{kind}/{one['metadata']['name']}": str(
            one["metadata"]["generation" if kind == POD_GROUPS else "resourceVersion"]
        )
        for kind in WRITTEN
        for one in bench.all(kind)
        if "quiet" in (one["metadata"]["name"], one["metadata"].get("labels", {}).get(PART_OF))
    }


def settled_versions(bench: Workbench) -> dict[str, str]:
    """The versions once nothing has been written for a while: statuses that tell of rest are paced."""
    seen = versions(bench)
    for _ in range(20):
        time.sleep(3)
        before, seen = seen, versions(bench)
        if before == seen:
            break
    return seen


def test_restart_on_a_settled_cluster_writes_nothing(bench: Workbench, operator: OperatorProcess) -> None:
    bench.add_nodes(8)
    group = {"name": "sg", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1}
    ordered = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
    quiet = pod_clique_set("quiet", clique("a", 2), clique("b", 1), podCliqueScalingGroups=[group], **ordered)
    bench.create(bench.placed(quiet))
    bench.create(bench.placed(pod_clique_set("busy", clique("a", 1))))
    bench.until_counts(total=5, running=5)
    for name in ("quiet", "busy"):
        bench.until_settled(name)
    before = settled_versions(bench)
    assert Counter(name.partition("/")[0] for name in before) == {
        SETS: 1,
        CLIQUES: 3,
        GROUPS: 1,
        GANGS: 2,
        POD_GROUPS: 2,
        PODS: 4,
        "services": 1,
        **dict.fromkeys(SHARED, 1),
    }

    operator.kill()
    operator.start()
    # What the new process does for one set shows that it has long looked at the other.
    for replicas in (2, 1):
        bench.scale(SETS, "busy", replicas)
        bench.until_counts(total=4 + replicas, running=4 + replicas)
        bench.until_settled("busy")
    assert versions(bench) == before
