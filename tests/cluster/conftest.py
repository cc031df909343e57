"""One local cluster for the whole run, and a namespace for each test.

The cluster lives in a folder of its own below the run's temporary folder, so it never meets a cluster that a person has
running. Under xdist the workers of one run share it: the first one starts it, the last one wipes it. The operator runs
on it; `bench` is what a scenario works with.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from operator_process import OperatorProcess
from own_namespace import own_namespace
from workbench import Workbench

from grove.localcluster import ClusterSpec, RunningCluster, reset, up
from grove.localcluster.locks import exclusive
from grove.localcluster.progress import PlainProgress
from grove.localcluster.rest import ApiServer

SHARED = ClusterSpec(name="pytest", nodes=12, racks=4, blocks=2, zones=2, gpus=8, operator=True, pod_grouper=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RunningCluster]:
    """The shared cluster: 12 nodes, 4 racks, 2 blocks, 2 zones, 8 GPUs a node, KAI, the operator."""
    base = tmp_path_factory.getbasetemp()
    # Workers of xdist have folders of their own below the run's.
    run_folder = base.parent if hasattr(request.config, "workerinput") else base
    users = run_folder / "cluster-users"
    settings = run_folder / "operator.yaml"
    spec = replace(SHARED, data_dir=run_folder / "cluster", operator_config=settings)
    with exclusive(run_folder / "cluster-users.lock"):
        settings.touch()
        running = up(spec, PlainProgress())
        users.write_text(str(_count(users) + 1))
    yield running
    with exclusive(run_folder / "cluster-users.lock"):
        users.write_text(str(_count(users) - 1))
        if _count(users) == 0:
            reset(spec.name, spec.data_dir)


def _count(users: Path) -> int:
    return int(users.read_text()) if users.exists() else 0


@pytest.fixture(scope="module")
def api(cluster: RunningCluster) -> Iterator[ApiServer]:
    """The API server of the module's cluster, its own or the shared one, with the administrator's rights."""
    with cluster.api() as found:
        yield found


@pytest.fixture
def namespace(cluster: RunningCluster, api: ApiServer) -> Iterator[str]:
    """A namespace of this test's own."""
    with own_namespace(cluster, api, f"test-{uuid.uuid4().hex[:8]}") as name:
        yield name


@pytest.fixture
def bench(cluster: RunningCluster, api: ApiServer, namespace: str) -> Iterator[Workbench]:
    """The namespace with the words of a scenario, and no nodes yet; what was made in it goes first."""
    found = Workbench(cluster, api, namespace)
    yield found
    found.clean_up()


@pytest.fixture(scope="module")
def operator(cluster: RunningCluster) -> Iterator[OperatorProcess]:
    """The operator as a process: to be killed, and started with another configuration. A module ends as it began."""
    found = OperatorProcess(cluster)
    yield found
    found.restore()
