"""What the scenarios run: PodCliqueSets of known shape, and the Deployment they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMESPACE = "bench"
IMAGE = "bench:1"
FLOOR_LABEL = "bench.grove.io/floor"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clique:
    name: str
    pods: int


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    replicas: int
    cliques: tuple[Clique, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """One PodCliqueSet: standalone cliques and scaling groups of one replica, times replicas, times sets."""

    replicas: int
    cliques: tuple[Clique, ...] = ()
    groups: tuple[Group, ...] = ()
    sets: int = 1

    @property
    def pods_per_replica(self) -> int:
        grouped = sum(g.replicas * sum(c.pods for c in g.cliques) for g in self.groups)
        return sum(c.pods for c in self.cliques) + grouped

    @property
    def pods(self) -> int:
        return self.sets * self.replicas * self.pods_per_replica


FLAT = Shape(500, (Clique("worker", 2),))
FLAT_LARGE = Shape(2500, (Clique("worker", 2),))
_MULTINODE = (Clique("leader", 1), Clique("worker", 3))
DISAGGREGATED = Shape(
    50,
    (Clique("frontend", 2),),
    (
        Group("prefill", 2, tuple(Clique(f"p{c.name}", c.pods) for c in _MULTINODE)),
        Group("decode", 2, tuple(Clique(f"d{c.name}", c.pods) for c in _MULTINODE)),
    ),
)
MANY = Shape(1, (Clique("worker", 2),), sets=500)


def pod_spec(image: str = IMAGE) -> Body:
    return {"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "1m"}}}]}


def set_names(shape: Shape) -> list[str]:
    return ["bench"] if shape.sets == 1 else [f"bench-{i}" for i in range(shape.sets)]


def pod_clique_set(name: str, shape: Shape, *, image: str = IMAGE, strategy: Body | None = None) -> Body:
    """The manifest a user would write."""
    members = {c.name for g in shape.groups for c in g.cliques}
    cliques = [*shape.cliques, *(c for g in shape.groups for c in g.cliques)]
    assert len(members) + len(shape.cliques) == len(cliques), "clique names are unique in a set"
    spec: Body = {
        "replicas": shape.replicas,
        "template": {
            "cliques": [_clique(c, image) for c in cliques],
            "podCliqueScalingGroups": [
                {"name": g.name, "cliqueNames": [c.name for c in g.cliques], "replicas": g.replicas, "minAvailable": 1}
                for g in shape.groups
            ],
        },
    }
    if strategy:
        spec["updateStrategy"] = strategy
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _clique(clique: Clique, image: str) -> Body:
    spec = {
        "roleName": clique.name,
        "replicas": clique.pods,
        "minAvailable": clique.pods,
        "podSpec": pod_spec(image),
    }
    return {"name": clique.name, "spec": spec}


def deployment(pods: int) -> Body:
    """The yardstick: as many pods as a Deployment."""
    labels = {"bench.grove.io/yardstick": "true"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "yardstick", "namespace": NAMESPACE},
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**pod_spec(), "terminationGracePeriodSeconds": 30}},
        },
    }
