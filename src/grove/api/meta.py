"""The pieces all our kinds share: the struct base, conditions, errors we report, int-or-percent values."""

from __future__ import annotations

from typing import Annotated

import msgspec

from grove.api.schema import doc
from grove.runtime.objects import Condition, ObjectMeta, OwnerReference

__all__ = ["Condition", "IntOrPercent", "LastError", "Model", "ObjectMeta", "OwnerReference", "condition"]

IntOrPercent = int | str


class Model(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Base of every API struct: camelCase in JSON, keyword arguments in Python, defaults left out when encoded."""


class LastError(Model):
    """An error of the last incomplete pass over an object; a clean pass empties the list."""

    code: Annotated[str, doc("What kind of error, in one word.")]
    description: Annotated[str, doc("What happened.")]
    observed_at: Annotated[str, doc("When it was last seen.", format="date-time")]


def condition(conditions: list[Condition], kind: str) -> Condition | None:
    """The condition of this type, if it has been written."""
    return next((c for c in conditions if c.type == kind), None)
