"""An operator that starts again on a settled cluster finds nothing to write."""

from __future__ import annotations

from operator_process import OperatorProcess
from scenario_objects import clique, pod_clique_set
from workbench import CLIQUES, GANGS, GROUPS, POD_GROUPS, PODS, SETS, Workbench

WRITTEN = [SETS, CLIQUES, GROUPS, GANGS, PODS, "services", "controllerrevisions", "serviceaccounts", "roles"]


def versions(bench: Workbench) -> dict[str, str]:
    """The version of everything of the set `quiet`; of PodGroups, whose status is KAI's, that of their spec."""
    found = {
        f"{kind}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for kind in WRITTEN
        for one in bench.all(kind)
        if one["metadata"]["name"].startswith("quiet")
    }
    groups = [one["metadata"] for one in bench.all(POD_GROUPS) if one["metadata"]["name"].startswith("quiet")]
    return found | {f"{POD_GROUPS}/{meta['name']}": str(meta["generation"]) for meta in groups}


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
    before = versions(bench)
    assert len(before) == 15

    operator.kill()
    operator.start()
    # What the new process does for one set shows that it has long looked at the other.
    for replicas in (2, 1):
        bench.scale(SETS, "busy", replicas)
        bench.until_counts(total=4 + replicas, running=4 + replicas)
        bench.until_settled("busy")
    assert versions(bench) == before
