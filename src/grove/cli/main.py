"""The `grove` command and the table of its subcommands.

A subcommand is named by module and attribute and imported when it is used, so that a quick command does not pay for
the imports of a slow one.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used."""

    def __init__(self, *args: Any, lazy: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

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
