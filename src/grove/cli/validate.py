"""`grove validate`: the operator's admission rules on files, without a cluster.

Every problem is one line with file, document, field and what to do, so that people and pipelines can read it. The exit
status is 1 when anything is wrong with a manifest and 2 when a file cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from grove.admission import Context, FieldError, cluster_topology, default, structure
from grove.admission import validate as judge
from grove.admission.neighbours import related
from grove.api.pod_clique_set import PodCliqueSet
from grove.config import ConfigurationError, OperatorConfiguration
from grove.config.load import load

GROUP = "grove.io/"
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file, and where it stands."""

    file: str
    number: int
    content: dict[str, Any]

    @property
    def title(self) -> str:
        metadata = self.content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return f"{self.file}: document {self.number} ({self.content.get('kind')} {name or '<unnamed>'})"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a document deserves to hear."""

    errors: list[FieldError]
    warnings: list[str]


class Unusable(click.ClickException):
    """A file that says nothing that could be judged."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True, path_type=Path))
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Operator configuration.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing about manifests that are in order.")
def validate(files: tuple[Path, ...], config: Path | None, quiet: bool) -> None:
    """Check manifests with the operator's own rules.

    FILES are YAML files or folders; - reads standard input. Objects of other kinds are passed over. With --config the
    topology levels, schedulers and features of that operator count; without it, all of them are taken as there.

    \b
    Exit codes:
      0  all manifests are in order
      1  some are wrong
      2  a file cannot be read

    \b
    Examples:
      grove validate inference.yaml
      grove validate --config operator.yaml manifests/
    """
    context = Context.offline(_configuration(config))
    checked = wrong = 0
    earlier: list[PodCliqueSet] = []
    for document in _documents(files):
        findings = check(document.content, replace(context, neighbours=_neighbours(document.content, earlier)))
        if findings is None:
            continue
        checked += 1
        wrong += bool(findings.errors)
        for warning in findings.warnings:
            click.echo(f"{document.title}: warning: {warning}", err=True)
        for error in findings.errors:
            click.echo(f"{document.title}: {error}")
    if not quiet or wrong:
        click.echo(f"{checked} checked, {wrong} wrong")
    sys.exit(1 if wrong else 0)


def check(content: dict[str, Any], context: Context) -> Findings | None:
    """What admission says about one object; None for kinds that are not ours to judge."""
    if not str(content.get("apiVersion", "")).startswith(GROUP):
        return None
    if content.get("kind") == "PodCliqueSet":
        verdict = judge(default(content), None, context)
        told = {error.path for error in verdict.errors}
        # Where a rule has spoken the schema need not say the same in other words.
        shape = [error for error in structure.check(content, "PodCliqueSet") if error.path not in told]
        return Findings([*shape, *verdict.errors], list(verdict.warnings))
    if content.get("kind") == "ClusterTopology":
        return Findings(cluster_topology.check(content), [])
    return None


def _neighbours(content: dict[str, Any], earlier: list[PodCliqueSet]) -> tuple[PodCliqueSet, ...]:
    """The sets among the documents before this one that it could meet; it joins them."""
    try:
        this = msgspec.convert(content, PodCliqueSet) if content.get("kind") == "PodCliqueSet" else None
    except msgspec.ValidationError:
        return ()  # Its shape is what there is to say about it.
    if this is None:
        return ()
    place = this.metadata.namespace
    met = (s for s in earlier if s.metadata.namespace == place and related(this.metadata.name, s.metadata.name))
    found = tuple(met)
    earlier.append(this)
    return found


def _configuration(path: Path | None) -> OperatorConfiguration | None:
    if path is None:
        return None
    try:
        return load(path)
    except ConfigurationError as error:
        raise Unusable(str(error)) from None


def _documents(files: tuple[Path, ...]) -> Iterator[Document]:
    for path in _expanded(files):
        name = "stdin" if str(path) == STDIN else str(path)
        try:
            text = sys.stdin.read() if str(path) == STDIN else path.read_text("utf-8")
            loaded = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise Unusable(f"{name}: cannot be read: {said}") from None
        except yaml.YAMLError as error:
            raise Unusable(f"{name}: is not YAML: {' '.join(str(error).split())}") from None
        for number, content in enumerate(loaded, start=1):
            for item in _items(content):
                yield Document(name, number, item)


def _expanded(files: tuple[Path, ...]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            yield from sorted(found for found in path.rglob("*") if found.suffix in (".yaml", ".yml", ".json"))
        else:
            yield path


def _items(content: Any) -> list[dict[str, Any]]:
    """The objects in a document; a List stands for its items."""
    if not isinstance(content, dict):
        return []
    items = content.get("items")
    if str(content.get("kind", "")).endswith("List") and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [content]
