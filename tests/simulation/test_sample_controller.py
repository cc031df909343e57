"""A campaign of faults over a small controller: however the world breaks, it ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from sample_controller import DEFINITION, GROUP, NOTEBOOKS, PAGES, NotebookController

from grove.runtime import requests
from grove.runtime.client import Client
from grove.testing import ApiServer, simulate
from grove.testing.faults import Faults, FaultyTransport
from grove.testing.process import supervise
from grove.testing.waiting import quiet, until

pytestmark = pytest.mark.campaign

State = dict[str, Any]


def _notebook(name: str, pages: int, text: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"pages": pages, "text": text}}


async def _story(client: Client, rng: random.Random) -> None:
    """What people do to their notebooks while the controller is under attack."""
    pause = (0.0, 4.0)

    async def change(name: str, **spec: Any) -> None:
        await asyncio.sleep(rng.uniform(*pause))
        await client.send(requests.merge_patch(NOTEBOOKS, "default", name, {"spec": spec}))

    async def page(name: str, text: str | None) -> None:
        """Somebody edits or deletes a page by hand, if it is there yet."""
        await asyncio.sleep(rng.uniform(*pause))
        if text is None:
            await client.delete(PAGES, "default", name)
        else:
            await client.send(requests.merge_patch(PAGES, "default", name, {"data": {"text": text}}))

    await client.send(requests.create(NOTEBOOKS, _notebook("alpha", 3, "one")))
    await client.send(requests.create(NOTEBOOKS, _notebook("beta", 2, "one")))
    await change("alpha", pages=5, text="two")
    await client.delete(NOTEBOOKS, "default", "beta")
    await asyncio.sleep(rng.uniform(*pause))
    await client.send(requests.create(NOTEBOOKS, _notebook("beta", 1, "three")))
    await _if_present(page("alpha-0", "scribble"))
    await _if_present(page("alpha-1", None))
    await change("alpha", pages=2)
    await change("beta", pages=3, text="four")


async def _if_present(step: Any) -> None:
    from grove.runtime.errors import NotFound

    try:
        await step
    except NotFound:
        return


def _state(server: ApiServer) -> State:
    """What matters of the end: specs, statuses, pages and whose they are, by name instead of by UID."""
    notebooks = server.objects(f"{GROUP}/v1", "Notebook")
    names = {notebook["metadata"]["uid"]: notebook["metadata"]["name"] for notebook in notebooks}
    return {
        "notebooks": {n["metadata"]["name"]: (n["spec"], n.get("status")) for n in notebooks},
        "pages": {
            page["metadata"]["name"]: (
                page["data"],
                [names.get(owner["uid"], "nobody") for owner in page["metadata"].get("ownerReferences", ())],
            )
            for page in server.objects("v1", "ConfigMap")
        },
    }


EXPECTED: State = {
    "notebooks": {
        "alpha": ({"pages": 2, "text": "two"}, {"pages": 2, "observedGeneration": 3}),
        "beta": ({"pages": 3, "text": "four"}, {"pages": 3, "observedGeneration": 2}),
    },
    "pages": {
        "alpha-0": ({"text": "two"}, ["alpha"]),
        "alpha-1": ({"text": "two"}, ["alpha"]),
        "beta-0": ({"text": "four"}, ["beta"]),
        "beta-1": ({"text": "four"}, ["beta"]),
        "beta-2": ({"text": "four"}, ["beta"]),
    },
}


async def _run(seed: int, faults: Faults, *, processes: int) -> State:
    rng = random.Random(seed)
    server = ApiServer(seed=seed)
    server.define(DEFINITION)

    async def program(transport: FaultyTransport) -> None:
        await NotebookController(transport, rng).run()

    running = [
        asyncio.create_task(supervise(program, FaultyTransport(server.transport(f"controller-{n}"), faults, rng)))
        for n in range(processes)
    ]
    await _story(Client(server.transport("people"), rng=rng), rng)
    faults.calm()
    await until(server, lambda: _state(server) == EXPECTED)
    await quiet(server, 30)
    for process in running:
        process.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return _state(server)


def test_without_faults_the_story_ends_as_expected() -> None:
    assert simulate(_run(0, Faults(), processes=1), limit=3600) == EXPECTED


def test_the_same_seed_takes_the_same_steps() -> None:
    def versions() -> list[str]:
        seen: list[str] = []

        async def run() -> None:
            await _run(7, Faults.drawn(random.Random(7)), processes=2)
            seen.append(str(asyncio.get_running_loop().time()))

        simulate(run(), limit=7200)
        return seen

    assert versions() == versions()


def test_whatever_breaks_the_end_is_the_same(seeds: range) -> None:
    """Every tenth seed has two controllers at once, as when a leader does not know that it lost its lease."""
    for seed in seeds:
        faults = Faults.drawn(random.Random(seed), strength=0.2)
        described = str(faults)
        try:
            end = simulate(_run(seed, faults, processes=2 if seed % 10 == 0 else 1), limit=7200)
        except Exception as error:
            raise AssertionError(f"seed {seed} did not come to rest under {described}") from error
        assert end == EXPECTED, f"seed {seed} under {described}"
