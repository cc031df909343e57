"""`grove operator`: starts the operator, or says in one line why it cannot."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click


@click.command()
@click.option("--config", "config", type=click.Path(path_type=Path), required=True, help="OperatorConfiguration file.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; inside a cluster not needed.")
@click.option("--context", help="Context of the kubeconfig to use.")
def operator(config: Path, kubeconfig: Path | None, context: str | None) -> None:
    """Run the operator: controllers, admission webhooks, metrics and probes in one process.

    \b
    Exit codes: 0 stopped, 1 failed, 2 the configuration or the kubeconfig cannot be used.

    \b
    Example:
      grove operator --config examples/operator-configuration.yaml
    """
    from grove.apps import operator as app
    from grove.config import ConfigurationError
    from grove.config.load import load as load_configuration
    from grove.runtime import logs
    from grove.runtime.connection import ConnectionConfigError, load
    from grove.runtime.pace import look_for_garbage_rarely, use_fast_loop

    try:
        configuration = load_configuration(config)
        connection = load(kubeconfig, context)
    except (ConfigurationError, ConnectionConfigError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    logs.configure(configuration.log_format, configuration.log_level)
    use_fast_loop()
    look_for_garbage_rarely()
    ended = ""
    try:
        asyncio.run(app.run(configuration, connection))
    except* (app.LeaseLost, app.StartFailed, app.TopologyRefused) as reasons:
        ended = app.reason(reasons)
    if ended:
        click.echo(f"error: {ended}", err=True)
        sys.exit(1)
