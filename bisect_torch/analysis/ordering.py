"""In which order rows stand, whatever shows them: that in which a run plans its cells. Pure.

By file as the command names them, by case as the file defines them, by parameters as the case gives their values, by
device. Results hold observations in the order in which they were made, which hangs on what ran at the same time, so
each run's manifest keeps the order that it planned: by files, cases and values, since rows may be a million.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from bisect_torch.model import Series

Row = tuple[str, str, str]
"""Case file, instance, device."""

_BETWEEN = re.compile(r",(?=\w+=)")
"""What stands between two parameters; a comma may stand in a value too."""

_Words = dict[str, int]
"""Each word's place."""


def planned(rows: Iterable[tuple[str, str]]) -> dict[str, object]:
    """The order of rows as a manifest keeps it.

    Args:
        rows: Case file and instance of each, as results call them, in the order in which they are planned.

    Returns:
        ``rows``: for each file a list of its name and one list for each case: the case's name and the texts of its
        parameters, in the order in which they first occur: ``["cases.py", ["bmm", "n=1", "n=2", "dtype=float32"],
        ["softmax"]]``. ``row_counts``: by file and case, how many there are.
    """
    files: dict[str, dict[str, _Words]] = {}
    counts: dict[str, dict[str, int]] = {}
    for file, instance in rows:
        case, values = _parts(instance)
        known = files.setdefault(file, {}).setdefault(case, {})
        for value in values:
            known.setdefault(value, len(known))
        of_file = counts.setdefault(file, {})
        of_file[case] = of_file.get(case, 0) + 1
    order = [[file, *([case, *values] for case, values in cases.items())] for file, cases in files.items()]
    return {"rows": order, "row_counts": counts}


def never_begun(runs: Sequence[Mapping[str, object]], seen: Iterable[Series]) -> list[Row]:
    """Rows that a run which was cut off had planned and no build has begun, where they are known one by one.

    Of a case the newest run decides that planned it. Known are they where a run had one device, and where every choice
    of a case's parameters was planned.

    Args:
        runs: Manifests, oldest first.
        seen: Rows that were observed; looked at only where a run was cut off.
    """
    newest: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        devices, counts = _texts(run.get("devices")), run.get("row_counts")
        cut_off = run.get("ended_at") is None and len(devices) == 1
        for file, cases in _kept(run.get("rows")).items():
            of_file = counts.get(file) if isinstance(counts, dict) else None
            for case, words in cases.items():
                number = of_file.get(case) if isinstance(of_file, dict) else None
                names = _instances(case, words, number) if cut_off and isinstance(number, int) else []
                newest[file, case] = [(file, name, devices[0]) for name in names]
    planned_rows = [row for rows in newest.values() for row in rows]
    begun = {(each.case_file, each.instance, each.device) for each in seen} if planned_rows else frozenset()
    return [row for row in planned_rows if row not in begun]


def _instances(case: str, words: Sequence[str], number: int) -> list[str]:
    """Every choice of a case's parameters; none where these are not as many as were planned."""
    values: dict[str, list[str]] = {}
    for word in words:
        values.setdefault(word.partition("=")[0], []).append(word)
    if math.prod(map(len, values.values())) != number:
        return []
    return [f"{case}[{','.join(choice)}]" if choice else case for choice in itertools.product(*values.values())]


class PlannedOrder:
    """The order of the rows of several runs.

    Where runs put the same rows in different orders, the newest decides; what only an older one had stays beside what
    it stood beside. Rows of which no run keeps an order come last, by file and case as they are asked for.

    Args:
        runs: Manifests, oldest first.
    """

    def __init__(self, runs: Iterable[Mapping[str, object]]) -> None:
        files: list[str] = []
        cases: dict[str, list[str]] = {}
        values: dict[tuple[str, str], list[str]] = {}
        devices: list[str] = []
        for run in runs:
            kept = _kept(run.get("rows"))
            files = woven(files, list(kept))
            for file, of_file in kept.items():
                cases[file] = woven(cases.get(file, []), list(of_file))
                for case, words in of_file.items():
                    values[file, case] = woven(values.get((file, case), []), words)
            devices = woven(devices, _texts(run.get("devices")))
        self._files = _places(files)
        self._cases = {file: _places(words) for file, words in cases.items()}
        self._values = {case: _places(words) for case, words in values.items()}
        self._devices = _places(devices)

    def sorted(self, series: Iterable[Series]) -> list[Series]:
        """The series in this order."""
        return sorted(series, key=lambda each: self.place((each.case_file, each.instance, each.device)))

    def place(self, row: Row) -> tuple[int, int, tuple[int, ...], int]:
        """What sorts a row among the others; of what no run has planned, in the order in which it is asked for."""
        file, instance, device = row
        case, values = _parts(instance)
        known = self._values.setdefault((file, case), {})
        return (
            _place(self._files, file),
            _place(self._cases.setdefault(file, {}), case),
            tuple([_place(known, value) for value in values]),
            _place(self._devices, device),
        )


def woven(known: Sequence[str], newer: Sequence[str]) -> list[str]:
    """Two orders as one: that of the newer one, with what only the known one has where it stood.

    What only the newer one has comes behind the word before it there; its first words come before the next one that is
    known.
    """
    old, new = set(known), set(newer)
    first: list[str] = []
    behind: dict[str, list[str]] = {}
    shared: list[str] = []
    for word in dict.fromkeys(newer):
        if word in old:
            shared.append(word)
        else:
            (behind.setdefault(shared[-1], []) if shared else first).append(word)
    if not shared:
        return [*known, *first]
    found: list[str] = []
    in_order = iter(shared)
    for each in known:
        word = next(in_order) if each in new else each
        found += [*(first if word == shared[0] else ()), word, *behind.get(word, ())]
    return found


def _parts(instance: str) -> tuple[str, list[str]]:
    """The case and the texts of its parameters: ``bmm``, ``["dtype=float32", "n=2"]``."""
    case, bracket, rest = instance.partition("[")
    return case, _BETWEEN.split(rest.removesuffix("]")) if bracket else []


def _kept(rows: object) -> dict[str, dict[str, list[str]]]:
    """What :func:`planned` has made, as far as it is such: file to case to values."""
    found: dict[str, dict[str, list[str]]] = {}
    for each in rows if isinstance(rows, list) else ():
        file, *cases = each if isinstance(each, list) and each else [None]
        if isinstance(file, str):
            words = (_texts(case) for case in cases)
            found[file] = {case: values for case, *values in filter(None, words)}
    return found


def _texts(words: object) -> list[str]:
    return list(dict.fromkeys(str(word) for word in words)) if isinstance(words, list) else []


def _places(words: Iterable[str]) -> _Words:
    return {word: place for place, word in enumerate(words)}


def _place(words: _Words, word: str) -> int:
    return words.setdefault(word, len(words))
