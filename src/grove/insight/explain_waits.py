"""Held, unheard and broken: gates, dependencies, schedulers that say nothing, containers that do not stay up."""

from __future__ import annotations

from collections.abc import Iterator

from grove.api import labels
from grove.api.meta import condition
from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.insight import pod_state
from grove.insight.case import PATIENCE, Case
from grove.insight.explain_room import fits_now
from grove.insight.findings import Cause, Evidence, Finding, Tier, counted
from grove.insight.kinds import PodDetail
from grove.insight.progress import Phase
from grove.plan.clique_status import BREACHED
from grove.plan.conditions import moment
from grove.schedulers import kai

_PODS_SHOWN = 4


def held(case: Case) -> Iterator[Finding]:
    """What waits for something else by design."""
    for gang in case.gangs:
        yield from _gates(case, gang)
    yield from _start_order(case)
    yield from _claims(case)
    progress = case.view.progress
    if progress.phase is Phase.PAUSED:
        name = case.owner.metadata.name
        yield Finding(
            tier=Tier.HELD,
            reason=Reason.PAUSED,
            subject=name,
            headline=f"the update of {name} is paused with {progress.updated_pods} of {progress.total_pods} pods done",
            next_step=f"grove rollout resume {name}",
        )


def _gates(case: Case, gang: PodGang) -> Iterator[Finding]:
    gated = case.gated(gang)
    if not gated:
        return
    name = gang.metadata.name
    foreign = sorted({g.name for p in gated for g in p.spec.scheduling_gates if g.name != labels.GATE})
    if foreign:
        yield Finding(
            tier=Tier.HELD,
            reason=Cause.FOREIGN_GATE,
            subject=name,
            headline=f"{counted(len(gated), 'pod')} of gang {name} carry the scheduling gate {', '.join(foreign)}",
            next_step=Cause.FOREIGN_GATE.remedy,
            evidence=(_pods("gated", gated),),
        )
        return
    base = next((p.metadata.labels.get(labels.BASE_POD_GANG, "") for p in gated), "")
    if base and base != name and not _scheduled_once(case, base):
        yield Finding(
            tier=Tier.HELD,
            reason=Reason.BASE_GANG_UNSCHEDULED,
            subject=name,
            headline=f"gang {name} starts after base gang {base} has been scheduled",
            next_step=f"See why {base} is pending.",
            behind=(base,),
            evidence=(_pods("gated", gated),),
        )
        return
    expected = sum(len(g.pod_references) for g in gang.spec.podgroups)
    yield Finding(
        tier=Tier.HELD,
        reason=Reason.GANG_INCOMPLETE,
        subject=name,
        headline=f"{len(case.pods_of(gang))} of {expected} pods of gang {name} exist; it starts when all do",
        next_step="Wait for the missing pods; `kubectl get events` tells if one is refused.",
        behind=(case.owner.metadata.name,),
        evidence=(_pods("gated", gated),),
    )


def _scheduled_once(case: Case, gang_name: str) -> bool:
    gang = next((g for g in case.gangs if g.metadata.name == gang_name), None)
    said = condition(gang.status.conditions, "ScheduledOnce") if gang and gang.status else None
    return said is not None and said.status == "True"


def _start_order(case: Case) -> Iterator[Finding]:
    waiting: dict[str, list[PodDetail]] = {}
    for pod in case.live:
        if pod_state.held_by_start_order(pod):
            waiting.setdefault(pod.metadata.labels.get(labels.POD_CLIQUE, ""), []).append(pod)
    for clique, pods in waiting.items():
        parents = _parents(pods[0])
        short = {
            name: minimum
            for name, minimum in parents.items()
            if name in case.clique_views and case.clique_views[name].ready < minimum
        }
        lines = tuple(f"{n}: {case.clique_views[n].ready} ready, {m} needed" for n, m in short.items())
        yield Finding(
            tier=Tier.HELD,
            reason=Cause.START_ORDER,
            subject=clique,
            headline=f"{counted(len(pods), 'pod')} of {clique} wait for {', '.join(short or parents)} to be ready",
            next_step=f"See why {next(iter(short))} is not ready."
            if short
            else "All parents are ready; the waiting program in the pods should notice within seconds.",
            evidence=(Evidence(title="starts after", lines=lines),) if lines else (),
            behind=tuple(short),
        )


def _parents(pod: PodDetail) -> dict[str, int]:
    """The cliques the pod's waiting program was told to wait for."""
    found: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if container.get("name") == labels.INIT_CONTAINER:
            for argument in container.get("args") or ():
                for entry in str(argument).removeprefix("--podcliques=").split(","):
                    name, _, minimum = entry.rpartition(":")
                    found[name] = int(minimum) if minimum.isdigit() else 1
    return found


def _claims(case: Case) -> Iterator[Finding]:
    """Pods without a node whose resource claims are missing or not allocated."""
    if "ResourceClaim" in case.snapshot.unread:
        return
    namespace = case.owner.metadata.namespace
    known = {c.metadata.name: c for c in case.snapshot.claims if c.metadata.namespace == namespace}
    missing: dict[str, list[str]] = {}
    for pod in case.live:
        if pod.spec.node_name:
            continue
        for claim in pod.spec.resource_claims:
            name = claim.get("resourceClaimName")
            if name and name not in known:
                missing.setdefault(str(name), []).append(pod.metadata.name)
    for name, pods in missing.items():
        yield Finding(
            tier=Tier.HELD,
            reason=Cause.CLAIM,
            subject=case.pods[pods[0]].metadata.labels.get(labels.POD_CLIQUE, ""),
            headline=f"{counted(len(pods), 'pod')} wait for resource claim {name}, which does not exist",
            next_step=Cause.CLAIM.remedy,
            evidence=(Evidence(title="claims", lines=(f"{name}: missing",)),),
        )


