"""What admission finds: field errors in the words of Kubernetes, each with what to do about it, and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """How Kubernetes classes a field error; the value opens its text, `cause` is the word in a Status."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    UNSUPPORTED = "Unsupported value"

    @property
    def cause(self) -> str:
        return "FieldValue" + {"UNSUPPORTED": "NotSupported"}.get(self.name, self.name.capitalize())


_VALUELESS = (Reason.REQUIRED, Reason.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that must change before the object can be stored."""

    path: str
    message: str
    value: str = ""
    remedy: str = ""
    reason: Reason = Reason.INVALID

    @property
    def detail(self) -> str:
        """Everything but the path."""
        shown = "" if self.reason in _VALUELESS else f" {self.value}"
        head = f"{self.reason}:{shown}"
        said = f"{head}: {self.message}" if shown else f"{head} {self.message}"
        return f"{said} ({self.remedy})" if self.remedy else said

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}" if self.path else self.detail


@dataclass(frozen=True, slots=True)
class Verdict:
    """What admission says about one write."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.errors

    @property
    def message(self) -> str:
        return "; ".join(str(error) for error in self.errors)


ADMITTED = Verdict()


@dataclass(slots=True)
class Names:
    """Finds repetitions in one list of names."""

    seen: set[str] = field(default_factory=set)

    def repeated(self, name: str) -> bool:
        if name in self.seen:
            return True
        self.seen.add(name)
        return False


def shown(value: Any) -> str:
    """A value as it stands in a message; long ones are cut."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 120 else text[:117] + "..."


def invalid(path: str, value: Any, message: str, remedy: str = "") -> FieldError:
    return FieldError(path, message, shown(value), remedy)


def required(path: str, message: str, remedy: str = "") -> FieldError:
    return FieldError(path, message, "", remedy, Reason.REQUIRED)


def forbidden(path: str, message: str, remedy: str = "") -> FieldError:
    return FieldError(path, message, "", remedy, Reason.FORBIDDEN)


def duplicate(path: str, value: Any, message: str, remedy: str = "") -> FieldError:
    return FieldError(path, message, shown(value), remedy, Reason.DUPLICATE)


def unsupported(path: str, value: Any, allowed: Iterable[str]) -> FieldError:
    choices = ", ".join(f'"{choice}"' for choice in allowed)
    return FieldError(path, f"supported values: {choices}", shown(value), "", Reason.UNSUPPORTED)


def immutable(path: str, value: Any, remedy: str = "") -> FieldError:
    advice = remedy or "create a PodCliqueSet under another name and delete this one"
    return FieldError(path, "field is immutable", shown(value), advice)


def repetitions(path: str, values: Iterable[str], message: str) -> Iterator[FieldError]:
    """An error for every value that was in the list before."""
    names = Names()
    for index, value in enumerate(values):
        if names.repeated(value):
            yield duplicate(f"{path}[{index}]", value, message)
