"""How fast a review of a PodCliqueSet with 20 cliques is answered, decoding and encoding included.

Prints the CPU time per review and the reviews per second of one core for defaulting, creation and update. With
`--check` the exit status is 1 when a review costs 3 ms or more, or fewer than 500 fit in a second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from typing import Any

import msgspec

from grove.admission import Context, Topology, default
from grove.admission.authorization import Identities
from grove.webhooks import Router, Surroundings, router

CLIQUES = 20
BUDGET_SECONDS = 0.003
WANTED_PER_SECOND = 500


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


async def measure(rounds: int) -> bool:
    context = Context(topology=Topology(True, "grove-topology", ("zone", "rack", "host")))
    served = Router(Surroundings(lambda: context, Identities("operator")))
    print(f"{sys.implementation.name} {sys.version.split()[0]}, {CLIQUES} cliques, {rounds} reviews each")
    good = True
    for name, (path, body) in reviews().items():
        seconds = await cost(served, path, body, rounds)
        good &= seconds < BUDGET_SECONDS and 1 / seconds >= WANTED_PER_SECOND
        print(f"{name:22} {len(body) / 1024:6.1f} KiB {seconds * 1000:7.2f} ms CPU {1 / seconds:8.0f} reviews/s")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    good = asyncio.run(measure(arguments.rounds))
    sys.exit(0 if good or not arguments.check else 1)


if __name__ == "__main__":
    main()
