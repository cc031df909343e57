"""Liveness and readiness: named checks, each a cheap question about the present, answered as one page.

Alive means restarting would not help. Ready means this process can do its work: caches complete, certificate loaded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

Check = Callable[[], bool]


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def live_when(self, name: str, check: Check) -> None:
        self._live[name] = check

    def ready_when(self, name: str, check: Check) -> None:
        self._ready[name] = check

    def live(self) -> tuple[bool, str]:
        return _judge(self._live)

    def ready(self) -> tuple[bool, str]:
        return _judge({**self._live, **self._ready})

    def routes(self) -> list[web.RouteDef]:
        live, ready = _page(self.live), _page(self.ready)
        return [web.get("/healthz", live), web.get("/livez", live), web.get("/readyz", ready)]


def _judge(checks: dict[str, Check]) -> tuple[bool, str]:
    """Whether all checks hold, and a line for each. A check that raises does not hold."""
    lines = []
    good = True
    for name, check in checks.items():
        try:
            holds = check()
            detail = "ok" if holds else "failed"
        except Exception as error:
            holds, detail = False, f"failed: {error!r}"
        good = good and holds
        lines.append(f"[{'+' if holds else '-'}] {name}: {detail}")
    lines.append("ok" if good else "not ok")
    return good, "\n".join(lines) + "\n"


def _page(judge: Callable[[], tuple[bool, str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        good, text = judge()
        return web.Response(status=200 if good else 503, text=text)

    return answer
