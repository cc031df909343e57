"""Whose turn it is: held, paused, partitioned, one by one, or by the set's budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sample_sets import LATER, NOW, budget, changed, clique, group, pod_clique_set, running, spec, update, with_image

from grove.api import labels
from grove.api.kinds import AUTOSCALERS, POD_CLIQUES, PODS, SCALING_GROUPS, SERVICES
from grove.api.pod_clique_set import (
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetStatus,
    PodCliqueSetUpdateProgress,
    UpdatingReplica,
)
from grove.insight.forecast import run_to_rest
from grove.insight.model import Conduct, Model, is_ready
from grove.plan.revision import Revision, of_template
from grove.plan.set_update import decide
from grove.plan.settings import Settings
from grove.plan.turn import Mode, turn
from grove.plan.worlds import ReplicaSummary, SetWorld

CLIQUES = [clique("a", 2)]
V1 = of_template(spec(cliques=CLIQUES).template)
V2 = of_template(with_image(spec(cliques=CLIQUES), "v2").template)


def owner(strategy: dict[str, Any], *selected: int, replicas: int = 2) -> PodCliqueSet:
    found = pod_clique_set(spec(replicas, strategy, cliques=CLIQUES))
    found.status = PodCliqueSetStatus(
        update_progress=PodCliqueSetUpdateProgress(
            updating_replicas=[UpdatingReplica(replica_index=i) for i in selected]
        )
    )
    return found


def test_a_replica_that_waits_follows_the_latest_templates_for_what_it_must_replace() -> None:
    found = turn(owner({"type": "RollingRecreate"}, 1), 0, [V1, V2], V1.hash)
    assert (found.revision, found.mode) == (V2, Mode.STILL)


def test_a_selected_replica_rolls() -> None:
    assert turn(owner({"type": "RollingUpdate"}, 0), 0, [V1, V2], V1.hash).mode is Mode.ROLL


def test_whole_replicas_keep_their_revision_until_their_turn_comes() -> None:
    strategy = {"type": "ReplicaRecreate"}
    waiting = turn(owner(strategy, 0), 1, [V1, V2], V1.hash)
    assert (waiting.revision, waiting.mode) == (V1, Mode.STILL)
    chosen = turn(owner(strategy, 0), 0, [V1, V2], V1.hash)
    assert (chosen.revision, chosen.mode) == (V2, Mode.RECREATE)


def test_a_whole_replica_that_is_paused_before_its_pods_went_keeps_its_revision() -> None:
    found = turn(owner({"type": "ReplicaRecreate", "paused": True}, 0), 0, [V1, V2], V1.hash)
    assert (found.revision, found.mode) == (V1, Mode.STILL)


def test_paused_and_partition_hold_replicas_that_were_not_begun() -> None:
    for strategy in ({"type": "RollingRecreate", "paused": True}, {"type": "RollingRecreate", "partition": 1}):
        assert turn(owner(strategy), 0, [V1, V2], V1.hash).revision == V1
    assert turn(owner({"type": "RollingRecreate", "partition": 1}), 1, [V1, V2], V1.hash).revision == V2


def test_a_replica_beyond_the_wanted_exists_only_as_an_extra_of_whole_replica_updates() -> None:
    assert turn(owner({"type": "ReplicaRecreate"}, 2), 2, [V1, V2], None).wanted
    assert not turn(owner({"type": "RollingRecreate"}, 2), 2, [V1, V2], None).wanted
    assert not turn(owner({"type": "ReplicaRecreate"}), 2, [V1, V2], None).wanted


def test_on_delete_takes_nothing_down_even_where_an_update_was_at_work() -> None:
    found = turn(owner({"type": "OnDelete"}, 0), 0, [V1, V2], V1.hash)
    assert (found.revision, found.mode) == (V2, Mode.STILL)


# Whole workloads.


def hashes(model: Model, replica: int) -> set[str]:
    return {
        pod.metadata.labels[labels.POD_TEMPLATE_HASH]
        for pod in model.objects.of(PODS).values()
        if pod.metadata.labels[labels.REPLICA_INDEX] == str(replica)
    }


def of(wanted: PodCliqueSetSpec) -> set[str]:
    return {template.hash for template in of_template(wanted.template).cliques.values()}


def test_one_replica_at_a_time_unscheduled_first_then_broken_then_the_lowest() -> None:
    wanted = spec(4, cliques=[clique("a")])
    model = running(wanted)
    broken = model.objects.of(PODS)["web-2-a-0"].metadata.uid
    model.mark("web-2-a-0", ready=False)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.uid != broken)
    model.objects.delete(PODS, "web-3-a-0", NOW)
    model.objects.gone(PODS, "web-3-a-0", NOW)
    model.settle(NOW)
    trace = update(model, with_image(wanted, "v2"))
    deleted = [record.name for record in trace.steps if record.verb == "delete"]
    assert deleted == ["web-3-a-0", "web-2-a-0", "web-0-a-0", "web-1-a-0"]


def test_paused_an_update_stands_where_it_is_extra_pods_included_and_goes_on_when_resumed() -> None:
    wanted = spec(1, cliques=[clique("a", 3, updateStrategy=budget(0, 1))])
    model = running(wanted)
    target = with_image(wanted, "v2")
    model.submit(target)
    for _ in range(4):
        model.advance(LATER)
    before = sorted(model.objects.of(PODS))
    assert "web-0-a-3" in before
    trace = update(model, changed(target, updateStrategy={"paused": True}))
    assert not [record for record in trace.steps if record.verb == "delete"]
    assert sorted(model.objects.of(PODS)) == ["web-0-a-0", "web-0-a-1", "web-0-a-2", "web-0-a-3"]
    assert {wait.why.reason for wait in trace.waits} == {"UpdatePaused"}
    resumed = update(model, target)
    assert not resumed.waits
    assert hashes(model, 0) == of(target)
    assert sorted(model.objects.of(PODS)) == ["web-0-a-0", "web-0-a-1", "web-0-a-2"]


def test_a_template_written_while_paused_reaches_no_pod_not_even_one_that_dies() -> None:
    wanted = spec(2, {"paused": True}, cliques=[clique("a", 2)])
    model = running(wanted)
    target = with_image(wanted, "v2")
    update(model, target)
    model.objects.delete(PODS, "web-1-a-1", LATER)
    run_to_rest(model, LATER)
    assert hashes(model, 0) == hashes(model, 1) == of(wanted)


def test_below_the_partition_replicas_keep_their_revision_and_lowering_it_moves_them() -> None:
    wanted = spec(3, {"partition": 2}, cliques=[clique("a")])
    model = running(wanted)
    target = with_image(wanted, "v2")
    trace = update(model, target)
    assert not trace.waits
    assert hashes(model, 0) == hashes(model, 1) == of(wanted)
    assert hashes(model, 2) == of(target)
    model.objects.delete(PODS, "web-0-a-0", LATER)
    run_to_rest(model, LATER)
    assert hashes(model, 0) == of(wanted), "a pod that dies below the partition comes back as it was"
    update(model, changed(target, updateStrategy={"partition": 0}))
    assert hashes(model, 0) == hashes(model, 1) == of(target)


def test_a_pod_that_dies_in_a_whole_replica_that_waits_comes_back_as_it_was() -> None:
    wanted = spec(2, {"type": "ReplicaRecreate"}, cliques=[clique("a", 2)], priorityClassName="low")
    model = running(wanted)
    target = changed(
        with_image(wanted, "v2"), template={**_template(with_image(wanted, "v2")), "priorityClassName": "high"}
    )
    model.submit(target)
    model.settle(LATER)
    model.objects.delete(PODS, "web-1-a-0", LATER)
    model.objects.gone(PODS, "web-1-a-0", LATER)
    model.settle(LATER)
    assert hashes(model, 1) == of(wanted)
    assert model.objects.of(PODS)["web-1-a-0"].spec.priority_class_name == "low"
    run_to_rest(model, LATER)
    assert hashes(model, 0) == hashes(model, 1) == of(target)
    assert model.objects.of(PODS)["web-1-a-0"].spec.priority_class_name == "high"


def _template(wanted: PodCliqueSetSpec) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(wanted.template)
    return found


def test_an_extra_set_replica_has_all_it_needs_but_no_autoscaler() -> None:
    scaling = {"maxReplicas": 5}
    wanted = spec(
        1,
        {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)},
        cliques=[clique("a", 1, autoScalingConfig=scaling), clique("b")],
        podCliqueScalingGroups=[group("g", ["b"], scaleConfig=scaling)],
    )
    model = running(wanted)
    assert sorted(model.objects.of(AUTOSCALERS)) == ["web-0-a", "web-0-g"]
    model.submit(with_image(wanted, "v2"))
    model.settle(LATER)
    assert "web-1" in model.objects.of(SERVICES)
    assert "web-1-g" in model.objects.of(SCALING_GROUPS)
    assert {"web-1-a", "web-1-g-0-b"} <= set(model.objects.of(POD_CLIQUES))
    assert sorted(model.objects.of(AUTOSCALERS)) == ["web-0-a", "web-0-g"]


def test_a_new_template_leaves_the_extra_replica_that_stands_in_for_one_that_is_down() -> None:
    wanted = spec(2, {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}, cliques=[clique("a")])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    while "web-0-a-0" in model.objects.of(PODS):
        model.advance(LATER)
    trace = update(model, with_image(wanted, "v3"))
    assert trace.lowest_available["web"] == 2
    assert hashes(model, 0) == hashes(model, 1) == of(with_image(wanted, "v3"))
    assert not hashes(model, 2)


def _rolled_half_way(wanted: PodCliqueSetSpec) -> Model:
    """A model in which the first replica has pods of both versions and serves."""
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    while len(hashes(model, 0)) < 2 or not all(is_ready(pod) for pod in model.objects.of(PODS).values()):
        model.advance(LATER)
    return model


def test_a_switch_to_whole_replicas_in_mid_roll_takes_nothing_down_that_the_new_budget_forbids() -> None:
    wanted = spec(2, cliques=[clique("a", 3, minAvailable=1)])
    model = _rolled_half_way(wanted)
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}
    trace = update(model, changed(with_image(wanted, "v2"), updateStrategy=strategy))
    assert trace.lowest_available["web"] == 2
    assert trace.highest_total["web"] == 3
    assert hashes(model, 0) == hashes(model, 1) == of(with_image(wanted, "v2"))
    assert not hashes(model, 2)
    assert not trace.waits


def test_a_switch_to_whole_replicas_in_mid_roll_goes_on_with_the_replica_that_was_begun() -> None:
    wanted = spec(2, cliques=[clique("a", 3, minAvailable=1)])
    model = _rolled_half_way(wanted)
    trace = update(model, changed(with_image(wanted, "v2"), updateStrategy={"type": "ReplicaRecreate"}))
    deleted = [record.name for record in trace.steps if record.verb == "delete"]
    assert deleted == [f"web-{i}-a-{k}" for i in (0, 1) for k in range(3)]
    assert trace.lowest_available["web"] == 1


def test_a_selected_replica_that_is_untouched_gives_way_to_one_that_breaks() -> None:
    wanted = spec(3, {"type": "ReplicaRecreate"}, cliques=[clique("a")])
    target = with_image(wanted, "v2")
    history = [of_template(wanted.template), of_template(target.template)]
    chosen = [_decided(target, history[-1], selected, broken) for selected, broken in (((), ()), ((0,), (2,)))]
    assert chosen == [[0], [2]]


def _decided(wanted: PodCliqueSetSpec, latest: Revision, selected: Sequence[int], broken: Sequence[int]) -> list[int]:
    """The replicas chosen when none is updated and these are selected or broken."""
    found = pod_clique_set(wanted)
    found.status = PodCliqueSetStatus(
        observed_generation=1,
        current_generation_hash=latest.hash,
        update_progress=PodCliqueSetUpdateProgress(
            updating_replicas=[UpdatingReplica(replica_index=i) for i in selected]
        ),
    )
    summaries = {
        i: ReplicaSummary(
            index=i, exists=True, fresh=False, available=i not in broken, placed=True, at_rest=True, generation=1
        )
        for i in range(wanted.replicas)
    }
    update = decide(SetWorld(found, Settings(), latest=latest, replicas=summaries), latest, LATER)
    return [entry.replica_index for entry in update.updating]


def test_scaling_out_in_mid_update_turns_the_extra_replica_into_a_wanted_one() -> None:
    wanted = spec(2, {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}, cliques=[clique("a")])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    while "web-0-a-0" in model.objects.of(PODS):
        model.advance(LATER)
    uid = model.objects.of(POD_CLIQUES)["web-2-a"].metadata.uid
    trace = update(model, changed(with_image(wanted, "v2"), replicas=3))
    assert not trace.waits
    assert model.objects.of(POD_CLIQUES)["web-2-a"].metadata.uid == uid
    assert hashes(model, 0) == hashes(model, 1) == hashes(model, 2) == of(with_image(wanted, "v2"))


def test_scaling_in_the_replica_that_is_being_updated_lets_the_update_end() -> None:
    wanted = spec(3, cliques=[clique("a")])
    model = running(wanted)
    target = with_image(wanted, "v2")
    model.submit(target)
    while model.owner.status is None or not _updating(model) or _updating(model) == [0] or _updating(model) == [1]:
        model.advance(LATER)
    assert _updating(model) == [2]
    trace = update(model, changed(target, replicas=2))
    assert not trace.waits
    assert _updating(model) == []
    assert sorted(model.objects.of(PODS)) == ["web-0-a-0", "web-1-a-0"]


def _updating(model: Model) -> list[int]:
    progress = model.owner.status.update_progress if model.owner.status else None
    return [entry.replica_index for entry in progress.updating_replicas] if progress else []


def test_a_replica_scaled_out_in_mid_update_has_the_new_templates() -> None:
    wanted = spec(2, cliques=[clique("a")])
    model = running(wanted)
    target = with_image(wanted, "v2")
    model.submit(target)
    model.advance(LATER)
    model.submit(changed(target, replicas=3))
    model.settle(LATER)
    assert hashes(model, 2) == of(target)
    run_to_rest(model, LATER)
    assert hashes(model, 0) == hashes(model, 1) == hashes(model, 2) == of(target)
