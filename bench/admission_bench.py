"""How fast a review of a PodCliqueSet with 20 cliques is answered, decoding and encoding included.

Prints the CPU time per review and the reviews per second of one core for defaulting, creation and update: first the
rules alone, then by the TLS server as the API server calls it, on connections that stay open. The server is a process
of its own, so that only its CPU time counts. With `--check` the exit status is 1 when a review costs 3 ms or more, or
fewer than 500 fit in a second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import sys
import time
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec

from grove.admission import Context, Topology, default
from grove.admission.authorization import Identities
from grove.runtime import certs
from grove.runtime.certificate_store import CertificateStore
from grove.runtime.server import TlsServer
from grove.webhooks import Router, Surroundings, router
from grove.webhooks.routes import routes

CLIQUES = 20
BUDGET_SECONDS = 0.003
WANTED_PER_SECOND = 500
CONNECTIONS = 8


def pod(role: str) -> dict[str, Any]:
    """A pod spec of the size inference engines have."""
    return {
        "schedulerName": "kai-scheduler",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "node.example.com/pool", "operator": "In", "values": ["gpu"]}]}
                    ]
                }
            }
        },
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "shm", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "engine",
                "image": f"registry.example.com/inference/{role}:1.4.2",
                "args": ["--model", "/models/llama", "--tensor-parallel-size", "8", "--role", role],
                "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(20)],
                "ports": [{"name": "http", "containerPort": 8000}, {"name": "metrics", "containerPort": 9000}],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "shm", "mountPath": "/dev/shm"}],
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                "resources": {"requests": {"cpu": "16", "memory": "128Gi"}, "limits": {"nvidia.com/gpu": "8"}},
            }
        ],
    }


def document() -> dict[str, Any]:
    """Twenty cliques: four alone, sixteen in four scaling groups."""
    names = [f"clique-{index}" for index in range(CLIQUES)]
    cliques = [
        {"name": name, "spec": {"roleName": name, "replicas": 2, "podSpec": pod(name)}, "labels": {"role": name}}
        for name in names
    ]
    groups = [
        {
            "name": f"group-{index}",
            "cliqueNames": names[4 + 4 * index : 8 + 4 * index],
            "replicas": 2,
            "topologyConstraint": {"packDomain": "rack"},
        }
        for index in range(4)
    ]
    template = {"cliques": cliques, "podCliqueScalingGroups": groups, "topologyConstraint": {"packDomain": "zone"}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "inference", "namespace": "default"},
        "spec": {"replicas": 4, "template": template},
    }


def reviews() -> dict[str, tuple[str, bytes]]:
    stored = default(document())
    changed = {**stored, "spec": {**stored["spec"], "replicas": 5}}
    return {
        "default a creation": (router.DEFAULT_SET, _review("CREATE", document(), None)),
        "validate a creation": (router.VALIDATE_SET, _review("CREATE", stored, None)),
        "validate an update": (router.VALIDATE_SET, _review("UPDATE", changed, stored)),
    }


def _review(operation: str, new: dict[str, Any], old: dict[str, Any] | None) -> bytes:
    request = {"uid": "u", "operation": operation, "userInfo": {"username": "bench"}, "object": new, "oldObject": old}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


async def cost(served: Router, path: str, body: bytes, rounds: int) -> float:
    """Seconds of CPU per review."""
    answer = msgspec.json.decode(await served.answer(path, body))
    assert answer["response"]["allowed"], answer
    gc.collect()
    began = time.process_time()
    for _ in range(rounds):
        await served.answer(path, body)
    return (time.process_time() - began) / rounds


def rules() -> Router:
    context = Context(topology=Topology(True, "grove-topology", ("zone", "rack", "host")))
    return Router(Surroundings(lambda: context, Identities("operator")))


async def measure(rounds: int) -> bool:
    served = rules()
    print(f"{sys.implementation.name} {sys.version.split()[0]}, {CLIQUES} cliques, {rounds} reviews each")
    good = True
    for name, (path, body) in reviews().items():
        good &= told(name, len(body), await cost(served, path, body, rounds))
    return good


def told(name: str, size: int, seconds: float) -> bool:
    print(f"{name:34} {size / 1024:6.1f} KiB {seconds * 1000:7.2f} ms CPU {1 / seconds:8.0f} reviews/s")
    return seconds < BUDGET_SECONDS and 1 / seconds >= WANTED_PER_SECOND


def serve(parent: Any) -> None:
    """The webhooks as the operator serves them; asked over the pipe, it answers with its CPU seconds so far."""

    async def run() -> None:
        certificates = CertificateStore()
        certificates.hold(certs.renewed(None, ["localhost"], datetime.now(UTC)))
        server = TlsServer(routes(rules()), certificates, host="127.0.0.1")
        await server.start()
        parent.send(server.port)
        while await asyncio.to_thread(parent.recv):
            parent.send(time.process_time())
        await server.stop()

    asyncio.run(run())


async def ask(port: int, path: str, body: bytes, rounds: int) -> None:
    """Reviews over connections that stay open, as many at a time."""
    url = f"https://127.0.0.1:{port}{path}"
    connector = aiohttp.TCPConnector(ssl=False, limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def some() -> None:
            for _ in range(rounds // CONNECTIONS):
                async with session.post(url, data=body) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()

        await asyncio.gather(*(some() for _ in range(CONNECTIONS)))


def measure_server(rounds: int) -> bool:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()

    def used() -> float:
        ours.send(True)
        seconds: float = ours.recv()
        return seconds

    good = True
    for name, (path, body) in reviews().items():
        asyncio.run(ask(port, path, body, CONNECTIONS))
        before = used()
        asyncio.run(ask(port, path, body, rounds))
        good &= told(f"{name}, served", len(body), (used() - before) / (rounds // CONNECTIONS * CONNECTIONS))
    ours.send(False)
    server.join(10)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    good = asyncio.run(measure(arguments.rounds)) & measure_server(arguments.rounds)
    sys.exit(0 if good or not arguments.check else 1)


if __name__ == "__main__":
    main()
