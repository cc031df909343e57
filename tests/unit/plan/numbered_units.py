"""Numbered units that do what the rollout engine says, and a cluster that ends and starts them one by one.

Pods are replaced by deleting and creating; replicas of groups and sets are recreated in place, so that a replica taken
down keeps its index and comes back by itself. Both are driven by the same engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grove.plan.budget import Budget
from grove.plan.rollout import Goal, Step, Unit, next_step, outdated

PODS, GROUP_REPLICAS, SET_REPLICAS = "pods", "group replicas", "set replicas"
LEVELS = (PODS, GROUP_REPLICAS, SET_REPLICAS)
STARTING, AVAILABLE, BROKEN, LEAVING = "starting", "available", "broken", "leaving"


@dataclass
class NumberedUnits:
    """Units of one level. `opened` is the record of an open update, as statuses keep it."""

    replicas: int
    budget: Budget
    level: str = PODS
    target: int = 1
    paused: bool = False
    opened: bool = False
    revision: dict[int, int] = field(default_factory=dict)
    state: dict[int, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @classmethod
    def running(cls, replicas: int, unavailable: int, surge: int, level: str = PODS) -> NumberedUnits:
        """All at revision 1 and available."""
        indices = range(replicas)
        return cls(
            replicas,
            Budget(unavailable, surge),
            level,
            revision=dict.fromkeys(indices, 1),
            state=dict.fromkeys(indices, AVAILABLE),
        )

    @property
    def pods(self) -> bool:
        return self.level == PODS

    # What the engine sees.

    def units(self) -> list[Unit]:
        return [
            Unit(i, self.revision[i] == self.target, s == AVAILABLE, s != STARTING, leaving=s == LEAVING)
            for i, s in self.state.items()
        ]

    def goal(self) -> Goal:
        rolling = self.opened or outdated(self.units())
        return Goal(
            self.replicas,
            self.budget,
            rolling,
            self.paused,
            by_count=self.pods,
            independent=self.level == SET_REPLICAS,
            noun="unit",
        )

    def look(self) -> tuple[Goal, Step]:
        goal = self.goal()
        return goal, next_step(self.units(), goal)

    # What happens.

    def do(self, goal: Goal, step: Step) -> None:
        """Carries out a step and keeps the record."""
        for index in step.remove:
            self._end(index, "remove")
        for index in step.take_down:
            if self.pods:
                self._end(index, "take down")
            else:
                self.log.append(f"take down {index}")
                self.revision[index], self.state[index] = self.target, STARTING
        for verb, indices in (("create", step.create), ("surge", step.surge)):
            for index in indices:
                assert index not in self.state, f"index {index} was given out twice"
                self.log.append(f"{verb} {index}")
                self.revision[index], self.state[index] = self.target, STARTING
        self.opened = goal.rolling and not step.at_rest

    def _end(self, index: int, verb: str) -> None:
        self.log.append(f"{verb} {index}")
        self.state[index] = LEAVING

    def pending(self) -> list[int]:
        """Units with which something can happen by itself."""
        return sorted(i for i, s in self.state.items() if s in (STARTING, LEAVING, BROKEN))

    def happen(self, index: int) -> None:
        """A unit on its way out is gone; any other becomes available."""
        if self.state[index] == LEAVING:
            self.log.append(f"gone {index}")
            del self.state[index], self.revision[index]
        else:
            self.log.append(f"available {index}")
            self.state[index] = AVAILABLE

    # Counts.

    @property
    def available(self) -> int:
        return sum(s == AVAILABLE for s in self.state.values())

    @property
    def standing(self) -> int:
        return sum(s != LEAVING for s in self.state.values())

    @property
    def extra(self) -> int:
        return sum(s != LEAVING and i >= self.replicas for i, s in self.state.items())

    @property
    def floor(self) -> int:
        return self.replicas - self.budget.max_unavailable
