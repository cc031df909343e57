"""History and undo: field by field what changed, and a patch that gives back exactly an older revision."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from insight_samples import NOW, clique, grown, nodes, pod_clique_set, snapshot

from grove.api.pod_clique_set import PodCliqueSet
from grove.insight import history
from grove.insight.forecast import run_to_rest
from grove.insight.history import RESTARTED_AT
from grove.insight.model import Model
from grove.plan import revision as revisions


def updated(model: Model, change: Any) -> None:
    document = msgspec.to_builtins(model.owner.spec)
    change(document)
    model.submit(msgspec.convert(document, type(model.owner.spec)))
    run_to_rest(model, NOW)


def set_image(image: str) -> Any:
    def change(spec: dict[str, Any]) -> None:
        spec["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = image

    return change


def patched(owner: PodCliqueSet, operations: list[dict[str, Any]]) -> PodCliqueSet:
    """What the API server makes of the patch."""
    document = copy.deepcopy(msgspec.to_builtins(owner))
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        at = document
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if operation["op"] == "test":
            assert at[last] == operation["value"]
        else:
            at[last] = operation["value"]
    return msgspec.convert(document, PodCliqueSet)


def test_each_revision_tells_what_changed_from_the_one_before() -> None:
    model = grown(pod_clique_set(clique("worker"), clique("router")))
    updated(model, set_image("worker:2"))
    found = snapshot(model, nodes(4))

    first, second = history.history(found, model.owner)

    assert (first.number, first.current, first.changes) == (1, False, ())
    assert (second.number, second.current, second.pods) == (2, True, 2)
    assert [str(c) for c in second.changes] == ["worker: podSpec.containers[main].image worker:1 → worker:2"]


def test_added_and_removed_fields_are_named_as_such() -> None:
    model = grown(pod_clique_set(clique("worker")))
    before = revisions.of_template(model.owner.spec.template)
    updated(model, lambda spec: spec["template"]["cliques"][0].update(annotations={"a": "b"}))
    after = revisions.of_template(model.owner.spec.template)

    assert [str(c) for c in history.changes(before, after)] == ["worker: annotations.a added: b"]
    assert [str(c) for c in history.changes(after, before)] == ["worker: annotations.a removed, was b"]


def test_going_back_restores_the_content_of_the_older_revision() -> None:
    model = grown(pod_clique_set(clique("worker"), clique("router"), priorityClassName="high"))
    wanted = revisions.of_template(model.owner.spec.template)

    def change(spec: dict[str, Any]) -> None:
        set_image("worker:2")(spec)
        spec["template"]["priorityClassName"] = "low"
        spec["template"]["cliques"][1]["labels"] = {"tier": "new"}
        spec["replicas"] = 3

    updated(model, change)
    restored = patched(model.owner, history.restoring(model.owner, wanted))

    assert revisions.of_template(restored.spec.template).hash == wanted.hash
    assert restored.spec.replicas == 3


def test_a_restart_changes_the_named_cliques_and_keeps_their_other_annotations() -> None:
    owner = pod_clique_set({**clique("worker"), "annotations": {"keep": "me"}}, clique("router"))

    restarted = patched(owner, history.restarting(owner, "2026-03-01T12:00:00Z", ("worker",)))

    worker, router = restarted.spec.template.cliques
    assert worker.annotations == {"keep": "me", RESTARTED_AT: "2026-03-01T12:00:00Z"}
    assert router.annotations == {}
    before, after = (revisions.of_template(o.spec.template) for o in (owner, restarted))
    assert before.cliques["worker"].hash != after.cliques["worker"].hash
    assert before.cliques["router"].hash == after.cliques["router"].hash
