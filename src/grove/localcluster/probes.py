"""Whether a component is up: one small HTTP request to its health address."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from functools import lru_cache

from grove.localcluster.components import Probe

_TIMEOUT = 2.0


def answers(probe: Probe) -> bool:
    """Whether the address answers 200 now. Proxies of the environment are not asked: everything is on this machine."""
    try:
        with _opener(probe.ca).open(probe.url, timeout=_TIMEOUT) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


@lru_cache
def _opener(ca: str | None) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if ca is not None:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
    return urllib.request.build_opener(*handlers)
