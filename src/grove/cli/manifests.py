"""PodCliqueSets from files, for commands that ask about one that is not applied yet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from grove.cli.cluster import Failure

STDIN = "-"


def pod_clique_set(path: Path, name: str = "") -> dict[str, Any]:
    """The PodCliqueSet of a file; with a name, the one of that name."""
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text("utf-8")
        documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise Failure(f"{path}: is not YAML: {error}") from None
    found = [d for d in documents if isinstance(d, dict) and d.get("kind") == "PodCliqueSet"]
    mine = [d for d in found if not name or (d.get("metadata") or {}).get("name") == name]
    if not mine:
        raise Failure(f"{path}: has no PodCliqueSet{f' named {name}' if name else ''}", "name another file with -f")
    if len(mine) > 1:
        raise Failure(f"{path}: has {len(mine)} PodCliqueSets", "say which one by its NAME")
    return mine[0]
