"""Small stories drawn from a seed: a workload, and what people and accidents do to it.

Every story ends in a state that depends on the last wishes alone: whatever was held back is let go at the end, so that
the outcome can be compared with a workload that was created like that in the first place.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_harness import NAMESPACE, Json, Simulation, clique, group, is_leaving, workload
from operator_invariants import Invariants

from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, SCALING_GROUPS, SERVICES
from grove.runtime import errors
from grove.runtime.resource import Resource

NAME = "w"
_IMAGES = ("app:1", "app:2", "app:3")
_CHILDREN: tuple[Resource[Any], ...] = (POD_CLIQUES, POD_GANGS, SERVICES, SCALING_GROUPS)


@dataclass
class Story:
    """A drawn workload and the last wishes of the people around it."""

    rng: random.Random
    document: Json
    disturbing: bool
    """Whether pods end for other reasons than updates."""
    deleted: bool = False
    updates: int = 0
    scaled: dict[str, int] = field(default_factory=dict)

    @property
    def cliques(self) -> list[Json]:
        found: list[Json] = self.document["spec"]["template"]["cliques"]
        return found

    @property
    def groups(self) -> list[Json]:
        found: list[Json] = self.document["spec"]["template"].get("podCliqueScalingGroups", [])
        return found

    @property
    def scheduler(self) -> str:
        found: str = self.cliques[0]["spec"]["podSpec"]["schedulerName"]
        return found

    @property
    def strategy(self) -> Json:
        found: Json = self.document["spec"].get("updateStrategy", {})
        return found


def drawn(rng: random.Random) -> Story:
    """A workload of a few pods."""
    strategy = rng.choice(
        (
            None,
            None,
            {"type": "ReplicaRecreate"},
            {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            {"type": "OnDelete"},
        )
    )
    inside = _component_strategy(rng) if strategy is None else None
    scheduler = "kai-scheduler" if rng.random() < 0.2 else "default-scheduler"
    replicas = rng.choice((1, 2, 3))
    more: Json = {"scheduler": scheduler}
    if inside:
        more["strategy"] = inside
    first = clique("a", replicas, rng.randint(1, replicas), **more)
    cliques, groups = [first], []
    shape = rng.randrange(4)
    if shape == 1:
        cliques.append(clique("x-a", 1, 1, scheduler=scheduler))
    elif shape >= 2:
        cliques.append(clique("b", rng.choice((1, 2)), 1, scheduler=scheduler))
        wish = {"updateStrategy": inside} if inside else {}
        groups.append(group("g", ["b"], rng.choice((1, 2)), 1, **wish))
    if shape == 3:
        cliques = cliques[1:]
    document = workload(
        NAME,
        rng.choice((1, 1, 2)),
        cliques,
        groups,
        terminationDelay=rng.choice(("4h", "4h", "45s")),
        cliqueStartupType="CliqueStartupTypeInOrder" if rng.random() < 0.1 else "CliqueStartupTypeAnyOrder",
    )
    if strategy:
        document["spec"]["updateStrategy"] = strategy
    return Story(rng, document, disturbing=rng.random() < 0.6)


def _component_strategy(rng: random.Random) -> Json | None:
    return rng.choice((None, None, {"maxUnavailable": 0, "maxSurge": 1}, {"maxUnavailable": 2, "maxSurge": 1}))


class Teller:
    """Lets a story happen."""

    def __init__(self, sim: Simulation, story: Story, invariants: Invariants) -> None:
        self.sim = sim
        self.story = story
        self._rng = story.rng
        self._invariants = invariants
        self.lost: list[str] = []

    async def tell(self) -> None:
        """Creates the workload and lets a few things happen to it; at the end nothing is held back."""
        await self.sim.people.create(copy.deepcopy(self.story.document))
        for _ in range(self._rng.randint(1, 3)):
            await asyncio.sleep(self._rng.choice((0.3, 3.0, 12.0)) * self._rng.random())
            try:
                await self._rng.choice(self._deeds())()
            except (errors.NotFound, errors.Conflict):
                continue  # it was just gone, or just changed
        for node in self.lost:
            self.sim.cluster.remove_node(node)
        if self.story.deleted:
            return
        if self.story.strategy.get("type") == "OnDelete":
            self.story.document["spec"]["updateStrategy"] = {"type": "RollingRecreate"}
            await self._change_set()

    def _deeds(self) -> Sequence[Callable[[], Awaitable[None]]]:
        calm = [self._update, self._update]
        wild = [
            self._scale_set,
            self._scale_clique,
            self._scale_group,
            self._delete_pod,
            self._delete_child,
            self._crash_pod,
            self._fail_pod,
            self._lose_node,
            self._switch_strategy,
            self._recreate,
            self._delete_set,
        ]
        return calm + wild if self.story.disturbing else calm

    async def _change_set(self) -> None:
        operations = [{"op": "replace", "path": "/spec", "value": copy.deepcopy(self.story.document["spec"])}]
        await self.sim.people.edit(POD_CLIQUE_SETS, NAME, *operations)

    async def _update(self) -> None:
        """A new image for one clique, or an older one again."""
        changed = self._rng.choice(self.story.cliques)["spec"]["podSpec"]["containers"][0]
        changed["image"] = self._rng.choice(_IMAGES)
        self.story.updates += 1
        await self._change_set()

    async def _scale_set(self) -> None:
        self.story.document["spec"]["replicas"] = self._rng.randint(0, 2)
        await self._change_set()

    async def _scale_clique(self) -> None:
        members = {name for g in self.story.groups for name in g["cliqueNames"]}
        standalone = [c for c in self.story.cliques if c["name"] not in members]
        if standalone:
            chosen = self._rng.choice(standalone)
            await self._scale(POD_CLIQUES, f"{NAME}-0-{chosen['name']}", chosen["spec"]["minAvailable"])

    async def _scale_group(self) -> None:
        for chosen in self.story.groups:
            await self._scale(SCALING_GROUPS, f"{NAME}-0-{chosen['name']}", chosen["minAvailable"])

    async def _scale(self, resource: Resource[Any], name: str, minimum: int) -> None:
        replicas = self._rng.randint(minimum, 3)
        await self.sim.people.scale(resource, name, replicas)
        self.story.scaled[name] = replicas

    def _any_pod(self) -> str | None:
        names = [name for name, pod in self.sim.pods().items() if not is_leaving(pod)]
        if not names:
            return None
        chosen = self._rng.choice(names)
        self._invariants.disturb(chosen)
        return chosen

    async def _delete_pod(self) -> None:
        name = self._any_pod()
        if name:
            await self.sim.people.delete_pod(name)

    async def _crash_pod(self) -> None:
        name = self._any_pod()
        if name and self.sim.pods()[name]["status"].get("phase") == "Running":
            self.sim.cluster.crash_pod(NAMESPACE, name)

    async def _fail_pod(self) -> None:
        name = self._any_pod()
        if name and self.sim.pods()[name]["status"].get("phase") == "Running":
            self.sim.cluster.fail_pod(NAMESPACE, name)

    async def _lose_node(self) -> None:
        nodes = sorted({pod["spec"].get("nodeName", "") for pod in self.sim.pods().values()} - {""} - set(self.lost))
        if nodes and not self.lost:
            for name, pod in self.sim.pods().items():
                if pod["spec"].get("nodeName") == nodes[0]:
                    self._invariants.disturb(name)
            self.sim.cluster.lose_node(nodes[0])
            self.lost.append(nodes[0])

    async def _delete_child(self) -> None:
        resource = self._rng.choice(_CHILDREN)
        names = sorted(self.sim.objects(resource))
        self._invariants.disturb_all()
        if names:
            await self.sim.people.delete(resource, self._rng.choice(names))

    async def _switch_strategy(self) -> None:
        kind = self._rng.choice(("RollingRecreate", "ReplicaRecreate", "OnDelete"))
        for part in (*self.story.cliques, *self.story.groups):
            part.pop("updateStrategy", None)
        self.story.document["spec"]["updateStrategy"] = {"type": kind}
        await self._change_set()

    async def _recreate(self) -> None:
        self._invariants.disturb_all()
        await self.sim.people.delete(POD_CLIQUE_SETS, NAME)
        if self._rng.random() < 0.5:
            await asyncio.sleep(self._rng.uniform(0, 3))
        await self.sim.people.create(copy.deepcopy(self.story.document))
        self.story.deleted = False

    async def _delete_set(self) -> None:
        if self._rng.random() < 0.3:
            self.story.deleted = True
            self._invariants.disturb_all()
            await self.sim.people.delete(POD_CLIQUE_SETS, NAME)
