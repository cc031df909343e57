"""Writes the CRDs to deploy/crds (`make generate`), or renews the copy of Kubernetes' own schemas they contain.

`--from-cluster KUBECONFIG` asks that cluster's API server for its OpenAPI v3 through kubectl; `--from-openapi DIR`
reads the same documents from files named as in the Kubernetes source tree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from grove.api.crd import files, kubernetes

HEADER = "# Rendered from the types in src/grove/api by `make generate`. Do not edit.\n"
_DOCUMENTS = {
    "/openapi/v3/api/v1": "api__v1_openapi.json",
    "/openapi/v3/apis/autoscaling/v2": "apis__autoscaling__v2_openapi.json",
}


class _Dumper(yaml.CSafeDumper):
    """Repeats shared parts instead of writing anchors, which the API server does not know."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(definition: dict[str, Any]) -> str:
    """One CRD as it is published."""
    return HEADER + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, definition in files().items():
        (folder / name).write_text(text(definition), "utf-8")


def renew(documents: list[dict[str, Any]]) -> None:
    definitions: dict[str, Any] = {}
    for document in documents:
        definitions |= document["components"]["schemas"]
    target = Path(__file__).with_name(kubernetes.PACKAGED)
    target.write_text(json.dumps(kubernetes.converted(definitions), indent=1, sort_keys=True) + "\n", "utf-8")


def _served(kubeconfig: str) -> list[dict[str, Any]]:
    answers = []
    for path in _DOCUMENTS:
        command = ["kubectl", "--kubeconfig", kubeconfig, "get", "--raw", path]
        answers.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grove.api.crd", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("deploy/crds"), help="where the CRDs go")
    parser.add_argument(
        "--from-cluster", metavar="KUBECONFIG", help="renew Kubernetes' schemas from this cluster first"
    )
    parser.add_argument(
        "--from-openapi", metavar="DIR", type=Path, help="renew Kubernetes' schemas from these files first"
    )
    arguments = parser.parse_args()
    if arguments.from_cluster:
        renew(_served(arguments.from_cluster))
    elif arguments.from_openapi:
        renew([json.loads((arguments.from_openapi / name).read_text("utf-8")) for name in _DOCUMENTS.values()])
    write(arguments.output)


if __name__ == "__main__":
    main()
