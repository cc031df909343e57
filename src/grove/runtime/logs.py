"""Structured logs on standard error, as JSON for machines or as text for people, each line with its reconcile's id.

Libraries that log through the standard library come out in the same form.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TextIO

import msgspec
import structlog

from grove.runtime.clock import Clock, SystemClock, rfc3339_micro
from grove.runtime.scope import CURRENT

LogFormat = Literal["json", "text"]
EventDict = MutableMapping[str, Any]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(
    log_format: LogFormat = "json", level: str = "info", *, stream: TextIO | None = None, clock: Clock | None = None
) -> None:
    """Sets up logging for the process."""
    if level not in _LEVELS:
        raise ValueError(f"unknown log level {level!r}; known are {', '.join(_LEVELS)}")
    output = stream or sys.stderr
    render: list[Any]
    if log_format == "json":
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_to_json)]
    else:
        render = [structlog.dev.ConsoleRenderer(colors=output.isatty())]
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _stamp(clock or SystemClock()),
        _in_reconcile,
    ]
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(output),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(max(_LEVELS[level], logging.WARNING))


class _ToStructlog(logging.Handler):
    """Hands standard-library records to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def _stamp(clock: Clock) -> Callable[[Any, str, EventDict], EventDict]:
    def add_time(_: Any, __: str, event: EventDict) -> EventDict:
        event["time"] = rfc3339_micro(clock.now())
        return event

    return add_time


def _in_reconcile(_: Any, __: str, event: EventDict) -> EventDict:
    scope = CURRENT.get()
    if scope is not None:
        event.setdefault("controller", scope.controller)
        event.setdefault("key", scope.key)
        event.setdefault("reconcile", scope.id)
    return event


def _to_json(event: EventDict, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
