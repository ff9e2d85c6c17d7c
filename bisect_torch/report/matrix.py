"""The matrix as lines of styled pieces: rows are instances grouped by file and case, columns are builds.

The live screen, the plain text and the final summary all draw with this; it knows nothing of terminals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from bisect_torch.report.heads import NARROW, heads
from bisect_torch.report.marks import Mark, legend
from bisect_torch.report.text import Line, clean, fit, plural, width_of, wrap

MIN_LABEL = 14
MAX_LABEL = 48


@dataclass(frozen=True)
class Row:
    """One row: an instance on a device.

    Args:
        file: Path of the case file.
        instance: The instance's name.
        device: Empty where the run has only one.
        marks: One for each build.
    """

    file: str
    instance: str
    device: str
    marks: tuple[Mark, ...]

    @property
    def case(self) -> str:
        return self.instance.partition("[")[0]


@dataclass(frozen=True)
class Labelled:
    """A row ready to be drawn: its label, and marks (None for a heading)."""

    label: str
    marks: tuple[Mark, ...] | None = None


def draw(rows: Sequence[Row], builds: Sequence[str], width: int, *, fold: bool = True) -> list[Line]:
    """The whole matrix with heads and legend.

    Args:
        width: Columns of the terminal. Builds that do not fit beside the labels follow in a second block.
        fold: Draw identical rows of one case once, with their number.
    """
    labelled = label_rows(rows, fold=fold)
    lines: list[Line] = []
    for part in blocks(labelled, builds, width):
        if lines:
            lines.append(())
        lines.extend(draw_block(labelled, builds, part, width))
    return [*lines, *legend_lines((mark for row in rows for mark in row.marks), width)]


def blocks(labelled: Sequence[Labelled], builds: Sequence[str], width: int) -> list[range]:
    """Which builds stand side by side: one range where all fit."""
    room = max(1, (width - min(label_width(labelled), MIN_LABEL)) // NARROW)
    return [range(start, min(start + room, len(builds))) for start in range(0, len(builds), room)]


def label_width(labelled: Iterable[Labelled]) -> int:
    """Columns that the widest label needs, with the space after it."""
    return min(MAX_LABEL, max((width_of(row.label) for row in labelled if row.marks is not None), default=0) + 2)


def draw_block(labelled: Sequence[Labelled], builds: Sequence[str], part: range, width: int) -> list[Line]:
    """Heads and rows for the builds in ``part``."""
    wanted = label_width(labelled)
    label = max(min(wanted, width - NARROW * len(part)), min(wanted, MIN_LABEL))
    top = heads([builds[place] for place in part], width - label, builds)
    lines: list[Line] = [((" " * label + text.rstrip(), "bold"),) for text in top.lines]
    for row in labelled:
        if row.marks is None:
            lines.append(((fit(row.label, min(width, width_of(row.label))), "bold"),))
            continue
        lines.append((fit_label(row.label, label), *_cells([row.marks[place] for place in part], top.width)))
    lines.extend(((text, "dim"),) for text in top.key)
    return lines


def fit_label(label: str, width: int) -> tuple[str, str]:
    return fit(label, width - 1) + " ", ""


def _cells(marks: Iterable[Mark], width: int) -> Iterable[tuple[str, str]]:
    for mark in marks:
        yield (mark.letter + mark.small).ljust(width), mark.style


def legend_lines(marks: Iterable[Mark], width: int) -> list[Line]:
    words = [word.replace(" ", "\u00a0") for word in legend(marks)]
    return [((line.replace("\u00a0", " "), "dim"),) for line in wrap((f"{word} " for word in words), width)]


def label_rows(rows: Sequence[Row], *, fold: bool) -> list[Labelled]:
    """Headings and labels: a file or case with several rows gets a heading, its rows the rest of the name."""
    several_files = len({row.file for row in rows}) > 1
    labelled: list[Labelled] = []
    for file, in_file in _grouped(rows, by_case=False):
        stem = PurePath(file).stem
        names = {row.case for row in in_file}
        heading = several_files and names != {stem}
        if heading:
            labelled.append(Labelled(clean(PurePath(file).name)))
        indent = "  " if heading else ""
        for case, in_case in _grouped(in_file, by_case=True):
            labelled.extend(_label_case(case, in_case, indent, fold))
    return labelled


def _label_case(case: str, rows: Sequence[Row], indent: str, fold: bool) -> Iterable[Labelled]:
    if len(rows) == 1 and len(rows[0].instance) <= MAX_LABEL - 4:
        yield Labelled(indent + clean(rows[0].instance) + _device(rows[0]), rows[0].marks)
        return
    folded = _folded(rows) if fold else [[row] for row in rows]
    if len(folded) == 1 and len(rows) > 1:
        yield Labelled(f"{indent}{clean(case)} ({len(rows)}×)", rows[0].marks)
        return
    names, values = _parameters(rows)
    yield Labelled(indent + clean(case) + (f" [{names}]" if names else ""))
    for group in folded:
        label = _shared_values(group, rows, values) + _device(group[0])
        yield Labelled(f"{indent}  {clean(label).strip()}", group[0].marks)


def _shared_values(group: Sequence[Row], rows: Sequence[Row], values: Mapping[int, tuple[str, ...]]) -> str:
    """``*,65552 (2×)`` where the group is all rows with that value; else the first row's values and how many more."""
    first = values[id(group[0])]
    if len(group) == 1:
        return ",".join(first)
    mine = [values[id(row)] for row in group]
    pattern = tuple(words[0] if len(set(words)) == 1 else "*" for words in zip(*mine, strict=True))
    fitting = [
        row for row in rows if all(want in ("*", have) for want, have in zip(pattern, values[id(row)], strict=True))
    ]
    if len(fitting) == len(group) and any(word != "*" for word in pattern):
        return f"{','.join(pattern)} ({len(group)}×)"
    return f"{','.join(first)} and {plural(len(group) - 1, 'other')}"


def _device(row: Row) -> str:
    return f" @{clean(row.device)}" if row.device else ""


def _folded(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[Mark, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.marks, []).append(row)
    return list(groups.values())


def _parameters(rows: Sequence[Row]) -> tuple[str, dict[int, tuple[str, ...]]]:
    """The names of the parameters, once, and each row's values; the whole inside where the names differ."""
    insides = {id(row): row.instance.partition("[")[2].removesuffix("]") for row in rows}
    pairs = {key: [word.partition("=") for word in inside.split(",")] for key, inside in insides.items()}
    names = {tuple(name for name, _, _ in words) for words in pairs.values()}
    if len(names) != 1 or not all(sign for words in pairs.values() for _, sign, _ in words):
        return "", {key: (inside,) for key, inside in insides.items()}
    return clean(",".join(names.pop())), {key: tuple(value for _, _, value in words) for key, words in pairs.items()}


def _grouped(rows: Sequence[Row], *, by_case: bool) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.case if by_case else row.file, []).append(row)
    return list(groups.items())
