"""`grove completion`: the script that lets a shell complete commands, options and names; and the same for kubectl."""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

from grove.cli.cluster import Failure

_VARIABLE = "_GROVE_COMPLETE"
# What kubectl's completion is to do besides: complete file names, or nothing.
_FILES_TOO, _NOTHING_ELSE = ":0", ":4"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    Names of PodCliqueSets, PodGangs and namespaces are completed from the cluster. kubectl completes `kubectl grove`
    by itself, once `kubectl_complete-grove` is on the PATH.

    \b
    Examples:
      source <(grove completion bash)
      grove completion zsh > "${fpath[1]}/_grove"
      grove completion fish > ~/.config/fish/completions/grove.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise Failure(f"{shell} is not supported")
    root = context.find_root()
    click.echo(found(root.command, {}, "grove", _VARIABLE).source())


def kubectl_complete() -> None:
    """Answers kubectl, which asks a program of this name what may follow `kubectl grove …`."""
    from grove.cli.main import main

    *typed, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "grove", _VARIABLE).get_completions(typed, incomplete)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NOTHING_ELSE if all(item.type == "plain" for item in found) else _FILES_TOO)
