"""The matrix as a picture for an issue's text: readable at the width of a page on GitHub, and without its colours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.columns import telling
from bisect_torch.report.canvas import Box, Shape, Words, as_png, as_svg, ellipsised, shown, width
from bisect_torch.report.findings import Findings
from bisect_torch.report.heads import heads, tags
from bisect_torch.report.marks import MARK_OK, Mark, legend
from bisect_torch.report.matrix import Labelled, Row, label_rows
from bisect_torch.report.summary import rows_of
from bisect_torch.report.text import listed, plural
from bisect_torch.report.title import about, title

WIDTH = 840
"""Pixels at most: an issue's text on GitHub is 800 to 900 wide. Few builds take less."""

SCALE = 2
"""Dots of a PNG for each pixel."""

MOST_LINES = 40
"""Lines of a picture; what is left out then is said below it."""

_MARGIN = 12.0
_ROW = 22.0
_NARROWEST, _WIDEST = 24.0, 56.0  # of a column
_WIDEST_LABEL = 300.0  # unless few builds leave more room
_INDENT = 7.0  # for each space before a label
_LEAST = 240.0  # of what stands between the margins
_TITLE, _LABEL, _HEAD, _MARK, _NOTE = 14.0, 12.0, 10.5, 12.5, 11.0  # sizes of letters
_GREY = "#59636e"

_COLOURS: dict[str, tuple[str, str]] = {
    "·": ("#e3eef6", "#57606a"),
    "W": ("#b8480a", "#ffffff"),
    "E": ("#f2c14e", "#1f2328"),
    "C": ("#3d1f5c", "#ffffff"),
    "T": ("#0072b2", "#ffffff"),
    "O": ("#56b4e9", "#1f2328"),
    "D": ("#e3b9d2", "#1f2328"),
    "A": ("#d5d9dd", "#1f2328"),
}
"""Letter to fill and colour of the letter. Hues are from Okabe and Ito's set (Color Universal Design, 2008), shifted so
that they also differ in lightness, and that a letter has a contrast of 4.5 or more to its fill (WCAG 2.2, 1.4.3). What
says nothing about the build is white."""
_NO_COLOUR = ("#ffffff", "#57606a")
_EDGE = "#d1d9e0"


def svg(findings: Findings) -> str:
    """The matrix as SVG; its words are text, so that they can be searched and read aloud.

    Raises:
        UsageError: matplotlib is not installed.
    """
    drawn = _draw(findings)
    return as_svg(drawn.shapes, drawn.width, drawn.height, drawn.title)


def png(findings: Findings) -> bytes:
    """The matrix as PNG, :data:`SCALE` times as large as it is meant to be shown.

    Raises:
        UsageError: matplotlib is not installed.
    """
    drawn = _draw(findings)
    return as_png(drawn.shapes, drawn.width, drawn.height, drawn.title, SCALE)


@dataclass(frozen=True)
class _Drawing:
    shapes: list[Shape]
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class _Widths:
    """Pixels of the picture, and in it of the labels and of each column."""

    whole: float
    label: float
    column: float

    @property
    def room(self) -> float:
        return self.whole - 2 * _MARGIN


def _draw(findings: Findings) -> _Drawing:
    rows = rows_of(findings)
    labelled, left_out = _shortened(rows)
    labelled = [Labelled(shown(line.label), line.marks) for line in labelled]
    label = _label_width(labelled, len(findings.builds))
    parts = _parts(len(findings.builds), label)
    most = max(map(len, parts), default=1)
    column = min(_WIDEST, (WIDTH - 2 * _MARGIN - label) / most)
    heading, below = shown(title(findings)), shown(about(findings))
    needed = max(label + most * column, width(heading, _TITLE, bold=True), width(below, _NOTE), _LEAST)
    widths = _Widths(min(WIDTH, math.ceil(needed + 2 * _MARGIN)), label, column)

    shapes: list[Shape] = []
    fitting = ellipsised(heading, _TITLE, widths.room, bold=True)
    shapes.append(Words(_MARGIN, _MARGIN + _TITLE, fitting, _TITLE, bold=True))
    y = _note(shapes, below, _MARGIN + _TITLE + 2, widths) + _ROW / 2
    for part in parts:
        y = _block(shapes, labelled, findings.build_names, part, widths, y) + _ROW / 2
    y = _legend(shapes, legend(mark for row in rows for mark in row.marks), y, widths)
    for text in _notes(findings, left_out):
        y = _note(shapes, shown(text), y, widths)
    return _Drawing(shapes, widths.whole, y + _MARGIN, f"{heading}: {below}")


def _note(shapes: list[Shape], text: str, y: float, widths: _Widths) -> float:
    """A grey sentence in as many lines as it takes; gives where it ends."""
    for line in _wrapped(text, _NOTE, widths.room):
        y += 16
        shapes.append(Words(_MARGIN, y, line, _NOTE, colour=_GREY))
    return y


def _wrapped(text: str, size: float, room: float) -> Iterator[str]:
    """Lines of at most ``room`` pixels, broken between words."""
    line = ""
    for word in text.split(" "):
        if line and width(f"{line} {word}", size) > room:
            yield ellipsised(line, size, room)
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield ellipsised(line, size, room)


