"""`grove local` on the command line, as far as it goes without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grove.cli.main import SUBCOMMANDS, main
from grove.localcluster.spec import ClusterFiles, ClusterSpec


@pytest.fixture(autouse=True)
def _private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def run(*arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(main, ["local", *arguments])
    return answer.exit_code, answer.output


def test_overview_names_every_subcommand_without_importing_any() -> None:
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from grove.cli.main import main\n"
        "print(CliRunner().invoke(main, ['--help']).output)\n"
        "assert not [name for name in sys.modules if name.startswith('grove.localcluster')]\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(f"  {name} " in answer.stdout for name in SUBCOMMANDS)


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_every_subcommand_can_be_imported(name: str) -> None:
    answer = CliRunner().invoke(main, [name, "--help"])
    assert answer.exit_code == 0, answer.output


def test_stopping_what_does_not_run_is_no_error() -> None:
    assert run("down") == (0, "Cluster grove is not running.\n")
    assert run("reset") == (0, "There is no cluster grove.\n")


@pytest.mark.parametrize("command", ["status", "kubeconfig", "logs"])
def test_asking_about_no_cluster_says_how_to_start_one(command: str) -> None:
    code, output = run(command, "--name", "absent")
    assert code == 1
    assert "grove local up" in output


def test_impossible_layout_is_refused_before_anything_starts(tmp_path: Path) -> None:
    code, output = run("up", "--racks", "1", "--blocks", "2")
    assert code == 1
    assert "leave some of them empty" in output
    assert list(tmp_path.iterdir()) == []


def test_stopped_cluster_is_reported_with_its_folder(tmp_path: Path) -> None:
    spec = ClusterSpec(name="asleep", data_dir=tmp_path / "asleep")
    files = ClusterFiles(spec.folder)
    files.folder.mkdir()
    files.spec.write_text(spec.to_json())
    code, output = run("status", "--data-dir", str(files.folder))
    assert code == 1
    assert output == f"Cluster asleep is not running; its data is in {files.folder}\n"


def test_reset_leaves_files_of_others_alone(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "mixed")
    files.etcd.mkdir(parents=True)
    files.spec.write_text(ClusterSpec(name="mixed").to_json())
    (files.folder / "thesis.txt").write_text("ten years of work")
    code, _ = run("reset", "--data-dir", str(files.folder))
    assert code == 0
    assert [path.name for path in files.folder.iterdir()] == ["thesis.txt"]


def stopped_cluster(folder: Path) -> ClusterFiles:
    files = ClusterFiles(folder)
    files.logs.mkdir(parents=True)
    files.spec.write_text(ClusterSpec(name="asleep").to_json())
    return files


def test_log_is_followed_into_the_file_of_the_next_start(tmp_path: Path) -> None:
    files = stopped_cluster(tmp_path / "asleep")
    log = files.log("kwok")
    log.write_text("one\ntwo\nthree\n")
    command = [sys.executable, "-m", "grove.cli.main", "local", "logs", "kwok", "-f", "--tail", "2"]
    following = subprocess.Popen(
        [*command, "--data-dir", str(files.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert following.stdout is not None
    try:
        assert [following.stdout.readline() for _ in range(2)] == ["two\n", "three\n"]
        with log.open("a") as open_log:
            open_log.write("four\n")
        assert following.stdout.readline() == "four\n"
        log.replace(log.with_suffix(".previous.log"))
        log.write_text("five\n")
        assert following.stdout.readline() == "five\n"
    finally:
        following.terminate()
        following.communicate()


def test_as_many_lines_of_a_log_are_printed_as_asked_for(tmp_path: Path) -> None:
    files = stopped_cluster(tmp_path / "asleep")
    files.log("kwok").write_text("one\ntwo\n")
    where = ("--data-dir", str(files.folder))
    assert run("logs", "kwok", "--tail", "1", *where) == (0, "two\n")
    assert run("logs", "kwok", "--tail", "0", *where) == (0, "\n")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"scheduler": "other"}', '{"nodes": 3}'])
def test_damaged_record_of_a_cluster_is_named_and_can_be_reset(content: str, tmp_path: Path) -> None:
    files = stopped_cluster(tmp_path / "asleep")
    files.spec.write_text(content)
    where = ("--data-dir", str(files.folder))
    for command in ("up", "status"):
        code, output = run(command, *where)
        assert code == 1
        assert f"{files.spec} is damaged" in output
    assert run("reset", *where)[0] == 0
    assert not files.folder.exists()
