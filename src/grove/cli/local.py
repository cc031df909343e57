"""`grove local`: a real Kubernetes on this machine, in one command.

Every subcommand names its cluster by `--name`, or by `--data-dir` for one that lives elsewhere. Failures print what
went wrong, with the end of the log concerned, and exit with status 1.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from grove.localcluster import ClusterSpec, LocalClusterError, RunningCluster, Scheduler, cluster_folder
from grove.localcluster import cluster as clusters
from grove.localcluster.components import kubectl_binary
from grove.localcluster.processes import marker_for, processes_of
from grove.localcluster.progress import terminal_progress
from grove.localcluster.spec import DEFAULT_NAME, ClusterFiles, stored_spec
from grove.localcluster.states import ComponentState, ComponentStatus, SupervisorStatus
from grove.localcluster.supervision import current_status, log_tail, remembered_status, still_running

Command = TypeVar("Command", bound=Callable[..., Any])

_COUNT = click.IntRange(min=0)
_FOLLOW_INTERVAL = 0.2


def _which_cluster(command: Command) -> Command:
    folder = click.Path(path_type=Path, file_okay=False)
    command = click.option(
        "--data-dir", type=folder, envvar="GROVE_LOCAL_DATA_DIR", help="Folder of the cluster's data and logs."
    )(command)
    return click.option(
        "--name", default=DEFAULT_NAME, envvar="GROVE_LOCAL_NAME", show_default=True, help="Name of the cluster."
    )(command)


@contextmanager
def _plain_failures() -> Iterator[None]:
    try:
        yield
    except LocalClusterError as error:
        raise click.ClickException(str(error)) from None


@click.group()
def local() -> None:
    """Run a real Kubernetes on this machine: etcd, API server, controllers, simulated nodes, KAI.

    \b
    Examples:
      grove local up --operator --nodes 16
      grove local kubectl -- get nodes
      grove local logs operator
      grove local down
    """


@local.command()
@_which_cluster
@click.option("--nodes", type=_COUNT, help="Simulated nodes.  [default: 16]")
@click.option("--racks", type=_COUNT, help="Racks the nodes stand in.  [default: 4]")
@click.option("--blocks", type=_COUNT, help="Blocks the racks belong to.  [default: 2]")
@click.option("--zones", type=_COUNT, help="Zones the blocks lie in.  [default: 1]")
@click.option("--gpus", type=_COUNT, help="GPUs of each node.  [default: 8]")
@click.option(
    "--scheduler", type=click.Choice([one.value for one in Scheduler]), help="Gang scheduler.  [default: kai]"
)
@click.option("--workload-api/--no-workload-api", default=None, help="Serve scheduling.k8s.io/v1alpha1.  [default: on]")
@click.option("--operator/--no-operator", default=None, help="Run Grove's operator on it.  [default: off]")
@click.option(
    "--operator-config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True),
    help="OperatorConfiguration to lay over the local one; implies --operator.",
)
@click.option(
    "--with-pod-grouper/--no-pod-grouper",
    "pod_grouper",
    default=None,
    help="Run Grove's pod-grouper beside the operator.  [default: on]",
)
def up(name: str, data_dir: Path | None, **choices: Any) -> None:
    """Start the cluster; builds its programs the first time. Options left out keep their last value."""
    with _plain_failures():
        spec = _chosen_spec(name, data_dir, choices)
        with terminal_progress() as progress:
            cluster = clusters.up(spec, progress)
        if cluster.was_running:
            click.echo(f"Cluster {cluster.spec.name} is already running at {cluster.url}; nothing was changed.")
            if dataclasses.replace(spec, data_dir=None) != dataclasses.replace(cluster.spec, data_dir=None):
                click.echo("It runs with other options; `grove local down` and `up` applies the new ones.")
            return
        click.echo(f"Cluster {cluster.spec.name} runs {cluster.spec.nodes} nodes at {cluster.url}")
        if cluster.spec.operator:
            click.echo("  The operator runs on it: grove local logs operator -f")
        click.echo(f"  export KUBECONFIG={cluster.kubeconfig}")
        click.echo("  kubectl get nodes        (or: grove local kubectl -- get nodes)")
        click.echo("  grove local down         stops it, keeps its state")


def _chosen_spec(name: str, data_dir: Path | None, choices: dict[str, Any]) -> ClusterSpec:
    """What was asked for now, over what the cluster had before, over the defaults."""
    before = stored_spec(cluster_folder(name, data_dir)) or ClusterSpec(name=name)
    given = {option: value for option, value in choices.items() if value is not None}
    if "operator_config" in given:
        given.setdefault("operator", True)
    if "scheduler" in given:
        given["scheduler"] = Scheduler(given["scheduler"])
    return dataclasses.replace(before, **_levels_that_fit(before, given), name=name, data_dir=data_dir)


def _levels_that_fit(before: ClusterSpec, given: dict[str, Any]) -> dict[str, Any]:
    """`--racks 1` alone means one block and one zone as well: levels not asked for never exceed the one below."""
    chosen = dict(given)
    racks = chosen.get("racks", before.racks)
    blocks = chosen.setdefault("blocks", min(before.blocks, racks))
    chosen.setdefault("zones", min(before.zones, blocks))
    return chosen


@local.command()
@_which_cluster
def down(name: str, data_dir: Path | None) -> None:
    """Stop the cluster; its state stays."""
    with _plain_failures():
        stopped = clusters.down(name, data_dir)
    click.echo(f"Cluster {name} stopped." if stopped else f"Cluster {name} is not running.")


@local.command()
@_which_cluster
def reset(name: str, data_dir: Path | None) -> None:
    """Stop the cluster and wipe its state."""
    with _plain_failures():
        wiped = clusters.reset(name, data_dir)
    click.echo(f"Cluster {name} is wiped." if wiped else f"There is no cluster {name}.")


@local.command()
@_which_cluster
def kubeconfig(name: str, data_dir: Path | None) -> None:
    """Print the path of the administrator's kubeconfig."""
    with _plain_failures():
        click.echo(clusters.find(name, data_dir).kubeconfig)


