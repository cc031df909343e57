"""Update strategies: which settings belong to which strategy, and that an update can move at all.

Values are judged resolved on the replicas of their level. Autoscalers change replicas later without asking here, so
the rollout engine resolves and clamps again.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission import budget
from grove.admission.budget import Pace
from grove.admission.context import Case
from grove.admission.findings import FieldError, forbidden, invalid
from grove.api.pod_clique import ComponentUpdateStrategy
from grove.api.pod_clique_set import UpdateStrategy

STRATEGY = "spec.updateStrategy"
_WHOLE_REPLICAS = "ReplicaRecreate"
_WITHOUT_COMPONENTS = {
    "ReplicaRecreate": "ReplicaRecreate replaces whole replicas and bypasses the settings of their parts",
    "OnDelete": "under OnDelete you decide what is replaced by deleting it",
}


def check(case: Case) -> Iterator[FieldError]:
    strategy = case.new.spec.strategy
    yield from _set_level(strategy, case.new.spec.replicas)
    for path, clique in case.cliques():
        group = case.groups_by_clique.get(clique.name)
        if group is not None and _says(clique.update_strategy):
            yield forbidden(
                f"{path}.updateStrategy",
                f"members of scaling group '{group.name}' are updated with it",
                "use updateStrategy of the scaling group",
            )
        else:
            yield from _component(f"{path}.updateStrategy", clique.update_strategy, clique.spec.replicas, strategy)
    for path, group in case.groups():
        yield from _component(f"{path}.updateStrategy", group.update_strategy, group.initial_replicas, strategy)


def warnings(case: Case) -> Iterator[str]:
    strategy = case.new.spec.strategy
    if strategy.type == "OnDelete":
        for name, said in (("paused", strategy.paused), ("partition", strategy.partition)):
            if said:
                yield f"{STRATEGY}.{name} has no effect under OnDelete"
    if strategy.partition is not None and strategy.partition > case.new.spec.replicas:
        yield f"{STRATEGY}.partition is beyond the last replica: no replica will be updated"


def _set_level(strategy: UpdateStrategy, replicas: int) -> Iterator[FieldError]:
    rolling = strategy.rolling_update
    path = f"{STRATEGY}.rollingUpdate"
    if rolling is not None and _says(rolling):
        if strategy.type == _WHOLE_REPLICAS:
            yield from _pace(path, rolling, replicas)
        elif strategy.type == "OnDelete":
            yield forbidden(path, _WITHOUT_COMPONENTS["OnDelete"], "remove rollingUpdate")
        elif rolling.max_unavailable not in (None, 1) or rolling.max_surge not in (None, 0):
            yield forbidden(
                path,
                "PodCliqueSet replicas are always updated one after the other here, so maxUnavailable and maxSurge "
                "have no effect",
                "remove rollingUpdate, or say type: ReplicaRecreate",
            )
    if strategy.partition is not None and strategy.partition < 0:
        yield invalid(f"{STRATEGY}.partition", strategy.partition, "must not be negative")
    deadline = strategy.progress_deadline_seconds
    if deadline is not None and deadline < 1:
        yield invalid(f"{STRATEGY}.progressDeadlineSeconds", deadline, "must be greater than 0")


def _component(
    path: str, pace: ComponentUpdateStrategy | None, replicas: int, strategy: UpdateStrategy
) -> Iterator[FieldError]:
    if pace is None or not _says(pace):
        return
    reason = _WITHOUT_COMPONENTS.get(strategy.type or "")
    if reason:
        yield forbidden(path, reason, "remove updateStrategy here")
    else:
        yield from _pace(path, pace, replicas)


def _says(pace: Pace | None) -> bool:
    return pace is not None and (pace.max_unavailable is not None or pace.max_surge is not None)


def _pace(path: str, pace: Pace, replicas: int) -> Iterator[FieldError]:
    try:
        missing, extra = budget.unavailable(pace, replicas), budget.extra(pace, replicas)
    except ValueError as error:
        yield invalid(path, {"maxUnavailable": pace.max_unavailable, "maxSurge": pace.max_surge}, str(error))
        return
    if missing < 0:
        yield invalid(f"{path}.maxUnavailable", pace.max_unavailable, "must not be negative")
    if extra < 0:
        yield invalid(f"{path}.maxSurge", pace.max_surge, "must not be negative")
    if missing == 0 and extra == 0 and replicas > 0:
        yield invalid(
            path,
            {"maxUnavailable": pace.max_unavailable, "maxSurge": pace.max_surge},
            f"both come to 0 on {replicas} replicas: nothing could ever be updated",
            "raise maxUnavailable or maxSurge to 1",
        )
    if missing > replicas > 0:
        yield invalid(f"{path}.maxUnavailable", pace.max_unavailable, f"must not be greater than replicas {replicas}")
