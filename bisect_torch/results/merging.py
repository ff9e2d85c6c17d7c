"""Several results files as one: each observation once, and what they say of the same thing in different words. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bisect_torch import analysis
from bisect_torch.analysis.columns import judged
from bisect_torch.model import Observation, Outcome
from bisect_torch.results.held import Held
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.recorded import IDENTITY
from bisect_torch.results.rows import Rows, joined
from bisect_torch.results.schema import FIELDS
from bisect_torch.results.values import in_columns, values_of


@dataclass(frozen=True)
class Part:
    """What one file holds."""

    name: str
    observations: Sequence[Observation]
    metadata: Metadata


@dataclass(frozen=True)
class Conflict:
    """One observation (a key, a repeat, a run) that is not the same in two files.

    Args:
        kept: As it stands in the merged file.
        kept_of: The file that it is from.
        other_of: The file that says otherwise.
        fields: In which columns.
    """

    kept: Observation
    kept_of: str
    other_of: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Disagreement:
    """One cell on which runs in different files gave different answers, which no file shows alone.

    Args:
        cell: Any observation of it.
        answers: File to the signatures of its observations.
    """

    cell: Observation
    answers: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Merged:
    """All files together.

    Args:
        observations: Each once, file by file in the order in which they were recorded.
        repeated: How many records were left out since the same stood in a file before.
        other_texts: Hashes of locks and case files whose text is not the same in two files.
        beside: How many observations stand in no matrix, since newer ones of the same row have another case text,
            machine or device, or the same cell another key.
    """

    observations: Rows
    metadata: Metadata
    repeated: int
    conflicts: tuple[Conflict, ...]
    disagreements: tuple[Disagreement, ...]
    other_texts: tuple[str, ...]
    beside: int


def merge(parts: Sequence[Part]) -> Merged:
    """The union. Where two records of an observation differ, that of the file named first is kept; but one that was
    taken back since its environment was broken is never made good again."""
    rows = joined([_rows(part.observations) for part in parts])
    file_of = _Files(parts)
    same = rows.codes(IDENTITY)
    kept = array("q", same.first)
    again = array("q", (place for place, first in enumerate(rows.gathered(same.first, same.of)) if place != first))
    conflicts: dict[int, Conflict] = {}
    for place in _in_question(rows, same.of, again, rows.gathered(same.first, rows.gathered(same.of, again))):
        known, other = rows[kept[same.of[place]]], rows[place]
        if fields := _differing(known, other):
            better, worse = kept[same.of[place]], place
            if _taken_back(other) and not _taken_back(known):
                better, worse = worse, better
            kept[same.of[place]] = better
            conflicts[same.of[place]] = Conflict(rows[better], file_of(better), file_of(worse), fields)
    metadata = Metadata()
    for part in reversed(parts):  # of what cannot be told apart, that of the file named first counts
        metadata = metadata.with_more(part.metadata)
    observations = rows.take(kept) if again else rows
    return Merged(
        observations=observations,
        metadata=metadata,
        repeated=len(again),
        conflicts=tuple(conflicts.values()),
        disagreements=_disagreements(rows, file_of),
        other_texts=_other_texts(part.metadata for part in parts),
        beside=len(observations) - len(analysis.counted(observations)),
    )


def _rows(observations: Sequence[Observation]) -> Rows:
    return observations if isinstance(observations, Rows) else Rows(Held([in_columns(observations)]))


class _Files:
    """Names of the files that the records of all parts are from."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._names = [part.name for part in parts]
        self._starts = list(accumulate((len(part.observations) for part in parts[:-1]), initial=0))

    def __call__(self, place: int) -> str:
        return self._names[bisect_right(self._starts, place) - 1]


def _in_question(rows: Rows, number: Sequence[int], again: Sequence[int], first: Sequence[int]) -> Sequence[int]:
    """Of the records whose observation stood before, those of an observation that is not the same everywhere.

    Args:
        number: Of the observation that each row records.
        again: The records that are not the first of their observation.
        first: For each of these the first one.
    """
    differing = {number[again[place]] for place in rows.differing(first, again)}
    return [place for place in again if number[place] in differing] if differing else ()


def _taken_back(observation: Observation) -> bool:
    return observation.outcome == Outcome.ENVIRONMENT_BROKEN.value


def _differing(one: Observation, other: Observation) -> tuple[str, ...]:
    """Names of the columns that differ."""
    mine, others = values_of(one), values_of(other)
    if mine == others:
        return ()
    return tuple(name for name, *both in zip(FIELDS, mine, others, strict=True) if not _same(*both))


def _same(one: object, other: object) -> bool:
    """NaN is NaN, and a text is what Parquet can hold of it, which a journal may hold as it was."""
    if isinstance(one, str) and isinstance(other, str):
        return one.encode("utf-8", "backslashreplace") == other.encode("utf-8", "backslashreplace")
    return one == other or (one != one and other != other)


def _disagreements(rows: Rows, file_of: _Files) -> tuple[Disagreement, ...]:
    of, judgements = judged(rows, None)
    signatures = list({each.signature: None for each in judgements if each.verdict.judged})
    unjudged = len(signatures)
    meant = [signatures.index(each.signature) if each.verdict.judged else unjudged for each in judgements]
    said, keys = rows.gathered(array("q", meant), of), rows.codes(("key",))
    different = set(rows.paired(keys.of, said, unjudged + 1))
    times = Counter(each // (unjudged + 1) for each in different if each % (unjudged + 1) != unjudged)
    several = {key for key, number in times.items() if number > 1}
    answers: dict[int, dict[str, set[str]]] = {}
    cells: dict[int, int] = {}
    for place in [place for place, key in enumerate(keys.of) if key in several] if several else ():
        if said[place] != unjudged:
            cells.setdefault(keys.of[place], place)
            answers.setdefault(keys.of[place], {}).setdefault(file_of(place), set()).add(signatures[said[place]])
    found = []
    for key, by_file in answers.items():
        every = set().union(*by_file.values())
        if all(found_there != every for found_there in by_file.values()):
            told = {name: tuple(sorted(found_there)) for name, found_there in by_file.items()}
            found.append(Disagreement(rows[cells[key]], told))
    return tuple(found)


def _other_texts(several: Iterable[Metadata]) -> tuple[str, ...]:
    known: dict[str, str] = {}
    differing: dict[str, None] = {}
    for metadata in several:
        for digest, text in {**metadata.locks, **metadata.sources}.items():
            if known.setdefault(digest, text) != text:
                differing[digest] = None
    return tuple(differing)
