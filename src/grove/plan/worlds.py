"""The frozen inputs of planning: what was observed of one replica, and of one PodCliqueSet, at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grove.api.core import Autoscaler, ControllerRevision, Pod, Role, RoleBinding, Service, ServiceAccount
from grove.api.meta import LastError
from grove.api.pod_clique import PodClique, PodCliqueStatus
from grove.api.pod_clique_set import PodCliqueSet, PodGangSummary
from grove.api.pod_gang import PodGang, PodGangStatus
from grove.api.scaling_group import ScalingGroup, ScalingGroupStatus
from grove.plan.actions import Wait
from grove.plan.revision import Revision
from grove.plan.settings import Settings
from grove.schedulers.kube_workload import Workload


@dataclass(frozen=True, slots=True)
class ReplicaWorld:
    """Everything that exists of one PodCliqueSet replica. Objects by name; pods by the name of their clique."""

    owner: PodCliqueSet
    index: int
    history: Sequence[Revision]
    settings: Settings
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    groups: Mapping[str, ScalingGroup] = field(default_factory=dict)
    gangs: Mapping[str, PodGang] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    service: Service | None = None
    autoscalers: Mapping[str, Autoscaler] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    errors: tuple[LastError, ...] = ()
    # The revision most replicas below the partition carry: what a replica made anew there gets.
    neighbours: str | None = None
    # Statuses computed by an earlier pass and not written yet: facts in them are not forgotten.
    unwritten: Mapping[tuple[str, str], PodCliqueStatus | ScalingGroupStatus | PodGangStatus] = field(
        default_factory=dict
    )

    def clique_status(self, name: str) -> PodCliqueStatus:
        pending = self.unwritten.get(("PodClique", name))
        if isinstance(pending, PodCliqueStatus):
            return pending
        clique = self.cliques.get(name)
        return (clique.status if clique else None) or PodCliqueStatus()

    def group_status(self, name: str) -> ScalingGroupStatus:
        pending = self.unwritten.get(("PodCliqueScalingGroup", name))
        if isinstance(pending, ScalingGroupStatus):
            return pending
        group = self.groups.get(name)
        return (group.status if group else None) or ScalingGroupStatus()

    def gang_status(self, name: str) -> PodGangStatus:
        pending = self.unwritten.get(("PodGang", name))
        if isinstance(pending, PodGangStatus):
            return pending
        gang = self.gangs.get(name)
        return (gang.status if gang else None) or PodGangStatus()


@dataclass(frozen=True, slots=True)
class ReplicaSummary:
    """What a replica amounts to for its PodCliqueSet.

    `fresh`: nothing in it runs an older template. `at_rest`: nothing is being written, and no update waits in it.
    `begun`: an update that recreates it whole is at work in it.
    `generation`: of the set's spec it was judged by.
    """

    index: int
    exists: bool
    fresh: bool
    available: bool
    placed: bool
    at_rest: bool
    carried: str | None = None
    surge: bool = False
    begun: bool = False
    generation: int = 0
    cliques: int = 0
    updated_cliques: int = 0
    groups: int = 0
    updated_groups: int = 0
    updated_pods: int = 0
    pods: int = 0
    gangs: tuple[PodGangSummary, ...] = ()
    waits: tuple[Wait, ...] = ()
    errors: tuple[LastError, ...] = ()


@dataclass(frozen=True, slots=True)
class SetWorld:
    """A PodCliqueSet with its history and what its replicas amount to.

    `latest` is what the template asks for, if that was worked out before; `replicas` is None while some are unknown.
    """

    owner: PodCliqueSet
    settings: Settings
    revisions: Sequence[ControllerRevision] = ()
    latest: Revision | None = None
    replicas: Mapping[int, ReplicaSummary] | None = None
    service_account: ServiceAccount | None = None
    role: Role | None = None
    role_binding: RoleBinding | None = None
    errors: tuple[LastError, ...] = ()
