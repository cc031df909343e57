"""A few calls on the in-memory server for its unit tests."""

from __future__ import annotations

from typing import Any

import msgspec

from grove.runtime.transport import HttpRequest, Transport


async def call(
    transport: Transport, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
) -> tuple[int, Any]:
    encoded = msgspec.json.encode(body) if body is not None else None
    request = HttpRequest(method, path, tuple(query.items()), {"content-type": content_type}, encoded)
    answer = await transport.request(request)
    return answer.status, msgspec.json.decode(answer.body)


async def must(transport: Transport, method: str, path: str, body: Any = None, **query: str) -> Any:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, answer = await call(transport, method, path, body, content_type, **query)
    assert status < 300, answer
    return answer


PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def pod(name: str, *, gpus: int = 0, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "main:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
