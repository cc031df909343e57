"""What an administrator set per kind of owner, in the ConfigMap that KAI's own pod-grouper reads.

Its key `types` holds a JSON list of `{typeName, group, priorityName, preemptibility}`. An entry without a group counts
for its kind in any group, after one that names the group.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from grove.api.meta import Model, ObjectMeta
from grove.podgrouper.inheritance import KindDefaults
from grove.runtime.resource import Resource

TYPES = "types"


class ConfigMap(Model):
    metadata: ObjectMeta
    data: dict[str, str] = {}


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)


class Entry(Model):
    """The defaults of one kind, in the words of the ConfigMap."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


class UnreadableDefaults(ValueError):
    """The ConfigMap does not say what it should."""


def kind_defaults(data: Mapping[str, str]) -> dict[str, KindDefaults]:
    """The defaults by `Kind.group`, or `Kind` where no group is named. Of two entries for one kind the last counts."""
    if TYPES not in data:
        raise UnreadableDefaults(f"it has no key '{TYPES}'")
    try:
        entries = msgspec.json.decode(data[TYPES], type=list[Entry])
    except msgspec.MsgspecError as error:
        raise UnreadableDefaults(f"'{TYPES}' is not a list of defaults: {error}") from error
    return {
        f"{entry.type_name}.{entry.group}" if entry.group else entry.type_name: KindDefaults(
            entry.priority_name, entry.preemptibility
        )
        for entry in entries
    }
