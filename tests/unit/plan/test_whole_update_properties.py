"""What holds for whole workloads in updates: real plans for replicas and set, with users and faults in between.

After everything that happens the operator settles, and three things must be true: it left nothing undone that it would
do if it looked again; it took no more down than the budget in force allows; it made no more than it may.
"""

from __future__ import annotations

import contextlib
import copy
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_sets import LATER, budget, changed, clique, group, pod_clique_set, spec, with_image

from grove.api import labels
from grove.api.kinds import POD_CLIQUES, PODS, SCALING_GROUPS
from grove.api.pod_clique_set import PodCliqueSetSpec
from grove.insight.forecast import levels, replica_is_available, run_to_rest
from grove.insight.model import Model, is_ready
from grove.plan.actions import Action
from grove.plan.budget import Budget, resolve

CASES = settings(max_examples=120, deadline=None, derandomize=True, database=None)
ROLLING = ("RollingRecreate", "RollingUpdate", None)

picks = st.integers(0, 30)
budgets = st.sampled_from([(1, 0), (0, 1), (2, 0), (1, 1), (0, 2), ("50%", 0), ("0%", "50%")])
strategies = st.one_of(
    st.just({"type": "RollingRecreate"}),
    st.just({"type": "OnDelete"}),
    st.builds(lambda b: {"type": "ReplicaRecreate", "rollingUpdate": budget(*b)}, budgets),
)
events = st.tuples(st.just("event"), picks)
steps = st.one_of(
    events,
    events,
    events,
    st.tuples(st.just("all"), picks),
    st.tuples(st.just("crash"), picks),
    st.tuples(st.just("fail"), picks),
    st.tuples(st.just("kill"), picks),
    st.tuples(st.just("template"), st.sampled_from(["v1", "v2", "v3"])),
    st.tuples(st.just("template of a"), st.sampled_from(["v1", "v2", "v3"])),
    st.tuples(st.just("replicas"), st.integers(1, 3)),
    st.tuples(st.just("pods of a"), st.integers(1, 4)),
    st.tuples(st.just("replicas of g"), st.integers(1, 3)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("partition"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("strategy"), strategies),
)
# What changes by a user's own wish may cost what the user asked for; everything else must not.
WISHES = frozenset({"replicas", "pods of a", "replicas of g", "kill", "fail"})
Budgets = tuple[tuple[Any, Any], tuple[Any, Any]]


class Killed(Exception):
    """The operator's process is gone."""


class Mortal(Model):
    """A model whose operator can be killed after any number of writes."""

    writes_left: int | None = None

    def crash(self, now: datetime, writes: int) -> None:
        """The operator begins to settle and is killed; what it kept in memory is lost."""
        self.writes_left = writes
        with contextlib.suppress(Killed):
            self.settle(now)
        self.writes_left = None
        self._summaries.clear()

    def _write(self, action: Action, now: datetime) -> bool:
        if self.writes_left == 0:
            raise Killed
        wrote = super()._write(action, now)
        if self.writes_left is not None and wrote:
            self.writes_left -= 1
        return wrote


def workload(replicas: int, allowed: Budgets, grouped: bool, kind: Any) -> PodCliqueSetSpec:
    of_a, of_g = (budget(*b) for b in allowed)
    cliques = [clique("a", 3, minAvailable=1, updateStrategy=of_a)]
    groups = []
    if grouped:
        cliques += [clique("b"), clique("c", 2)]
        groups = [group("g", ["b", "c"], 2, updateStrategy=of_g)]
    return spec(replicas, kind, cliques=cliques, podCliqueScalingGroups=groups)


def disturb(model: Model, step: tuple[str, Any], now: datetime) -> None:
    what, value = step
    if what in ("event", "all", "fail", "kill", "crash"):
        happen(model, what, value, now)
    elif what == "pods of a":
        scale(model, POD_CLIQUES, "web-0-a", value)
    elif what == "replicas of g":
        scale(model, SCALING_GROUPS, "web-0-g", value)
    else:
        model.submit(edited(model.owner.spec, what, value))


def happen(model: Model, what: str, pick: int, now: datetime) -> None:
    """Something in the cluster."""
    pending = model.pending()
    running = sorted(name for name, pod in model.objects.of(PODS).items() if is_ready(pod))
    if what == "all":
        for event in pending:
            model.happen(event, now)
    elif what in ("event", "crash") and pending:
        model.happen(pending[pick % len(pending)], now)
    elif what == "fail" and running:
        model.mark(running[pick % len(running)], ready=False)
    elif what == "kill" and running:
        model.objects.delete(PODS, running[pick % len(running)], now)


def edited(wanted: PodCliqueSetSpec, what: str, value: Any) -> PodCliqueSetSpec:
    """The spec as a user changes it."""
    strategy: dict[str, Any] = msgspec.to_builtins(wanted.strategy)
    if what == "template":
        return with_image(wanted, value)
    if what == "template of a":
        return with_image(wanted, value, "a")
    if what == "replicas":
        return changed(wanted, replicas=value)
    if what == "strategy":
        return changed(wanted, updateStrategy=value)
    return changed(wanted, updateStrategy={**strategy, "paused" if what == "pause" else what: value})


def scale(model: Model, resource: Any, name: str, replicas: int) -> None:
    """Somebody scales one object, as an autoscaler does."""
    seen = model.objects.get(resource, name)
    if seen is not None:
        meta = msgspec.structs.replace(seen.metadata, generation=seen.metadata.generation + 1)
        wanted = msgspec.structs.replace(seen.spec, replicas=replicas)
        model.objects.replace(resource, msgspec.structs.replace(seen, metadata=meta, spec=wanted))


def budgets_in_force(model: Model) -> dict[str, tuple[int, Budget]]:
    """Replicas and budget of each level that the strategy rolls."""
    wanted, found = model.owner.spec, {}
    if wanted.strategy.type == "ReplicaRecreate":
        paced = wanted.strategy.rolling_update
        allowed = (paced.max_unavailable, paced.max_surge) if paced else (None, None)
        found["web"] = (wanted.replicas, resolve(*allowed, wanted.replicas))
    if wanted.strategy.type in ROLLING:
        paces = {c.name: c.update_strategy for c in wanted.template.cliques}
        paces |= {g.name: g.update_strategy for g in wanted.template.pod_clique_scaling_groups}
        objects: dict[str, Any] = {**model.objects.of(POD_CLIQUES), **model.objects.of(SCALING_GROUPS)}
        for name, item in objects.items():
            pace = paces.get(name.rpartition("-")[2])
            if pace and labels.SCALING_GROUP not in item.metadata.labels:
                replicas = item.spec.replicas
                found[name] = (replicas, resolve(pace.max_unavailable, pace.max_surge, replicas))
    return found


def settle_and_check(model: Mortal, now: datetime, *, wished: bool, killed_after: int | None = None) -> None:
    before = levels(model)
    spent = _available_but_chosen(model)
    if killed_after is not None:
        model.crash(now, killed_after)
    model.settle(now)
    seen = (model.owner, copy.copy(model.objects.of(PODS)), copy.copy(model.objects.of(POD_CLIQUES)))
    assert model.settle(now) == [], "something was left undone"
    assert (model.owner, model.objects.of(PODS), model.objects.of(POD_CLIQUES)) == seen, "a status was left behind"
    if wished:
        return
    after = levels(model)
    for name, (replicas, allowed) in budgets_in_force(model).items():
        if name not in before or name not in after:
            continue
        floor = replicas - allowed.max_unavailable
        available = before[name].available - (spent if name == "web" else 0)
        assert after[name].available >= min(available, floor), f"{name} lost too many"
        assert after[name].total <= max(before[name].total, replicas + allowed.max_surge), f"{name} has too many"


def _available_but_chosen(model: Model) -> int:
    """Whole replicas an update works on count as missing until they are done, though they may be up in between."""
    status = model.owner.status
    progress = status.update_progress if status else None
    chosen = {entry.replica_index for entry in progress.updating_replicas} if progress else set()
    return sum(index < model.owner.spec.replicas and replica_is_available(model, index) for index in chosen)


@CASES
@given(
    st.integers(1, 2),
    st.tuples(budgets, budgets),
    st.booleans(),
    strategies,
    st.lists(steps, max_size=14),
    st.one_of(st.just({"type": "RollingRecreate"}), strategies.filter(lambda s: s["type"] != "OnDelete")),
)
def test_whatever_happens_the_update_keeps_its_budgets_and_ends(
    replicas: int, allowed: Budgets, grouped: bool, kind: Any, story: list[tuple[str, Any]], last: Any
) -> None:
    model = Mortal.from_objects(pod_clique_set(workload(replicas, allowed, grouped, kind)))
    run_to_rest(model, LATER)
    now = LATER
    model.submit(with_image(model.owner.spec, "v2"))
    settle_and_check(model, now, wished=False)
    for step in story:
        now += timedelta(seconds=5)
        disturb(model, step, now)
        killed_after = step[1] if step[0] == "crash" else None
        settle_and_check(model, now, wished=step[0] in WISHES, killed_after=killed_after)
    model.submit(changed(with_image(model.owner.spec, "v9"), updateStrategy=last))
    trace = run_to_rest(model, now + timedelta(seconds=5))
    assert not trace.waits
    assert_at_the_goal(model)


def assert_at_the_goal(model: Model) -> None:
    pods = model.objects.of(PODS)
    assert all(is_ready(pod) for pod in pods.values())
    expected = set()
    for name, item in model.objects.of(POD_CLIQUES).items():
        mine = {f"{name}-{i}" for i in range(item.spec.replicas)}
        expected |= mine
        target = item.metadata.labels[labels.POD_TEMPLATE_HASH]
        assert {pods[pod].metadata.labels[labels.POD_TEMPLATE_HASH] for pod in mine} == {target}
    assert set(pods) == expected
    status = model.owner.status
    assert status is not None
    assert status.update_progress is not None
    assert status.update_progress.update_ended_at is not None
    assert status.updated_replicas == status.available_replicas == status.replicas == model.owner.spec.replicas
    for item in model.objects.of(POD_CLIQUES).values():
        assert item.status is not None
        assert item.status.updated_replicas == item.status.replicas == item.spec.replicas
        assert item.status.current_pod_clique_set_generation_hash == status.current_generation_hash
