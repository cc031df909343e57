"""Loopback ports for the components of one cluster.

A cluster keeps its ports over restarts as long as they are free, so that kubeconfigs copied elsewhere keep working.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from pathlib import Path

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on this port on every interface right now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def pick_ports(names: Iterable[str], remembered: dict[str, int]) -> dict[str, int]:
    """A free port for each name: the remembered one where possible, else one the kernel offers; no port twice."""
    chosen: dict[str, int] = {}
    held: list[socket.socket] = []
    try:
        for name in names:
            port = remembered.get(name)
            if port is None or port in chosen.values() or not is_free(port):
                port = _offered_port(held, {*chosen.values(), *remembered.values()})
            chosen[name] = port
    finally:
        for offered in held:
            offered.close()
    return chosen


def _offered_port(held: list[socket.socket], taken: set[int]) -> int:
    while True:
        offer = socket.socket()
        # Kept open until all names have a port, or the kernel might offer the same one again.
        held.append(offer)
        offer.bind((LOOPBACK, 0))
        port = int(offer.getsockname()[1])
        if port not in taken:
            return port


def load_ports(path: Path) -> dict[str, int]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def store_ports(path: Path, ports: dict[str, int]) -> None:
    path.write_text(json.dumps(ports, indent=2) + "\n")
