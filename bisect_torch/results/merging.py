"""Several results files as one: each observation once, and what they say of the same thing in different words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch import analysis
from bisect_torch.model import Observation, Outcome
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.recorded import Identity, identity
from bisect_torch.results.schema import FIELDS
from bisect_torch.results.values import values_of


@dataclass(frozen=True)
class Part:
    """What one file holds."""

    name: str
    observations: tuple[Observation, ...]
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

    observations: tuple[Observation, ...]
    metadata: Metadata
    repeated: int
    conflicts: tuple[Conflict, ...]
    disagreements: tuple[Disagreement, ...]
    other_texts: tuple[str, ...]
    beside: int


def merge(parts: Sequence[Part]) -> Merged:
    """The union. Where two records of an observation differ, that of the file named first is kept; but one that was
    taken back since its environment was broken is never made good again."""
    kept: dict[Identity, tuple[Observation, str]] = {}
    conflicts: dict[Identity, Conflict] = {}
    repeated = 0
    for part in parts:
        for observation in part.observations:
            known = kept.get(identity(observation))
            if known is None:
                kept[identity(observation)] = (observation, part.name)
                continue
            repeated += 1
            if fields := _differing(known[0], observation):
                better, worse = known, (observation, part.name)
                if _taken_back(observation) and not _taken_back(known[0]):
                    better, worse = worse, better
                kept[identity(observation)] = better
                conflicts[identity(observation)] = Conflict(better[0], better[1], worse[1], fields)
    metadata = Metadata()
    for part in reversed(parts):  # of what cannot be told apart, that of the file named first counts
        metadata = metadata.with_more(part.metadata)
    observations = tuple(observation for observation, _ in kept.values())
    return Merged(
        observations=observations,
        metadata=metadata,
        repeated=repeated,
        conflicts=tuple(conflicts.values()),
        disagreements=_disagreements(parts),
        other_texts=_other_texts(part.metadata for part in parts),
        beside=len(observations) - len(analysis.counted(observations)),
    )


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


def _disagreements(parts: Sequence[Part]) -> tuple[Disagreement, ...]:
    answers: dict[str, dict[str, set[str]]] = {}
    cells: dict[str, Observation] = {}
    for part in parts:
        for observation in part.observations:
            judgement = analysis.judge(observation)
            if judgement.verdict.judged:
                cells.setdefault(observation.key, observation)
                by_file = answers.setdefault(observation.key, {})
                by_file.setdefault(part.name, set()).add(judgement.signature)
    found = []
    for key, by_file in answers.items():
        every = set().union(*by_file.values())
        if all(signatures != every for signatures in by_file.values()):
            told = {name: tuple(sorted(signatures)) for name, signatures in by_file.items()}
            found.append(Disagreement(cells[key], told))
    return tuple(found)


def _other_texts(several: Iterable[Metadata]) -> tuple[str, ...]:
    known: dict[str, str] = {}
    differing: dict[str, None] = {}
    for metadata in several:
        for digest, text in {**metadata.locks, **metadata.sources}.items():
            if known.setdefault(digest, text) != text:
                differing[digest] = None
    return tuple(differing)
