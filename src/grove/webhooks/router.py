"""Which path is answered by which handler, for a TLS server or an API server in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from grove.webhooks import reviews
from grove.webhooks.handlers import Handlers, Surroundings
from grove.webhooks.mnnvl import MnnvlWebhooks
from grove.webhooks.reviews import Handler, Json

DEFAULT_SET = "/webhooks/default-podcliqueset"
VALIDATE_SET = "/webhooks/validate-podcliqueset"
VALIDATE_SCALE = "/webhooks/validate-scale"
VALIDATE_TOPOLOGY = "/webhooks/validate-clustertopology"
AUTHORIZE_TOPOLOGY = "/webhooks/authorize-clustertopology"
AUTHORIZE_MANAGED = "/webhooks/authorizer-webhook"
MNNVL_POD_CLIQUE = "/webhooks/mnnvl-podclique"
MNNVL_POD_GANG = "/webhooks/mnnvl-podgang"

_decode = msgspec.json.Decoder(dict).decode
_encode = msgspec.json.Encoder().encode


class Router:
    """Answers AdmissionReviews by path. Without `mnnvl` its two webhooks let everything pass as it is."""

    def __init__(self, surroundings: Surroundings, mnnvl: MnnvlWebhooks | None = None) -> None:
        handlers = Handlers(surroundings)
        self.handlers: Mapping[str, Handler] = {
            DEFAULT_SET: handlers.default_pod_clique_set,
            VALIDATE_SET: handlers.validate_pod_clique_set,
            VALIDATE_SCALE: handlers.validate_scale,
            VALIDATE_TOPOLOGY: handlers.validate_cluster_topology,
            AUTHORIZE_TOPOLOGY: handlers.authorize_cluster_topology,
            AUTHORIZE_MANAGED: handlers.authorize_managed,
            MNNVL_POD_CLIQUE: mnnvl.pod_clique if mnnvl else _pass,
            MNNVL_POD_GANG: mnnvl.pod_gang if mnnvl else _pass,
        }

    async def review(self, path: str, review: Json) -> Json:
        """The answered review; KeyError when nothing is served there, ValueError when it is no review."""
        return await self.handlers[path](review)

    def responder(self, path: str) -> Callable[[Json], Awaitable[Json]]:
        """The handler of a path without the envelope: a request in, a response out."""
        handler = self.handlers[path]

        async def respond(request: Json) -> Json:
            response: Json = (await handler({"request": request}))["response"]
            return response

        return respond

    async def answer(self, path: str, body: bytes) -> bytes:
        """The same on encoded reviews."""
        try:
            review: Json = _decode(body)
        except msgspec.DecodeError as error:
            raise ValueError(f"not an AdmissionReview: {error}") from error
        return _encode(await self.review(path, review))


async def _pass(review: Json) -> Json:
    reviews.request_of(review)
    return reviews.allowed(review)
