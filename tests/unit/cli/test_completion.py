"""Completion: commands, options, and the names that are in the cluster; silence when there is nothing to offer."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from grove.cli import offered_names
from grove.cli.completion import kubectl_complete
from grove.cli.main import main

NAMES = {
    "/apis/grove.io/v1alpha1/namespaces/team/podcliquesets": ["inference", "infer-small", "training"],
    "/apis/grove.io/v1alpha1/namespaces/other/podcliquesets": ["elsewhere"],
    "/apis/scheduler.grove.io/v1alpha1/namespaces/team/podgangs": ["inference-0", "inference-1"],
    "/api/v1/namespaces": ["team", "test"],
}


class Handler(BaseHTTPRequestHandler):
    """An API server that knows names, and answers only who wants nothing but metadata."""

    protocol_version = "HTTP/1.1"
    silent: threading.Event

    def do_GET(self) -> None:
        names = NAMES.get(self.path.partition("?")[0])
        if names is None or "PartialObjectMetadataList" not in self.headers["Accept"]:
            self.silent.wait(10)
            return
        body = json.dumps({"items": [{"metadata": {"name": name}} for name in names]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests are quiet."""


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    handler = type("Fresh", (Handler,), {"silent": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    path = tmp_path / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u, namespace: team}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{server.server_port}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield path
    handler.silent.set()
    server.shutdown()
    server.server_close()
    thread.join()


def offered(*typed: str, incomplete: str = "") -> list[str]:
    found = ShellComplete(main, {}, "grove", "_GROVE_COMPLETE").get_completions(list(typed), incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    "command",
    [
        ["get"],
        ["explain"],
        ["whatif"],
        ["diagnose"],
        *(["rollout", verb] for verb in ("status", "pause", "resume", "restart", "history", "undo")),
        ["rollout", "plan", "-f", "new.yaml"],
    ],
    ids=" ".join,
)
def test_every_command_that_takes_a_set_offers_the_sets_of_the_namespace(command: list[str], kubeconfig: Path) -> None:
    assert offered(*command, incomplete="inf") == ["infer-small", "inference"]


def test_options_typed_before_say_where_to_look(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")

    assert offered("get", "--kubeconfig", str(kubeconfig), "-n", "other") == ["elsewhere"]


def test_gangs_and_namespaces_are_offered_where_they_are_asked_for(kubeconfig: Path) -> None:
    assert offered("topology", "--gang") == ["inference-0", "inference-1"]
    assert offered("get", "-n", incomplete="te") == ["team", "test"]


def test_a_cluster_that_does_not_answer_offers_nothing_and_says_nothing(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offered_names, "PATIENCE", 0.05)

    assert offered("get", "-n", "silent") == []
    assert offered("get", "--context", "none") == []
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert offered("explain") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        (["rollout", "paus"], ["pause\tHold the update where it is; what is being...", ":4"]),
        (["explain", "train"], ["training", ":4"]),
        (["rollout", "plan", "-f", ""], [":0"]),
    ],
)
def test_kubectl_is_told_what_may_follow(
    typed: list[str],
    lines: list[str],
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-grove", *typed])

    kubectl_complete()

    assert capsys.readouterr().out.splitlines() == lines
