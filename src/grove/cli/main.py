"""The `grove` command and the table of its subcommands.

A subcommand is named by module and attribute and imported when it is used, so that a quick command does not pay for
the imports of a slow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import click


class Subcommand(NamedTuple):
    """Where a subcommand lives, and the line that the overview shows for it."""

    target: str
    summary: str


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "completion": Subcommand("grove.cli.completion:completion", "Print the completion script for a shell."),
    "diagnose": Subcommand("grove.cli.diagnose:diagnose", "Collect a support bundle, without secrets."),
    "explain": Subcommand("grove.cli.explain:explain", "Say why a PodCliqueSet does not run, and what to do."),
    "get": Subcommand("grove.cli.get:get", "Show PodCliqueSets as a tree, once or live."),
    "rollout": Subcommand("grove.cli.rollout:rollout", "Follow, preview, pause, restart and undo updates."),
    "topology": Subcommand("grove.cli.topology:topology", "Show domains, their free GPUs, and where gangs sit."),
    "whatif": Subcommand("grove.cli.whatif:whatif", "Ask whether a workload would fit now, and where."),
    "bench": Subcommand("grove.cli.bench:bench", "Measure the product on a local cluster."),
    "crds": Subcommand("grove.cli.crds:crds", "Install Grove's kinds in a cluster, or see what would change."),
    "operator": Subcommand("grove.cli.operator:operator", "Run the operator: controllers, admission, metrics."),
    "local": Subcommand("grove.cli.local:local", "Run a real Kubernetes on this machine."),
    "pod-grouper": Subcommand("grove.cli.pod_grouper:pod_grouper", "Run the pod-grouper for the KAI scheduler."),
    "validate": Subcommand("grove.cli.validate:validate", "Check manifests with the operator's own rules, offline."),
}


class Misuse(click.ClickException):
    """A command line that cannot be read: one line and exit status 1, as with kubectl; 2 means other things here."""

    def __init__(self, error: click.UsageError) -> None:
        where = error.ctx.command_path if error.ctx else "grove"
        super().__init__(
            f"{' '.join(error.format_message().split()).rstrip('.')}; `{where} --help` shows what it takes"
        )

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)


@contextmanager
def _misuse_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise Misuse(error) from None


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used."""

    def __init__(self, *args: Any, lazy: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _misuse_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _misuse_in_one_line():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        subcommand = self._lazy.get(cmd_name)
        if subcommand is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = subcommand.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{subcommand.target} is no command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview needs only names and summaries: nothing is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy[name].summary) for name in sorted(self._lazy)])


@click.group(cls=LazyGroup, lazy=SUBCOMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="grove")
def main() -> None:
    """Gang-scheduled, topology-aware, multi-node AI workloads on Kubernetes."""


if __name__ == "__main__":
    main()
