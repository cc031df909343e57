"""Cliques start in their order, held back by the real waiting program under each pod's own identity."""

from __future__ import annotations

from pod_history import PodHistory
from scenario_objects import Json
from workbench import Workbench


def started(bench: Workbench, workload: Json) -> list[str]:
    """Run a workload; the cliques of its pods, without the set's name, in the order in which pods became ready."""
    name = workload["metadata"]["name"]
    bench.add_nodes(10)
    with PodHistory(bench) as history:
        bench.create(workload)
        bench.until_counts(total=10, running=10)
    return [pod.removeprefix(f"{name}-0-").rpartition("-")[0] for pod in history.became_ready]


def whole_before_first(order: list[str], earlier: str, later: str, *, minimum: int) -> None:
    """No pod of the later clique is ready before the minimum of the earlier one is."""
    assert order[: order.index(later)].count(earlier) >= minimum, order


def test_cliques_in_order_wait_for_the_one_before_in_every_group_replica(bench: Workbench) -> None:
    order = started(bench, bench.workload(3))
    for j in range(2):
        whole_before_first(order, "pc-a", f"sg-x-{j}-pc-b", minimum=2)
        for i in range(2):
            whole_before_first(order, f"sg-x-{i}-pc-b", f"sg-x-{j}-pc-c", minimum=1)


def test_scaled_gang_starts_in_its_own_order(bench: Workbench) -> None:
    order = started(bench, bench.workload(4))
    whole_before_first(order, "pc-a", "sg-x-0-pc-b", minimum=1)
    for j in range(2):
        whole_before_first(order, f"sg-x-{j}-pc-b", f"sg-x-{j}-pc-c", minimum=1)


def test_named_parents_decide_the_order_and_not_the_list(bench: Workbench) -> None:
    order = started(bench, bench.workload(5))
    for j in range(2):
        whole_before_first(order, "pc-a", f"sg-x-{j}-pc-c", minimum=2)
        for i in range(2):
            whole_before_first(order, f"sg-x-{i}-pc-c", f"sg-x-{j}-pc-b", minimum=3)


def test_named_parents_hold_in_base_and_scaled_gangs(bench: Workbench) -> None:
    order = started(bench, bench.workload(6))
    whole_before_first(order, "pc-a", "sg-x-0-pc-b", minimum=1)
    for j in range(2):
        whole_before_first(order, f"sg-x-{j}-pc-b", f"sg-x-{j}-pc-c", minimum=1)
