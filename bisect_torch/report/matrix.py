"""The matrix as lines of styled pieces: rows are instances grouped by file and case, columns are builds.

The live screen, the plain text and the final summary all draw with this; it knows nothing of terminals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from bisect_torch.report.files import short_names
from bisect_torch.report.heads import NARROW, heads
from bisect_torch.report.marks import MARK_OK, Mark, legend
from bisect_torch.report.parameters import in_common, pairs
from bisect_torch.report.text import Line, clean, fit, plural, width_of, wrap

MIN_LABEL = 14
MAX_LABEL = 48
LONG = 60
"""Rows beyond which those that are ok everywhere are only counted."""


@dataclass(frozen=True)
class Row:
    """One row: an instance on a device.

    Args:
        file: Path of the case file.
        instance: The instance's name.
        device: Empty where the run has only one.
        marks: One for each build.
        name: How the row is called where it stands alone; its instance's name where empty.
    """

    file: str
    instance: str
    device: str
    marks: tuple[Mark, ...]
    name: str = ""

    @property
    def case(self) -> str:
        """The instance without its parameters."""
        return self.instance.partition("[")[0]


@dataclass(frozen=True)
class Labelled:
    """A row ready to be drawn: its label, and marks (None for a heading).

    Args:
        others: It stands for other rows too, which its label does not name.
    """

    label: str
    marks: tuple[Mark, ...] | None = None
    others: bool = False


def draw_unfolded(rows: Sequence[Row], builds: Sequence[str], width: int) -> list[Line]:
    """The matrix with a line for each row, called by its whole name, which is never cut."""
    labelled = [Labelled(clean(row.name or row.instance) + _device(row), row.marks) for row in rows]
    label = max((width_of(row.label) for row in labelled), default=0) + 2
    most = max(1, (width - label) // NARROW)
    lines: list[Line] = []
    for start in range(0, len(builds), most):
        part = range(start, min(start + most, len(builds)))
        lines += [*([()] if lines else []), *_block(labelled, builds, part, label, width)]
    return [*lines, *legend_lines((mark for row in rows for mark in row.marks), width)]


def draw(rows: Sequence[Row], builds: Sequence[str], width: int, *, unfolded: str = "") -> list[Line]:
    """The whole matrix with heads and legend.

    Identical rows of one case are drawn once, with their number. In a long matrix, rows that are ok in every build are
    counted only.

    Args:
        width: Columns of the terminal. Builds that do not fit beside the labels follow in a second block.
        unfolded: The command that prints a line for each row, told where not every row has one that names it.
    """
    different = {id(row.marks): row.marks for row in rows}
    labelled = label_rows(rows, fold=True)
    left_out = 0
    if len(labelled) > LONG:
        ok = {key for key, marks in different.items() if all(mark == MARK_OK for mark in marks)}
        telling = [row for row in rows if id(row.marks) not in ok]
        left_out = len(rows) - len(telling)
        labelled = label_rows(telling, fold=True)
    lines: list[Line] = []
    for part in blocks(labelled, builds, width):
        if lines:
            lines.append(())
        lines.extend(draw_block(labelled, builds, part, width))
    if left_out:
        lines.append(((f"and {plural(left_out, 'row')} not shown: ok in every build", "dim"),))
    lines += legend_lines((mark for marks in different.values() for mark in marks), width)
    if unfolded and (left_out or any(row.others for row in labelled)):
        lines += [((line, "dim"),) for line in wrap(["a line for each row:", unfolded], width, indent="  ")]
    return lines


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
    return _block(labelled, builds, part, label, width)


def _block(labelled: Sequence[Labelled], builds: Sequence[str], part: range, label: int, width: int) -> list[Line]:
    """The same with ``label`` columns for the labels."""
    top = heads([builds[place] for place in part], width - label, builds)
    lines: list[Line] = [((" " * label + text.rstrip(), "bold"),) for text in top.lines]
    for row in labelled:
        if row.marks is None:
            lines.append(((fit(row.label, min(width, width_of(row.label))), "bold"),))
            continue
        lines.append((fit_label(row.label, label), *_cells([row.marks[place] for place in part], top.width)))
    return lines + key_lines(top.key, width)


def key_lines(key: Iterable[str], width: int) -> list[Line]:
    """What the tags among the heads stand for. A hybrid is called by all its packages: broken after a comma."""
    texts = (wrap(text.replace(",", ", ").split(" "), width, indent="   ") for text in key)
    return [((line, "dim"),) for lines in texts for line in lines]


def fit_label(label: str, width: int) -> tuple[str, str]:
    """A label as a piece of a line, ``width`` characters wide with the space behind it."""
    return fit(label, width - 1) + " ", ""


def _cells(marks: Iterable[Mark], width: int) -> Iterable[tuple[str, str]]:
    for mark in marks:
        yield (mark.letter + mark.small).ljust(width), mark.style


def legend_lines(marks: Iterable[Mark], width: int) -> list[Line]:
    """What the marks mean, in lines of at most ``width``."""
    words = [word.replace(" ", "\u00a0") for word in legend(marks)]
    return [((line.replace("\u00a0", " "), "dim"),) for line in wrap((f"{word} " for word in words), width)]


def label_rows(rows: Sequence[Row], *, fold: bool) -> list[Labelled]:
    """Headings and labels: a file or case with several rows gets a heading, its rows the rest of the name."""
    names = short_names(row.file for row in rows)
    stems = Counter(PurePath(file).stem for file in names)
    labelled: list[Labelled] = []
    for file, in_file in _grouped(rows, by_case=False):
        stem = PurePath(file).stem
        is_its_case = {row.case for row in in_file} == {stem} and stems[stem] == 1
        heading = len(names) > 1 and not is_its_case
        if heading:
            labelled.append(Labelled(clean(names[file])))
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
    known = {id(row): pairs(row.instance) for row in rows}
    names = {None if each is None else tuple(name for name, _ in each) for each in known.values()}
    same_names = len(names) == 1 and None not in names
    heading = ",".join(name for name, _ in known[id(rows[0])] or ()) if same_names else ""
    yield Labelled(indent + clean(case) + (f" [{clean(heading)}]" if heading else ""))
    for group in folded:
        values, others = _values(group, rows, same_names)
        label = f"{values}{f' and {others}' if others else ''}{_device(group[0])}"
        yield Labelled(f"{indent}  {clean(label).strip()}", group[0].marks, others=bool(others))


def _values(group: Sequence[Row], rows: Sequence[Row], same_names: bool) -> tuple[str, str]:
    """``*,65552 (2×)`` where the group is all rows with that value; else the first row's values, and in words how many
    more there are."""
    first = group[0].instance
    own = pairs(first) if same_names else None
    text = first.partition("[")[2].removesuffix("]") if own is None else ",".join(value for _, value in own)
    if len(group) == 1:
        return text, ""
    common = in_common({row.instance for row in group}, [row.instance for row in rows]) if own else ()
    if common and own:
        return ",".join(value if (name, value) in common else "*" for name, value in own) + f" ({len(group)}×)", ""
    return text, plural(len(group) - 1, "other")


def _device(row: Row) -> str:
    return f" @{clean(row.device)}" if row.device else ""


def _folded(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[Mark, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.marks, []).append(row)
    return list(groups.values())


def _grouped(rows: Sequence[Row], *, by_case: bool) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.case if by_case else row.file, []).append(row)
    return list(groups.items())
