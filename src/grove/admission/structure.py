"""Structure: where a document departs from its kind's schema. The API server says the same; offline it is said here."""

from __future__ import annotations

from typing import Any

from grove.admission.findings import FieldError, Reason, shown
from grove.api import crd
from grove.api.crd.conformance import Departure, Mismatch, mismatches

_REASONS = {
    Departure.TYPE: Reason.INVALID,
    Departure.REQUIRED: Reason.REQUIRED,
    Departure.UNKNOWN: Reason.FORBIDDEN,
    Departure.ENUM: Reason.UNSUPPORTED,
    Departure.BOUND: Reason.INVALID,
    Departure.DUPLICATE: Reason.DUPLICATE,
}


def check(document: Any, kind: str) -> list[FieldError]:
    """Every departure of a document from the schema of its kind."""
    return [_error(mismatch) for mismatch in mismatches(document, crd.schema(kind))]


def _error(mismatch: Mismatch) -> FieldError:
    return FieldError(mismatch.path, mismatch.message, shown(mismatch.value), "", _REASONS[mismatch.kind])
