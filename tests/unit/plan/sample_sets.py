"""PodCliqueSets to plan for, as short to write as the point they make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from grove.api.meta import ObjectMeta
from grove.api.pod_clique_set import PodCliqueSet, PodCliqueSetSpec
from grove.insight.forecast import Trace, run_to_rest
from grove.insight.model import Model
from grove.plan.settings import Settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def clique(name: str, replicas: int = 1, image: str = "v1", **fields: Any) -> dict[str, Any]:
    """A clique template; `minAvailable` and other spec fields by their wire name, the rest beside the spec."""
    in_spec = {k: fields.pop(k) for k in ("minAvailable", "startsAfter", "autoScalingConfig") if k in fields}
    spec = {
        "roleName": name,
        "replicas": replicas,
        "podSpec": {"containers": [{"name": "main", "image": image}]},
        **in_spec,
    }
    return {"name": name, "spec": spec, **fields}


def group(name: str, cliques: list[str], replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "cliqueNames": cliques, "replicas": replicas, **fields}


def budget(unavailable: int | str, surge: int | str) -> dict[str, Any]:
    return {"maxUnavailable": unavailable, "maxSurge": surge}


def spec(replicas: int = 1, strategy: dict[str, Any] | None = None, **template: Any) -> PodCliqueSetSpec:
    body: dict[str, Any] = {"replicas": replicas, "template": template}
    if strategy:
        body["updateStrategy"] = strategy
    return msgspec.convert(body, PodCliqueSetSpec)


def pod_clique_set(wanted: PodCliqueSetSpec, **metadata: Any) -> PodCliqueSet:
    meta = ObjectMeta(**{"name": "web", "namespace": "ml", "uid": "set-uid", "generation": 1, **metadata})
    return PodCliqueSet(metadata=meta, spec=wanted)


def with_image(wanted: PodCliqueSetSpec, image: str, *only: str) -> PodCliqueSetSpec:
    """The spec with another image in all cliques, or in those named."""
    body = msgspec.to_builtins(wanted)
    for template in body["template"]["cliques"]:
        if not only or template["name"] in only:
            template["spec"]["podSpec"]["containers"][0]["image"] = image
    return msgspec.convert(body, PodCliqueSetSpec)


def changed(wanted: PodCliqueSetSpec, **fields: Any) -> PodCliqueSetSpec:
    """The spec with other top-level fields, by wire name."""
    return msgspec.convert({**msgspec.to_builtins(wanted), **fields}, PodCliqueSetSpec)


def running(wanted: PodCliqueSetSpec, settings: Settings | None = None) -> Model:
    """A model in which all of this runs and nothing is left to do."""
    model = Model.from_objects(pod_clique_set(wanted), settings=settings)
    run_to_rest(model, NOW)
    return model


def update(model: Model, wanted: PodCliqueSetSpec, now: datetime = LATER) -> Trace:
    """What happens from writing this spec until nothing moves."""
    model.submit(wanted)
    return run_to_rest(model, now)
