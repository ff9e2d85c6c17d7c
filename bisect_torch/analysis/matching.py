"""Which rows, builds and devices of two sets of results are the same. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from bisect_torch.analysis.cells import Cell
from bisect_torch.analysis.columns import telling
from bisect_torch.analysis.series import Row
from bisect_torch.model import BuildKind, Observation, beside

Pairs = tuple[tuple[str, str], ...]
"""Names in the first set and in the second."""

Cells = Mapping[Row, Mapping[str, Cell]]


def devices_of(observations: Iterable[Observation]) -> tuple[str, ...]:
    """Names of devices, in the order of their first observation."""
    return tuple(dict.fromkeys(each.device for each in telling(observations, ("device",))))


def device_pairs(first: Sequence[str], second: Sequence[str], chosen: Pairs = ()) -> Pairs:
    """Which device of the first set is compared with which of the second.

    Those that were chosen, and no others; else those of the same name; else the only one of each.
    """
    if chosen:
        return chosen
    same = tuple((name, name) for name in first if name in second)
    return same or (((first[0], second[0]),) if len(first) == len(second) == 1 else ())


def matched_rows(ours: Cells, theirs: Cells, devices: Pairs) -> dict[Row, Row]:
    """Row of the first set to the same row of the second."""
    by_text: dict[tuple[str, str, str], list[Row]] = {}
    by_name: dict[tuple[str, str, str], list[Row]] = {}
    for row in theirs:
        by_text.setdefault((_text(theirs[row]), *row[1:]), []).append(row)
        by_name.setdefault((PurePath(row[0]).name, *row[1:]), []).append(row)
    found: dict[Row, Row] = {}
    taken: set[Row] = set()
    for same_text in (True, False):  # all those of the same bytes first
        for row in ours:
            for _, device in (pair for pair in devices if pair[0] == row[2] and row not in found):
                key = _text(ours[row]) if same_text else PurePath(row[0]).name
                known = (by_text if same_text else by_name).get((key, row[1], device), [])
                fitting = [each for each in known if each not in taken]
                if fitting:
                    found[row] = min(fitting, key=lambda each: each[0] != row[0])
                    taken.add(found[row])
    return {row: found[row] for row in ours if row in found}


def matched_builds(ours: Iterable[Observation], theirs: Iterable[Observation]) -> dict[str, str]:
    """Local interpreters that are called otherwise but hold the same torch, where that leaves no choice."""
    first, second = _local_builds(ours), _local_builds(theirs)
    same = first.keys() & second.keys()
    found = {}
    for name in first.keys() - same:
        alike = [other for other in second.keys() - same if second[other] == first[name]]
        rivals = [other for other in first.keys() - same if first[other] == first[name]]
        if len(alike) == len(rivals) == 1:
            found[name] = alike[0]
    return found


def _local_builds(observations: Iterable[Observation]) -> dict[str, tuple[str, str | None]]:
    seen = telling(observations, ("build_name", "build_kind", "build", "local_version"))
    local = (each for each in seen if each.build_kind == BuildKind.LOCAL.value)
    return {each.build_name: (each.build, each.local_version) for each in local}


def _text(cells: Mapping[str, Cell]) -> str:
    return next(iter(cells.values())).repeats[0][0].case_file_hash


def text_changed(ours: Mapping[str, Cell], theirs: Mapping[str, Cell]) -> bool:
    """Whether the case file of two rows, or a file beside it that both imported or read, is not the same."""
    mine, others = _neighbours(ours), _neighbours(theirs)
    return _text(ours) != _text(theirs) or any(mine[name] != others[name] for name in mine.keys() & others.keys())


def _neighbours(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Files beside the case file that it imported or found there and read, to the hash of their content."""
    found: dict[str, str] = {}
    texts = (each.local_modules for cell in cells.values() for each, _ in cell.repeats)
    for text, _ in itertools.groupby(texts):  # nearly always one and the same
        seen = beside(text)
        found.update(seen.modules)
        found.update({name: file.sha256 for name, file in seen.read.items() if file.is_input and file.sha256})
    return found
