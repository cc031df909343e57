"""A snapshot as the lines that `grove get` prints."""

from __future__ import annotations

from dataclasses import dataclass

from grove.cli import output, tree_lines
from grove.insight.snapshot import Snapshot
from grove.insight.tree import SetView, trees


@dataclass(frozen=True, slots=True)
class Style:
    """The form asked for."""

    form: str = "tree"
    depth: str = "pod"
    ages: bool = True


def printed(snapshot: Snapshot, style: Style) -> list[str]:
    """The lines for one moment."""
    found = trees(snapshot)
    if style.form in ("json", "yaml"):
        return output.structured({"items": found}, style.form).splitlines()
    limit = None if style.form == "wide" else output.width()
    colour = output.colours()
    lines = tree_lines.lines(found, snapshot.now if style.ages else None, limit=limit, colour=colour, depth=style.depth)
    for one in found:
        lines += _remarks(one, limit, colour)
    return lines


def _remarks(found: SetView, limit: int | None, colour: bool) -> list[str]:
    """What a tree cannot show: where the update is, and which conditions want attention."""
    texts = []
    progress = found.progress
    if progress.phase not in ("done", "unseen"):
        texts.append(
            f"update {progress.phase}: {progress.updated_pods} of {progress.total_pods} pods updated"
            + (f"; {progress.message}" if progress.message else "")
        )
    for condition in found.conditions:
        good = "False" if condition.type in ("Stalled", "Reconciling") else "True"
        if condition.status != good and condition.type != "Reconciling":
            texts.append(f"{condition.type}={condition.status} {condition.reason}: {condition.message}")
    lines = []
    for text in texts:
        cut = output.wrapped(f"{found.name}: {text}", limit or 200)
        lines += [output.paint(output.Cell(line, "busy"), colour) for line in cut]
    return lines
