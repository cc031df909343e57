"""Pods: the defaults that controllers look at, the fields that may change, gates, binding and eviction.

Left out: the volume with the service account's token that the real server adds, in-place resizing, ephemeral
containers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grove.testing.failures import Cause
from grove.testing.kinds import Resource
from grove.testing.objects import JsonObject, dig
from grove.testing.strategies import Strategy

GATED_REASON = "SchedulingGated"
_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_DEFAULT_GRACE = 30
_SPEC_DEFAULTS: JsonObject = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": _DEFAULT_GRACE,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "serviceAccountName": "default",
}
_CONTAINER_DEFAULTS: JsonObject = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_MUTABLE_FIELDS = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """`priority_of` resolves a priority class name to its value, or None where there is no such class."""

    def __init__(self, resource: Resource, priority_of: Callable[[str], int | None]) -> None:
        super().__init__(resource)
        self._priority_of = priority_of

    def prepared_for_create(self, obj: JsonObject) -> JsonObject:
        obj = self.defaulted(obj)
        class_name = obj["spec"].get("priorityClassName")
        if class_name:
            obj["spec"]["priority"] = self._priority_of(class_name) or 0
        obj["spec"]["tolerations"] = _with_usual_tolerations(obj["spec"].get("tolerations") or [])
        return {**obj, "status": _initial_status(obj)}

    def defaulted(self, obj: JsonObject) -> JsonObject:
        spec = {**_SPEC_DEFAULTS, **(obj.get("spec") or {})}
        for field in ("containers", "initContainers"):
            if spec.get(field):
                spec[field] = [_with_container_defaults(container) for container in spec[field]]
        return {**obj, "spec": spec}

    def violations(self, obj: JsonObject) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = []
        if not spec.get("containers"):
            causes.append(Cause("FieldValueRequired", "spec.containers", "Required value"))
        for field in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(field) or ()):
                causes.extend(
                    Cause("FieldValueRequired", f"spec.{field}[{index}].{name}", "Required value")
                    for name in ("name", "image")
                    if not container.get(name)
                )
        if spec.get("nodeName") and spec.get("schedulingGates"):
            message = "Forbidden: cannot be set until all schedulingGates have been cleared"
            causes.append(Cause("FieldValueForbidden", "spec.nodeName", message))
        class_name = spec.get("priorityClassName")
        if class_name and self._priority_of(class_name) is None:
            message = f"Forbidden: no PriorityClass with name {class_name} was found"
            causes.append(Cause("FieldValueForbidden", "spec.priorityClassName", message))
        return causes

    def update_violations(self, old: JsonObject, new: JsonObject) -> list[Cause]:
        before, after = old["spec"], new.get("spec") or {}
        if before == after:
            return []
        causes = _gate_violations(before, after)
        if _frozen_part(before, gated=_is_gated(before)) != _frozen_part(after, gated=_is_gated(before)):
            message = f"Forbidden: pod updates may not change fields other than {_MUTABLE_FIELDS}"
            causes.append(Cause("FieldValueForbidden", "spec", message))
        elif not _only_added(before, after):
            message = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
            causes.append(Cause("FieldValueForbidden", "spec.tolerations", message))
        return causes

    def grace_period(self, obj: JsonObject, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or dig(obj, "status", "phase") in ("Succeeded", "Failed"):
            return 0
        if requested is not None:
            return max(requested, 0)
        return int(obj["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))


def _with_usual_tolerations(tolerations: list[JsonObject]) -> list[JsonObject]:
    """Pods bear lost nodes for five minutes unless they say otherwise."""
    known = {toleration.get("key") for toleration in tolerations}
    if None in known or "" in known:
        return tolerations
    return tolerations + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if key not in known
    ]


def _with_container_defaults(container: JsonObject) -> JsonObject:
    filled = {**_CONTAINER_DEFAULTS, **container}
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    return filled


def _initial_status(pod: JsonObject) -> JsonObject:
    status: JsonObject = {"phase": "Pending", "qosClass": _quality_of_service(pod)}
    if _is_gated(pod["spec"]):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": GATED_REASON,
                "message": _GATED_MESSAGE,
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        ]
    return status


def _quality_of_service(pod: JsonObject) -> str:
    needs = [container.get("resources") or {} for container in pod["spec"].get("containers") or ()]
    if not any(need.get("requests") or need.get("limits") for need in needs):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (need.get("limits") or {}).keys()
        and (need.get("requests") or need["limits"]) == need["limits"]
        for need in needs
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _is_gated(spec: JsonObject) -> bool:
    return bool(spec.get("schedulingGates"))


def _gate_violations(before: JsonObject, after: JsonObject) -> list[Cause]:
    known = {gate["name"] for gate in before.get("schedulingGates") or ()}
    return [
        Cause(
            "FieldValueForbidden",
            f"spec.schedulingGates[{index}].name",
            f"Forbidden: only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(after.get("schedulingGates") or ())
        if gate["name"] not in known
    ]


def _frozen_part(spec: JsonObject, *, gated: bool) -> JsonObject:
    """What must stay equal. While a pod is gated its node selector and affinity may still be narrowed."""
    loose = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        loose |= {"nodeSelector", "affinity"}
    frozen: dict[str, Any] = {name: value for name, value in spec.items() if name not in loose}
    for field in ("containers", "initContainers"):
        if field in frozen:
            frozen[field] = [{**container, "image": ""} for container in frozen[field] or ()]
    return frozen


def _only_added(before: JsonObject, after: JsonObject) -> bool:
    return all(toleration in (after.get("tolerations") or ()) for toleration in before.get("tolerations") or ())


def with_condition(pod: JsonObject, condition: JsonObject, now: str) -> JsonObject:
    """The pod with one status condition set; the transition time moves only when the status does."""
    conditions = list(dig(pod, "status", "conditions") or ())
    index = next((i for i, known in enumerate(conditions) if known["type"] == condition["type"]), None)
    entry = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    if index is None:
        conditions.append(entry)
    else:
        if conditions[index]["status"] == condition["status"]:
            entry["lastTransitionTime"] = conditions[index].get("lastTransitionTime") or now
        conditions[index] = entry
    return {**pod, "status": {**(pod.get("status") or {}), "conditions": conditions}}
