"""Room: gangs that can never fit, and gangs that would fit if others were not there. Nodes, quotas and queues count.

The arithmetic is that of `fit`; where a scheduler has spoken, its words are evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from grove.api import labels
from grove.api.pod_gang import PodGang
from grove.insight import resources
from grove.insight.capacity import Room, ideal_rooms, requests_of, rooms, takes_room
from grove.insight.case import Case
from grove.insight.demand import Part
from grove.insight.explain_spec import quota_refusal
from grove.insight.findings import Cause, Evidence, Finding, Tier, counted
from grove.insight.fit import Ledger, Shortage, place

_DOMAINS_SHOWN = 5
_USERS_SHOWN = 3


def room(case: Case) -> Iterator[Finding]:
    """What is too large, and what has to wait."""
    yield from _quota(case)
    for gang in case.unplaced:
        if case.snapshot.nodes and not case.gated(gang):
            yield from _nodes(case, gang)
            yield from _queue(case, gang)


def fits_now(case: Case, gang: PodGang) -> bool:
    """Whether by this arithmetic the gang could be placed at once."""
    return place(case.demand(gang), Ledger(rooms(case.snapshot))).fits


def _nodes(case: Case, gang: PodGang) -> Iterator[Finding]:
    wanted = case.demand(gang)
    ideal = place(replace(wanted, pinned=frozenset()), Ledger(ideal_rooms(case.snapshot)))
    if ideal.shortage:
        yield _never(case, gang, wanted, ideal.shortage)
        return
    now = place(wanted, Ledger(rooms(case.snapshot)))
    if now.shortage:
        yield _not_now(case, gang, wanted, now.shortage)
    elif words := case.words_about(gang):
        yield Finding(
            tier=Tier.NOT_NOW,
            reason=Cause.REFUSED,
            subject=gang.metadata.name,
            headline=f"the scheduler does not place gang {gang.metadata.name}, although there seems to be room",
            next_step=Cause.REFUSED.remedy,
            evidence=(_said(words),),
        )


def _never(case: Case, gang: PodGang, wanted: Part, short: Shortage) -> Finding:
    where = _where(case, short) or "the whole cluster"
    wider = _wider(case, wanted, short)
    step = (
        f"packDomain: {wider} would do; or ask for less per {where.split()[0]}"
        if wider
        else Cause.NEVER_FITS.remedy.rstrip(".")
    )
    return Finding(
        tier=Tier.NEVER_FITS,
        reason=Cause.NEVER_FITS,
        subject=gang.metadata.name,
        headline=f"gang {gang.metadata.name} needs {wanted.shape()}; even empty, {where} takes only "
        f"{short.placed} of {short.wanted} pods",
        next_step=f"{step}. `grove whatif -f FILE` tries a change without applying it.",
        evidence=tuple(
            e
            for e in (
                _missing(short),
                _largest(case, wanted, short),
                _domains(case, short, ideal_rooms(case.snapshot), "largest domains, empty"),
                _said(case.words_about(gang)),
            )
            if e.lines
        ),
    )


def _not_now(case: Case, gang: PodGang, wanted: Part, short: Shortage) -> Finding:
    where = _where(case, short) or "the cluster"
    return Finding(
        tier=Tier.NOT_NOW,
        reason=Cause.NO_ROOM,
        subject=gang.metadata.name,
        headline=f"gang {gang.metadata.name} needs {wanted.shape()}; now {where} comes closest and takes "
        f"{short.placed} of {short.wanted} pods",
        next_step=f"Free {resources.all_said(short.missing) or 'room'} in {where}, or wait. "
        "`grove topology` shows what is where.",
        evidence=tuple(
            e
            for e in (
                _missing(short),
                _domains(case, short, rooms(case.snapshot), "free now"),
                _users(case, short),
                _said(case.words_about(gang)),
            )
            if e.lines
        ),
    )


def _where(case: Case, short: Shortage) -> str:
    """The closest domain by level and name, such as `rack rack-3`."""
    level = next((lv.domain for lv in case.snapshot.levels if lv.key == short.key), short.key or "")
    return f"{level} {short.domain}" if short.domain else ""


def _wider(case: Case, wanted: Part, short: Shortage) -> str:
    """The narrowest wider packDomain with which the gang would fit the empty cluster; empty when none would."""
    keys = [level.key for level in case.snapshot.levels]
    if short.key not in keys:
        return ""
    for level in reversed(case.snapshot.levels[: keys.index(short.key)]):
        if place(_rekeyed(wanted, short.key, level.key), Ledger(ideal_rooms(case.snapshot))).fits:
            return level.domain
    return ""


def _rekeyed(part: Part, old: str | None, new: str) -> Part:
    below = tuple(_rekeyed(p, old, new) for p in part.parts)
    return replace(part, key=new if part.key == old else part.key, parts=below, pinned=frozenset())


def _missing(short: Shortage) -> Evidence:
    lines = [f"{_pods(short)}: {resources.all_said(short.missing)}"] if short.missing else []
    lines += [f"{counted(count, 'node')} {why}" for why, count in sorted(short.refused.items())]
    return Evidence(title="missing", lines=tuple(lines))


def _pods(short: Shortage) -> str:
    return f"{short.pods} more {'pod' if short.pods == 1 else 'pods'}"


def _largest(case: Case, wanted: Part, short: Shortage) -> Evidence:
    """Said when a single pod is larger than every node."""
    leaf = next((part for part in wanted.leaves() if part.name == short.part), None)
    found = ideal_rooms(case.snapshot)
    if leaf is None or any(resources.fits(leaf.requests, one.free) for one in found):
        return Evidence(title="largest node", lines=())
    lines = [
        f"a pod asks for {resources.said(name, value)}, the largest node has "
        f"{resources.said(name, max(one.has.get(name, 0.0) for one in found))}"
        for name, value in leaf.requests.items()
        if all(one.has.get(name, 0.0) < value for one in found)
    ]
    return Evidence(title="largest node", lines=tuple(lines))


def _domains(case: Case, short: Shortage, found: list[Room], title: str) -> Evidence:
    """What each domain of the level that the gang is packed by has of the scarcest resource."""
    name = next((n for n in short.missing if n in resources.GPU_NAMES), next(iter(short.missing), ""))
    if not short.key or not name:
        return Evidence(title=title, lines=())
    free: dict[str, float] = {}
    has: dict[str, float] = {}
    for one in found:
        value = one.labels.get(short.key)
        if value:
            free[value] = free.get(value, 0.0) + (0.0 if one.closed else one.free.get(name, 0.0))
            has[value] = has.get(value, 0.0) + one.has.get(name, 0.0)
    order = sorted(free, key=lambda v: (-free[v], v))
    lines = [f"{value}: {free[value]:g} of {resources.said(name, has[value])}" for value in order[:_DOMAINS_SHOWN]]
    if len(order) > _DOMAINS_SHOWN:
        lines.append(f"and {len(order) - _DOMAINS_SHOWN} more with no more than that")
    return Evidence(title=title, lines=tuple(lines))


def _users(case: Case, short: Shortage) -> Evidence:
    """Who has what is missing where the gang comes closest."""
    inside = {
        n.metadata.name
        for n in case.snapshot.nodes
        if not short.key or n.metadata.labels.get(short.key) == short.domain
    }
    name = next((n for n in short.missing if n in resources.GPU_NAMES), next(iter(short.missing), ""))
    used: dict[str, float] = {}
    for pod in case.snapshot.pods:
        if takes_room(pod) and pod.spec.node_name in inside:
            owner = pod.metadata.labels.get(labels.PART_OF) or pod.metadata.name
            holder = f"{pod.metadata.namespace}/{owner}"
            used[holder] = used.get(holder, 0.0) + requests_of(pod).get(name, 0.0)
    largest = sorted((n for n in used if used[n]), key=lambda n: (-used[n], n))[:_USERS_SHOWN]
    lines = tuple(f"{holder}: {resources.said(name, used[holder])}" for holder in largest)
    return Evidence(title="held there by", lines=lines)


def _said(words: tuple[str, ...]) -> Evidence:
    return Evidence(title="scheduler says", lines=words[:2])


def _queue(case: Case, gang: PodGang) -> Iterator[Finding]:
    group = case.pod_group(gang)
    known = {queue.metadata.name: queue for queue in case.snapshot.queues}
    name = group.spec.queue if group else ""
    wanted = resources.gpus(case.demand(gang).amounts)
    while wanted and (queue := known.get(name)):
        limit = queue.spec.resources["gpu"].limit if "gpu" in queue.spec.resources else None
        if limit is not None and limit >= 0:
            used = _queue_use(case, name)
            cause = Cause.QUEUE_TOO_SMALL if wanted > limit else Cause.QUEUE_USED if used + wanted > limit else None
            if cause:
                yield Finding(
                    tier=Tier.NEVER_FITS if cause is Cause.QUEUE_TOO_SMALL else Tier.NOT_NOW,
                    reason=cause,
                    subject=gang.metadata.name,
                    headline=f"gang {gang.metadata.name} needs {wanted:g} GPUs; queue {name} allows {limit:g} "
                    f"and uses {used:g}",
                    next_step=cause.remedy,
                    evidence=(_said(case.words_about(gang)),),
                )
                return
        name = queue.spec.parent_queue


def _queue_use(case: Case, queue: str) -> float:
    """GPUs of pods on nodes whose group is in this queue or in one below it."""
    below = {queue}
    for _ in case.snapshot.queues:
        below |= {q.metadata.name for q in case.snapshot.queues if q.spec.parent_queue in below}
    groups = {(g.metadata.namespace, g.metadata.name) for g in case.snapshot.pod_groups if g.spec.queue in below}
    return sum(
        resources.gpus(requests_of(p))
        for p in case.snapshot.pods
        if takes_room(p) and (p.metadata.namespace, p.metadata.annotations.get("pod-group-name", "")) in groups
    )


def _quota(case: Case) -> Iterator[Finding]:
    """Pods that the namespace's quota did not let in."""
    errors = case.owner.status.last_errors if case.owner.status else []
    told = [e.description for e in errors if quota_refusal(e.description)]
    if not told:
        return
    lines, too_small = [], False
    needs = _quota_needs(case)
    for quota in case.snapshot.quotas:
        for name, hard in sorted(resources.amounts(quota.status.hard or quota.spec.hard).items()):
            used = resources.amounts(quota.status.used).get(name, 0.0)
            if name in needs:
                lines.append(f"{quota.metadata.name} {name}: {used:g} of {hard:g} used, the set needs {needs[name]:g}")
                too_small |= needs[name] > hard
    cause = Cause.QUOTA_TOO_SMALL if too_small else Cause.QUOTA_USED
    yield Finding(
        tier=Tier.NEVER_FITS if too_small else Tier.NOT_NOW,
        reason=cause,
        subject=case.owner.metadata.name,
        headline=f"the namespace's quota keeps {len(told)} pods or more of {case.owner.metadata.name} out",
        next_step=cause.remedy,
        evidence=tuple(
            e
            for e in (
                Evidence(title="quota", lines=tuple(lines[:4])),
                Evidence(title="refused by the API server", lines=tuple(told[:1])),
            )
            if e.lines
        ),
    )


def _quota_needs(case: Case) -> Mapping[str, float]:
    """What the whole set counts for, under the names quotas use."""
    found: dict[str, float] = {}
    for name, clique in case.cliques.items():
        if name in case.clique_views:
            found = resources.plus(found, resources.pod_requests(clique.spec.pod_spec), clique.spec.replicas)
    needs = {f"requests.{name}": value for name, value in found.items() if name != resources.PODS}
    return {**needs, **found}
