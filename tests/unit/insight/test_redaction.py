"""Support bundles: nothing secret survives, everything else does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grove.insight.redaction import redacted


def test_values_of_variables_go_and_references_stay() -> None:
    container = {
        "env": [
            {"name": "TOKEN", "value": "hunter2"},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]
    }

    assert redacted(container) == {
        "env": [
            {"name": "TOKEN", "value": "(redacted)"},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]
    }


def test_copies_of_the_object_and_managed_fields_go() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{hunter2}", "kept": "yes"}

    assert redacted({"metadata": {"annotations": annotations, "managedFields": [1]}}) == {
        "metadata": {"annotations": {"kept": "yes"}}
    }


def test_credentials_in_command_lines_go() -> None:
    found = redacted({"args": ["--api-key=hunter2", "--token hunter2", "--port=80"], "command": ["sh", "password=x y"]})

    assert found == {
        "args": ["--api-key=(redacted)", "--token (redacted)", "--port=80"],
        "command": ["sh", "password=(redacted) y"],
    }


@given(
    st.recursive(
        st.just({"env": [{"name": "A", "value": "hunter2"}]}),
        lambda inner: st.one_of(
            st.dictionaries(st.sampled_from(["spec", "template", "containers", "data"]), inner, min_size=1),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=6,
    )
)
def test_a_value_is_found_at_any_depth(document: object) -> None:
    assert "hunter2" not in str(redacted(document))
