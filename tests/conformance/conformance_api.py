"""The smallest client that can say everything the conformance tests need, and the objects they use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from grove.runtime.transport import HttpRequest, Transport

GROUP = "conformance.grove.io"
WIDGETS = f"/apis/{GROUP}/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATIENCE = 90.0  # a real garbage collector needs up to a minute to notice a new kind
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_SPEC_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"]},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 1},
        "title": {"type": "string", "maxLength": 20, "minLength": 2, "pattern": "^[a-z]+$"},
        "limit": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "nested": {"type": "object", "properties": {"deep": {"type": "string", "default": "filled"}}},
        "settings": {
            "type": "object",
            "properties": {"one": {"type": "string"}, "two": {"type": "string"}},
        },
        "numbers": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "colour": {"type": "string"},
                    "weight": {"type": "integer", "default": 5},
                },
            },
        },
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
    },
}
_STATUS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}},
}
WIDGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _SPEC_SCHEMA, "status": _STATUS_SCHEMA},
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }
        ],
    },
}


@dataclass(frozen=True)
class Reply:
    code: int
    body: Any

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def causes(self) -> set[tuple[str, str]]:
        """(reason, field) of a refusal."""
        found = (self.body.get("details") or {}).get("causes") or ()
        return {(cause.get("reason", ""), cause.get("field", "")) for cause in found}


@dataclass
class Api:
    """One server, one namespace of the test's own."""

    transport: Transport
    namespace: str

    @property
    def configmaps(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def widgets(self) -> str:
        return f"{WIDGETS}/namespaces/{self.namespace}/widgets"

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Reply:
        headers = {"content-type": content_type, "accept": "application/json", "user-agent": "conformance/1"}
        encoded = msgspec.json.encode(body) if body is not None else None
        answer = await self.transport.request(HttpRequest(method, path, tuple(query.items()), headers, encoded, 30.0))
        decoded = msgspec.json.decode(answer.body) if answer.body.startswith(b"{") else answer.body
        return Reply(answer.status, decoded)

    async def get(self, path: str, **query: str) -> Reply:
        return await self.call("GET", path, **query)

    async def post(self, path: str, body: Any, **query: str) -> Reply:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: str) -> Reply:
        return await self.call("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **query: str) -> Reply:
        return await self.call("PATCH", path, body, content_type, **query)

    async def apply(self, path: str, body: Any, manager: str = "one", **query: str) -> Reply:
        return await self.call("PATCH", path, body, APPLY, fieldManager=manager, **query)

    async def delete(self, path: str, options: Any = None, **query: str) -> Reply:
        return await self.call("DELETE", path, options, **query)

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The events of a watch; waiting for one that does not come fails."""
        headers = {"accept": "application/json", "user-agent": "conformance/1"}
        request = HttpRequest("GET", path, (("watch", "true"), *query.items()), headers, None, 30.0)
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(self.transport.stream(request))
            while stream.status == 429:  # a real server that has just started serving a kind asks to come back
                await asyncio.sleep(float(stream.headers.get("retry-after", "1")))
                stream = await stack.enter_async_context(self.transport.stream(request))
            assert stream.status == 200, [chunk async for chunk in stream.chunks()]
            yield _events(stream.chunks())

    async def gone(self, path: str) -> None:
        """Returns when the object at `path` no longer exists."""
        seen = await self.get(path)
        if seen.code == 404:
            return
        collection, _, name = path.rpartition("/")
        query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": seen.version}
        async with self.watch(collection, **query) as events:
            async for event in events:
                if event["type"] == "DELETED":
                    return


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    rest = b""
    async with asyncio.timeout(PATIENCE):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield msgspec.json.decode(line)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": "small", **spec},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that no scheduler looks at."""
    containers = [{"name": "main", "image": "registry.example/main:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": containers, **spec},
    }


def owned(obj: dict[str, Any], owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}
