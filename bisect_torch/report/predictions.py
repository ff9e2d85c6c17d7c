"""Cells whose case had said what it expected there, compared with what was seen, cell by cell.

A case records ``predicted_verdict`` (``ok``, ``wrong``, ``error``) and ``predicted_model`` (the fault model that is to
explain a wrong value, or None) where rules from elsewhere tell what must come out. A case that plays a faulty backend
inside a cell, and is itself ok when it recognises the fault, records what it saw there as ``simulated_verdict`` and
``simulated_explained_by``; these are then what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.model import Observation, Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentence import subject
from bisect_torch.report.text import clean, listed, plural

_Row = tuple[str, str, str]
_MOST = 12


@dataclass(frozen=True)
class Seen:
    """A verdict, and for ``wrong`` the fault models that reproduce the value, joined by "or"; None for no model."""

    verdict: str
    model: str | None

    def words(self, without_model: str = "wrong") -> str:
        """``ok``, ``wrong (strides of a ignored)``, or what stands for a wrong value without a model."""
        if self.verdict != Verdict.WRONG.value:
            return clean(self.verdict)
        return f"wrong ({clean(self.model)})" if self.model else without_model


@dataclass(frozen=True)
class Predicted:
    """One cell that had a prediction.

    Args:
        seen: None where the cell could not be judged or was flaky.
        simulated: It was seen on a faulty backend that the case played, not on the device of the cell.
    """

    series: Series
    build: str
    expected: Seen
    seen: Seen | None
    simulated: bool = False

    @property
    def fits(self) -> bool:
        """Whether verdict and model are those that were predicted; a prediction without a model leaves that open."""
        if self.seen is None or self.seen.verdict != self.expected.verdict:
            return False
        if self.expected.verdict != Verdict.WRONG.value or self.expected.model is None:
            return True
        return self.expected.model in (self.seen.model or "").split(" or ")


def predictions(findings: Findings) -> list[Predicted]:
    """Every cell that had a prediction, in the order of the series and builds."""
    if not findings.recorded("predicted_verdict"):
        return []
    return [
        found
        for series in findings.series
        for point in series.answers
        if point is not None and (found := _predicted(series, point, findings)) is not None
    ]


def _predicted(series: Series, point: Point, findings: Findings) -> Predicted | None:
    for observation in findings.observed(series, point.build):
        measured = observation.measured
        verdict, model = measured.get("predicted_verdict"), measured.get("predicted_model")
        if isinstance(verdict, str):
            expected = Seen(verdict, model if isinstance(model, str) else None)
            simulated = isinstance(measured.get("simulated_verdict"), str)
            return Predicted(series, point.build, expected, _seen(point, observation, measured), simulated)
    return None


def _seen(point: Point, observation: Observation, measured: Mapping[str, object]) -> Seen | None:
    if not point.solid:
        return None
    simulated, model = measured.get("simulated_verdict"), measured.get("simulated_explained_by")
    if isinstance(simulated, str):
        return Seen(simulated, model if isinstance(model, str) else None)
    return Seen(point.judgement.verdict.value, observation.explained_by)


@dataclass(frozen=True)
class Deviation:
    """Cells of one case in which the same was predicted and the same other thing was seen, on the same builds."""

    series: tuple[Series, ...]
    builds: tuple[str, ...]
    expected: Seen
    seen: Seen


def deviations(found: Iterable[Predicted]) -> list[Deviation]:
    """The judged cells that do not fit, folded; those with the most cells first."""
    rows: dict[tuple[_Row, Seen, Seen], tuple[Series, list[str]]] = {}
    for each in found:
        if each.seen is not None and not each.fits:
            row = (each.series.case_file, each.series.instance, each.series.device)
            rows.setdefault((row, each.expected, each.seen), (each.series, []))[1].append(each.build)
    folded: dict[tuple[_Row, Seen, Seen, tuple[str, ...]], list[Series]] = {}
    for ((file, instance, device), expected, seen), (series, builds) in rows.items():
        case = (file, instance.partition("[")[0], device)
        folded.setdefault((case, expected, seen, tuple(builds)), []).append(series)
    made = [Deviation(tuple(of), builds, expected, seen) for (_, expected, seen, builds), of in folded.items()]
    return sorted(made, key=lambda each: -len(each.series) * len(each.builds))


def prediction_words(found: Sequence[Predicted], findings: Findings) -> list[str]:
    """How many cells came out as predicted, then a line for each kind of deviation; no line without predictions."""
    if not found:
        return []
    judged = [each for each in found if each.seen is not None]
    left = len(found) - len(judged)
    more = f"; {left:,} more could not be judged" if left else ""
    differing = deviations(found)
    total = f"{plural(len(judged), 'cell')}{_simulated(judged)}"
    words = [f"as predicted: {sum(each.fits for each in judged):,} of {total}{more}"]
    for each in differing[:_MOST]:
        where = listed([clean(name) for name in each.builds], most=4)
        came = each.seen.words("wrong (by no known model)")
        words.append(f"{_subject(each.series, findings)}: predicted {each.expected.words()}, seen {came}, in {where}")
    if len(differing) > _MOST:
        words.append(f"{plural(len(differing) - _MOST, 'more deviation')}; --json has every cell")
    return words


def _simulated(judged: Sequence[Predicted]) -> str:
    """What is true of a simulated backend says nothing about a real one."""
    number = sum(each.simulated for each in judged)
    if number == 0:
        return ""
    return f" ({'' if number == len(judged) else f'{number:,} '}on a simulated backend)"


def _subject(series: Sequence[Series], findings: Findings) -> str:
    """As in sentences; some of a case's instances that no choice of parameters singles out are shown by the first."""
    text = subject(series, findings)
    whole = len(series) == 1 or text.startswith("all ") or "(" in text
    return text if whole else f"{text}, such as {clean(series[0].instance)}"
