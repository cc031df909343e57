"""Autoscaling: an autoscaler stays at or above the gang minimum and can reach the replicas; members have none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grove.admission.context import Case
from grove.admission.findings import FieldError, forbidden, invalid
from grove.api.pod_clique import AutoScaling


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Something an autoscaler acts on."""

    path: str
    config: AutoScaling
    replicas: int
    minimum: int


def check(case: Case) -> Iterator[FieldError]:
    for path, clique in case.cliques():
        config = clique.spec.auto_scaling_config
        if config is None:
            continue
        field = f"{path}.spec.autoScalingConfig"
        group = case.groups_by_clique.get(clique.name)
        if group is not None:
            yield forbidden(
                field, f"members of scaling group '{group.name}' scale with it", "use scaleConfig of the scaling group"
            )
        else:
            yield from _bounds(_Scaled(field, config, clique.spec.replicas, clique.spec.minimum))
    for path, group in case.groups():
        if group.scale_config is not None:
            yield from _bounds(
                _Scaled(f"{path}.scaleConfig", group.scale_config, group.initial_replicas, group.minimum)
            )


def _bounds(scaled: _Scaled) -> Iterator[FieldError]:
    config = scaled.config
    # Without minReplicas the autoscaler starts from the replicas, as defaulting writes it.
    least = scaled.replicas if config.min_replicas is None else config.min_replicas
    if least < scaled.minimum:
        yield invalid(f"{scaled.path}.minReplicas", least, f"must not be below minAvailable {scaled.minimum}")
    if config.max_replicas < 1:
        yield invalid(f"{scaled.path}.maxReplicas", config.max_replicas, "must be greater than 0")
    elif config.max_replicas < least:
        yield invalid(f"{scaled.path}.maxReplicas", config.max_replicas, f"must not be below minReplicas {least}")
    elif config.max_replicas < scaled.replicas:
        yield invalid(
            f"{scaled.path}.maxReplicas", config.max_replicas, f"must not be below replicas {scaled.replicas}"
        )
