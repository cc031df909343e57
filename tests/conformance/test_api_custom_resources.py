"""Custom resources under their schema: defaults, dropped fields, refusals. CEL rules are the real server's alone."""

from __future__ import annotations

from typing import Any

import pytest
from conformance_api import Api, widget


async def test_defaults_are_filled_in_where_their_parent_exists(api: Api) -> None:
    plain = (await api.post(api.widgets, widget("a"))).body["spec"]
    nested = (await api.post(api.widgets, widget("b", nested={}, parts=[{"name": "p"}]))).body["spec"]
    assert plain == {"size": "small", "replicas": 1}
    assert nested["nested"] == {"deep": "filled"}
    assert nested["parts"] == [{"name": "p", "weight": 5}]


async def test_defaults_return_when_a_field_is_removed(api: Api) -> None:
    await api.post(api.widgets, widget("a", replicas=4))
    after = await api.patch(f"{api.widgets}/a", {"spec": {"replicas": None}})
    assert after.body["spec"]["replicas"] == 1


async def test_a_null_counts_as_absent_where_there_is_a_default(api: Api) -> None:
    created = await api.post(api.widgets, widget("a", replicas=None))
    assert (created.code, created.body["spec"]["replicas"]) == (201, 1)


async def test_a_null_is_kept_where_it_is_allowed_and_dropped_elsewhere(api: Api) -> None:
    spec = {"maybe": None, "title": None, "labels": {"x": None}, "parts": [{"name": "p", "colour": None}]}
    created = await api.post(api.widgets, widget("a", **spec))
    assert created.body["spec"] == {
        "size": "small",
        "replicas": 1,
        "maybe": None,
        "labels": {},
        "parts": [{"name": "p", "weight": 5}],
    }


async def test_unknown_fields_are_dropped(api: Api) -> None:
    body = {**widget("a", unknown=1, nested={"deep": "x", "unknown": 2}), "extra": True}
    created = (await api.post(api.widgets, body)).body
    assert "extra" not in created
    assert created["spec"] == {"size": "small", "replicas": 1, "nested": {"deep": "x"}}


async def test_strict_validation_refuses_unknown_fields(api: Api) -> None:
    refused = await api.post(api.widgets, widget("a", unknown=1), fieldValidation="Strict")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert 'unknown field "spec.unknown"' in refused.body["message"]


async def test_unknown_fields_stay_where_the_schema_preserves_them(api: Api) -> None:
    free = {"any": {"depth": [1, {"x": None}]}}
    created = await api.post(api.widgets, widget("a", free=free))
    assert created.body["spec"]["free"] == free


async def test_int_or_string_takes_both(api: Api) -> None:
    assert (await api.post(api.widgets, widget("a", limit=5))).body["spec"]["limit"] == 5
    assert (await api.post(api.widgets, widget("b", limit="50%"))).body["spec"]["limit"] == "50%"


REFUSALS: list[tuple[dict[str, Any], set[tuple[str, str]]]] = [
    ({"size": "huge"}, {("FieldValueNotSupported", "spec.size")}),
    ({"replicas": -1}, {("FieldValueInvalid", "spec.replicas")}),
    ({"replicas": 101}, {("FieldValueInvalid", "spec.replicas")}),
    ({"replicas": "3"}, {("FieldValueTypeInvalid", "spec.replicas")}),
    ({"title": "x" * 21}, {("FieldValueTooLong", "spec.title")}),
    ({"title": "x"}, {("FieldValueInvalid", "spec.title")}),
    ({"title": "UPPER"}, {("FieldValueInvalid", "spec.title")}),
    ({"limit": True}, {("FieldValueTypeInvalid", "spec.limit")}),
    ({"numbers": [1, 2, 3, 4]}, {("FieldValueTooMany", "spec.numbers")}),
    ({"numbers": [1, "2"]}, {("FieldValueTypeInvalid", "spec.numbers[1]")}),
    ({"labels": {"a": 1}}, {("FieldValueTypeInvalid", "spec.labels.a")}),
    ({"tags": ["a", "a"]}, {("FieldValueDuplicate", "spec.tags[1]")}),
    ({"parts": [{"name": "p"}, {"name": "p"}]}, {("FieldValueDuplicate", "spec.parts[1]")}),
    ({"parts": [{}]}, {("FieldValueRequired", "spec.parts[0].name")}),
    ({"nested": "text"}, {("FieldValueTypeInvalid", "spec.nested")}),
    (
        {"size": "huge", "replicas": -1},
        {("FieldValueNotSupported", "spec.size"), ("FieldValueInvalid", "spec.replicas")},
    ),
]


@pytest.mark.parametrize(("spec", "causes"), REFUSALS, ids=[str(spec)[:40] for spec, _ in REFUSALS])
async def test_what_does_not_fit_is_invalid(api: Api, spec: dict[str, Any], causes: set[tuple[str, str]]) -> None:
    refused = await api.post(api.widgets, widget("a", **spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert causes <= refused.causes
    assert refused.body["details"]["kind"] == "Widget"
    assert refused.body["message"].startswith('Widget.conformance.grove.io "a" is invalid: ')


async def test_a_required_field_must_be_there(api: Api) -> None:
    body = widget("a")
    del body["spec"]["size"]
    refused = await api.post(api.widgets, body)
    assert refused.causes == {("FieldValueRequired", "spec.size")}
    assert refused.body["message"] == 'Widget.conformance.grove.io "a" is invalid: spec.size: Required value'


async def test_updates_patches_and_applies_are_validated(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    path = f"{api.widgets}/a"
    bad = {**created.body, "spec": {"size": "huge"}}
    replies = [
        await api.put(path, bad),
        await api.patch(path, {"spec": {"size": "huge"}}),
        await api.apply(path, widget("a", size="huge"), force="true"),
        await api.patch(f"{path}/status", {"status": {"replicas": "many"}}),
    ]
    assert [(reply.code, reply.reason) for reply in replies] == [(422, "Invalid")] * 4


async def test_a_body_of_another_kind_is_refused(api: Api) -> None:
    assert (await api.post(api.widgets, {**widget("a"), "kind": "Gadget"})).causes == {("FieldValueInvalid", "kind")}
    assert (await api.post(api.widgets, {**widget("a"), "apiVersion": "conformance.grove.io/v2"})).code == 400
    without = {name: value for name, value in widget("a").items() if name != "kind"}
    assert (await api.post(api.widgets, without)).code == 400
