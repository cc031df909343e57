"""`grove pod-grouper`: gives every pod of the KAI scheduler its PodGroup, in place of KAI's own pod-grouper."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click


@click.command("pod-grouper")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; inside a cluster not needed.")
@click.option("--context", help="Context of the kubeconfig to use.")
@click.option("--lease-namespace", default="", help="Namespace of the lease, where several of these may run.")
@click.option(
    "--unique-names",
    is_flag=True,
    help="Add a mark of the namespace to the names of Workloads' PodGroups (KAI < 0.14).",
)
@click.option(
    "--default-priorities-configmap-name",
    default="",
    help="ConfigMap with a default priority and preemptibility per kind of owner, as KAI reads it; none without.",
)
@click.option("--default-priorities-configmap-namespace", default="", help="Where that ConfigMap is.")
@click.option("--bind-address", default="0.0.0.0", show_default=True, help="Address for metrics and probes.")
@click.option("--metrics-port", type=int, default=9446, show_default=True, help="Port for metrics.")
@click.option("--probe-port", type=int, default=9447, show_default=True, help="Port for liveness and readiness.")
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
@click.option("--log-level", type=click.Choice(["debug", "info", "error"]), default="info", show_default=True)
def pod_grouper(kubeconfig: Path | None, context: str | None, log_format: Any, log_level: str, **options: Any) -> None:
    """Run the pod-grouper: owners, PodGangs and Workloads to KAI PodGroups. KAI's own must not run beside it.

    \b
    Exit codes: 0 stopped, 1 failed, 2 an option or the kubeconfig cannot be used.

    \b
    Example:
      grove pod-grouper --log-format text
    """
    if bool(options["default_priorities_configmap_name"]) != bool(options["default_priorities_configmap_namespace"]):
        raise click.UsageError("the ConfigMap with defaults needs both a name and a namespace")
    from grove.apps import pod_grouper as app
    from grove.runtime import logs
    from grove.runtime.connection import ConnectionConfigError, load
    from grove.runtime.pace import look_for_garbage_rarely, use_fast_loop

    try:
        connection = load(kubeconfig, context)
    except ConnectionConfigError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    logs.configure(log_format, log_level)
    use_fast_loop()
    look_for_garbage_rarely()
    asyncio.run(app.run(app.PodGrouperOptions(**options), connection))
