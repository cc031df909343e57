"""AdmissionReview: taking one apart and answering it."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from grove.admission.authorization import Attempt, Decision
from grove.admission.findings import Verdict

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[Json]]

_encode = msgspec.json.Encoder().encode


def request_of(review: Json) -> Json:
    """The request of a review; ValueError when it is none."""
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise ValueError("not an AdmissionReview: request.uid is missing")
    return request


def attempt_of(request: Json) -> Attempt:
    """Who tries to write what."""
    after, before = request.get("object"), request.get("oldObject")
    return Attempt(
        user=str((request.get("userInfo") or {}).get("username") or ""),
        operation=request["operation"],
        resource=str((request.get("resource") or {}).get("resource") or ""),
        namespace=str(request.get("namespace") or ""),
        name=str(request.get("name") or ""),
        before=before if isinstance(before, dict) else None,
        after=after if isinstance(after, dict) else None,
    )


def answer(review: Json, response: Json) -> Json:
    """A review with the answer in it."""
    return {
        "apiVersion": review.get("apiVersion", "admission.k8s.io/v1"),
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], **response},
    }


def allowed(review: Json, warnings: Sequence[str] = ()) -> Json:
    return answer(review, {"allowed": True, **_warned(warnings)})


def patched(review: Json, operations: list[Json]) -> Json:
    """Allowed, with changes the API server makes to the object."""
    if not operations:
        return allowed(review)
    patch = base64.b64encode(_encode(operations)).decode("ascii")
    return answer(review, {"allowed": True, "patchType": "JSONPatch", "patch": patch})


def judged(review: Json, verdict: Verdict) -> Json:
    """The answer a verdict means."""
    if verdict.allowed:
        return allowed(review, verdict.warnings)
    causes = [{"field": e.path, "message": e.detail, "reason": e.reason.cause} for e in verdict.errors]
    status = {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": verdict.message,
        "details": {"causes": causes},
    }
    return answer(review, {"allowed": False, "status": status, **_warned(verdict.warnings)})


def decided(review: Json, decision: Decision) -> Json:
    """The answer a decision about permission means."""
    if decision.allowed:
        return allowed(review, [decision.warning] if decision.warning else ())
    status = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": decision.message}
    return answer(review, {"allowed": False, "status": status})


def _warned(warnings: Sequence[str]) -> Json:
    return {"warnings": list(warnings)} if warnings else {}
