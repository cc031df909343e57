"""The controller of PodCliqueSets: observe a key, plan, apply, and look again when something that matters changed.

Two kinds of keys share one queue. A replica key brings one replica to what is asked for and remembers what it amounts
to; a set key counts those up, moves the update on, and writes the set's status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, SCALING_GROUPS
from grove.api.meta import LastError
from grove.api.pod_clique_set import PodCliqueSet
from grove.controllers.apply import Applier, Failure, same_status
from grove.controllers.keys import Key
from grove.controllers.observe import Observer
from grove.controllers.pacing import Pacer
from grove.controllers.stores import Stores
from grove.controllers.wakeups import Wakeups
from grove.plan.actions import Notice, Plan, StatusWrite
from grove.plan.conditions import timestamp
from grove.plan.orphans import plan_orphans
from grove.plan.pod_clique_set import plan_set
from grove.plan.replica import plan_replica
from grove.plan.settings import Settings
from grove.plan.turn import selected_replicas
from grove.plan.worlds import ReplicaSummary
from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.clock import Clock
from grove.runtime.objects import HasMetadata, ObjectReference
from grove.runtime.queue import Priority, WorkQueue
from grove.runtime.recorder import Recorder
from grove.runtime.resource import Resource
from grove.runtime.worker import DONE, RequeueAfter, Result

# Counting up costs as much as there are replicas, so the larger the set, the longer a burst of changes is collected.
COUNT_AFTER, COUNT_AFTER_PER_REPLICA = 0.1, 0.0005
LOOK_AFTER = 0.05
ERROR_CODE = "ERR_WRITE_REFUSED"
_REPORTING: tuple[Resource[Any], ...] = (POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS, POD_GANGS)


class WorkloadController:
    """Reconciles PodCliqueSets and their replicas."""

    def __init__(
        self, client: Client, stores: Stores, settings: Settings, clock: Clock, recorder: Recorder | None = None
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(fairness=lambda key: key.namespace)
        self._stores = stores
        self._clock = clock
        self._recorder = recorder
        self._observer = Observer(stores, settings)
        self._applier = Applier(client, stores)
        self._pacer = Pacer()
        self._summaries: dict[Key, dict[int, ReplicaSummary]] = {}
        self._errors: dict[Key, tuple[LastError, ...]] = {}
        for resource in _REPORTING:
            stores[resource].subscribe(self._object_gone)
        Wakeups(stores, self._observer, self._wake, self._wake_soon)

    def _wake(self, key: Key) -> None:
        urgent = key.index is None or self._awaited(key)
        self.queue.add(key, Priority.HIGH if urgent else Priority.NORMAL)

    def _wake_soon(self, key: Key) -> None:
        if self._awaited(key):
            self._wake(key)
        else:
            self.queue.add_after(key, LOOK_AFTER)

    async def reconcile(self, key: Key) -> Result:
        owner = self._observer.owner(key)
        if owner is None:
            self._forget(key)
            plan = plan_orphans(self._observer.leftovers(key), pods_left=self._observer.has_pods(key))
            return await self._finish(Plan(), await self._applier.run(plan))
        if owner.metadata.terminating:
            # Somebody's finalizer holds the set; nothing is made or removed meanwhile.
            return DONE
        if key.index is None:
            return await self._reconcile_set(key, owner)
        return await self._reconcile_replica(key, owner)

    async def _reconcile_replica(self, key: Key, owner: PodCliqueSet) -> Result:
        world = self._observer.replica(key, owner, self._errors.get(key, ()), self._pacer.unwritten)
        if world is None:
            # Known from before the template on record, or from before a set of the same name: looked at again with it.
            self._summaries.get(key.owner, {}).pop(key.index or 0, None)
            self.queue.add(key.owner, Priority.HIGH)
            return DONE
        plan, summary = plan_replica(world, self._clock.now())
        self._attempt(action for stage in plan.stages for action in stage if isinstance(action, StatusWrite))
        failures = await self._applier.run(plan)
        self._announce(owner, plan.notices)
        if self._note_errors(key, failures):
            # What went wrong belongs in the status of this pass.
            world = self._observer.replica(key, owner, self._errors.get(key, ()), self._pacer.unwritten) or world
            replanned, summary = plan_replica(world, self._clock.now())
            plan = Plan(statuses=replanned.statuses, waits=replanned.waits)
        self._remember(key, summary)
        return await self._finish(plan, failures)

    async def _reconcile_set(self, key: Key, owner: PodCliqueSet) -> Result:
        world = self._observer.whole(owner, self._known_replicas(key, owner), self._errors.get(key, ()))
        plan = plan_set(world, self._clock.now())
        failures = await self._applier.run(plan)
        if self._note_errors(key, failures):
            world = self._observer.whole(owner, self._known_replicas(key, owner), self._errors.get(key, ()))
            replanned = plan_set(world, self._clock.now())
            plan = Plan(statuses=replanned.statuses, waits=replanned.waits, notices=plan.notices)
        result = await self._finish(plan, failures)
        if result is DONE or isinstance(result, RequeueAfter):
            self._announce(owner, plan.notices)
        return result

    async def _finish(self, plan: Plan, failures: Sequence[Failure]) -> Result:
        """Writes the statuses that are due, then says when to look again."""
        later = [] if plan.wake_after is None else [plan.wake_after]
        due: dict[str, StatusWrite] = {}
        for write in plan.statuses:
            seen = self._stores[write.resource].get(f"{write.namespace}/{write.name}")
            delay = self._delay(write, seen)
            if seen is None or delay is None:
                continue
            if delay > 0:
                later.append(delay)
            else:
                due[seen.metadata.uid] = write
        self._attempt(due.values())
        failures = [*failures, *(await self._applier.write(list(due.values())) if due else ())]
        if failures:
            raise _retry(failures)
        for uid in due:
            self._pacer.forget(uid)
        return RequeueAfter(min(later)) if later else DONE

    def _delay(self, write: StatusWrite, seen: Any) -> float | None:
        """Seconds until this status is to be written; None when the object is gone or says it already."""
        if seen is None:
            return None
        if same_status(write.status, seen.status):
            self._pacer.forget(seen.metadata.uid)
            return None
        return self._pacer.delay(seen.metadata.uid, write)

    def _attempt(self, writes: Iterable[StatusWrite]) -> None:
        """Facts in these statuses are kept in mind until they are known to be written: an answer may get lost."""
        for write in writes:
            seen = self._stores[write.resource].get(f"{write.namespace}/{write.name}")
            if seen is not None:
                self._pacer.attempt(seen.metadata.uid, write.status)

    def _object_gone(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        if old is not None and new is None:
            self._pacer.forget(old.metadata.uid)

    # Memory of earlier passes: what replicas amount to, and what went wrong.

    def _remember(self, key: Key, summary: ReplicaSummary) -> None:
        known = self._summaries.setdefault(key.owner, {})
        assert key.index is not None
        if known.get(key.index) == summary:
            return
        if summary.exists or summary.index < self._wanted(key):
            known[key.index] = summary
        else:
            known.pop(key.index, None)
        if summary.at_rest and self._awaited(key):
            self.queue.add(key.owner, Priority.HIGH)  # its turn may be over
        else:
            collect = max(COUNT_AFTER, COUNT_AFTER_PER_REPLICA * len(known))
            self.queue.add_after(key.owner, collect, Priority.HIGH)

    def _awaited(self, key: Key) -> bool:
        """Whether the update waits for this replica."""
        owner = self._observer.owner(key)
        return owner is not None and key.index in selected_replicas(owner)

    def _wanted(self, key: Key) -> int:
        owner = self._observer.owner(key)
        return owner.spec.replicas if owner else 0

    def _known_replicas(self, key: Key, owner: PodCliqueSet) -> dict[int, ReplicaSummary] | None:
        known = self._summaries.get(key.owner, {})
        if any(index not in known for index in range(owner.spec.replicas)):
            return None
        # In the order of their indices, so that two processes tell the same story of the same replicas.
        return dict(sorted(known.items()))

    def _note_errors(self, key: Key, failures: Sequence[Failure]) -> bool:
        """Keeps what was refused; says whether that changed. An error seen before keeps its time."""
        before = {error.description: error for error in self._errors.get(key, ())}
        now = timestamp(self._clock.now())
        lasting = [str(f) for f in failures if not f.stale]
        after = tuple(
            before.get(text) or LastError(code=ERROR_CODE, description=text, observed_at=now)
            for text in dict.fromkeys(lasting)
        )
        if failures and not lasting:
            return False
        if after == self._errors.get(key, ()):
            return False
        if after:
            self._errors[key] = after
        else:
            self._errors.pop(key, None)
        return True

    def _forget(self, key: Key) -> None:
        self._summaries.pop(key.owner, None)
        self._errors.pop(key, None)
        self._observer.forget(key)

    def _announce(self, owner: PodCliqueSet, notices: Sequence[Notice]) -> None:
        if self._recorder is None:
            return
        reference = ObjectReference(
            api_version=POD_CLIQUE_SETS.api_version,
            kind=POD_CLIQUE_SETS.kind,
            namespace=owner.metadata.namespace,
            name=owner.metadata.name,
            uid=owner.metadata.uid,
        )
        for notice in notices:
            self._recorder.event(
                reference, notice.why.reason, notice.why.message, type_="Warning" if notice.warning else "Normal"
            )


def _retry(failures: Sequence[Failure]) -> errors.ApiError:
    """The failure that decides how soon to try again: a refusal rather than a stale cache."""
    return next((f.error for f in failures if not f.stale), failures[0].error)
