"""Every test here runs against the in-memory server, the same over HTTP, and a real kube-apiserver.

A behaviour is written once, on raw requests; where the three disagree, the in-memory server is wrong.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio
from conformance_api import DEFINITIONS, GROUP, WIDGET_DEFINITION, Api

from grove.localcluster import ClusterSpec, RunningCluster, reset, up
from grove.localcluster.progress import PlainProgress
from grove.runtime.connection import connect, load
from grove.runtime.http_transport import HttpTransport
from grove.testing import ApiServer
from grove.testing.httpserver import serve
from grove.testing.state import WallClock

CLUSTER = ClusterSpec(name="conformance", nodes=1, racks=1, blocks=1, zones=1)

SERVERS = [
    pytest.param("memory", id="memory"),
    pytest.param("http", id="http"),
    pytest.param("cluster", id="cluster", marks=pytest.mark.cluster),
]


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster of its own: the suite needs the API server and its controllers, hardly any nodes."""
    spec = replace(CLUSTER, data_dir=tmp_path_factory.mktemp("conformance"))
    yield up(spec, PlainProgress())
    reset(spec.name, spec.data_dir)


@asynccontextmanager
async def _memory() -> AsyncIterator[Api]:
    server = ApiServer(WallClock(), show_managed_fields=True, bookmark_interval=0.2)
    yield Api(server.transport(), "")


@asynccontextmanager
async def _http() -> AsyncIterator[Api]:
    server = ApiServer(WallClock(), show_managed_fields=True, bookmark_interval=0.2)
    async with serve(server) as url:
        transport = HttpTransport(url)
        yield Api(transport, "")
        await transport.close()


@asynccontextmanager
async def _real(kubeconfig: str) -> AsyncIterator[Api]:
    transport = connect(load(kubeconfig))
    yield Api(transport, "")
    await transport.close()


@pytest_asyncio.fixture(params=SERVERS)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    if request.param == "memory":
        opened = _memory()
    elif request.param == "http":
        opened = _http()
    else:
        given = request.config.getoption("--kubeconfig")
        opened = _real(given or str(request.getfixturevalue("real_cluster").kubeconfig))
    async with opened as api:
        api.namespace = f"conformance-{uuid.uuid4().hex[:8]}"
        await _prepare(api)
        yield api
        await api.delete(f"/api/v1/namespaces/{api.namespace}")


async def _until_served(api: Api) -> None:
    """A definition is established a moment before a real server answers for it, and nothing tells of that moment."""
    for _ in range(200):
        if (await api.get(api.widgets)).code == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the widgets are not served")


async def _prepare(api: Api) -> None:
    """The widget definition, and a namespace that pods may be created in."""
    created = await api.post(DEFINITIONS, WIDGET_DEFINITION)
    assert created.code in (201, 409), created
    assert (await api.post("/api/v1/namespaces", {"metadata": {"name": api.namespace}})).code == 201
    async with api.watch(DEFINITIONS, fieldSelector=f"metadata.name=widgets.{GROUP}") as events:
        async for event in events:
            conditions = event["object"].get("status", {}).get("conditions", ())
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
    await _until_served(api)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert (await api.post(f"/api/v1/namespaces/{api.namespace}/serviceaccounts", account)).code in (201, 409)
