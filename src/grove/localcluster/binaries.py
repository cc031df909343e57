"""The programs a cluster is made of, built once from pinned Go modules and cached.

A build group is one committed go.mod/go.sum pair and the commands taken from it. Its cache folder is named by a hash of
everything that decides what comes out; it is filled in a staging folder and renamed, so it is either whole or absent.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from grove.localcluster.errors import BuildError
from grove.localcluster.locks import exclusive
from grove.localcluster.progress import Progress, reporting
from grove.localcluster.toolchain import GO_SOURCES, build_environment, cache_home, find_go, required_version

KUBERNETES_VERSION = "v1.35.4"
ETCD_VERSION = "v3.6.6"
KWOK_VERSION = "v0.7.0"
KAI_VERSION = "v0.12.0"

_KAI = "github.com/NVIDIA/KAI-scheduler"
_BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-v")
_KEPT_OUTPUT_LINES = 60


@dataclass(frozen=True)
class Assets:
    """Files that a Go module carries beside its code and that are copied next to the binaries."""

    module: str
    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class BuildGroup:
    """Commands built together from one go.mod."""

    name: str
    module_folder: str
    packages: tuple[str, ...]
    linker_flags: tuple[str, ...] = ("-s", "-w")
    assets: Assets | None = None

    @property
    def source(self) -> Path:
        return GO_SOURCES / self.module_folder

    @property
    def commands(self) -> tuple[str, ...]:
        """The file names `go build` gives the binaries."""
        return tuple(self.module_folder if package == "." else package.rsplit("/", 1)[1] for package in self.packages)

    def digest(self) -> str:
        """A name for what this group builds; it changes with any input of the build."""
        material = hashlib.sha256()
        inputs = (*self.packages, *self.linker_flags, *_BUILD_FLAGS, repr(self.assets), platform.machine())
        for text in inputs:
            material.update(text.encode() + b"\0")
        for path in sorted(self.source.iterdir()):
            if path.suffix in {".go", ".mod", ".sum"}:
                material.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return material.hexdigest()[:16]

    def folder(self) -> Path:
        return cache_home() / "bin" / f"{self.name}-{self.digest()}"


def _kubernetes_linker_flags() -> tuple[str, ...]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    variables = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return ("-s", "-w", *(f"-X=k8s.io/component-base/version.{name}={value}" for name, value in variables.items()))


ETCD = BuildGroup("etcd", "etcd", (".",))
KUBERNETES = BuildGroup(
    "kubernetes",
    "kubernetes",
    tuple(
        f"k8s.io/kubernetes/cmd/{command}"
        for command in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    ),
    _kubernetes_linker_flags(),
)
KWOK = BuildGroup("kwok", "kwok", ("sigs.k8s.io/kwok/cmd/kwok",))
KAI = BuildGroup(
    "kai",
    "kai",
    (f"{_KAI}/cmd/scheduler", f"{_KAI}/cmd/binder"),
    assets=Assets(
        module=_KAI,
        folder="deployments/kai-scheduler/crds",
        names=(
            "kai.scheduler_topologies.yaml",
            "scheduling.run.ai_bindrequests.yaml",
            "scheduling.run.ai_podgroups.yaml",
            "scheduling.run.ai_queues.yaml",
        ),
    ),
)
# Only for comparing our pod-grouper with KAI's own; a cluster never runs it.
KAI_POD_GROUPER = BuildGroup("kai-podgrouper", "kai", (f"{_KAI}/cmd/podgrouper",))


def ensure_built(groups: Iterable[BuildGroup], progress: Progress) -> None:
    """Build every group that is not cached yet, one after the other: each build keeps all cores busy by itself."""
    for group in groups:
        folder = group.folder()
        if folder.exists():
            continue
        with exclusive(folder.with_suffix(".lock")):
            if not folder.exists():
                _build(group, folder, progress)


def _build(group: BuildGroup, folder: Path, progress: Progress) -> None:
    go = find_go(required_version((group.source / "go.mod").read_text()), progress)
    staging = folder.with_suffix(".partial")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    step = f"building {group.name} ({', '.join(group.commands)})"
    with reporting(progress, step):
        _go_build(go, group, staging, lambda line: progress.detail(step, line))
        if group.assets:
            _copy_assets(go, group, group.assets, staging)
        staging.rename(folder)


def _go_build(go: Path, group: BuildGroup, target: Path, on_line: Callable[[str], None]) -> None:
    command = [str(go), "build", *_BUILD_FLAGS, "-ldflags", " ".join(group.linker_flags), "-o", f"{target}/"]
    environment = build_environment(os.environ)
    with subprocess.Popen(
        [*command, *group.packages],
        cwd=group.source,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as build:
        kept = _relay(build, on_line)
    if build.returncode != 0:
        output = "".join(kept)
        raise BuildError(f"`go build` of {group.name} failed with exit status {build.returncode}:\n{output}")


def _relay(build: subprocess.Popen[str], on_line: Callable[[str], None]) -> deque[str]:
    """Pass each output line on, numbered while packages are compiled; return the last ones."""
    kept: deque[str] = deque(maxlen=_KEPT_OUTPUT_LINES)
    compiled = 0
    assert build.stdout is not None
    for line in build.stdout:
        kept.append(line)
        if line.startswith("go: downloading "):
            on_line(line.removeprefix("go: ").strip())
        else:
            compiled += 1
            on_line(f"{compiled} packages, {line.strip()}")
    return kept


def _copy_assets(go: Path, group: BuildGroup, assets: Assets, staging: Path) -> None:
    answer = subprocess.run(
        [str(go), "list", "-m", "-f", "{{.Dir}}", assets.module],
        cwd=group.source,
        env=build_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(f"cannot find the files of {assets.module}:\n{answer.stderr}")
    target = staging / Path(assets.folder).name
    target.mkdir()
    for name in assets.names:
        # copyfile, not copy: the module cache is read-only and its mode must not come along.
        shutil.copyfile(Path(answer.stdout.strip()) / assets.folder / name, target / name)
