"""Kubeconfig files: self-contained, so that they can be copied, with a client certificate or a token as identity."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """Where the API server is and how to recognise it."""

    name: str
    url: str
    ca: Path


def certificate_user(pki: Path, file_name: str) -> dict[str, str]:
    """The user entry of a client certificate."""
    return {
        "client-certificate-data": _encoded(pki / f"{file_name}.crt"),
        "client-key-data": _encoded(pki / f"{file_name}.key"),
    }


def token_user(token: str) -> dict[str, str]:
    """The user entry of a bearer token."""
    return {"token": token}


def render_kubeconfig(server: Server, user: str, credentials: Mapping[str, str]) -> str:
    """A kubeconfig with one cluster, one user and one context. JSON, which every YAML reader takes."""
    context = f"{user}@{server.name}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": server.name,
                "cluster": {"server": server.url, "certificate-authority-data": _encoded(server.ca)},
            }
        ],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": context, "context": {"cluster": server.name, "user": user}}],
        "current-context": context,
    }
    return json.dumps(document, indent=2) + "\n"


def write_kubeconfig(path: Path, content: str) -> None:
    """Replace the file as a whole, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(content)
    partial.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
