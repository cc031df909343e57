"""Revisions: what rolls a workload and what does not, and that history is recognised by content."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sample_sets import LATER, NOW, clique, group, pod_clique_set, running, spec, update, with_image

from grove.api.core import ControllerRevision
from grove.api.kinds import CONTROLLER_REVISIONS, PODS
from grove.api.pod_clique_set import PodCliqueSetSpec
from grove.plan import revision as revisions
from grove.plan.revision import Revision, of_template, recognised, record, stored

BASE = spec(2, cliques=[clique("a", 2), clique("b", 3)], podCliqueScalingGroups=[group("g", ["b"], 2)])


def edited(path: str, value: Any) -> PodCliqueSetSpec:
    """The base spec with one field of the template set; `path` by wire names and list positions."""
    body = msgspec.to_builtins(BASE)
    place = body
    *way, last = path.split(".")
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
    place[last] = value
    return msgspec.convert(body, PodCliqueSetSpec)


def hash_of(wanted: PodCliqueSetSpec) -> str:
    return of_template(wanted.template).hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 5),
        ("updateStrategy", {"type": "OnDelete", "paused": True}),
        ("template.cliques.0.spec.replicas", 7),
        ("template.cliques.0.spec.minAvailable", 1),
        ("template.cliques.0.updateStrategy", {"maxSurge": 1}),
        ("template.cliques.0.topologyConstraint", {"packDomain": "rack"}),
        ("template.topologyConstraint", {"packDomain": "zone"}),
        ("template.podCliqueScalingGroups.0.replicas", 4),
        ("template.terminationDelay", "1m"),
        ("template.headlessServiceConfig", {"publishNotReadyAddresses": False}),
    ],
)
def test_what_ends_up_in_no_pod_rolls_nothing(path: str, value: Any) -> None:
    assert hash_of(edited(path, value)) == hash_of(BASE)


def test_the_order_of_cliques_rolls_nothing() -> None:
    cliques = msgspec.to_builtins(BASE)["template"]["cliques"]
    assert hash_of(edited("template.cliques", cliques[::-1])) == hash_of(BASE)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("template.cliques.0.labels", {"team": "x"}),
        ("template.cliques.0.labels", {"team": ""}),
        ("template.cliques.0.annotations", {"note": "x"}),
        ("template.cliques.0.spec.podSpec.containers.0.image", "v2"),
        ("template.cliques.0.spec.podSpec.priorityClassName", "high"),
        ("template.cliques.0.spec.podSpec.nodeSelector", {"gpu": ""}),
        ("template.priorityClassName", "high"),
    ],
)
def test_what_ends_up_in_pods_is_a_new_revision(path: str, value: Any) -> None:
    assert hash_of(edited(path, value)) != hash_of(BASE)


def test_a_change_of_one_clique_leaves_the_templates_of_others_alone() -> None:
    before, after = of_template(BASE.template), of_template(with_image(BASE, "v2", "a").template)
    assert before.cliques["a"].hash != after.cliques["a"].hash
    assert before.cliques["b"].hash == after.cliques["b"].hash


@pytest.mark.parametrize("nothing", [None, "", [], {}])
def test_empty_and_null_fields_mean_the_same_as_absent_ones(nothing: Any) -> None:
    assert hash_of(edited("template.cliques.0.spec.podSpec.securityContext", nothing)) == hash_of(BASE)
    assert hash_of(edited("template.cliques.0.spec.podSpec.containers.0.resources", nothing)) == hash_of(BASE)


def test_an_empty_selector_is_not_an_absent_one() -> None:
    """It selects every namespace, an absent one only the pod's own."""

    def affinity(term: dict[str, Any]) -> PodCliqueSetSpec:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
        return edited("template.cliques.0.spec.podSpec.affinity", {"podAntiAffinity": required})

    assert hash_of(affinity({"namespaceSelector": {}})) != hash_of(affinity({}))
    assert hash_of(affinity({"namespaceSelector": None})) == hash_of(affinity({}))


def as_stored(revision: Revision) -> Revision:
    body = record(pod_clique_set(BASE), revision, 1)
    return stored(msgspec.convert(msgspec.to_builtins(body), ControllerRevision))


def test_a_record_gives_back_what_was_recorded() -> None:
    wanted = of_template(BASE.template)
    assert as_stored(wanted) == wanted


def test_another_hash_algorithm_recognises_stored_content_and_keeps_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = as_stored(of_template(BASE.template))
    monkeypatch.setattr(revisions, "ALGORITHM", "2")
    wanted = of_template(BASE.template)
    assert wanted.hash != kept.hash
    assert recognised(wanted, [kept]) == kept


def test_another_hash_algorithm_renames_only_the_cliques_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = as_stored(of_template(BASE.template))
    monkeypatch.setattr(revisions, "ALGORITHM", "2")
    found = recognised(of_template(with_image(BASE, "v2", "a").template), [kept])
    assert found.hash != kept.hash
    assert found.cliques["a"].hash != kept.cliques["a"].hash
    assert found.cliques["b"].hash == kept.cliques["b"].hash


def test_an_upgraded_operator_restarts_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    model = running(BASE)
    pods = {name: pod.metadata.uid for name, pod in model.objects.of(PODS).items()}
    monkeypatch.setattr(revisions, "ALGORITHM", "2")
    assert model.settle(LATER) == []
    assert {name: pod.metadata.uid for name, pod in model.objects.of(PODS).items()} == pods


def test_going_back_makes_the_old_record_the_latest_again() -> None:
    model = running(BASE)
    update(model, with_image(BASE, "v2"))
    update(model, BASE, LATER)
    records = {name: item.revision for name, item in model.objects.of(CONTROLLER_REVISIONS).items()}
    assert records == {f"web-{hash_of(BASE)}": 3, f"web-{hash_of(with_image(BASE, 'v2'))}": 2}


def test_history_is_bounded_and_never_forgets_what_runs() -> None:
    strategy = {"type": "RollingRecreate", "partition": 1}
    wanted = spec(2, strategy, cliques=[clique("a")])
    model = running(wanted)
    for number in range(15):
        update(model, with_image(wanted, f"v{number + 2}"), NOW)
    kept = model.objects.of(CONTROLLER_REVISIONS)
    assert len(kept) == model.settings.revision_history_limit + 1
    assert f"web-{hash_of(wanted)}" in kept, "replica 0 still runs the first revision"
