"""What the program was asked to wait for, from its command line and its pod's environment.

Whatever cannot be understood ends in one ArgumentsError with one line; nothing is guessed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_LONGEST_NAME = 253


class ArgumentsError(Exception):
    """The command line or the environment does not say what to wait for."""


@dataclass(frozen=True, slots=True)
class Parent:
    """A PodClique that must have this many ready pods."""

    name: str
    minimum: int


@dataclass(frozen=True, slots=True)
class Task:
    """What to wait for, and where to ask."""

    parents: tuple[Parent, ...]
    namespace: str
    gang: str
    server: str
    token_file: str
    ca_file: str


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ArgumentsError(message)


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Task:
    """The task these arguments and this environment describe."""
    options = _parser().parse_args(argv)
    parents = tuple(_parent(text) for text in options.podcliques)
    if not parents:
        raise ArgumentsError("nothing to wait for: give --podcliques=NAME:MINIMUM at least once")
    names = [parent.name for parent in parents]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentsError(f"--podcliques names {name!r} more than once")
    return Task(
        parents=parents,
        namespace=_required(environ, "POD_NAMESPACE"),
        gang=_required(environ, "POD_GANG"),
        server=options.server or _server(environ),
        token_file=options.token_file,
        ca_file=options.ca_file,
    )


def _parser() -> argparse.ArgumentParser:
    # Abbreviations would let a mistyped option pass for another one.
    parser = _Parser(prog="grove-initc", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "-p",
        "--podcliques",
        action="append",
        default=[],
        metavar="NAME:MINIMUM",
        help="a PodClique by its full name and the number of its pods that must be ready; may be repeated",
    )
    parser.add_argument("--server", default="", help="address of the API server  [default: the pod's own cluster]")
    parser.add_argument("--token-file", default=f"{SERVICE_ACCOUNT}/token", help="the pod's token  [%(default)s]")
    parser.add_argument("--ca-file", default=f"{SERVICE_ACCOUNT}/ca.crt", help="the cluster's CA  [%(default)s]")
    return parser


def _parent(text: str) -> Parent:
    name, colon, minimum = text.rpartition(":")
    if not colon or not _is_name(name):
        raise ArgumentsError(f"--podcliques={text}: expected NAME:MINIMUM with the full name of a PodClique")
    # isdecimal alone would let digits of other scripts through.
    if not (minimum.isascii() and minimum.isdecimal()) or int(minimum) < 1:
        raise ArgumentsError(f"--podcliques={text}: the minimum must be a whole number of at least 1")
    return Parent(name, int(minimum))


def _is_name(name: str) -> bool:
    """Whether this can be an object's name; it becomes part of a selector, so nothing else may pass."""
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    return 0 < len(name) <= _LONGEST_NAME and set(name) <= allowed and name[0].isalnum() and name[-1].isalnum()


def _required(environ: Mapping[str, str], variable: str) -> str:
    value = environ.get(variable, "")
    if not value:
        raise ArgumentsError(f"the environment variable {variable} is not set")
    if not _is_name(value):
        raise ArgumentsError(f"the environment variable {variable} is no object's name: {value!r}")
    return value


def _server(environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ArgumentsError(
            "the API server is unknown: neither --server nor KUBERNETES_SERVICE_HOST and _PORT are given"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
