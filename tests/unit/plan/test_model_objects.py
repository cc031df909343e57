"""The model's own part: owners take theirs along, pods terminate, guarded writes are refused, watermarks are kept."""

from __future__ import annotations

import pytest
from sample_sets import LATER, NOW, clique, group, pod_clique_set, running, spec, with_image

from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS, SERVICES
from grove.api.reasons import Reason
from grove.insight.forecast import Level, levels, run_to_rest
from grove.insight.model import Model
from grove.plan.actions import Apply, Patch, Why

WANTED = spec(1, cliques=[clique("a", 2), clique("b")], podCliqueScalingGroups=[group("g", ["b"], 2)])
WHY = Why(Reason.CHILD_CHANGED, "a test")


def test_what_is_deleted_takes_along_what_it_owns_and_pods_on_nodes_terminate_first() -> None:
    model = running(WANTED)
    model.objects.delete(SCALING_GROUPS, "web-0-g", LATER)
    assert list(model.objects.of(POD_CLIQUES)) == ["web-0-a"]
    leaving = sorted(name for name, pod in model.objects.of(PODS).items() if pod.metadata.terminating)
    assert leaving == ["web-0-g-0-b-0", "web-0-g-1-b-0"]
    assert {event.verb for event in model.pending()} == {"gone"}


def test_a_write_guarded_by_an_older_version_changes_nothing() -> None:
    model = running(WANTED)
    seen = model.objects.of(POD_CLIQUES)["web-0-a"]
    body = {"metadata": {"name": "web-0-a"}, "spec": {"replicas": 9}}
    assert not model.objects.carry_out(Apply(POD_CLIQUES, body, WHY, resource_version="0"), LATER)
    assert model.objects.of(POD_CLIQUES)["web-0-a"] == seen


def test_a_patch_whose_test_fails_is_refused() -> None:
    model = running(WANTED)
    operation = {"op": "test", "path": "/metadata/name", "value": "other"}
    with pytest.raises(ValueError, match="/metadata/name"):
        model.objects.carry_out(Patch(PODS, "ml", "web-0-a-0", (operation,), WHY), LATER)


def test_a_model_from_observed_objects_is_at_rest_where_the_cluster_was() -> None:
    seen = running(WANTED)
    resources = (CONTROLLER_REVISIONS, POD_CLIQUES, SCALING_GROUPS, POD_GANGS, PODS, SERVICES)
    model = Model.from_objects(
        seen.owner, [item for resource in resources for item in seen.objects.of(resource).values()]
    )
    assert model.settle(LATER) == []
    assert not model.pending()


def test_a_forecast_counts_levels_and_leaves_the_watcher_alone_afterwards() -> None:
    model = running(WANTED)
    assert levels(model) == {"web-0-a": Level(2, 2), "web-0-g": Level(2, 2), "web": Level(1, 1)}
    model.submit(with_image(WANTED, "v2", "a"))
    trace = run_to_rest(model, LATER)
    assert trace.lowest_available == {"web-0-a": 1, "web-0-g": 2, "web": 0}
    assert trace.highest_total == {"web-0-a": 2, "web-0-g": 2, "web": 1}
    assert model.watcher is None
    assert all(step.why for step in trace.steps if step.verb in ("create", "delete"))


def test_nothing_of_a_set_is_planned_before_its_template_is_on_record() -> None:
    model = Model.from_objects(pod_clique_set(WANTED))
    records = model.settle(NOW)
    assert records[0].kind == "ControllerRevision"
