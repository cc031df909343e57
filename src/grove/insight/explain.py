"""Why a PodCliqueSet is as it is: one dominant reason, the evidence, the next step.

Every rule looks on its own; then the worst tier wins. What merely waits for something that has a finding of its own
steps behind it: a worker that waits for its leader is not the trouble, the leader is.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.insight.case import Case
from grove.insight.explain_room import room
from grove.insight.explain_spec import misconfigured
from grove.insight.explain_waits import crashing, held, silent
from grove.insight.findings import Cause, Evidence, Explanation, Finding, Tier, counted, look_up
from grove.insight.progress import Phase
from grove.insight.snapshot import Snapshot

_CLIQUES_SHOWN = 6


def explain(snapshot: Snapshot, owner: PodCliqueSet) -> Explanation:
    """The answer for one set."""
    case = Case(snapshot, owner)
    findings = sorted(
        [*misconfigured(case), *room(case), *held(case), *silent(case), *crashing(case)],
        key=lambda f: (f.tier.rank, f.subject),
    )
    first = _dominant(findings) or _unremarkable(case)
    counts = _counts(case)
    evidence = (*((counts,) if counts.lines else ()), *first.evidence)
    return Explanation(
        namespace=owner.metadata.namespace,
        name=owner.metadata.name,
        tier=first.tier,
        reason=first.reason,
        meaning=look_up(first.reason).meaning,
        subject=first.subject,
        headline=first.headline,
        next_step=first.next_step,
        evidence=evidence,
        others=tuple(f for f in findings if f is not first and not _implied(f, first)),
        blind=tuple(f"{kind} {why}" for kind, why in sorted(snapshot.unread.items()) if kind in _MATTERS),
    )


_MATTERS = frozenset({"Pod", "Node", "Event"})


def _implied(other: Finding, first: Finding) -> bool:
    """That nobody speaks of what cannot be placed goes without saying."""
    return other.subject == first.subject and other.tier is Tier.SILENT


def _dominant(findings: list[Finding]) -> Finding | None:
    subjects = {f.subject for f in findings}
    roots = [f for f in findings if not subjects & set(f.behind)]
    return next(iter(roots or findings), None)


def _unremarkable(case: Case) -> Finding:
    """Nothing is wrong: the set runs, is being updated, or is on its way."""
    view, name = case.view, case.owner.metadata.name
    progress = view.progress
    available = f"{view.available} of {view.replicas} replicas available"
    if progress.phase in (Phase.MOVING, Phase.STUCK, Phase.UNSEEN) and case.gangs:
        stuck = progress.phase is Phase.STUCK
        return Finding(
            tier=Tier.UPDATING,
            reason=progress.reason or Reason.UPDATE_IN_PROGRESS,
            subject=name,
            headline=f"an update is {'stuck' if stuck else 'under way'}: {progress.updated_pods} of "
            f"{progress.total_pods} pods done, {available}" + (f"; {progress.message}" if progress.message else ""),
            next_step=look_up(progress.reason).remedy.replace("NAME", name)
            if stuck
            else f"grove rollout status {name}",
        )
    if progress.phase is Phase.ON_DELETE:
        return Finding(
            tier=Tier.UPDATING,
            reason="OnDelete",
            subject=name,
            headline=progress.message,
            next_step="Delete pods, group replicas or replicas when it suits you; they come back new.",
        )
    if view.available >= view.replicas:
        reason = Reason.SCALED_TO_ZERO if view.replicas == 0 else Reason.ALL_AVAILABLE
        return Finding(tier=Tier.HEALTHY, reason=reason, subject=name, headline=available, next_step="Nothing to do.")
    return Finding(
        tier=Tier.STARTING,
        reason=Cause.STARTING,
        subject=name,
        headline=f"pods are being placed and started: {available}",
        next_step=f"grove get {name} -w",
    )


def _counts(case: Case) -> Evidence:
    """Cliques that are short of their minimum, or all in one line when none is."""
    return Evidence(title="cliques", lines=tuple(_clique_lines(case)))


def _clique_lines(case: Case) -> Iterator[str]:
    views = list(case.clique_views.values())
    short = [v for v in views if v.ready < v.replicas]
    for view in short[:_CLIQUES_SHOWN]:
        parts = [f"{view.ready} of {view.replicas} ready (minimum {view.minimum})", f"{view.scheduled} on nodes"]
        if view.gated:
            parts.append(f"{view.gated} gated")
        if view.existing < view.replicas:
            parts.append(f"{view.existing} exist")
        if view.domain:
            parts.append(f"in {view.domain}")
        yield f"{view.name}: {', '.join(parts)}"
    if len(short) > _CLIQUES_SHOWN:
        yield f"and {len(short) - _CLIQUES_SHOWN} more that are short"
    elif views and not short:
        yield f"{counted(len(views), 'clique')}, every pod ready ({sum(v.ready for v in views)})"