def _shortened(rows: list[Row]) -> tuple[list[Labelled], list[str]]:
    """The lines of the picture, and in words what is not among them."""
    left_out: list[str] = []
    labelled = label_rows(rows, fold=True)
    for why, dull in (("ok", {MARK_OK}), ("the same", None)):
        if len(labelled) <= MOST_LINES:
            return labelled, left_out
        kept = [row for row in rows if len(set(row.marks)) > 1 or (dull is not None and set(row.marks) != dull)]
        if len(kept) < len(rows):
            left_out.append(f"{plural(len(rows) - len(kept), 'row')}, {why} in every build")
        rows = kept
        labelled = label_rows(rows, fold=True)
    if len(labelled) > MOST_LINES:
        left_out.append(f"{plural(sum(each.marks is not None for each in labelled[MOST_LINES:]), 'more line')}")
    return labelled[:MOST_LINES], left_out


def _label_width(labelled: Sequence[Labelled], builds: int) -> float:
    widest = max((_indent(row) + width(row.label.strip(), _LABEL) for row in labelled if row.marks), default=0.0)
    return min(widest + 8, max(_WIDEST_LABEL, WIDTH - 2 * _MARGIN - builds * _WIDEST))


def _indent(row: Labelled) -> float:
    return _INDENT * (len(row.label) - len(row.label.lstrip(" ")))


def _parts(builds: int, label: float) -> list[range]:
    """Which builds stand side by side: as many in each block, where they do not fit into one."""
    most = int((WIDTH - 2 * _MARGIN - label) // _NARROWEST)
    size = -(-builds // -(-builds // most)) if builds else 1
    return [range(start, min(start + size, builds)) for start in range(0, builds, size)]


def _block(
    shapes: list[Shape],
    labelled: Sequence[Labelled],
    builds: Sequence[str],
    part: range,
    widths: _Widths,
    y: float,
) -> float:
    """Heads and rows of some builds; gives where they end."""
    column = widths.column
    left = _MARGIN + widths.label
    tag = tags(builds)
    names = [shown(tag.get(builds[place], builds[place])) for place in part]
    widest = max(width(name, _HEAD) for name in names)
    upright = widest + 3 > column
    y += widest if upright else _HEAD
    for place, name in enumerate(names):
        middle = left + (place + 0.5) * column
        shapes.append(Words(middle, y, name, _HEAD, centred=True, upright=upright))
    y += 6
    for row in labelled:
        room = (widths.label if row.marks else widths.room) - _indent(row) - 6
        heading = row.marks is None
        text = ellipsised(row.label.strip(), _LABEL, room, bold=heading)
        shapes.append(Words(_MARGIN + _indent(row), y + 15, text, _LABEL, bold=heading))
        for place, index in enumerate(part if row.marks else ()):
            shapes.extend(_cell((row.marks or ())[index], left + place * column, y, column))
        y += _ROW
    for text in heads([builds[place] for place in part], 0, builds).key:
        y = _note(shapes, shown(text).replace(",", ", "), y, widths)  # a hybrid has all its packages
    return y


def _cell(mark: Mark, x: float, y: float, column: float) -> Iterator[Shape]:
    fill, colour = _COLOURS.get(mark.letter, _NO_COLOUR)
    edge = _EDGE if fill == _NO_COLOUR[0] else "none"
    yield Box(x + 1, y + 1, column - 2, _ROW - 2, fill, edge)
    yield Words(x + column / 2, y + 15, f"{mark.letter}{mark.small}".strip(), _MARK, True, colour, centred=True)


def _legend(shapes: list[Shape], entries: Sequence[str], y: float, widths: _Widths) -> float:
    """What the letters mean, with their colours, in as many lines as it takes."""
    x = _MARGIN
    for entry in entries:
        sign, words = entry[0], entry[2:]
        needed = 24 + width(words, _NOTE) + 18
        if x > _MARGIN and x + needed > widths.whole:
            x, y = _MARGIN, y + _ROW
        if sign in "~*'":
            shapes.append(Words(x + 9, y + 15, sign, _MARK, True, centred=True))
        else:
            shapes.extend(_cell(Mark(sign), x - 1, y + 1, 20))
        shapes.append(Words(x + 24, y + 15, words, _NOTE))
        x += needed
    return y + _ROW


def _notes(findings: Findings, left_out: Sequence[str]) -> Iterator[str]:
    if left_out:
        yield f"Not shown: {'; '.join(left_out)}."
    machines = dict.fromkeys(str(name) for name in findings.distinct("machine") if name)
    devices = dict.fromkeys(
        each.device_name or each.device for each in telling(findings.observations, ("device_name", "device"))
    )
    pythons = dict.fromkeys(str(name) for name in findings.distinct("python") if name)
    where = [listed(list(devices), most=3), listed(list(machines), most=3)]
    where.append(f"Python {listed(list(pythons), most=3)}" if pythons else "")
    if any(where):
        yield ", ".join(each for each in where if each)
