"""What greedy decoding gave under many configurations and releases, sorted from observations. Pure.

It reads what the cells of ``--suite decoding`` recorded; ``cases/_decoder.py`` has the names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bisect_torch.analysis.series import Row, collect
from bisect_torch.analysis.transitions import NOT_RUN
from bisect_torch.model import Judgement, Observation

AXES = ("batch", "threads", "padding", "processes")
"""What is varied within a release; names of the fields of :class:`Configuration`."""


class Configuration(NamedTuple):
    """How the same questions were decoded.

    Args:
        dtype: ``bfloat16``, ``float16``, ``float32`` or ``layercast``.
        batch: Questions decoded together.
        threads: Of torch, in each process.
        padding: Tokens of padding on the left of every prompt.
        processes: Over which the model is split (tensor parallel).
        device: Where.
    """

    dtype: str
    batch: int
    threads: int
    padding: int
    processes: int
    device: str

    def without(self, axis: str) -> tuple[object, ...]:
        """What stays fixed when one thing varies."""
        return tuple(value for name, value in zip(self._fields, self, strict=True) if name != axis)


@dataclass(frozen=True)
class Decoded:
    """What one cell gave.

    Args:
        outputs: Per question, one character a token.
        correct: Questions answered exactly.
        answerable: Questions that have an exact answer.
        paths: Per question, probability of the chosen token at positions 0, ``every``, 2 ``every``, …
    """

    configuration: Configuration
    build: str
    outputs: tuple[str, ...]
    correct: int
    answerable: int
    paths: tuple[tuple[float, ...], ...]
    every: int


@dataclass(frozen=True)
class Sweep:
    """The cells of a decoding sweep.

    Args:
        builds: In release order.
        configurations: All that gave an output on some build.
        cells: By configuration and build, those that have one output for each question. What a user would get counts,
            so one whose logits are wrong is among them.
        missing: The other ones, with the reason.
        silent: Instances that gave no output on any build, so that their configuration is not known, with the reason.
        repeated: Cells that were run in more than one process.
        unstable: Those of them whose outputs differ between the processes; see :func:`divergences`.
    """

    builds: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    cells: Mapping[tuple[Configuration, str], Decoded]
    missing: Mapping[tuple[Configuration, str], str]
    silent: Mapping[str, str]
    repeated: frozenset[tuple[Configuration, str]]
    unstable: Mapping[tuple[Configuration, str], tuple[int, ...]]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The precisions, in order of first occurrence."""
        return tuple(dict.fromkeys(each.dtype for each in self.configurations))

    def of(self, dtype: str) -> tuple[Configuration, ...]:
        """The configurations of one precision."""
        return tuple(each for each in self.configurations if each.dtype == dtype)


def sweep(observations: Iterable[Observation], builds: Sequence[str]) -> Sweep:
    """Sort the observations of a results file into a sweep; those that recorded no outputs in any cell are left out.

    Args:
        observations: Of any number of runs, in the order in which they were recorded.
        builds: Names of the builds that count, in release order.
    """
    rows = {row: cells for row, cells in collect(_newest(observations)).items() if _is_decoding(row, cells)}
    known: dict[Configuration, Mapping[str, Any]] = {}
    silent: dict[str, str] = {}
    for (_, instance, device), cells in rows.items():
        configuration = _configuration(cells, device)
        if configuration is None:
            silent[instance] = next((_reason(each.repeats[0][1]) for each in cells.values()), NOT_RUN)
        else:
            known[configuration] = cells
    found: dict[tuple[Configuration, str], Decoded] = {}
    missing: dict[tuple[Configuration, str], str] = {}
    repeated: set[tuple[Configuration, str]] = set()
    unstable: dict[tuple[Configuration, str], tuple[int, ...]] = {}
    for configuration, cells in known.items():
        for build in builds:
            place = (configuration, build)
            repeats = cells[build].repeats if build in cells else ()
            given = [_decoded(o, configuration) for o, judgement in repeats if _gave_outputs(o, judgement)]
            tokens = divergences([each.outputs for each in given])
            if len(given) > 1:
                repeated.add(place)
            if not given:
                missing[place] = _reason(repeats[0][1]) if repeats else NOT_RUN
            elif tokens:
                unstable[place] = tokens
                missing[place] = "its outputs differ from process to process"
            else:
                found[place] = given[0]
    _set_aside_other_questions(found, missing)
    configurations = tuple(sorted(known, key=lambda each: each[1:]))
    return Sweep(tuple(builds), configurations, found, missing, silent, frozenset(repeated), unstable)


