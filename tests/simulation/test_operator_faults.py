"""A campaign over the whole operator: whatever breaks while people change their minds, it ends as if nothing had.

Each seed draws a small workload, a story and a mixture of faults; every fifth has two operators at once. The invariants
are watched at every change. At the end the outcome is that of a workload created like that in a calm world, and an
operator that starts anew (after every second story) finds nothing to write.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest
from operator_harness import Json, Simulation, is_leaving, is_ready
from operator_invariants import Invariants, Promises
from operator_outcome import Outcome, differences, expected, outcome, scales
from operator_stories import NAME, Story, Teller, drawn

from grove.apps import engine
from grove.config import OperatorConfiguration
from grove.config.model import PodGrouper
from grove.plan import budget
from grove.testing import simulate
from grove.testing.faults import Faults

CHUNK = 50

pytestmark = pytest.mark.campaign


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        count = metafunc.config.getoption("--seeds")
        chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


def _ready_floor(story: Story) -> Callable[[Mapping[str, Json]], str | None] | None:
    """Fewer ready pods than the strategy promises, while nothing but updates happens to a workload that was ready."""
    if story.disturbing or story.strategy.get("type") == "ReplicaRecreate":
        return None
    members = {name for g in story.groups for name in g["cliqueNames"]}
    floors = {}
    for part in story.cliques:
        if part["name"] not in members:
            wish = part.get("updateStrategy", {})
            replicas = part["spec"]["replicas"]
            allowed = budget.resolve(wish.get("maxUnavailable"), wish.get("maxSurge"), replicas)
            for index in range(story.document["spec"]["replicas"]):
                floors[f"{NAME}-{index}-{part['name']}"] = (replicas - allowed.max_unavailable, replicas)
    reached: set[str] = set()

    def check(pods: Mapping[str, Json]) -> str | None:
        for clique, (floor, full) in floors.items():
            ready = sum(is_ready(p) for n, p in pods.items() if n.rpartition("-")[0] == clique)
            if ready >= full:
                reached.add(clique)
            elif clique in reached and ready < floor:
                return f"{clique} has {ready} ready pods, {floor} are promised"
        return None

    return check


def _promises(story: Story, faults: Faults, operators: int) -> Promises:
    surge = {}
    for part in (*story.cliques, *story.groups):
        surge[part["name"]] = part.get("updateStrategy", {}).get("maxSurge", 0)
    return Promises(
        alone=operators == 1,
        turn=story.document["spec"]["template"]["terminationDelay"] == "4h",
        surge=surge,
        set_surge=story.strategy.get("rollingUpdate", {}).get("maxSurge", 0),
        ready_floor=_ready_floor(story),
        news=3.0 + 2 * (faults.watch_lag[1] + faults.latency[1]),
    )


@dataclass(frozen=True)
class End:
    """How a run ended."""

    story: Story
    outcome: Outcome
    scales: Mapping[str, int]
    time: float


async def _run(seed: int) -> End:
    rng = random.Random(seed)
    story = drawn(rng)
    faults = Faults.drawn(rng, strength=0.15, writes=60)
    operators = 2 if seed % 5 == 0 else 1
    # What is not needed is left out: thousands of runs pay for every watch.
    configuration = OperatorConfiguration(pod_grouper=PodGrouper(embedded=story.scheduler == "kai-scheduler"))
    sim = Simulation(seed=seed, webhooks=False, nodes=3, configuration=configuration)
    invariants = Invariants(sim, _promises(story, faults, operators))
    for number in range(operators):
        sim.start_operator(faults, seed * 2 + number)
    teller = Teller(sim, story, invariants)
    await teller.tell()
    faults.calm()
    # The pods of a lost node end when its object is gone for a while; nothing else takes as long.
    await sim.rest(45 if teller.lost else 12, within=4000)
    if not story.updates:
        invariants.check_ended_once()
    assert invariants.violations == [], invariants.violations
    end = End(story, outcome(sim), scales(sim), asyncio.get_running_loop().time())
    if seed % 2 == 0:
        await _start_anew(sim)
    return end


async def _start_anew(sim: Simulation) -> None:
    for operator in sim.operators:
        operator.crash()
    sim.server.log.clear()
    await asyncio.sleep(8)
    written = [f"{e.verb} {e.resource}/{e.subresource} {e.name}" for e in sim.writes()]
    assert written == [], f"a new operator writes {written}"


def _compare(end: End) -> None:
    if end.story.deleted:
        assert end.outcome == {}, f"left behind: {sorted(end.outcome)}"
        return
    for name, replicas in end.scales.items():
        allowed = (end.story.scaled.get(name), _template_replicas(end.story, name))
        assert replicas in allowed, f"{name} is scaled to {replicas}"
    calm = expected(end.story.document, end.scales)
    assert set(end.outcome) == set(calm), f"differ: {sorted(set(end.outcome) ^ set(calm))}"
    found = differences(end.outcome, calm)
    assert found == [], "; ".join(found)


def _template_replicas(story: Story, name: str) -> int:
    """The replicas that the template gives the clique or group of this full name."""
    parts = [part for part in (*story.cliques, *story.groups) if name.endswith(f"-{part['name']}")]
    part = max(parts, key=lambda part: len(part["name"]))
    found: int = part.get("spec", part)["replicas"]
    return found


def check(seed: int) -> None:
    """One seed, whole."""
    try:
        _compare(simulate(_run(seed), limit=20000))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.fixture
def _light(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Thousands of runs: few workers are enough for few keys, and garbage is collected between the runs only."""
    monkeypatch.setattr(engine, "WORKERS", 4)
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_light")
def test_whatever_breaks_the_end_is_the_same(chunk: range) -> None:
    for seed in chunk:
        check(seed)
        if seed % 5 == 0:
            gc.collect()


@pytest.mark.parametrize("seed", [26, 67, 180, 330, 505, 1031, 1824, 2256, 5615, 5950, 7760])
def test_seeds_that_once_failed(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", [3, 5, 10])
def test_the_same_seed_takes_the_same_steps(seed: int) -> None:
    first, second = (simulate(_run(seed), limit=20000) for _ in range(2))
    assert (first.time, first.outcome) == (second.time, second.outcome)


def test_a_leaving_pod_is_not_ready() -> None:
    """The helpers of this file count as the operator should."""
    pod: Json = {
        "metadata": {"deletionTimestamp": "x"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert is_leaving(pod)
    assert not is_ready(pod)