def silent(case: Case) -> Iterator[Finding]:
    """Gangs that nobody speaks about though nothing stands in their way."""
    name = case.owner.metadata.name
    if case.view.progress.phase is Phase.UNSEEN and _seconds_old(case) > PATIENCE and not case.gangs:
        yield Finding(
            tier=Tier.SILENT,
            reason=Cause.OPERATOR_SILENT,
            subject=name,
            headline=f"the operator has done nothing for {name} yet",
            next_step=Cause.OPERATOR_SILENT.remedy,
        )
    for gang in case.unplaced:
        pods = [p for p in case.pods_of(gang) if not p.spec.node_name]
        if not pods or case.gated(gang) or case.words_about(gang) or not fits_now(case, gang):
            continue
        if min(case.age_of(p) for p in pods) < PATIENCE:
            continue
        yield _unheard(case, gang, pods)


def _unheard(case: Case, gang: PodGang, pods: list[PodDetail]) -> Finding:
    scheduler = case.scheduler(gang)
    lines = [f"schedulerName {scheduler or 'default-scheduler'}"]
    reason: str = Cause.SCHEDULER_SILENT
    step = Cause.SCHEDULER_SILENT.remedy
    if scheduler == kai.NAME and "PodGroup" in case.snapshot.unread:
        lines.append("KAI's PodGroup kind " + case.snapshot.unread["PodGroup"])
    elif scheduler == kai.NAME and case.pod_group(gang) is None:
        reason, step = Reason.GROUP_MISSING, "See whether the pod-grouper runs: it writes the PodGroup KAI looks for."
        lines.append("its PodGroup does not exist")
    return Finding(
        tier=Tier.SILENT,
        reason=reason,
        subject=gang.metadata.name,
        headline=f"{counted(len(pods), 'pod')} of gang {gang.metadata.name} pending, and no scheduler has said why",
        next_step=step,
        evidence=(Evidence(title="scheduler", lines=tuple(lines)), _pods("pending", pods)),
    )


def _seconds_old(case: Case) -> float:
    created = case.owner.metadata.creation_timestamp
    return (case.snapshot.now - moment(created)).total_seconds() if created else 0.0


def crashing(case: Case) -> Iterator[Finding]:
    """Pods that have a node and do not serve."""
    found: dict[tuple[str, Cause], list[PodDetail]] = {}
    for pod in case.live:
        cause = _trouble(case, pod)
        if cause:
            found.setdefault((pod.metadata.labels.get(labels.POD_CLIQUE, ""), cause), []).append(pod)
    for (clique, cause), pods in found.items():
        first = pods[0].metadata.name
        deadline = _deadline(case, clique)
        yield Finding(
            tier=Tier.CRASHING,
            reason=cause,
            subject=clique,
            headline=f"{len(pods)} of {case.clique_views[clique].replicas} pods of {clique} "
            + {Cause.CRASHING: "crash again and again", Cause.FAILED: "have failed"}.get(cause, "are not ready"),
            next_step=cause.remedy.replace("POD", first),
            evidence=tuple(
                e
                for e in (
                    Evidence(title="pods", lines=tuple(_ending(p) for p in pods[:_PODS_SHOWN])),
                    Evidence(title="gang termination", lines=(deadline,) if deadline else ()),
                )
                if e.lines
            ),
        )


def _trouble(case: Case, pod: PodDetail) -> Cause | None:
    if pod.metadata.labels.get(labels.POD_CLIQUE, "") not in case.clique_views:
        return None
    if any(reason == pod_state.CRASH_LOOP for _, reason in pod_state.waiting_reasons(pod)):
        return Cause.CRASHING
    if pod.status.phase == "Failed":
        return Cause.FAILED
    ready = condition(pod.status.conditions, "Ready")
    if pod.status.phase == "Running" and (ready is None or ready.status != "True") and case.age_of(pod) > PATIENCE:
        return Cause.CRASHING if pod_state.restarts(pod) > 1 else Cause.NOT_READY
    return None


def _ending(pod: PodDetail) -> str:
    said = f"{pod.metadata.name}: {pod_state.restarts(pod)} restarts"
    end = pod_state.last_exit(pod)
    return f"{said}, container {end[0]} ended with {end[1]} {end[2]}".rstrip() if end else said


def _deadline(case: Case, clique: str) -> str:
    found = case.cliques[clique].status
    said = condition(found.conditions, BREACHED) if found else None
    return said.message if said and said.status == "True" else ""


def _pods(title: str, pods: list[PodDetail]) -> Evidence:
    names = [p.metadata.name for p in pods[:_PODS_SHOWN]]
    more = f" and {len(pods) - _PODS_SHOWN} more" if len(pods) > _PODS_SHOWN else ""
    return Evidence(title=title, lines=(", ".join(names) + more,))
