"""The verbs that only pods have: binding to a node, and eviction under disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grove.testing import failures, selectors
from grove.testing.deletion import DeleteOptions, Deletions
from grove.testing.objects import JsonObject, dig, is_deleting, labels_of, metadata, name_of, namespace_of
from grove.testing.pods import with_condition
from grove.testing.storage import Stored, Table

if TYPE_CHECKING:
    from grove.testing.state import State

PODS = ("", "pods")
_BUDGETS = ("policy", "poddisruptionbudgets")
SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def bound(pod: JsonObject, binding: JsonObject, now: str) -> JsonObject:
    """The pod on the node that a Binding names; refused while it is gated, elsewhere, or on its way out."""
    name = name_of(pod)
    why = ""
    if is_deleting(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise failures.conflict(failures.Subject("pods/binding", "", name), why)
    uid = metadata(binding).get("uid")
    if uid and uid != metadata(pod)["uid"]:
        raise failures.precondition_failed(failures.Subject("pods/binding", "", name), "UID", uid, metadata(pod)["uid"])
    placed = {**pod, "spec": {**pod["spec"], "nodeName": dig(binding, "target", "name")}}
    added = metadata(binding).get("annotations")
    if added:
        meta = metadata(pod)
        placed["metadata"] = {**meta, "annotations": {**meta.get("annotations", {}), **added}}
    return with_condition(placed, {"type": "PodScheduled", "status": "True"}, now)


class Evictions:
    """Deletes pods on behalf of others, as far as their disruption budgets allow."""

    def __init__(self, state: State, deletions: Deletions) -> None:
        self._state = state
        self._deletions = deletions

    def evict(self, table: Table, stored: Stored, options: DeleteOptions, *, dry_run: bool) -> JsonObject:
        if not _may_ignore_budgets(stored.obj):
            for budget in self._budgets_of(stored.obj):
                self._spend(budget, dry_run=dry_run)
        if not dry_run:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            marked = with_condition(stored.obj, condition, self._state.timestamp())
            marked["metadata"] = dict(metadata(marked))
            stored = self._state.storage.put(table, marked, stored.ownership)
            self._deletions.delete_stored(table, stored, options)
        return SUCCESS

    def _budgets_of(self, pod: JsonObject) -> list[Stored]:
        table = self._state.storage.table(_BUDGETS)
        return [
            budget
            for budget in table.sorted(namespace_of(pod))
            if selectors.matches_structured(dig(budget.obj, "spec", "selector"), dict(labels_of(pod)))
        ]

    def _spend(self, budget: Stored, *, dry_run: bool) -> None:
        allowed = dig(budget.obj, "status", "disruptionsAllowed") or 0
        if allowed <= 0:
            failure = failures.too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.", 10
            )
            name = name_of(budget.obj)
            message = f"The disruption budget {name} does not allow evicting pods currently because it has no headroom"
            failure.details["causes"] = [{"reason": "DisruptionBudget", "message": message}]
            raise failure
        if not dry_run:
            status = {**budget.obj["status"], "disruptionsAllowed": allowed - 1}
            obj = {**budget.obj, "status": status, "metadata": dict(metadata(budget.obj))}
            self._state.storage.put(self._state.storage.table(_BUDGETS), obj, budget.ownership)


def _may_ignore_budgets(pod: JsonObject) -> bool:
    return is_deleting(pod) or dig(pod, "status", "phase") in ("Succeeded", "Failed", "Pending")
