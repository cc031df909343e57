"""Which reconcile the running code belongs to, carried by a context variable into every task it starts.

Logs take its id, the client counts its writes, metrics read both; nothing has to be passed along by hand.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class ReconcileScope:
    """One run of one reconcile."""

    controller: str
    key: str
    id: str
    writes: int = 0


CURRENT: ContextVar[ReconcileScope | None] = ContextVar("grove_reconcile", default=None)
