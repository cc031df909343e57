"""Gang termination: a gang below its minimum for longer than terminationDelay is recreated, in the smallest unit.

A scaling-group replica goes alone as long as enough of its group is left; otherwise, and for a standalone clique, the
whole PodCliqueSet replica goes. Only what has run can be broken: "has run" is recorded when minAvailable pods were
ready at once, and taken back when the unit's pods are gone, so that one breach ends one gang once.

The order of writes makes every crash safe: first the pods are deleted; when none is left, the record is taken back;
only then is anything created again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from grove.api.duration import parse
from grove.api.pod_clique_set import PodCliqueSetTemplate, ScalingGroupConfig
from grove.api.reasons import Reason
from grove.plan.actions import Notice, Wait, Why
from grove.plan.conditions import timestamp
from grove.plan.views import CliqueView

DEFAULT_DELAY = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Breach:
    """A clique that ran and is below its minimum, and since when: as recorded, or from now on."""

    clique: str
    ready: int
    minimum: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """Cliques whose pods must go, cliques whose record is to be taken back, and what is still counting down.

    `doomed` cliques, the union of both, get no new pods in this pass.
    """

    doomed: frozenset[str] = frozenset()
    recycle: frozenset[str] = frozenset()
    reset: frozenset[str] = frozenset()
    waits: tuple[Wait, ...] = ()
    notices: tuple[Notice, ...] = ()


def delay(template: PodCliqueSetTemplate) -> timedelta | None:
    """How long a breach may last; None when termination is switched off."""
    if template.termination_policy == "Never":
        return None
    return parse(template.termination_delay) if template.termination_delay else DEFAULT_DELAY


def deadline(breach: Breach, allowed: timedelta) -> str:
    """When a breach ends its gang, for a person to read."""
    return timestamp(breach.since + allowed)


@dataclass(frozen=True, slots=True)
class Replica:
    """What termination looks at: all cliques of a replica, its groups, and the breaches among them."""

    views: Mapping[str, CliqueView]
    groups: Mapping[str, tuple[ScalingGroupConfig, Mapping[int, Sequence[str]]]]
    breaches: Mapping[str, Breach]


def verdict(replica: Replica, allowed: timedelta | None, now: datetime) -> Verdict:
    """What goes now, and what counts down."""
    if allowed is None or not replica.breaches:
        return Verdict()
    expired = {name for name, b in replica.breaches.items() if now - b.since >= allowed}
    counting = [b for name, b in replica.breaches.items() if name not in expired]
    waits = tuple(_countdown(b, allowed, now) for b in counting)
    if not expired:
        return Verdict(waits=waits)
    doomed = _doomed(replica, expired)
    going = {name for name in doomed if replica.views[name].live}
    # Everything of the unit is gone: take the record back, so that what comes next counts as never having run.
    reset = frozenset(doomed) if not going else frozenset()
    why = _why(replica, expired, doomed)
    notices = (Notice(why, warning=True),) if going else ()
    if reset:
        # Our own status writes wake nobody, so the pass that creates again is asked for here.
        waits = (*waits, Wait(min(expired), why, until=0.0))
    return Verdict(frozenset(doomed), frozenset(going), reset, waits, notices)


def _doomed(replica: Replica, expired: set[str]) -> set[str]:
    """The cliques of the smallest units that hold all expired breaches."""
    doomed: set[str] = set()
    in_groups: set[str] = set()
    for group, replicas in replica.groups.values():
        broken = {j for j, names in replicas.items() if any(name in replica.breaches for name in names)}
        ripe = {j for j, names in replicas.items() if any(name in expired for name in names)}
        in_groups.update(name for names in replicas.values() for name in names)
        if ripe and len(replicas) - len(broken) < group.minimum:
            return set(replica.views)
        doomed.update(name for j in ripe for name in replicas[j])
    if expired - in_groups:
        return set(replica.views)
    return doomed


def _countdown(breach: Breach, allowed: timedelta, now: datetime) -> Wait:
    message = (
        f"{breach.ready} of at least {breach.minimum} pods ready; its gang is recreated at "
        f"{deadline(breach, allowed)} unless it recovers"
    )
    remaining = (breach.since + allowed - now).total_seconds()
    return Wait(breach.clique, Why(Reason.READY_TOO_FEW, message), until=max(0.0, remaining))


def _why(replica: Replica, expired: set[str], doomed: set[str]) -> Why:
    first = replica.breaches[min(expired)]
    scope = "the PodCliqueSet replica" if doomed == set(replica.views) else "the scaling-group replica"
    return Why(
        Reason.GANG_TERMINATED,
        f"{first.clique} had {first.ready} of at least {first.minimum} pods ready for longer than terminationDelay; "
        f"{scope} is recreated",
    )
