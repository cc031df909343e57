"""The same server over real HTTP on the loopback interface, for clients that need sockets.

Every caller is the same identity unless the request carries `Authorization: Bearer <user name>`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
from aiohttp import web

from grove.runtime.transport import HttpRequest, HttpResponse
from grove.testing.apiserver import ApiServer
from grove.testing.failures import ApiError
from grove.testing.requests import Identity


@asynccontextmanager
async def serve(server: ApiServer, port: int = 0) -> AsyncIterator[str]:
    """Serves on 127.0.0.1 and gives the base URL; a free port is taken unless one is named."""
    application = web.Application(client_max_size=32 * 2**20)
    front = _Front(server)
    application.router.add_route("*", "/{path:.*}", front.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        server.drop_watches()
        await runner.cleanup()


class _Front:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def answer(self, request: web.Request) -> web.StreamResponse:
        http = HttpRequest(
            method=request.method,
            path=request.path,
            query=tuple(request.query.items()),
            headers=dict(request.headers),
            body=await request.read() or None,
        )
        identity = Identity()
        token = request.headers.get("Authorization", "")
        if token.startswith("Bearer "):
            identity = replace(identity, user=token.removeprefix("Bearer "))
        if request.method == "GET" and request.query.get("watch") in ("true", "1"):
            return await self._watch(request, http, identity)
        return _plain(await self._server.handle(http, identity))

    async def _watch(self, request: web.Request, http: HttpRequest, identity: Identity) -> web.StreamResponse:
        try:
            watch = self._server.open_watch(http, identity)
        except ApiError as failure:
            body = msgspec.json.encode(failure.status())
            return _plain(HttpResponse(failure.code, {"content-type": "application/json"}, body))
        response = web.StreamResponse(headers={"content-type": "application/json"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            async for chunk in watch.chunks():
                await response.write(chunk)
            await response.write_eof()
        except ConnectionResetError:
            pass
        finally:
            self._server.close_watch(watch)
        return response


def _plain(answer: HttpResponse) -> web.Response:
    return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)
