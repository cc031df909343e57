"""What must hold at every moment, checked on every change of the stored objects, from the server's point of view.

release     no pod of a gang can be scheduled before every pod the gang asks for has existed, and none of a scaled
            gang before the base gang was scheduled once
places      a pod's name, index and hostname are one; no index reaches beyond the replicas asked for and the surge
turn        an update takes down pods only in replicas that the status names
budget      while nothing but updates happens, as much stays ready as the budget promises
words       a condition's transition time never goes back; counters never contradict each other
once        a gang is ended no more often than it was broken
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from operator_harness import Json, Simulation, gates, is_leaving, is_ready

from grove.api import labels
from grove.plan.conditions import moment
from grove.testing.storage import Change, Table

_PODS = ("", "pods")
_SETS = ("grove.io", "podcliquesets")
_CLIQUES = ("grove.io", "podcliques")
_GROUPS = ("grove.io", "podcliquescalinggroups")
_GANGS = ("scheduler.grove.io", "podgangs")
_REPORTING = (_SETS, _CLIQUES, _GROUPS, _GANGS)


@dataclass
class Promises:
    """What holds only for some stories.

    `alone`: one operator acts. `turn`: pods go for no other reason than updates. The surge is by clique or group.
    `news`: seconds it takes for a fact to reach the operator and for its deeds to come back.
    """

    alone: bool = True
    turn: bool = True
    surge: Mapping[str, int] = field(default_factory=dict)
    set_surge: int = 0
    news: float = 2.0
    ready_floor: Callable[[Mapping[str, Json]], str | None] | None = None


class Invariants:
    """Collects violations of one simulation."""

    def __init__(self, sim: Simulation, promises: Promises) -> None:
        self.violations: list[str] = []
        self.promises = promises
        self.touched: set[str] = set()  # pods that people or accidents put an end to
        self.deletions = 0
        self._sim = sim
        self._tables = sim.server.storage
        self._made: dict[str, set[str]] = {}  # gang → pods that have existed since it was last empty
        self._disturbed: set[str] = set()
        self._excused = False
        self._placed: set[str] = set()  # gangs that had their minimum on nodes
        self._most: Counter[str] = Counter()  # object → the most replicas it was asked for
        self._breaches: Counter[str] = Counter()
        self._resets: Counter[str] = Counter()
        sim.server.storage.listeners.append(self._look)

    def disturb(self, pod: str) -> None:
        """People or accidents end this pod: the operator hears of it late, and may act on what it knew before."""
        self.touched.add(pod)
        found = self._object(_PODS, pod)
        if found is not None:
            self._disturbed.add(found["metadata"]["labels"].get(labels.POD_GANG, ""))

    def disturb_all(self) -> None:
        """People take away objects the operator relies on; what it does until it hears of that is excused."""
        self.touched.update(name for _, name in self._tables.table(_PODS).objects)
        self._excused = True

    def _object(self, table: tuple[str, str], name: str) -> Json | None:
        stored = self._tables.table(table).objects.get(("default", name))
        return stored.obj if stored is not None else None

    def _look(self, table: Table, change: Change) -> None:
        kind = table.group_resource
        new = change.stored.obj
        old = change.previous.obj if change.previous is not None else None
        if kind == _PODS:
            self._look_at_pod(change.kind, old, new)
        elif kind in _REPORTING and change.kind != "DELETED":
            name = new["metadata"]["name"]
            replicas = new.get("spec", {}).get("replicas", 0)
            self._most[name] = max(self._most[name], replicas)
            if old is not None and old.get("status") is not new.get("status"):
                self._look_at_words(old, new)
            if kind == _CLIQUES:
                self._look_at_counters(new)

    def _fail(self, rule: str, text: str) -> None:
        self.violations.append(f"{rule}: {text}")

    # Pods.

    def _look_at_pod(self, kind: str, old: Json | None, new: Json) -> None:
        marks = new["metadata"].get("labels") or {}
        gang = marks.get(labels.POD_GANG)
        if gang is None:
            return
        name = new["metadata"]["name"]
        if kind == "DELETED":
            self._forget(gang)
        elif kind == "ADDED":
            self._check_place(name, marks, new)
            self._made.setdefault(gang, set()).add(name)
        if kind != "DELETED" and not _ours(new) and (old is None or _ours(old)):
            self._check_release(name, gang, marks, new)
        if old is not None and new["spec"].get("nodeName") and not old["spec"].get("nodeName"):
            self._note_placed(gang)
        if kind == "MODIFIED" and old is not None and is_leaving(new) and not is_leaving(old):
            self.deletions += 1
            self._check_turn(name, marks, new)
        if self.promises.alone and self.promises.ready_floor is not None:
            broken = self.promises.ready_floor(self._sim.pods())
            if broken and old is not None and self._ready_for(old) > self.promises.news:
                self._fail("budget", broken)

    def _ready_for(self, pod: Json) -> float:
        """Seconds for which the operator may have known that this pod is ready."""
        since = [c["lastTransitionTime"] for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"]
        if not is_ready(pod) or not since:
            return -1.0
        return (self._sim.server.clock.now() - moment(since[0])).total_seconds()

    def _pods_of(self, gang: str) -> list[Json]:
        found = [stored.obj for stored in self._tables.table(_PODS).objects.values()]
        return [pod for pod in found if (pod["metadata"].get("labels") or {}).get(labels.POD_GANG) == gang]

    def _forget(self, gang: str) -> None:
        if gang not in self._disturbed and not self._pods_of(gang):
            self._made.pop(gang, None)

    def _check_place(self, name: str, marks: Mapping[str, str], pod: Json) -> None:
        clique, index = marks[labels.POD_CLIQUE], int(marks[labels.POD_INDEX])
        if name != f"{clique}-{index}" or pod["spec"]["hostname"] != name:
            self._fail("places", f"{name} has index {index} and hostname {pod['spec']['hostname']}")
        template = marks[labels.SHORT_CLIQUE]
        if index >= self._most[clique] + self.promises.surge.get(template, 0):
            self._fail("places", f"{name} beyond {self._most[clique]} replicas")
        set_name, replica = marks[labels.PART_OF], int(marks[labels.REPLICA_INDEX])
        if replica >= self._most[set_name] + self.promises.set_surge:
            self._fail("places", f"{name} beyond {self._most[set_name]} set replicas")
        group = marks.get(labels.SCALING_GROUP)
        if group is not None:
            position = int(marks[labels.SCALING_GROUP_REPLICA_INDEX])
            if position >= self._most[group] + self.promises.surge.get(marks[labels.SHORT_GROUP], 0):
                self._fail("places", f"{name} beyond {self._most[group]} group replicas")

    def _check_release(self, name: str, gang: str, marks: Mapping[str, str], pod: Json) -> None:
        base = marks.get(labels.BASE_POD_GANG)
        if base is not None and base not in self._placed:
            self._fail("release", f"{name} let go before base gang {base} was scheduled")
        if self._excused or not self.promises.alone or pod["spec"].get("schedulerName") == "kai-scheduler":
            return
        stored = self._object(_GANGS, gang)
        if stored is None:
            if gang not in self._disturbed:
                self._fail("release", f"{name} let go while gang {gang} is not stored")
            return
        made = self._made.get(gang, set())
        for group in stored["spec"]["podgroups"]:
            present = sum(pod_name.rpartition("-")[0] == group["name"] for pod_name in made)
            if present < group["minReplicas"]:
                self._fail("release", f"{name} let go with {present} of {group['minReplicas']} of {group['name']}")

    def _note_placed(self, gang: str) -> None:
        stored = self._object(_GANGS, gang)
        if stored is None or gang in self._placed:
            return
        placed = Counter(
            pod["metadata"]["labels"][labels.POD_CLIQUE] for pod in self._pods_of(gang) if pod["spec"].get("nodeName")
        )
        if all(placed[group["name"]] >= group["minReplicas"] for group in stored["spec"]["podgroups"]):
            self._placed.add(gang)

    def _check_turn(self, name: str, marks: Mapping[str, str], pod: Json) -> None:
        """A pod that goes because its template is old goes in a replica whose turn it is."""
        if (
            not self.promises.alone
            or not self.promises.turn
            or name in self.touched
            or pod["status"].get("phase") == "Failed"
        ):
            return
        clique = self._object(_CLIQUES, marks[labels.POD_CLIQUE])
        owner = self._object(_SETS, marks[labels.PART_OF])
        if clique is None or owner is None or is_leaving(clique) or is_leaving(owner):
            return
        replica = int(marks[labels.REPLICA_INDEX])
        if replica >= owner["spec"]["replicas"] or self._most[clique["metadata"]["name"]] > clique["spec"]["replicas"]:
            return
        if marks[labels.POD_TEMPLATE_HASH] == clique["metadata"]["labels"][labels.POD_TEMPLATE_HASH]:
            return
        progress = owner.get("status", {}).get("updateProgress") or {}
        selected = [r["replicaIndex"] for r in progress.get("updatingReplicas", ())]
        if replica not in selected:
            self._fail("turn", f"{name} is taken down while the update works on {selected}")

    # Statuses.

    def _look_at_words(self, old: Json, new: Json) -> None:
        name = f"{new['kind']} {new['metadata']['name']}"
        before = {c["type"]: c for c in (old.get("status") or {}).get("conditions", ())}
        for condition in (new.get("status") or {}).get("conditions", ()):
            previous = before.get(condition["type"])
            if previous is None:
                continue
            if self.promises.alone and condition["lastTransitionTime"] < previous["lastTransitionTime"]:
                self._fail("words", f"{name} {condition['type']} went back in time")
            if previous["status"] != condition["status"] and new["kind"] == "PodClique":
                self._count(condition, new)
        seen = (old.get("status") or {}).get("observedGeneration", 0)
        if self.promises.alone and (new.get("status") or {}).get("observedGeneration", 0) < seen:
            self._fail("words", f"{name} forgot a generation it had observed")

    def _count(self, condition: Json, clique: Json) -> None:
        if condition["type"] == "MinAvailableBreached" and condition["status"] == "True":
            self._breaches[clique["metadata"]["labels"][labels.REPLICA_INDEX]] += 1
        if condition["type"] == "HasRun" and condition["status"] == "False":
            self._resets[clique["metadata"]["name"]] += 1

    def _look_at_counters(self, clique: Json) -> None:
        status = clique.get("status") or {}
        most = status.get("replicas", 0)
        for counter in ("readyReplicas", "scheduledReplicas", "updatedReplicas", "scheduleGatedReplicas"):
            if status.get(counter, 0) > most:
                self._fail("words", f"{clique['metadata']['name']} counts {counter} {status[counter]} of {most}")

    def check_ended_once(self) -> None:
        """For stories without updates: every reset of a clique answers a breach in its replica."""
        for name, count in self._resets.items():
            clique = self._object(_CLIQUES, name)
            if clique is None:
                continue
            breaches = self._breaches[clique["metadata"]["labels"][labels.REPLICA_INDEX]]
            if self.promises.alone and count > breaches:
                self._fail("once", f"{name} was ended {count} times after {breaches} breaches")


def _ours(pod: Json) -> bool:
    return labels.GATE in gates(pod)
