"""Files beside a case file that were not the same for all cells of a row: what differs may come from them. Pure."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bisect_torch.model import FileRead, Series, beside
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, listed

_FACTS = ("local_modules", "started_at", "elapsed_s")
_LATE_S = 60.0
"""So long a cell may take besides its case: to be started, to import torch, to end."""

_MOST_NAMES = 4


@dataclass(frozen=True)
class Unlike:
    """Files that the cells of some rows of a case file read and that may not have been the same for them.

    Args:
        differ: Their contents did; else they are the same, but were written while cells of these rows ran.
        reader: A build that may see what another one has left; empty where the time of writing does not tell.
        writer: That other build.
        either: It may be the other way round too: they ran at the same time.
        rows: Case file, instance and device.
    """

    case_file: str
    files: tuple[str, ...]
    differ: bool
    reader: str
    writer: str
    either: bool
    rows: tuple[tuple[str, str, str], ...]


class _How(NamedTuple):
    """Fields of :class:`Unlike`."""

    differ: bool
    reader: str
    writer: str
    either: bool


@dataclass(frozen=True)
class _Cell:
    """One repeat of a cell, with the times between which it ran, in seconds: ``over`` it surely was when ``latest``."""

    build: str
    read: Mapping[str, FileRead]
    began: float
    over: float
    latest: float


def unlike_files(findings: Findings) -> list[Unlike]:
    """All of them, in the order of the series; what is alike in several rows of a case file is told once."""
    found: dict[tuple[str, _How], tuple[dict[str, None], list[tuple[str, str, str]]]] = {}
    for series, file, how in _unlike(findings):
        files, rows = found.setdefault((series.case_file, how), ({}, []))
        files[file] = None
        rows.append(_row(series))
    return [
        Unlike(case_file, tuple(files), *how, tuple(dict.fromkeys(rows)))
        for (case_file, how), (files, rows) in found.items()
    ]


def unlike_words(findings: Findings) -> list[str]:
    """A sentence for each."""
    return [_words(each, findings) for each in findings.unlike_files]


def _words(found: Unlike, findings: Findings) -> str:
    name = clean(findings.file_names.get(found.case_file, found.case_file))
    files, are = (
        listed([clean(file) for file in found.files], most=_MOST_NAMES),
        "was" if len(found.files) == 1 else "were",
    )
    how = "not the same each time" if found.differ else "written meanwhile"
    what = f"{left_words(found)}; what it writes belongs into tempfile.mkdtemp()" if found.reader else ""
    lies = "" if any(os.path.isabs(file) or file[0] in "<." for file in found.files) else " beside it"
    return f"{name} reads {files}{lies}, which {are} {how}: {what or 'what differs may come from that'}."


def differing_at(ends: Sequence[tuple[Series, str, str]], findings: Findings) -> list[str]:
    """Names of the files that were not the same at two ends, of those that :func:`unlike_files` tells.

    Args:
        ends: Series, older and newer build.
    """
    unlike = [(row, file) for each in findings.unlike_files for row in each.rows for file in each.files]
    found: dict[str, None] = {}
    for series, *builds in ends if unlike else ():
        for file in dict.fromkeys(file for row, file in unlike if row == _row(series)):
            before, after = ({_content(cell, file) for cell in _cells(series, build, findings)} for build in builds)
            if before != after:
                found[file] = None
    return list(found)


def left_between(ends: Sequence[tuple[Series, str, str]], findings: Findings) -> list[Unlike]:
    """What one of two ends may have left for the other.

    Args:
        ends: Series, older and newer build.
    """
    rows = {(_row(series), frozenset(builds)) for series, *builds in ends}
    return [
        each
        for each in findings.unlike_files
        if each.reader and any((row, frozenset((each.reader, each.writer))) in rows for row in each.rows)
    ]


def left_words(found: Unlike) -> str:
    """Who may see what whom has left."""
    reader, writer = clean(found.reader), clean(found.writer)
    if found.either:
        return f"one of {reader} and {writer} may see what the other has left"
    return f"{reader} may see what {writer} has left"


def _row(series: Series) -> tuple[str, str, str]:
    return series.case_file, series.instance, series.device


def _content(cell: _Cell, file: str) -> str | None:
    return cell.read[file].content if file in cell.read else None


def _unlike(findings: Findings) -> Iterator[tuple[Series, str, _How]]:
    if not any(beside(str(text)).read for text in findings.distinct("local_modules")):
        return
    varying = findings.varying(("local_modules",))
    for series in findings.series:
        if varying is not None and _row(series) not in varying:
            continue
        cells = [cell for build in series.builds for cell in _cells(series, build, findings)]
        for file in dict.fromkeys(file for cell in cells for file in cell.read):
            reading = [cell for cell in cells if file in cell.read and not cell.read[file].own]
            contents = {cell.read[file].content for cell in reading}
            pairs = itertools.chain(_left(file, reading, cells), _shared(file, cells), _raced(file, cells))
            reader, writer = next(pairs, ("", ""))
            differ = len(contents) > 1 or "changed" in contents
            if differ or reader:
                yield series, file, _How(differ, reader, writer, either=bool(reader) and (writer, reader) in pairs)


def _left(file: str, reading: Sequence[_Cell], cells: Sequence[_Cell]) -> Iterator[tuple[str, str]]:
    """Builds of which the first has read what was written while the second ran."""
    read_by = {cell.build for cell in cells if file in cell.read}
    for reader in reading:
        written = _seconds(reader.read[file].when)
        running = [cell.build for cell in cells if cell.began <= written <= cell.latest]
        if read_by == {reader.build} and reader.build in running:
            continue  # a file of this build's own
        for writer in dict.fromkeys(running):
            if writer != reader.build:
                yield reader.build, writer


def _shared(file: str, cells: Sequence[_Cell]) -> Iterator[tuple[str, str]]:
    """Builds of which both say that a file was written while they ran, at one moment: only one of them can have."""
    making = [cell for cell in cells if file in cell.read and cell.read[file].own and cell.read[file].when]
    for writer, reader in itertools.combinations(making, 2):
        if writer.build != reader.build and writer.read[file].when == reader.read[file].when:
            yield reader.build, writer.build


def _raced(file: str, cells: Sequence[_Cell]) -> Iterator[tuple[str, str]]:
    """Builds that made a file at the same time, the first of which had it changed after it had opened it."""
    making = [cell for cell in cells if file in cell.read and cell.read[file].own]
    for reader in (cell for cell in making if cell.read[file].what == "changed"):
        for writer in making:
            if writer.build != reader.build and reader.began <= writer.over and writer.began <= reader.over:
                yield reader.build, writer.build


def _cells(series: Series, build: str, findings: Findings) -> Iterator[_Cell]:
    for local_modules, started_at, elapsed_s in findings.facts(series, build, _FACTS):
        began = _seconds(str(started_at or ""))
        over = began + (elapsed_s if isinstance(elapsed_s, float) else 0.0)
        files = {name: file for name, file in beside(str(local_modules)).read.items() if file.what != "many"}
        yield _Cell(build, files, began, over, over + _LATE_S)


def _seconds(moment: str) -> float:
    """Since the epoch; 0 for no time."""
    try:
        return datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
