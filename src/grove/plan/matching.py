"""Whether an object already carries what we want of it. Fields others added do not count against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from grove.api.meta import ObjectMeta

_checked: dict[tuple[int, int], tuple[Any, Any, bool]] = {}


def covers(observed: Any, wanted: Any) -> bool:
    """Whether everything in `wanted` stands in `observed`; what is empty may as well be absent."""
    if isinstance(wanted, Mapping):
        if not isinstance(observed, Mapping):
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
    if observed is None:
        return wanted in (None, "", False, 0)
    return bool(observed == wanted)


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
    if not covers(observed.labels, wanted.get("labels", {})):
        return False
    if not covers(observed.annotations, wanted.get("annotations", {})):
        return False
    owners = {owner.uid: msgspec.to_builtins(owner) for owner in observed.owner_references}
    return all(covers(owners.get(owner["uid"]), owner) for owner in wanted.get("ownerReferences", ()))
