"""`grove completion`: the script that lets a shell complete grove's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from grove.cli.cluster import Failure


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

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
    click.echo(found(root.command, {}, "grove", "_GROVE_COMPLETE").source())
