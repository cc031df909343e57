"""A namespace of a test's own, which leaves nothing that the scheduler would make room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grove.localcluster import RunningCluster
from grove.localcluster.rest import ApiServer


@contextmanager
def own_namespace(cluster: RunningCluster, api: ApiServer, name: str) -> Iterator[str]:
    """Makes the namespace, and removes it afterwards without waiting for it."""
    cluster.kubectl("create", "namespace", name)
    # Pods are refused until the namespace's default service account is there.
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s")
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        # The namespace controller takes seconds to come to them. A pod that waits there for a node can no longer be
        # bound, and for such a pod KAI moves others aside: it deletes running pods of the tests that follow.
        api.delete(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
