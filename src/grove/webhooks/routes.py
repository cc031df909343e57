"""The webhooks as routes of the operator's TLS server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from grove.webhooks.router import Router


def routes(router: Router) -> list[web.RouteDef]:
    """One POST route for each webhook."""
    return [web.post(path, _handler(router, path)) for path in router.handlers]


def _handler(router: Router, path: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            body = await router.answer(path, await request.read())
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=body, content_type="application/json")

    return answer
