"""Gangs on Kubernetes' own scheduler: one Workload per gang, and its gang plugin holds what is not complete."""

from __future__ import annotations

import pytest
from operator_process import OperatorProcess
from scenario_objects import Json, is_gated
from workbench import SETS, Workbench

PROFILES = [{"name": "default-scheduler", "config": {"gangScheduling": True}}, {"name": "kai-scheduler"}]


@pytest.fixture(autouse=True)
def gangs_by_workload(operator: OperatorProcess) -> None:
    operator.start(scheduler={"profiles": PROFILES})


def on_the_default_scheduler(pod_clique_set: Json) -> Json:
    for clique in pod_clique_set["spec"]["template"]["cliques"]:
        clique["spec"]["podSpec"]["schedulerName"] = "default-scheduler"
    return pod_clique_set


def workload(bench: Workbench, name: str) -> Json:
    return bench.api.get(f"/apis/scheduling.k8s.io/v1alpha1/namespaces/{bench.namespace}/workloads/{name}")


def test_gang_runs_as_a_whole_or_not_at_all_without_any_other_scheduler(bench: Workbench) -> None:
    bench.add_nodes(10, cordoned=1)
    bench.create(on_the_default_scheduler(bench.workload(1)))
    bench.until("10 pods that refer to the gang's Workload", lambda: len(bench.pods()) == 10)
    assert all(pod["spec"]["workloadRef"]["name"] == "workload1-0" for pod in bench.pods())
    assert workload(bench, "workload1-0")["spec"]["podGroups"] == [
        {"name": "gang", "policy": {"gang": {"minCount": 10}}}
    ]
    assert not any(is_gated(pod) for pod in bench.pods())
    assert bench.scheduled() == []

    bench.uncordon(1)
    bench.until_counts(total=10, running=10)
    assert bench.until_settled("workload1")["status"]["availableReplicas"] == 1


def test_gang_that_cannot_be_said_is_held_and_says_why(bench: Workbench) -> None:
    bench.add_nodes(10)
    bench.create(on_the_default_scheduler(bench.workload(2)))
    told = bench.until(
        "the refusal on the set",
        lambda: (
            "may run with fewer pods than asked for"
            in (m := bench.condition(SETS, "workload2", "Ready").get("message", ""))
            and m
        ),
    )
    assert "workload2-0-pc-a" in told
    assert all(is_gated(pod) for pod in bench.pods())