@local.command()
@_which_cluster
@click.argument("component")
def restart(name: str, data_dir: Path | None, component: str) -> None:
    """Stop one component and start it again."""
    with _plain_failures():
        status = clusters.restart(clusters.find(name, data_dir), component)
    click.echo(f"{status.name} restarted, pid {status.pid}.")


@local.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_which_cluster
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(name: str, data_dir: Path | None, arguments: tuple[str, ...]) -> None:
    """Run kubectl against the cluster, for instance `grove local kubectl -- get pods -A`."""
    with _plain_failures():
        cluster = clusters.find(name, data_dir)
    program = str(kubectl_binary())
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    sys.stdout.flush()
    os.execv(program, [program, *arguments])


@local.command()
@_which_cluster
@click.option("--follow", "-f", is_flag=True, help="Keep printing what is added.")
@click.option("--tail", default=50, show_default=True, type=_COUNT, help="Lines to begin with.")
@click.argument("component", required=False)
def logs(name: str, data_dir: Path | None, follow: bool, tail: int, component: str | None) -> None:
    """Print the log of a component, or the end of every component's log."""
    with _plain_failures():
        files = clusters.find(name, data_dir).files
    known = sorted(path.stem for path in files.logs.glob("*.log") if not path.stem.endswith(".previous"))
    if component is None:
        for one in known:
            click.echo(f"==> {one} <==\n{log_tail(files, one, tail)}\n")
        return
    if not files.log(component).exists():
        raise click.ClickException(f"no log of {component!r}; there are {', '.join(known)}")
    if follow:
        _follow(files.log(component), tail)
    else:
        click.echo(log_tail(files, component, tail))


def _follow(path: Path, tail: int) -> None:
    """Print what is added, also when a restart of the component begins a new file."""
    while True:
        with path.open(errors="replace") as log:
            lines = log.readlines()
            click.echo("".join(lines[max(0, len(lines) - tail) :]), nl=False)
            while _is_current(log, path):
                added = log.read()
                click.echo(added, nl=False)
                if not added:
                    time.sleep(_FOLLOW_INTERVAL)
            click.echo(log.read(), nl=False)
        tail = sys.maxsize


def _is_current(log: TextIO, path: Path) -> bool:
    """Whether the open file is still the one of that name; in the moment between two files the old one counts."""
    try:
        return os.path.samestat(os.fstat(log.fileno()), path.stat())
    except FileNotFoundError:
        return True


@local.command()
@_which_cluster
def status(name: str, data_dir: Path | None) -> None:
    """Say how every component is; exits with 1 unless all are ready."""
    with _plain_failures():
        cluster = clusters.find(name, data_dir)
        healthy = _report_status(cluster)
    if not healthy:
        raise SystemExit(1)


def _report_status(cluster: RunningCluster) -> bool:
    files = cluster.files
    known = current_status(files)
    if known is None:
        _report_without_supervisor(cluster, files)
        return False
    click.echo(f"Cluster {cluster.spec.name} at {cluster.url}, data in {files.folder}")
    for component in known.components.values():
        click.echo(f"  {component.name:<26}{component.state.value:<10}{_circumstances(component)}")
    broken = [one for one in known.components.values() if one.state is not ComponentState.READY]
    for component in broken:
        click.echo(f"\n{component.name} {component.ending}; the end of {files.log(component.name)}:")
        click.echo(log_tail(files, component.name))
    return not broken


def _report_without_supervisor(cluster: RunningCluster, files: ClusterFiles) -> None:
    remembered = remembered_status(files) or SupervisorStatus(0, 0, {})
    alive = still_running(files, remembered)
    if not processes_of(marker_for(files.folder)):
        click.echo(f"Cluster {cluster.spec.name} is not running; its data is in {files.folder}")
        return
    click.echo(f"The supervisor of cluster {cluster.spec.name} is gone, but these still run: {', '.join(alive)}")
    click.echo("`grove local down` ends them; `grove local up` ends them and starts anew.")


def _circumstances(component: ComponentStatus) -> str:
    if component.exit_code is not None:
        return component.ending
    minutes, seconds = divmod(int(time.time() - component.started_at), 60)
    return f"pid {component.pid}, for {minutes}m{seconds:02d}s"
