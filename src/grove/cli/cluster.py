"""Which cluster a command talks to, and how it says that something went wrong.

Options and defaults are kubectl's. A failure is one line on stderr with a hint, and exit status 1; what a command means
by other exit codes is its own affair.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from grove.cli.offered_names import namespace_names

if TYPE_CHECKING:
    from grove.runtime.client import Client

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

FIELD_MANAGER = "grove-cli"
INTERRUPTED = 130


class Failure(click.ClickException):
    """A command that cannot do what it was asked, said in one line."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {' '.join(self.message.split())}", err=True)


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster and namespace options of one invocation."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    timeout: float = 30.0

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[Client, str]]:
        """A client, and the namespace to work in."""
        from grove.cli.quick_transport import transport
        from grove.runtime.client import Client
        from grove.runtime.connection import load

        connection = load(self.kubeconfig, self.context)
        engine = transport(connection)
        try:
            yield (
                Client(engine, field_manager=FIELD_MANAGER, timeout=self.timeout),
                self.namespace or connection.namespace,
            )
        finally:
            await engine.close()


def cluster_options(command: Command) -> Command:
    """Adds kubectl's options for choosing a cluster; the command gets them as one `target`."""

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        kubeconfig: Path | None,
        context: str | None,
        namespace: str | None,
        request_timeout: float,
        **kwargs: Any,
    ) -> Any:
        return command(*args, target=Target(kubeconfig, context, namespace, request_timeout), **kwargs)

    options = (
        click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file to use."),
        click.option("--context", help="The context of the kubeconfig to use."),
        click.option(
            "-n",
            "--namespace",
            shell_complete=namespace_names,
            help="The namespace; by default that of the context.",
        ),
        click.option(
            "--request-timeout", type=float, default=30.0, metavar="SECONDS", help="How long one request may take."
        ),
    )
    found: Any = wrapped
    for option in reversed(options):
        found = option(found)
    result: Command = found
    return result


def run(work: Callable[[Client, str], Awaitable[T]], target: Target) -> T:
    """Does the work with a client; every failure becomes one line."""
    from grove.runtime.config_error import ConnectionConfigError
    from grove.runtime.errors import ApiError

    async def connected() -> T:
        async with target.client() as (client, namespace):
            return await work(client, namespace)

    try:
        return asyncio.run(connected())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        quiet_exit()
    except ConnectionConfigError as error:
        raise Failure(str(error), "name another file with --kubeconfig") from None
    except ApiError as error:
        raise explained(error) from None
    except click.ClickException:
        raise
    except Exception as error:
        if os.environ.get("GROVE_DEBUG"):
            raise
        raise Failure(f"{type(error).__name__}: {error}", "this is a fault of ours; GROVE_DEBUG=1 shows more") from None


def quiet_exit() -> NoReturn:
    """Whoever read our output has gone: there is nobody left to complain to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def explained(error: Any) -> Failure:
    """An answer of the API server as a failure with a hint."""
    from grove.runtime import errors

    hints: dict[type[Exception], str] = {
        errors.Unreachable: "is the cluster up, and is this the right --context?",
        errors.Unauthorized: "log in again, or name another --context",
        errors.Forbidden: "ask for the right, or name another --namespace",
        errors.Conflict: "somebody changed it at the same time: try again",
    }
    return Failure(error.message, hints.get(type(error), ""))


def not_found(kind: str, name: str, namespace: str) -> Failure:
    return Failure(f'{kind} "{name}" not found in namespace "{namespace}"', "`grove get -A` lists all of them")
