"""One API request taken apart: what it wants, of which resource, by whom. Also the log that tests count writes in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.testing import failures
from grove.testing.kinds import Registry, Resource
from grove.testing.objects import JsonObject

_TRUE = ("true", "1", "True", "")
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls. `rules` are RBAC PolicyRules that hold everywhere, `namespaced_rules` those of Roles, by namespace.

    None means that everything is allowed.
    """

    user: str = "kubernetes-admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    rules: tuple[JsonObject, ...] | None = None
    agent: str = "in-memory-client"
    namespaced_rules: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)

    def user_info(self) -> JsonObject:
        return {"username": self.user, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a resource, perhaps one namespace, one object, one subresource of it."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def subject(self) -> failures.Subject:
        return self.resource.subject(self.name)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request on a resource, decoded."""

    verb: str
    target: Target
    identity: Identity
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: Any = None

    @property
    def dry_run(self) -> bool:
        if self.query.get("dryRun"):
            return True
        return isinstance(self.body, dict) and self.verb.startswith("delete") and bool(self.body.get("dryRun"))

    def flag(self, name: str) -> bool:
        return name in self.query and self.query[name] in _TRUE

    @property
    def manager(self) -> str:
        return self.query.get("fieldManager") or self.identity.agent.split("/")[0]


def target_of(path: str, registry: Registry) -> Target:
    """Reads `/api/v1/...` and `/apis/<group>/<version>/...`; raises NotFound for what is not served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise failures.path_not_found()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3:
        raise failures.path_not_found()
    if bool(namespace) and not resource.namespaced:
        raise failures.path_not_found()
    name = rest[1] if len(rest) > 1 else ""
    if name and resource.namespaced and not namespace:
        raise failures.path_not_found()
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One answered request, in the words of RBAC."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    dry_run: bool


class RequestLog:
    """Every request with its outcome, and counts by user, verb and resource (`pods`, `pods/status`)."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def add(self, request: ApiRequest, code: int) -> None:
        target = request.target
        self.entries.append(
            LogEntry(
                request.identity.user,
                request.verb,
                target.resource.group,
                target.resource.plural,
                target.subresource,
                target.namespace,
                target.name,
                code,
                request.dry_run,
            )
        )

    def clear(self) -> None:
        self.entries.clear()

    def counts(self, user: str | None = None) -> Counter[tuple[str, str, str, str]]:
        """(user, verb, resource, subresource) to the number of requests."""
        return Counter(
            (entry.user, entry.verb, entry.resource, entry.subresource)
            for entry in self.entries
            if user is None or entry.user == user
        )

    def used(self, user: str) -> dict[tuple[str, str], set[str]]:
        """What a user needed: (group, resource or resource/subresource) to verbs, as a ClusterRole would list it."""
        found: dict[tuple[str, str], set[str]] = {}
        for entry in self.entries:
            if entry.user == user:
                what = f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
                found.setdefault((entry.group, what), set()).add(entry.verb)
        return found

    def writes(self, user: str | None = None) -> list[LogEntry]:
        """Successful writes that were not dry runs."""
        return [
            entry
            for entry in self.entries
            if entry.verb in WRITE_VERBS and not entry.dry_run and entry.code < 400 and user in (None, entry.user)
        ]
