"""Previews: the operator's own steps, the extremes on the way, the GPUs a surge needs, and what may hold it up."""

from __future__ import annotations

from typing import Any

import msgspec
from insight_samples import clique, grown, nodes, pod_clique_set, snapshot

from grove.api import kinds
from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.kinds import PodDetail
from grove.insight.preview import Preview, preview


def asked(
    owner: PodCliqueSet, image: str = "new", *, size: int = 16, waiting: tuple[PodDetail, ...] = (), **spec: Any
) -> Preview:
    model = grown(owner)
    found = snapshot(model, nodes(size), other_pods=waiting)
    document = msgspec.to_builtins(model.owner)
    for one in document["spec"]["template"]["cliques"]:
        if image:
            one["spec"]["podSpec"]["containers"][0]["image"] = image
    document["spec"].update(spec)
    resources = [r for r in vars(kinds).values() if hasattr(r, "plural")]
    objects = [item for r in resources for item in model.objects.of(r).values()]
    return preview(found, model.owner, msgspec.convert(document, PodCliqueSet), objects)


def moves(answer: Preview) -> list[list[str]]:
    return [[f"{m.verb} {m.name}" for m in step.moves] for step in answer.steps]


def test_pods_go_and_come_one_by_one_in_order() -> None:
    answer = asked(pod_clique_set(clique("worker", 2, gpus=8, minimum=1)))

    assert moves(answer) == [
        ["delete demo-0-worker-0"],
        ["create demo-0-worker-0"],
        ["delete demo-0-worker-1"],
        ["create demo-0-worker-1"],
    ]
    assert answer.lowest_available["demo-0-worker"] == 1
    assert answer.highest_total["demo-0-worker"] == 2
    assert answer.restarts == {"TemplateChanged": 2}
    assert answer.completes
    assert answer.blockers == ()


def test_surge_needs_gpus_beyond_those_in_use() -> None:
    surging = {**clique("worker", 2, gpus=8, minimum=1), "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}}
    answer = asked(pod_clique_set(surging))

    assert moves(answer)[0] == ["create demo-0-worker-2"]
    assert answer.lowest_available["demo-0-worker"] == 2
    assert (answer.gpus_now, answer.gpus_peak, answer.extra_gpus) == (16, 24, 8)


def test_a_surge_without_room_is_named_before_it_blocks() -> None:
    surging = {**clique("worker", 2, gpus=8, minimum=1), "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}}
    answer = asked(pod_clique_set(surging), size=2)

    assert answer.blockers == ("WaitingForSurge: 8 GPUs more are needed on the way, 0 are free",)


def test_a_larger_pod_that_fits_nowhere_is_named() -> None:
    owner = pod_clique_set(clique("worker", 2, gpus=8, minimum=2))
    grown_cliques = [clique("worker", 2, gpus=16, minimum=2)]
    answer = asked(owner, "", template={"cliques": grown_cliques})

    assert any("gang demo-0 would not fit" in b for b in answer.blockers)


def test_pending_pods_of_others_that_could_take_freed_room_are_named() -> None:
    rival = msgspec.convert(
        {"metadata": {"name": "p", "namespace": "others"}, "spec": {}, "status": {"phase": "Pending"}}, PodDetail
    )
    bound_elsewhere = msgspec.convert(
        {
            "metadata": {"name": "q", "namespace": "others"},
            "spec": {"nodeSelector": {"example.com/rack": "rack-9"}},
            "status": {"phase": "Pending"},
        },
        PodDetail,
    )
    owner = pod_clique_set(clique("worker", 2, gpus=8, minimum=1))

    assert asked(owner, waiting=(bound_elsewhere,)).blockers == ()
    assert asked(owner, waiting=(rival,)).blockers == (
        "WaitingForAvailability: 1 pending pod of others/p may take room that is freed on the way",
    )


def test_nothing_rolls_when_no_pod_changes() -> None:
    answer = asked(pod_clique_set(clique("worker", 2)), image="")

    assert answer.before == answer.after
    assert answer.steps == ()
    assert answer.changes == ()


def test_a_paused_update_does_not_end() -> None:
    answer = asked(pod_clique_set(clique("worker", 2)), updateStrategy={"type": "RollingRecreate", "paused": True})

    assert not answer.completes
    assert answer.blockers[0].startswith("UpdatePaused")
    assert answer.steps == ()
