"""The kubelets of all nodes: they start bound pods, report them ready, restart what crashes and end what is deleted.

Everything is driven by changes in storage and by timers; a pod is looked at again when it changes. What a pod does is
decided by `PodBehaviour` values, so that a test can make one slow, crashing, or unwilling to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from grove.testing import podstatus
from grove.testing.capacity import PODS, is_over
from grove.testing.hands import Hands, Span
from grove.testing.objects import JsonObject, Key, dig, is_deleting, metadata, name_of, namespace_of, uid_of
from grove.testing.storage import Change, Stored, Table

WAITING_CONTAINER = "grove-initc"
"""The init container that waits for other pods: the pod starts when the cluster's predicate says so."""


@dataclass(frozen=True, slots=True)
class PodBehaviour:
    """How a pod lives: spans of seconds to draw from, and what goes wrong with it."""

    start: Span = (0.1, 1.0)
    ready: Span = (0.1, 2.0)
    terminate: Span = (0.1, 2.0)
    restart: Span = (1.0, 10.0)
    crash_loops: bool = False
    never_ready: bool = False
    never_ends: bool = False
    exit_code: int = 1


Behave = Callable[[JsonObject], PodBehaviour]
MayStart = Callable[[JsonObject], bool]


class Kubelet:
    """`behave` decides how each pod lives, `may_start` when the waiting init container is done."""

    def __init__(self, hands: Hands, behave: Behave, may_start: MayStart) -> None:
        self.behave = behave
        self.may_start = may_start
        self.silent: set[str] = set()
        self._hands = hands
        self._busy: dict[str, asyncio.TimerHandle] = {}
        self._waiting: dict[str, Key] = {}
        self._asking = False
        self._addresses = 0
        hands.state.storage.listeners.append(self._on_change)
        for stored in hands.pods.sorted():
            self.look(stored)

    def look(self, stored: Stored) -> None:
        """Takes the next step of a pod, unless one is under way."""
        pod = stored.obj
        uid, node = uid_of(pod), pod["spec"].get("nodeName")
        if not node or node in self.silent:
            return
        if is_deleting(pod):
            self._end(stored)
        elif uid not in self._busy and not is_over(pod):
            self._advance(stored)

    def look_at_waiting(self) -> None:
        """Asks again whether the pods held by their init container may start."""
        self._asking = False
        for uid, key in list(self._waiting.items()):
            stored = self._hands.pod(key, uid)
            if stored is None:
                del self._waiting[uid]
            else:
                self.look(stored)

    def crash(self, stored: Stored, exit_code: int) -> None:
        """The containers of a running pod exit; they are restarted after the usual back-off."""
        self._cancel(uid_of(stored.obj))
        self._report(stored, podstatus.crashed(stored.obj, self._hands.now(), exit_code))

    def _on_change(self, table: Table, change: Change) -> None:
        if table.group_resource != PODS:
            return
        if change.kind == "DELETED":
            self._cancel(uid_of(change.stored.obj))
            self._waiting.pop(uid_of(change.stored.obj), None)
        else:
            asyncio.get_running_loop().call_soon(self._look_at, change.stored)
        if self._waiting and not self._asking:
            self._asking = True
            asyncio.get_running_loop().call_soon(self.look_at_waiting)

    def _look_at(self, seen: Stored) -> None:
        current = self._hands.pod(seen.key, uid_of(seen.obj))
        if current is not None:
            self.look(current)

    def _advance(self, stored: Stored) -> None:
        pod, behaviour = stored.obj, self.behave(stored.obj)
        if not dig(pod, "status", "startTime"):
            self._after((0.0, 0.05), stored, self._initialize)
        elif dig(pod, "status", "phase") == "Pending":
            if self._held_back(pod):
                self._waiting[uid_of(pod)] = stored.key
            else:
                self._waiting.pop(uid_of(pod), None)
                self._after(behaviour.start, stored, podstatus.running)
        elif self._has_crashed(pod):
            self._after(behaviour.restart, stored, podstatus.running)
        elif behaviour.crash_loops:
            exit_code = behaviour.exit_code
            self._after(behaviour.ready, stored, lambda pod, now: podstatus.crashed(pod, now, exit_code))
        elif not podstatus.is_ready(pod) and not behaviour.never_ready:
            self._after(behaviour.ready, stored, podstatus.ready)

    def _held_back(self, pod: JsonObject) -> bool:
        waits = any(container["name"] == WAITING_CONTAINER for container in pod["spec"].get("initContainers") or ())
        return waits and not self.may_start(pod)

    @staticmethod
    def _has_crashed(pod: JsonObject) -> bool:
        return any(dig(status, "state", "waiting") for status in podstatus.container_statuses(pod))

    def _initialize(self, pod: JsonObject, now: str) -> JsonObject:
        self._addresses += 1
        address = f"10.{self._addresses >> 16 & 255}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        return podstatus.initializing(pod, now, address)

    def _after(self, span: Span, stored: Stored, step: Callable[[JsonObject, str], JsonObject]) -> None:
        uid, key = uid_of(stored.obj), stored.key

        def act() -> None:
            self._busy.pop(uid, None)
            current = self._hands.pod(key, uid)
            if current is None or is_deleting(current.obj) or current.obj["spec"]["nodeName"] in self.silent:
                return
            self._report(current, step(current.obj, self._hands.now()))

        self._busy[uid] = self._hands.later(span, act)

    def _report(self, stored: Stored, new: JsonObject) -> None:
        self._hands.write(self._hands.pods, stored, new, "kubelet")

    def _end(self, stored: Stored) -> None:
        """Removes a deleted pod after the time its containers take, at the latest when its grace is over."""
        pod, behaviour = stored.obj, self.behave(stored.obj)
        uid, key = uid_of(pod), (namespace_of(pod), name_of(pod))
        ending = f"end/{uid}"
        grace = float(metadata(pod).get("deletionGracePeriodSeconds") or 0)
        if behaviour.never_ends or ending in self._busy or grace == 0:
            return
        self._cancel(uid)

        def remove() -> None:
            self._busy.pop(ending, None)
            current = self._hands.pod(key, uid)
            if current is not None and current.obj["spec"]["nodeName"] not in self.silent:
                self._hands.delete_pod(current, grace=0)

        low, high = behaviour.terminate
        self._busy[ending] = self._hands.later((min(low, grace), min(high, grace)), remove)

    def _cancel(self, uid: str) -> None:
        timer = self._busy.pop(uid, None)
        if timer is not None:
            timer.cancel()
