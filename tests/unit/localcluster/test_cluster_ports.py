"""Ports are free, distinct, and kept over restarts where possible."""

from __future__ import annotations

import socket
from pathlib import Path

from grove.localcluster.ports import is_free, load_ports, pick_ports, store_ports


def test_each_name_gets_its_own_free_port() -> None:
    ports = pick_ports([f"server-{index}" for index in range(20)], {})
    assert len(set(ports.values())) == 20
    assert all(is_free(port) for port in ports.values())


def test_free_port_of_the_last_start_is_kept() -> None:
    before = pick_ports(["api"], {})
    assert pick_ports(["api"], before) == before


def test_taken_port_is_replaced() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert not is_free(taken)
        assert pick_ports(["api"], {"api": taken})["api"] != taken


def test_two_names_that_remember_the_same_port_are_parted() -> None:
    port = pick_ports(["api"], {})["api"]
    chosen = pick_ports(["api", "etcd"], {"api": port, "etcd": port})
    assert chosen["api"] == port
    assert chosen["etcd"] != port


def test_ports_survive_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    assert load_ports(path) == {}
    store_ports(path, {"api": 6443})
    assert load_ports(path) == {"api": 6443}
