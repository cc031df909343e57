"""What all parts of the server share: storage, registry, admission, the clock, and fresh names and UIDs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

from grove.testing import failures
from grove.testing.admission import Admission
from grove.testing.coretable import core_resources
from grove.testing.kinds import Registry, Resource, resources_from_crd
from grove.testing.objects import JsonObject, dig, is_deleting, labels_of
from grove.testing.pods import PodStrategy
from grove.testing.requests import Target
from grove.testing.storage import Storage, Stored
from grove.testing.strategies import CustomStrategy, DefinitionStrategy, NamespaceStrategy, Strategy

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_NAMESPACES = ("", "namespaces")
_PRIORITY_CLASSES = ("scheduling.k8s.io", "priorityclasses")
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}


class Clock(Protocol):
    def now(self) -> datetime: ...


class WallClock:
    """Real time, for a server that real clients talk to."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Identifiers:
    """UIDs and generated names, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uid(self) -> str:
        text = f"{self._random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def generated_name(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))


class State:
    """The server's state and the questions every verb asks of it."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self.clock = clock
        self.storage = Storage()
        self.registry = Registry()
        self.identifiers = Identifiers(seed)
        self.admission = Admission(self.namespace_labels)
        self._strategies: dict[Resource, Strategy] = {}
        self._stamp: tuple[datetime, str] | None = None
        for resource in core_resources():
            self.registry.add(resource)

    def define(self, crd: JsonObject) -> None:
        """Serves the kinds of a CustomResourceDefinition, replacing what it defined before."""
        resources = resources_from_crd(crd)
        self.registry.remove(crd["spec"]["group"], crd["spec"]["names"]["plural"])
        for resource in resources:
            self.registry.add(resource)

    def strategy(self, resource: Resource) -> Strategy:
        known = self._strategies.get(resource)
        if known is None:
            known = self._strategies[resource] = self._new_strategy(resource)
        return known

    def _new_strategy(self, resource: Resource) -> Strategy:
        if resource.custom:
            return CustomStrategy(resource)
        match resource.kind:
            case "Pod":
                return PodStrategy(resource, self._priority_of)
            case "Namespace":
                return NamespaceStrategy(resource)
            case "CustomResourceDefinition":
                return DefinitionStrategy(resource)
            case _:
                return Strategy(resource)

    def timestamp(self) -> str:
        """Now, to the second, as the API writes it."""
        now = self.clock.now()
        if self._stamp is None or self._stamp[0] != now:
            self._stamp = (now, format_time(now))
        return self._stamp[1]

    def find(self, target: Target) -> Stored:
        table = self.storage.table(target.resource.group_resource)
        stored = table.objects.get((target.namespace, target.name))
        if stored is None:
            raise failures.not_found(target.subject())
        return stored

    def namespace(self, name: str) -> Stored | None:
        return self.storage.table(_NAMESPACES).objects.get(("", name))

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        stored = self.namespace(name)
        return labels_of(stored.obj) if stored is not None else {}

    def require_open_namespace(self, target: Target) -> None:
        """Refuses to create in a namespace that does not exist or is on its way out."""
        if not target.resource.namespaced:
            return
        stored = self.namespace(target.namespace)
        if stored is None:
            raise failures.not_found(failures.Subject("namespaces", "", target.namespace))
        if is_deleting(stored.obj):
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            failure = failures.forbidden(target.subject(), why)
            failure.details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {target.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise failure

    def _priority_of(self, class_name: str) -> int | None:
        if class_name in _SYSTEM_PRIORITIES:
            return _SYSTEM_PRIORITIES[class_name]
        stored = self.storage.table(_PRIORITY_CLASSES).objects.get(("", class_name))
        return dig(stored.obj, "value") if stored is not None else None


def format_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
