"""What the API server serves: groups, versions and resources, cached, and asked again when it matters.

An answer of "served" is kept; an answer of "not served" is kept only for a moment, because what is missing may be
installed any time. `refresh` forgets everything.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.requests import Request
from grove.runtime.resource import Resource

_ABSENCE = 5.0  # seconds for which "not served" is believed
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_STAGES = {"alpha": 0, "beta": 1}


class _ApiResource(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_ApiResource] = msgspec.field(default_factory=list)


class _GroupVersion(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_GroupVersion] = msgspec.field(default_factory=list)


class _Versions(msgspec.Struct):
    major: str = ""
    minor: str = ""
    git_version: str = msgspec.field(default="", name="gitVersion")


class Discovery:
    """Answers what is served, from memory where possible."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], frozenset[str]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._absent: dict[tuple[str, str], float] = {}

    async def serves(self, resource: Resource[Any]) -> bool:
        """Whether this resource is served at this version."""
        return resource.plural in await self._plurals(resource.group, resource.version, resource.plural)

    async def versions(self, group: str) -> tuple[str, ...]:
        """The served versions of a group, newest and most stable first."""
        if not group:
            return ("v1",)
        if group not in self._groups and not self._recently_absent(group, ""):
            try:
                found: _Group = await self._ask(f"/apis/{group}", _Group)
            except errors.NotFound:
                self._note_absence(group, "")
            else:
                self._groups[group] = tuple(sorted((each.version for each in found.versions), key=_rank, reverse=True))
        return self._groups.get(group, ())

    async def newest(self, group: str, plural: str) -> str | None:
        """The best version of a group that serves `plural`, or None."""
        for version in await self.versions(group):
            if plural in await self._plurals(group, version, plural):
                return version
        return None

    async def server_version(self) -> str:
        """The server's own version, such as v1.35.4."""
        version: _Versions = await self._ask("/version", _Versions)
        return version.git_version

    def refresh(self) -> None:
        """Forgets everything; the next question is asked anew."""
        self._resources.clear()
        self._groups.clear()
        self._absent.clear()

    async def _plurals(self, group: str, version: str, plural: str) -> frozenset[str]:
        known = self._resources.get((group, version), frozenset())
        if plural in known or self._recently_absent(group, f"{version}/{plural}"):
            return known
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            found: _ResourceList = await self._ask(root, _ResourceList)
            known = frozenset(each.name for each in found.resources)
        except errors.NotFound:
            known = frozenset()
        self._resources[group, version] = known
        if plural not in known:
            self._note_absence(group, f"{version}/{plural}")
            self._groups.pop(group, None)  # the versions of the group may have changed as well
        return known

    def _recently_absent(self, group: str, what: str) -> bool:
        noted = self._absent.get((group, what))
        return noted is not None and asyncio.get_running_loop().time() - noted < _ABSENCE

    def _note_absence(self, group: str, what: str) -> None:
        self._absent[group, what] = asyncio.get_running_loop().time()

    async def _ask(self, path: str, answer: Any) -> Any:
        about: Resource[Any] = Resource("", "v1", "discovery", "", answer, namespaced=False)
        return await self._client.send(Request("get", about, answer, path, repeatable=True))


def _rank(version: str) -> tuple[int, int, int]:
    """Kubernetes' order: stable before beta before alpha, then by number; anything else last."""
    match = _VERSION.match(version)
    if match is None:
        return (-1, 0, 0)
    major, stage, minor = match.groups()
    return (_STAGES.get(stage or "", 2), int(major), int(minor or 0))
