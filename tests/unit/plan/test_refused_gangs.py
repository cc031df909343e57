"""What a scheduler says against a gang is repeated by the gang, its PodCliqueSet and one event."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from sample_sets import LATER, NOW, clique, pod_clique_set, running, spec, with_image

from grove.api.cluster_topology import TopologyLevel
from grove.api.core import Pod
from grove.api.kinds import POD_GANGS
from grove.api.meta import Condition, condition
from grove.api.pod_clique_set import PodCliqueSetStatus
from grove.api.pod_gang import PodGangStatus
from grove.api.reasons import Reason
from grove.insight.model import Conduct, Model
from grove.plan.actions import Apply, Plan
from grove.plan.gang_status import summary
from grove.plan.pod_clique_set import plan_set
from grove.plan.refusals import refusal_of, shortened
from grove.plan.replica import plan_replica
from grove.plan.settings import Settings, TopologySettings
from grove.plan.worlds import ReplicaSummary
from grove.schedulers.kube_workload import WORKLOADS, Workload

RACK = TopologyLevel(domain="rack", key="topology.kubernetes.io/rack")
SHORT = "no nodes with enough resources"
LONG = "node-group rack-0 can allocate only 1 of 2 required pods"


def said_against(pod: Pod, words: str, reason: str = "Unschedulable") -> Pod:
    told = Condition(type="PodScheduled", status="False", reason=reason, message=words)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=[told]))


def waiting(*words: str) -> tuple[Model, Plan, ReplicaSummary]:
    """A gang of two pods, packed in a rack, that waits for nodes while the scheduler says this about its pods."""
    settings = Settings(topology=TopologySettings(enabled=True, levels=(RACK,)))
    wanted = spec(1, cliques=[clique("a", 2)], topologyConstraint={"packDomain": "rack"})
    model = Model.from_objects(pod_clique_set(wanted), settings=settings)
    model.conduct = Conduct(places=lambda pod: False)
    model.settle(NOW)
    history = model.history()
    assert history is not None
    world = model.replica_world(0, history)
    pods = [said_against(pod, text) for pod, text in zip(world.pods["web-0-a"], words, strict=False)]
    rest = list(world.pods["web-0-a"])[len(pods) :]
    plan, amounts = plan_replica(replace(world, pods={"web-0-a": [*pods, *rest]}), LATER)
    return model, plan, amounts


def gang_status(plan: Plan) -> PodGangStatus:
    found = next(write.status for write in plan.statuses if write.resource is POD_GANGS)
    assert isinstance(found, PodGangStatus)
    return found


def test_gang_repeats_the_words_that_say_most_and_names_the_domain() -> None:
    _, plan, _ = waiting(SHORT, LONG)
    told = condition(gang_status(plan).conditions, "Scheduled")
    assert told is not None
    assert (told.status, told.reason) == ("False", Reason.UNSCHEDULABLE)
    expected = f"2 of 2 pods cannot be scheduled in one {RACK.key}: {LONG}"
    assert told.message == f"below the minimum scheduled: web-0-a 0/2; {expected}"
    assert [(notice.why.reason, notice.warning) for notice in plan.notices] == [(Reason.UNSCHEDULABLE, True)]
    assert plan.notices[0].why.message == f"web-0: {told.message}"


def test_set_is_not_ready_in_the_schedulers_words() -> None:
    model, plan, amounts = waiting(LONG)
    whole = plan_set(replace(model.set_world(), replicas={0: amounts}), LATER)
    status = whole.statuses[0].status
    assert isinstance(status, PodCliqueSetStatus)
    ready = condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.message == (
        f"0 of 1 replicas available; web-0: 1 of 2 pods cannot be scheduled in one {RACK.key}: {LONG}"
    )
    brief = condition(summary("web-0", gang_status(plan)).conditions, "Scheduled")
    assert brief is not None
    assert LONG not in brief.message, "hundreds of gangs must fit into one status"


def test_refusal_is_announced_once() -> None:
    model, plan, _ = waiting(SHORT)
    history = model.history()
    assert history is not None
    world = model.replica_world(0, history)
    before = gang_status(plan)
    pods = [said_against(pod, LONG) for pod in world.pods["web-0-a"]]
    gangs = {name: msgspec.structs.replace(gang, status=before) for name, gang in world.gangs.items()}
    again, _ = plan_replica(replace(world, pods={"web-0-a": pods}, gangs=gangs, unwritten={}), LATER)
    assert again.notices == ()


def test_gang_nobody_refused_only_waits() -> None:
    _, plan, _ = waiting()
    told = condition(gang_status(plan).conditions, "Scheduled")
    assert told is not None
    assert told.reason == Reason.GANG_UNSCHEDULED
    assert plan.notices == ()


def test_gated_or_placed_pods_are_not_refused() -> None:
    model, _, _ = waiting()
    history = model.history()
    assert history is not None
    pod = model.replica_world(0, history).pods["web-0-a"][0]
    assert refusal_of(said_against(pod, SHORT)) == SHORT
    assert refusal_of(said_against(pod, SHORT, reason="SchedulingGated")) == ""
    placed = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="node-1"))
    assert refusal_of(said_against(placed, SHORT)) == ""


def test_long_list_is_cut_to_its_first_findings_and_its_conclusion() -> None:
    racks = [f"node-group rack-{i} can allocate only 3 of 4 required pods. " for i in range(40)]
    said = shortened("\n".join(["Unable to schedule podgroup:", *racks, "requirement rack couldn't be satisfied."]))
    assert said == (
        "Unable to schedule podgroup:; node-group rack-0 can allocate only 3 of 4 required pods; 39 more like these; "
        "requirement rack couldn't be satisfied"
    )


def test_set_decides_nothing_on_what_replicas_amounted_to_before_the_spec_changed() -> None:
    """A replica that was up to date a moment ago is not up to date with a template it has not been compared with."""
    wanted = spec(2, cliques=[clique("a", 1)])
    model = running(wanted)
    before = model.set_world().replicas
    model.submit(with_image(wanted, "v2"))
    model.objects.carry_out(plan_set(model.set_world(), LATER).stages[0][0], LATER)
    assert plan_set(replace(model.set_world(), replicas=before), LATER) == Plan()


def test_wish_that_the_scheduler_cannot_be_told_is_told_to_people_with_the_workload() -> None:
    settings = Settings(topology=TopologySettings(enabled=True, levels=(RACK,)))
    wanted = spec(1, cliques=[clique("a", 2)], topologyConstraint={"pack": {"preferred": "rack"}})
    model = Model.from_objects(pod_clique_set(wanted), settings=settings)
    model.settle(NOW)
    history = model.history()
    assert history is not None
    world = replace(model.replica_world(0, history), settings=replace(settings, kube_gangs=True))
    plan, _ = plan_replica(world, LATER)
    (made,) = [action for stage in plan.stages for action in stage if getattr(action, "resource", None) is WORKLOADS]
    assert isinstance(made, Apply)
    (notice,) = plan.notices
    assert (notice.why.reason, notice.warning) == (Reason.GANG_INEXPRESSIBLE, True)
    assert notice.why.message.startswith("PodGang web-0: ")
    standing = msgspec.convert({"metadata": made.body["metadata"], "spec": made.body["spec"]}, Workload)
    plan, _ = plan_replica(replace(world, workloads={"web-0": standing}), LATER)
    assert plan.notices == ()
