"""The stages cover each transition once, in the form that kwok reads."""

from __future__ import annotations

import json
from collections import Counter

from grove.localcluster.stages import kwok_configuration, pod_stages


def test_no_transition_belongs_to_two_stages() -> None:
    transitions = Counter(
        transition
        for stage in pod_stages()
        for expression in stage["spec"]["selector"]["matchExpressions"]
        for transition in expression["values"]
    )
    assert set(transitions.values()) == {1}


def test_no_stage_leads_to_where_the_pod_already_is() -> None:
    for stage in pod_stages():
        for transition in stage["spec"]["selector"]["matchExpressions"][0]["values"]:
            before, _, after = transition.partition(">")
            assert before != after, f"{stage['metadata']['name']} would be played for ever"


def test_configuration_is_one_document_per_object() -> None:
    documents = [json.loads(text) for text in kwok_configuration().split("\n---\n")]
    assert documents[0]["kind"] == "KwokConfiguration"
    assert [one["kind"] for one in documents[1:]] == ["Stage"] * len(pod_stages())
