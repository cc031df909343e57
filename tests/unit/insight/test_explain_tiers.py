"""Explanations: each tier from the situation that makes it, and which of several reasons dominates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from insight_samples import (
    NOW,
    clique,
    grown,
    nodes,
    nothing_placed,
    occupant,
    pod_clique_set,
    snapshot,
    with_pod,
)

from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.insight.explain import explain
from grove.insight.findings import Cause, Explanation, Tier, look_up
from grove.insight.kinds import Event, KaiPodGroup, Queue, ResourceQuota
from grove.insight.model import Conduct
from grove.insight.snapshot import Snapshot
from grove.schedulers import kai

RACK = {"packDomain": "rack"}
GROUP = {"name": "pool", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 1}


def asked(found: Snapshot) -> Explanation:
    return explain(found, found.sets[0])


def pending(owner: PodCliqueSet, count: int = 8, **further: Any) -> Snapshot:
    return snapshot(grown(owner, nothing_placed()), nodes(count), **further)


def evidence(answer: Explanation, title: str) -> tuple[str, ...]:
    return next((e.lines for e in answer.evidence if e.title == title), ())


def with_status(found: Snapshot, **changes: Any) -> Snapshot:
    document = msgspec.to_builtins(found.sets[0])
    document["status"].update(changes)
    return replace(found, sets=(msgspec.convert(document, PodCliqueSet),))


def kai_group(found: Snapshot, queue: str, message: str = "") -> KaiPodGroup:
    gang = found.gangs[0].metadata
    document: dict[str, Any] = {
        "metadata": {"name": kai.pod_group_name(gang.name, gang.uid), "namespace": gang.namespace, "uid": "pg"},
        "spec": {"queue": queue},
    }
    if message:
        document["status"] = {"schedulingConditions": [{"status": "True", "message": message}]}
    return msgspec.convert(document, KaiPodGroup)


def queue(name: str, parent: str = "", gpus: float = -1) -> Queue:
    spec = {"parentQueue": parent, "resources": {"gpu": {"limit": gpus}}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)


def test_a_running_set_is_healthy() -> None:
    answer = asked(snapshot(grown(pod_clique_set(clique("worker", 2, gpus=8))), nodes(4)))

    assert (answer.tier, answer.reason) == (Tier.HEALTHY, Reason.ALL_AVAILABLE)
    assert answer.others == ()


def test_a_missing_topology_level_is_misconfigured() -> None:
    answer = asked(
        snapshot(grown(pod_clique_set(clique("worker", 1), topologyConstraint={"packDomain": "zone"})), nodes(4))
    )

    assert (answer.tier, answer.reason) == (Tier.MISCONFIGURED, Reason.TOPOLOGY_LEVEL_NOT_FOUND)
    assert "'zone'" in answer.headline
    assert evidence(answer, "topology levels of this cluster") == ("block, rack, host",)


def test_a_refused_write_is_misconfigured_in_the_servers_words() -> None:
    found = with_status(
        pending(pod_clique_set(clique("worker", 1))),
        lastErrors=[{"code": "E", "description": "demo-0-worker-0: no PriorityClass x", "observedAt": ""}],
    )

    answer = asked(found)

    assert (answer.tier, answer.reason) == (Tier.MISCONFIGURED, Reason.WRITE_REFUSED)
    assert "no PriorityClass x" in answer.headline


@pytest.mark.parametrize(
    ("named", "reason"), [("nowhere", Cause.QUEUE_MISSING), ("top", Cause.QUEUE_NOT_LEAF), ("leaf", None)]
)
def test_a_gang_needs_a_leaf_queue_that_exists(named: str, reason: Cause | None) -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=1)), queues=(queue("top"), queue("leaf", "top")))
    found = replace(found, pod_groups=(kai_group(found, named),))

    answer = asked(found)

    assert (answer.tier is Tier.MISCONFIGURED) == (reason is not None)
    if reason:
        assert answer.reason == reason
        assert evidence(answer, "queues that take gangs") == ("leaf",)


def test_an_image_that_cannot_be_pulled_is_misconfigured() -> None:
    found = snapshot(grown(pod_clique_set(clique("worker", 1))), nodes(4))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}
    found = with_pod(
        found,
        "demo-0-worker-0",
        status={
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "main", "state": waiting}],
        },
    )

    answer = asked(found)

    assert (answer.tier, answer.reason) == (Tier.MISCONFIGURED, Cause.IMAGE)
    assert evidence(answer, "the node says") == ("manifest unknown",)


def test_a_gang_larger_than_any_rack_can_never_fit_and_a_wider_domain_is_offered() -> None:
    answer = asked(pending(pod_clique_set(clique("worker", 6, gpus=8), topologyConstraint=RACK)))

    assert (answer.tier, answer.reason) == (Tier.NEVER_FITS, Cause.NEVER_FITS)
    assert "4 of 6 pods" in answer.headline
    assert answer.next_step.startswith("packDomain: block would do")


def test_a_pod_larger_than_any_node_can_never_fit() -> None:
    answer = asked(pending(pod_clique_set(clique("worker", 1, gpus=16))))

    assert answer.tier is Tier.NEVER_FITS
    assert evidence(answer, "largest node") == ("a pod asks for 16 GPUs, the largest node has 8 GPUs",)


def test_a_gang_that_others_keep_out_fits_but_not_now() -> None:
    others = [occupant(f"p{i}", f"node-{i}", 8) for i in range(6)]
    answer = asked(
        pending(pod_clique_set(clique("worker", 4, gpus=8), topologyConstraint=RACK), other_pods=tuple(others))
    )

    assert (answer.tier, answer.reason) == (Tier.NOT_NOW, Cause.NO_ROOM)
    assert evidence(answer, "missing")[0] == "2 more pods: 16 GPUs"
    assert evidence(answer, "free now") == ("rack-1: 16 of 32 GPUs", "rack-0: 0 of 32 GPUs")
    assert len(evidence(answer, "held there by")) == 2


def test_a_cordoned_cluster_is_a_matter_of_now_not_of_never() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=8)))
    closed = tuple(
        msgspec.structs.replace(n, spec=msgspec.structs.replace(n.spec, unschedulable=True)) for n in found.nodes
    )

    answer = asked(replace(found, nodes=closed))

    assert answer.tier is Tier.NOT_NOW
    assert "8 nodes cordoned" in evidence(answer, "missing")


@pytest.mark.parametrize(("limit", "tier"), [(4, Tier.NEVER_FITS), (8, None)])
def test_a_queue_limit_below_the_gang_never_fits(limit: float, tier: Tier | None) -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=8)), queues=(queue("top"), queue("leaf", "top", limit)))
    found = replace(found, pod_groups=(kai_group(found, "leaf"),))

    answer = asked(found)

    assert (answer.tier is Tier.NEVER_FITS) == (tier is not None)


@pytest.mark.parametrize(("hard", "tier"), [("4", Tier.NEVER_FITS), ("32", Tier.NOT_NOW)])
def test_a_quota_that_keeps_pods_out_is_a_matter_of_room(hard: str, tier: Tier) -> None:
    name = "requests.nvidia.com/gpu"
    document = {
        "metadata": {"name": "gpus", "namespace": "team"},
        "status": {"hard": {name: hard}, "used": {name: "4"}},
    }
    found = pending(pod_clique_set(clique("worker", 2, gpus=8)), quotas=(msgspec.convert(document, ResourceQuota),))
    refused = 'pods "demo-0-worker-0" is forbidden: exceeded quota: gpus'
    found = with_status(found, lastErrors=[{"code": "E", "description": refused, "observedAt": ""}])

    answer = asked(found)

    assert answer.tier is tier
    assert "the set needs 16" in evidence(answer, "quota")[0]


def test_when_there_is_room_the_schedulers_refusal_is_told_in_its_own_words() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=8)), queues=(queue("top"), queue("leaf", "top")))
    found = replace(found, pod_groups=(kai_group(found, "leaf", "over quota for job <team/pg-x>"),))

    answer = asked(found)

    assert (answer.tier, answer.reason) == (Tier.NOT_NOW, Cause.REFUSED)
    assert evidence(answer, "scheduler says")[0].endswith("over quota")


def test_a_foreign_gate_holds_and_is_named() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=1)))
    found = with_pod(found, "demo-0-worker-0", spec={"schedulingGates": [{"name": "example.com/quota"}]})

    answer = asked(found)

    assert (answer.tier, answer.reason) == (Tier.HELD, Cause.FOREIGN_GATE)
    assert "example.com/quota" in answer.headline


def test_a_scaled_gang_that_waits_for_the_base_gang_steps_behind_it() -> None:
    owner = pod_clique_set(clique("worker", 6, gpus=8), podCliqueScalingGroups=[{**GROUP, "topologyConstraint": RACK}])

    answer = asked(pending(owner))

    assert (answer.tier, answer.subject) == (Tier.NEVER_FITS, "demo-0")
    assert [(o.reason, o.subject) for o in answer.others] == [(Reason.BASE_GANG_UNSCHEDULED, "demo-0-pool-1")]


def test_pods_that_wait_for_their_start_order_are_held_by_the_clique_they_name() -> None:
    answer = asked(_ordered(parent_crashes=False))

    assert (answer.tier, answer.reason) == (Tier.HELD, Cause.START_ORDER)
    assert evidence(answer, "starts after") == ("demo-0-leader: 0 ready, 1 needed",)


def test_a_crashing_parent_dominates_those_who_wait_for_it() -> None:
    answer = asked(_ordered(parent_crashes=True))

    assert (answer.tier, answer.reason, answer.subject) == (Tier.CRASHING, Cause.CRASHING, "demo-0-leader")
    assert [o.reason for o in answer.others] == [Cause.START_ORDER]
    assert "kubectl logs --previous demo-0-leader-0" in answer.next_step


def _ordered(*, parent_crashes: bool) -> Snapshot:
    owner = pod_clique_set(clique("leader"), clique("worker"), cliqueStartupType="CliqueStartupTypeInOrder")
    found = snapshot(grown(owner, Conduct(starts=lambda pod: False)), nodes(4))
    program = {"name": "grove-initc", "args": ["--podcliques=demo-0-leader:1"]}
    found = with_pod(
        found,
        "demo-0-worker-0",
        spec={"initContainers": [program]},
        status={"phase": "Pending", "conditions": [{"type": "Initialized", "status": "False"}]},
    )
    crash = {
        "name": "main",
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    status = {"phase": "Running", "containerStatuses": [crash]} if parent_crashes else {"phase": "Pending"}
    return with_pod(found, "demo-0-leader-0", status={**status, "conditions": [{"type": "Ready", "status": "False"}]})


def test_a_crash_loop_tells_restarts_and_the_last_exit() -> None:
    answer = asked(_ordered(parent_crashes=True))

    assert evidence(answer, "pods") == ("demo-0-leader-0: 4 restarts, container main ended with 137 OOMKilled",)


def test_a_pending_gang_that_nobody_speaks_of_means_a_silent_scheduler() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=1, schedulerName="ghost")))

    answer = asked(found)

    assert (answer.tier, answer.reason) == (Tier.SILENT, Cause.SCHEDULER_SILENT)
    assert evidence(answer, "scheduler") == ("schedulerName ghost",)


def test_for_kai_a_missing_pod_group_explains_the_silence() -> None:
    answer = asked(pending(pod_clique_set(clique("worker", 1, gpus=1))))

    assert (answer.tier, answer.reason) == (Tier.SILENT, Reason.GROUP_MISSING)


def test_a_scheduler_that_spoke_is_not_silent() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=1, schedulerName="ghost")))
    said = {
        "metadata": {"name": "e", "namespace": "team"},
        "involvedObject": {"kind": "Pod", "namespace": "team", "name": "demo-0-worker-0"},
        "reason": "FailedScheduling",
        "message": "0/8 nodes are available",
        "lastTimestamp": "2026-03-01T11:59:30Z",
        "reportingComponent": "ghost",
    }

    answer = asked(replace(found, events=(msgspec.convert(said, Event),)))

    assert answer.reason == Cause.REFUSED
    assert evidence(answer, "scheduler says") == ("ghost, 30s ago: 0/8 nodes are available",)


def test_a_newborn_pod_has_a_right_to_some_silence() -> None:
    found = pending(pod_clique_set(clique("worker", 1, gpus=1, schedulerName="ghost")))
    found = with_pod(found, "demo-0-worker-0", metadata={"creationTimestamp": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"})

    assert asked(found).tier is Tier.STARTING


def test_a_spec_that_the_operator_never_touched_means_a_silent_operator() -> None:
    owner = pod_clique_set(clique("worker"))
    owner = msgspec.structs.replace(
        owner, metadata=msgspec.structs.replace(owner.metadata, creation_timestamp="2026-03-01T11:00:00Z")
    )

    answer = asked(Snapshot(now=NOW, sets=(owner,)))

    assert (answer.tier, answer.reason) == (Tier.SILENT, Cause.OPERATOR_SILENT)


def test_a_paused_update_is_held_and_resume_is_the_next_step() -> None:
    model = grown(pod_clique_set(clique("worker", 3), strategy={"type": "RollingRecreate", "paused": True}))
    document = msgspec.to_builtins(model.owner.spec)
    document["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "worker:2"
    model.submit(msgspec.convert(document, type(model.owner.spec)))
    model.settle(NOW)

    answer = asked(snapshot(model, nodes(4)))

    assert (answer.tier, answer.reason) == (Tier.HELD, Reason.PAUSED)
    assert answer.next_step == "grove rollout resume demo"


def test_what_could_not_be_read_is_said() -> None:
    found = snapshot(grown(pod_clique_set(clique("worker"))), nodes(4))

    assert asked(replace(found, unread={"Node": "is forbidden"})).blind == ("Node is forbidden",)


@pytest.mark.parametrize("word", [*Cause, *Reason])
def test_every_reason_can_be_looked_up(word: str) -> None:
    assert look_up(word).meaning
    assert look_up(word).remedy
