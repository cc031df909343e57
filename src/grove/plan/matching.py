"""Whether an object already carries what we want of it. Fields others added do not count against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from grove.api.meta import ObjectMeta

_checked: dict[tuple[int, int], tuple[Any, Any, bool]] = {}


def covers(observed: Any, wanted: Any) -> bool:
    """Whether everything in `wanted` stands in `observed`; what is empty may as well be absent."""
    if observed == wanted:
        return True  # nearly always, and quickly known
    if isinstance(wanted, dict):
        if not isinstance(observed, dict):
            return not wanted and observed is None
        return all(covers(observed.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        if not wanted:
            return True
        # Others may add entries behind ours (an injected claim, a second owner); ours must stand.
        return (
            isinstance(observed, list | tuple)
            and len(observed) >= len(wanted)
            and all(covers(o, w) for o, w in zip(observed, wanted, strict=False))
        )
    return observed is None and wanted in (None, "", False, 0)


def covers_shared(observed: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """`covers` for pod specs, which hundreds of objects share: each pair is compared once."""
    if observed is wanted:
        return True
    key = (id(observed), id(wanted))
    hit = _checked.get(key)
    if hit is None or hit[0] is not observed or hit[1] is not wanted:
        if len(_checked) > 4096:
            _checked.clear()
        hit = _checked[key] = (observed, wanted, covers(observed, wanted))
    return hit[2]


def metadata_covers(observed: ObjectMeta, wanted: Mapping[str, Any]) -> bool:
    """Whether labels, annotations and our owner reference are as wanted."""
    return (
        _stand_in(observed.labels, wanted.get("labels", {}))
        and _stand_in(observed.annotations, wanted.get("annotations", {}))
        and all(_has_owner(observed, owner) for owner in wanted.get("ownerReferences", ()))
    )


def _stand_in(observed: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= observed.items() or covers(observed, wanted)


def _has_owner(observed: ObjectMeta, wanted: Mapping[str, Any]) -> bool:
    return any(covers(msgspec.to_builtins(o), wanted) for o in observed.owner_references if o.uid == wanted["uid"])