def _newest(observations: Iterable[Observation]) -> list[Observation]:
    """Those of the newest content of each case file: outputs of two models or two lists of questions are no pair."""
    every = list(observations)
    newest: dict[str, tuple[str, str]] = {}
    for each in every:
        if "outputs" in each.measurements:
            seen = (each.started_at or "", each.case_file_hash)
            if each.case_file not in newest or seen[0] >= newest[each.case_file][0]:
                newest[each.case_file] = seen
    return [each for each in every if each.case_file in newest and each.case_file_hash == newest[each.case_file][1]]


def _is_decoding(row: Row, cells: Mapping[str, Any]) -> bool:
    """Every row of a file of which some cell recorded outputs is one; what has no ``dtype`` is another kind of case."""
    first = next(iter(cells.values())).repeats[0][0]
    return "dtype" in json.loads(first.parameters)


def _configuration(cells: Mapping[str, Any], device: str) -> Configuration | None:
    """As the first cell of a row recorded it: not everything is a parameter."""
    for cell in cells.values():
        for observation, judgement in cell.repeats:
            if _gave_outputs(observation, judgement):
                measured = observation.measured
                batch, threads, padding, processes = (int(measured[name]) for name in AXES)
                return Configuration(str(measured["dtype"]), batch, threads, padding, processes, device)
    return None


def _gave_outputs(observation: Observation, judgement: Judgement) -> bool:
    return judgement.verdict.judged and isinstance(observation.measured.get("outputs"), list)


def _decoded(observation: Observation, configuration: Configuration) -> Decoded:
    measured = observation.measured
    return Decoded(
        configuration=configuration,
        build=observation.build_name,
        outputs=tuple(measured["outputs"]),
        correct=int(measured["correct"]),
        answerable=int(measured["answerable"]),
        paths=tuple(tuple(float(one) for one in path) for path in measured["top1_path"]),
        every=int(measured["top1_every"]),
    )


def _reason(judgement: Judgement) -> str:
    return f"{judgement.verdict.value}: {judgement.reason}" if judgement.reason else judgement.signature


def _set_aside_other_questions(
    found: dict[tuple[Configuration, str], Decoded], missing: dict[tuple[Configuration, str], str]
) -> None:
    numbers = Counter(len(each.outputs) for each in found.values()).most_common()
    for place, each in list(found.items()):
        if len(each.outputs) != numbers[0][0]:
            missing[place] = f"it has {len(each.outputs)} outputs, the others have {numbers[0][0]}"
            del found[place]


def common_prefix(outputs: Sequence[str]) -> int | None:
    """How many leading tokens several outputs of one question share: the 0-based position of the first that differs.

    An output that ends where another goes on differs there. None when all are the same.
    """
    first = outputs[0]
    if all(each == first for each in outputs):
        return None
    shortest = min(len(each) for each in outputs)
    return next((place for place in range(shortest) if len({each[place] for each in outputs}) > 1), shortest)


def divergences(outputs: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Of each question whose outputs differ between several cells, the first token that does, sorted.

    Args:
        outputs: Per cell, one for each question; those of different cells are of the same questions.
    """
    found = [common_prefix(of_question) for of_question in zip(*outputs, strict=False)]
    return tuple(sorted(place for place in found if place is not None))
