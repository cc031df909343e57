"""Which pods get a waiting program, what it is called with, and how it runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from grove.localcluster.init_pods import waiting_pod
from grove.localcluster.init_programs import Call, ProcessProgram, ThreadProgram
from grove.localcluster.stages import INIT_CONTAINER, INITC_FINISHED


def pod(**changes: Any) -> dict[str, Any]:
    container = {
        "name": INIT_CONTAINER,
        "args": ["--podcliques=w-0-a:1"],
        "env": [
            {"name": "PLAIN", "value": "text"},
            {"name": "EMPTY"},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_GANG", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "ABSENT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/none']"}}},
        ],
    }
    metadata = {"namespace": "team", "name": "child", "uid": "u", "labels": {"grove.io/podgang": "w-0"}}
    spec = {"nodeName": "node-1", "serviceAccountName": "w", "initContainers": [{"name": "first"}, container]}
    return {"metadata": {**metadata, **changes.get("metadata", {})}, "spec": {**spec, **changes.get("spec", {})}}


def test_program_is_called_as_the_pod_says() -> None:
    found = waiting_pod(pod())
    assert found is not None
    assert str(found) == "team/child"
    assert (found.uid, found.service_account, found.arguments) == ("u", "w", ("--podcliques=w-0-a:1",))
    assert found.environment == {
        "PLAIN": "text",
        "EMPTY": "",
        "POD_NAMESPACE": "team",
        "POD_GANG": "w-0",
        "NODE": "node-1",
        "ABSENT": "",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"initContainers": [{"name": "first"}]}},
        {"spec": {"initContainers": None}},
        {"spec": {"nodeName": ""}},
        {"metadata": {"annotations": {INITC_FINISHED: "true"}}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
)
def test_pods_without_the_container_finished_unbound_or_leaving_need_no_program(changes: dict[str, Any]) -> None:
    assert waiting_pod(pod(**changes)) is None


NOWHERE = ("-p=w-0-a:1", "--server=http://127.0.0.1:1", "--token-file=/dev/null")
ENVIRONMENT = {"POD_NAMESPACE": "team", "POD_GANG": "w-0"}


@pytest.mark.parametrize("make", [ProcessProgram, ThreadProgram])
def test_malformed_arguments_end_both_ways_of_running_alike(make: type[ProcessProgram] | type[ThreadProgram]) -> None:
    lines: list[str] = []
    assert make(Call(("-p=nonsense",), ENVIRONMENT, lines.append)).run() == 2
    assert len(lines) == 1
    assert lines[0].startswith("grove-initc: --podcliques=nonsense: ")


@pytest.mark.parametrize("make", [ProcessProgram, ThreadProgram])
def test_program_that_waits_can_be_stopped(make: type[ProcessProgram] | type[ThreadProgram]) -> None:
    waits = threading.Event()
    program = make(Call(NOWHERE, ENVIRONMENT, lambda _: waits.set()))
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(program.run()))
    thread.start()
    assert waits.wait(20)
    program.stop()
    thread.join(20)
    assert statuses == [143]


@pytest.mark.parametrize("make", [ProcessProgram, ThreadProgram])
def test_program_stopped_before_it_ran_does_not_run(make: type[ProcessProgram] | type[ThreadProgram]) -> None:
    lines: list[str] = []
    program = make(Call(NOWHERE, ENVIRONMENT, lines.append))
    program.stop()
    assert program.run() != 0
    assert lines == []
