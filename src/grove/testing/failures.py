"""The API server's refusals, as exceptions that render to the same Status objects the real server sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.testing.objects import JsonObject


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: the machine-readable reason, the path, and the sentence."""

    reason: str
    field: str
    message: str

    def sentence(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    def as_json(self) -> JsonObject:
        return {"reason": self.reason, "message": self.message, "field": self.field}


@dataclass
class ApiError(Exception):
    """A request that the server answers with an error status."""

    code: int
    reason: str
    message: str
    details: JsonObject = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> JsonObject:
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        return status


@dataclass(frozen=True, slots=True)
class Subject:
    """What a refusal is about, in the words of a Status: plural, group, name, and the kind for invalid objects."""

    plural: str
    group: str
    name: str
    kind: str = ""

    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self, *, kind: str | None = None, **more: Any) -> JsonObject:
        details: JsonObject = {"name": self.name, "kind": kind or self.plural}
        if self.group:
            details["group"] = self.group
        return {**details, **more}


def not_found(subject: Subject) -> ApiError:
    return ApiError(404, "NotFound", f'{subject.qualified()} "{subject.name}" not found', subject.details())


def path_not_found() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(subject: Subject) -> ApiError:
    message = f'{subject.qualified()} "{subject.name}" already exists'
    return ApiError(409, "AlreadyExists", message, subject.details())


def conflict(subject: Subject, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {subject.qualified()} "{subject.name}": {why}'
    return ApiError(409, "Conflict", message, subject.details())


def modified(subject: Subject) -> ApiError:
    return conflict(
        subject, "the object has been modified; please apply your changes to the latest version and try again"
    )


def precondition_failed(subject: Subject, field_name: str, wanted: str, found: str) -> ApiError:
    why = f"Precondition failed: {field_name} in precondition: {wanted}, {field_name} in object meta: {found}"
    return conflict(subject, why)


def apply_conflict(causes: Sequence[Cause]) -> ApiError:
    managers: dict[str, list[str]] = {}
    for cause in causes:
        managers.setdefault(cause.message.removeprefix("conflict with "), []).append(cause.field)
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines = [
            f"conflicts with {manager}:\n" + "\n".join(f"- {p}" for p in paths) for manager, paths in managers.items()
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, {"causes": [cause.as_json() for cause in causes]})


def invalid(subject: Subject, causes: Sequence[Cause]) -> ApiError:
    sentences = list(dict.fromkeys(cause.sentence() for cause in causes))
    listing = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    kind = f"{subject.kind}.{subject.group}" if subject.group else subject.kind
    details = subject.details(kind=subject.kind, causes=[cause.as_json() for cause in causes])
    return ApiError(422, "Invalid", f'{kind} "{subject.name}" is invalid: {listing}', details)


def forbidden(subject: Subject, why: str) -> ApiError:
    message = f'{subject.qualified()} "{subject.name}" is forbidden: {why}'
    if not subject.name:
        message = f"{subject.qualified()} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, subject.details())


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(given: str, accepted: Sequence[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message, {"causes": [{"message": given}]} if given else {})


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def too_many_requests(message: str, retry_after: int) -> ApiError:
    details = {"retryAfterSeconds": retry_after}
    return ApiError(429, "TooManyRequests", message, details, {"retry-after": str(retry_after)})
