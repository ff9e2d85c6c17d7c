"""The answer to "torch or a dependency?", in words and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bisect_torch.analysis.attribution import Attribution, Cause, Side, Trial
from bisect_torch.engine.attributing import AttributionResult, Change
from bisect_torch.model import Point
from bisect_torch.report.attributed import cause_words, named
from bisect_torch.report.differences import Difference, is_nvidia
from bisect_torch.report.text import Line, clean, listed, plural, wrap
from bisect_torch.results.attributed import PYTHON

FORMAT = 1
"""Version of the JSON document."""

_LABEL = 14
_SOLVED = frozenset({Cause.TORCH, Cause.DEPENDENCY, Cause.TOGETHER, Cause.EITHER})


def solved(result: AttributionResult) -> bool:
    """Whether a cause was found."""
    return result.attribution is not None and result.attribution.cause in _SOLVED


def attribution_lines(result: AttributionResult, notes: Sequence[str], width: int) -> list[Line]:
    """The sentence, then the evidence, in lines of at most ``width`` columns."""
    lines: list[Line] = [((line, "bold"),) for line in wrap(verdict(result).split(" "), width, indent="  ")]
    for label, text in _evidence(result):
        head, *rest = wrap(text.split(" "), max(20, width - _LABEL - 2))
        if len(label) >= _LABEL:  # a nightly, or an interpreter's path: on a line of its own
            lines.append((("  " + label, "dim"),))
            label = ""
        lines.append((("  " + label.ljust(_LABEL), "dim"), (head, "")))
        lines += [((" " * (_LABEL + 2) + line, ""),) for line in rest]
    for note in notes:
        lines += [((line, "dim"),) for line in wrap(f"note: {clean(note)}".split(" "), width, indent="  ")]
    return lines


def verdict(result: AttributionResult) -> str:
    """One sentence that answers the question."""
    old, new = result.builds
    what = f"{clean(result.instance)}, {clean(old.name)} → {clean(new.name)}"
    found = result.attribution
    if found is None:
        return f"{what}: cannot be judged: {_no_change(result)}."
    return f"{what}: {_cause(result, found)}."


def _cause(result: AttributionResult, found: Attribution) -> str:
    new = f"torch {clean(result.builds[1].version)}"
    packages = _packages(result, found.packages)
    if found.cause in _SOLVED:
        changes = {each.name: each for each in result.changes}
        mattering = [_difference(changes[name]) for name in found.packages]
        words = cause_words(found.cause, mattering, result.builds[1].version, found.bound)
        return words + (_proof(result, found) if found.cause is Cause.DEPENDENCY else "")
    if found.packages:
        return f"cannot be separated: {packages} is needed for it, and whether {new} is too cannot be told"
    if any(trial.hybrid.torch is Side.OLD and trial.answer.like is Side.OLD for trial in found.trials):
        return f"cannot be separated: {new} is needed for it, and whether a dependency is too cannot be told"
    return "cannot be separated: torch or what comes with it"


def _proof(result: AttributionResult, found: Attribution) -> str:
    """What shows that it is these dependencies."""
    old, new = (f"torch {clean(build.version)}" for build in result.builds)
    if found.reverses:
        return f": {new} with {_versions_of(result, found.packages, Side.OLD)} is as before"
    return f": {old} with {_versions_of(result, found.packages, Side.NEW)} is as after"


def _no_change(result: AttributionResult) -> str:
    if result.old is None or result.new is None:
        return "the two builds could not both be run"
    shown = [_shown(point) for point in (result.old, result.new)]
    return f"run again, the two builds give {shown[0]} and {shown[1]}"


def _shown(point: Point) -> str:
    if point.flaky:
        return "flaky: " + ", ".join(f"{clean(name)} {count}" for name, count in point.counts.items())
    reason = point.judgement.reason
    return clean(point.judgement.signature) + (f" ({clean(reason)})" if reason else "")


# --- evidence


def _evidence(result: AttributionResult) -> Iterable[tuple[str, str]]:
    for build, point in zip(result.builds, (result.old, result.new), strict=True):
        if point is not None:
            yield clean(build.name), _judged(point)
    found = result.attribution
    if found is None:
        return
    for trial in found.trials:
        yield "hybrid", _trial(result, trial)
    for reason in found.why:
        yield "undecided", clean(reason)
    free = [each.name for each in result.changes if not each.held]
    if free:
        yield "also differ", _packages(result, free)
    yield from _held(result)


def _judged(point: Point) -> str:
    return f"{_shown(point)}, in {plural(point.processes, 'process', 'processes')}"


def _trial(result: AttributionResult, trial: Trial) -> str:
    swapped = trial.hybrid.swapped
    build = result.builds[trial.hybrid.torch is Side.NEW]
    point = result.points.get(result.names[trial.hybrid])
    words = f"torch {clean(build.version)} with {_versions_of(result, swapped, trial.hybrid.torch.other)}"
    if trial.answer.like is None:
        return f"{words}: cannot be separated, {clean(trial.answer.reason)}"
    like = "as before" if trial.answer.like is Side.OLD else "as after"
    return f"{words}: {like}" + (f" ({_judged(point)})" if point is not None else "")


def _held(result: AttributionResult) -> Iterable[tuple[str, str]]:
    """What cannot be taken apart from a torch, and why."""
    nvidia = [each for each in result.changes if each.held and is_nvidia(each.name)]
    for each in result.changes:
        if each.held and each not in nvidia:
            words = dict.fromkeys(
                f"{clean(why)} ({clean(result.builds[side is Side.NEW].name)})" for side, why in each.held.items()
            )
            yield "inseparable", f"{_change(each)}: {'; '.join(words)}"
    if nvidia:
        exact = all("==" in why or "one side" in why for each in nvidia for why in each.held.values())
        how = "torch requires exact versions, or they are there on one side only" if exact else "torch requires them"
        yield "inseparable", f"{plural(len(nvidia), 'nvidia package')}: {how}"


def _packages(result: AttributionResult, names: Sequence[str]) -> str:
    changes = {each.name: each for each in result.changes}
    return listed([_change(changes[name]) for name in names], most=12)


def _versions_of(result: AttributionResult, names: Sequence[str], side: Side) -> str:
    changes = {each.name: each for each in result.changes}
    shown = [
        f"{_name(name)} {clean((changes[name].old if side is Side.OLD else changes[name].new) or 'none')}"
        for name in names
    ]
    return listed(shown, most=12)


def _change(change: Change) -> str:
    return str(_difference(change))


def _difference(change: Change) -> Difference:
    return named(change.name, change.old, change.new)


def _name(name: str) -> str:
    return "Python" if name == PYTHON else clean(name)


# --- data


def attribution_data(result: AttributionResult) -> dict[str, object]:
    """A document that ``json.dumps`` takes.

    Keys:
        format: :data:`FORMAT`.
        instance, before, after: Its name and those of the builds.
        text: The sentence.
        cause: ``torch``, ``dependency``, ``together``, ``either``, ``inseparable``; null where there is no change.
        packages: The dependencies that matter.
        alone, reverses: Whether the old torch with these is as after, the new one without them as before; or null.
        bound: What belongs to the new torch in this answer.
        hybrids: ``build`` (its name in the results file), ``torch`` (``old``, ``new``), ``swapped``, ``like`` (``old``,
            ``new`` or null), ``reason``, ``signature``, ``processes``.
        differ: ``name``, ``old``, ``new``, ``inseparable`` (``old`` or ``new`` torch to the reason).
        undecided: Reasons.
    """
    found = result.attribution
    return {
        "format": FORMAT,
        "instance": result.instance,
        "before": result.builds[0].name,
        "after": result.builds[1].name,
        "text": verdict(result),
        "cause": None if found is None else found.cause.value,
        "packages": [] if found is None else list(found.packages),
        "alone": found and found.alone,
        "reverses": found and found.reverses,
        "bound": [] if found is None else list(found.bound),
        "hybrids": [] if found is None else [_trial_data(result, trial) for trial in found.trials],
        "differ": [
            {
                "name": each.name,
                "old": each.old,
                "new": each.new,
                "inseparable": {side.value: why for side, why in each.held.items()},
            }
            for each in result.changes
        ],
        "undecided": [] if found is None else list(found.why),
    }


def _trial_data(result: AttributionResult, trial: Trial) -> dict[str, object]:
    name = result.names[trial.hybrid]
    point = result.points.get(name)
    return {
        "build": name,
        "torch": trial.hybrid.torch.value,
        "swapped": list(trial.hybrid.swapped),
        "like": trial.answer.like and trial.answer.like.value,
        "reason": trial.answer.reason or None,
        "signature": point and point.judgement.signature,
        "processes": 0 if point is None else point.processes,
    }
