"""How commands fail: one line on stderr with a hint, an exit code, and never a traceback. And what --help promises."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from grove.cli.main import SUBCOMMANDS, main

QUESTIONS = [
    ["get"],
    ["get", "-w"],
    ["explain", "x"],
    ["topology"],
    ["whatif", "x"],
    ["diagnose"],
    ["crds", "install"],
    ["crds", "diff"],
    ["rollout", "status", "x"],
    ["rollout", "pause", "x"],
    ["rollout", "resume", "x"],
    ["rollout", "restart", "x"],
    ["rollout", "history", "x"],
    ["rollout", "undo", "x"],
]


def run(*arguments: str, kubeconfig: Path | None = None) -> Result:
    where = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    return CliRunner().invoke(main, [*arguments, *where])


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig for an API server that is not there."""
    monkeypatch.setattr("grove.runtime.client.FIRST_PAUSE", 0.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
    )
    return path


def one_line(result: Result) -> str:
    assert result.exit_code == 1, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_missing_kubeconfig_is_one_line(question: list[str], tmp_path: Path) -> None:
    assert "--kubeconfig" in one_line(run(*question, kubeconfig=tmp_path / "none"))


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_cluster_that_does_not_answer_is_one_line(question: list[str], nobody: Path) -> None:
    assert "--context" in one_line(run(*question, kubeconfig=nobody))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["whatif"], "give -f FILE"),
        (["whatif", "-f", "missing.yaml"], "cannot be read"),
        (["rollout", "plan", "-f", "missing.yaml"], "cannot be read"),
        (["rollout", "status", "x", "--timeout", "soon"], "is not a duration"),
        (["topology", "--shape", "big"], "PODSxGPUS"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], said: str, nobody: Path) -> None:
    assert said in one_line(run(*arguments, kubeconfig=nobody))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], "No such command 'frob'; `grove --help` shows what it takes"),
        (["get", "--nope"], "No such option '--nope'; `grove get --help` shows what it takes"),
        (["rollout", "frob"], "`grove rollout --help`"),
        (["rollout", "status"], "Missing argument 'NAME'; `grove rollout status --help` shows what it takes"),
        (["get", "-o", "picture"], "'picture' is not one of 'tree', 'wide', 'json', 'yaml'"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line_and_not_taken_for_a_timeout(
    arguments: list[str], said: str
) -> None:
    assert said in one_line(CliRunner().invoke(main, arguments, prog_name="grove"))


def test_a_file_without_a_pod_clique_set_is_named(tmp_path: Path, nobody: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("kind: ConfigMap\n")

    assert "has no PodCliqueSet" in one_line(run("whatif", "-f", str(other), kubeconfig=nobody))


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_shows_examples(name: str) -> None:
    result = run(name, "--help")

    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"grove {name}" in result.output


def test_every_rollout_verb_has_an_example() -> None:
    group = main.get_command(click.Context(main), "rollout")
    assert isinstance(group, click.Group)
    assert set(group.commands) == {"status", "plan", "pause", "resume", "restart", "history", "undo"}
    for verb in group.commands:
        assert f"grove rollout {verb}" in run("rollout", verb, "--help").output


def test_the_overview_lists_every_command_with_a_summary() -> None:
    output = run("--help").output

    for name, command in SUBCOMMANDS.items():
        assert name in output
        assert command.summary.split()[0] in output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    result = run("completion", shell)

    assert result.exit_code == 0
    assert "_GROVE_COMPLETE" in result.output
