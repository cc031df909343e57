"""What can go wrong with a request, as a small hierarchy chosen by status code and reason, never by message text.

ApiError ── NotFound, AlreadyExists, Conflict, Gone, Invalid, BadRequest, Forbidden, Unauthorized, Throttled,
            ServerError   the server answered
         ── Unreachable   no usable answer; whether a write took effect is unknown
         ── Fenced        we refused to send a write because our leadership may be over
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from grove.runtime.objects import Status


@dataclass(frozen=True, slots=True)
class Cause:
    """One field-level reason; `type` is the machine-readable kind, such as FieldValueInvalid."""

    field: str
    message: str
    type: str


class ApiError(Exception):
    """A request that did not succeed."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after

    def has_cause(self, cause_type: str) -> bool:
        return any(cause.type == cause_type for cause in self.causes)


class BadRequest(ApiError):
    """The server could not read the request (400)."""


class Unauthorized(ApiError):
    """The credentials are missing or no longer valid (401)."""


class Forbidden(ApiError):
    """The credentials do not allow it, or admission refused it (403)."""


class NotFound(ApiError):
    """The object, or the whole resource, is not there (404)."""


class AlreadyExists(ApiError):
    """An object of that name is there already (409, reason AlreadyExists)."""


class Conflict(ApiError):
    """A precondition failed or another field manager owns the fields (409)."""


class Gone(ApiError):
    """The requested version or continue token is too old (410)."""


class Invalid(ApiError):
    """The object breaks the rules of its kind; `causes` name the fields (422)."""


class Throttled(ApiError):
    """Too many requests, or an eviction that a disruption budget refuses (429)."""


class ServerError(ApiError):
    """The server failed (5xx), or answered something that is not Kubernetes."""


class Unreachable(ApiError):
    """No usable answer arrived. A write may or may not have taken effect: look before writing again."""


class Fenced(ApiError):
    """The write was not sent because our lease may be lost."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
_STATUS = msgspec.json.Decoder(Status)
_EXCERPT = 200


def from_status(status: Status, *, code: int = 0, retry_after: float | None = None) -> ApiError:
    """The error that a Status object describes."""
    code = status.code or code
    if code == 409 and status.reason == "AlreadyExists":
        error: type[ApiError] = AlreadyExists
    elif code >= 500:
        error = ServerError
    else:
        error = _BY_CODE.get(code, ApiError)
    causes: tuple[Cause, ...] = ()
    if status.details is not None:
        causes = tuple(Cause(cause.field, cause.message, cause.reason) for cause in status.details.causes)
        if retry_after is None and status.details.retry_after_seconds:
            retry_after = float(status.details.retry_after_seconds)
    message = status.message or f"the API server answered {code}"
    return error(message, status=code, reason=status.reason, causes=causes, retry_after=retry_after)


def from_response(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error an unsuccessful answer stands for, also when its body is a proxy's page instead of a Status."""
    retry_after = retry_after_seconds(headers)
    try:
        status = _STATUS.decode(body)
    except msgspec.MsgspecError:
        status = Status()
    if status.kind == "Status":
        return from_status(status, code=code, retry_after=retry_after)
    excerpt = body[:_EXCERPT].decode("utf-8", "replace").strip()
    message = f"the API server answered {code} without a Status: {excerpt}" if excerpt else ""
    return from_status(Status(message=message, code=code), retry_after=retry_after)


def not_kubernetes(code: int, headers: Mapping[str, str], body: bytes, detail: str) -> ServerError:
    """A successful answer that cannot be read: a login page, a proxy, or an object that breaks the model."""
    content_type = headers.get("content-type", "no content type")
    excerpt = body[:_EXCERPT].decode("utf-8", "replace").strip()
    return ServerError(
        f"cannot read the answer ({code}, {content_type}): {detail}: {excerpt}", status=code, reason="UnreadableAnswer"
    )


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The Retry-After header when it counts seconds; API servers never send the date form."""
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None
