"""A comparison of two sets of results, as text and as data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from bisect_torch.analysis.comparing import Compared, Comparison, Relation, wrong_among
from bisect_torch.analysis.series import Row
from bisect_torch.model import Point
from bisect_torch.report.files import short_names
from bisect_torch.report.hosts import Fact, environment_differences, host_facts
from bisect_torch.report.text import Line, clean, listed, plural, wrap

FORMAT = 1
"""Version of the JSON document. It grows when a key goes or changes its meaning; new keys may come without notice."""

MOST_GROUPS = 20
"""Lines of one kind of difference; what is left out then is said, and ``--json`` has it."""


def comparison_lines(comparison: Comparison, width: int) -> list[Line]:
    """The whole text, in lines of at most ``width`` columns."""
    lines: list[Line] = []
    for text, style in _texts(comparison):
        if not text:
            lines.append(())
            continue
        indent = " " * (len(text) - len(text.lstrip(" ")))
        words = text.strip().split(" ")
        lines += [((line, style),) for line in wrap([indent + words[0], *words[1:]], width, indent=indent + "  ")]
    return lines


def _texts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield f"A: {clean(comparison.first.name)}", "bold"
    yield f"B: {clean(comparison.second.name)}", "bold"
    for text in _scope(comparison):
        yield text, ""
    yield "", ""
    yield from _verdicts(comparison)
    yield from _values(comparison)
    yield from ((text, "") for text in _not_compared(comparison))
    if not comparison.comparable:
        yield f"Nothing could be compared{_why_nothing(comparison)}.", "bold red"
    if not comparison.cells:
        return
    yield "", ""
    yield from ((text, "") for text in _circumstances(comparison))


def _scope(comparison: Comparison) -> Iterator[str]:
    yield f"{plural(len(comparison.cells), 'cell')} in both" + "".join(
        f", {clean(one)} in A against {clean(other)} in B" for one, other in comparison.devices if one != other
    )
    for name, side, place in (("A", comparison.only_first, 0), ("B", comparison.only_second, 1)):
        if side:
            names = dict.fromkeys(build for _, build in side)
            ordered = dict.fromkeys([*(each for each in comparison.columns if each in names), *names])
            builds = listed([clean(each) for each in ordered])
            yield f"{plural(len(side), 'cell')} only in {name}: {_rows(row for row, _ in side)}, on {builds}"
        if comparison.aside[place]:
            yield f"not compared: {listed([clean(each) for each in comparison.aside[place]])} of {name}"
        if older := comparison.older[place]:
            what = "observation" if older == 1 else "observations"
            yield f"{older:,} {what} of {name} do not count: of an older case text, key, machine or run"
    if comparison.changed_files:
        files = listed([clean(PurePath(each).name) for each in comparison.changed_files])
        what = f"the text of {files}, or a file beside it that it imports or reads,"
        yield f"{what} is not the same in both: what differs may come from that"


def _rows(rows: Iterable[Row]) -> str:
    """``bmm (24×), softmax and 3 more``."""
    by_case: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        by_case.setdefault((row[0], row[1].partition("[")[0]), {})[row[1]] = None
    files, cases = short_names(file for file, _ in by_case), Counter(case for _, case in by_case)
    return listed(
        [
            (f"{clean(files[file])}::" if cases[case] > 1 else "") + _row_words(case, list(names))
            for (file, case), names in by_case.items()
        ]
    )


def _row_words(case: str, instances: Sequence[str]) -> str:
    return clean(instances[0]) if len(instances) == 1 else f"{clean(case)} ({len(instances):,}×)"


def _verdicts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    judged = [
        each for each in comparison.cells if each.relation not in (Relation.UNJUDGED, Relation.FLAKY, Relation.SHARED)
    ]
    differing = comparison.of(Relation.VERDICT, Relation.SIGNATURE)
    if not judged:
        return
    if not differing:
        which = "the cell that was" if len(judged) == 1 else f"all {len(judged):,} cells that were"
        yield f"Verdict and signature are the same in {which} judged on both sides.", ""
    for relation, what in ((Relation.VERDICT, "verdict"), (Relation.SIGNATURE, "signature, not in verdict")):
        cells = comparison.of(relation)
        if cells:
            yield f"{plural(len(cells), 'cell')} of {len(judged):,} {_differ(cells)} in {what}:", "bold red"
            yield from _groups(comparison, cells, by_signature=True)
    if message := [each for each in comparison.cells if each.other_message]:
        yield f"{plural(len(message), 'cell')} with the same signature {_differ(message)} in message or frame.", ""


def _values(comparison: Comparison) -> Iterator[tuple[str, str]]:
    valued = [each for each in comparison.cells if each.bits is not None]
    equal = [each for each in valued if each.bits]
    if valued:
        wrong = wrong_among(equal)
        included = f", {plural(wrong, 'wrong one')} included" if wrong else ""
        head = f"{len(equal):,} of {plural(len(valued), 'result')} {'is' if len(equal) == 1 else 'are'}"
        yield f"{head} equal to the bit{included}.", "bold green" if len(equal) == len(valued) else "bold"
    cells = comparison.of(Relation.BITS, Relation.ERROR)
    if cells:
        yield f"{plural(len(cells), 'cell')} with the same signature {_differ(cells)} in bits:", "yellow"
        yield from _groups(comparison, cells, by_signature=False)
    cells = comparison.of(Relation.ERROR)
    if cells:
        yield (
            f"in {len(cells):,} of these one largest error is more than {comparison.factor:g} times the other:",
            "bold yellow",
        )
        cells.sort(key=lambda each: -(each.ratio or 0.0))
        for each in cells[:MOST_GROUPS]:
            yield f"  {clean(each.row[1])} on {clean(each.builds[0])}: {_errors(each)}", ""
        yield from _more(len(cells) - MOST_GROUPS, "cell")
    elif any(each.ratio is not None for each in comparison.of(Relation.BITS)):
        yield f"in none of these is one largest error more than {comparison.factor:g} times the other.", ""
    yield from _unknown_errors(comparison)


def _unknown_errors(comparison: Comparison) -> Iterator[tuple[str, str]]:
    cells = [each for each in comparison.of(Relation.BITS) if each.ratio is None]
    if cells:
        yield f"in {len(cells):,} of these the largest errors are not known, or of different checks of the case.", ""


def _differ(cells: Sequence[Compared]) -> str:
    return "differs" if len(cells) == 1 else "differ"


def _groups(comparison: Comparison, cells: Iterable[Compared], *, by_signature: bool) -> Iterator[tuple[str, str]]:
    """One line for all cells of a case that differ in the same way, with where and how."""
    groups: dict[tuple[str, str, str], list[Compared]] = {}
    for each in cells:
        what = _signatures(each) if by_signature else ""
        groups.setdefault((each.row[0], each.row[1].partition("[")[0], what), []).append(each)
    for (_, case, what), group in list(groups.items())[:MOST_GROUPS]:
        name = _row_words(case, list(dict.fromkeys(each.row[1] for each in group)))
        told = what or _worst_ratio(group)
        yield f"  {name} on {_builds(comparison, group)}{': ' if told else ''}{told}", ""
    yield from _more(len(groups) - MOST_GROUPS, "line")


def _builds(comparison: Comparison, group: Iterable[Compared]) -> str:
    there = {each.builds[0] for each in group}
    if len(there) == len(comparison.builds) > 2:
        return f"all {len(there)} builds"
    return listed([clean(name) for name in comparison.builds if name in there], most=6)


def _more(number: int, noun: str) -> Iterator[tuple[str, str]]:
    if number > 0:
        yield f"  and {plural(number, f'more {noun}')}: --json has all", "dim"


def _signatures(each: Compared) -> str:
    return f"{_said(each.before)} in A, {_said(each.after)} in B"


def _said(point: Point) -> str:
    return clean(point.judgement.signature) + (" (API absent)" if point.judgement.api_absent else "")


def _worst_ratio(group: Sequence[Compared]) -> str:
    """How far the largest errors of either side lie apart at most."""
    known = [(each.errors, each.ratio) for each in group if each.errors is not None and each.ratio is not None]
    if not known:
        return ""
    worst = max(ratio for _, ratio in known)
    if all(one == other for (one, other), _ in known):
        words = "the same largest error"
    elif worst == 1.0:
        words = "largest errors within one rounding"
    elif math.isinf(worst):
        words = "largest errors differ without bound"
    else:
        words = f"largest errors differ by a factor of {'up to ' if len(group) > 1 else ''}{worst:.3g}"
    return words if len(known) == len(group) else f"{words} (known of {len(known)} of {len(group)} cells)"


def _errors(each: Compared) -> str:
    one, other = each.errors or (math.nan, math.nan)
    return f"{one:.3g} in A, {other:.3g} in B"


def _not_compared(comparison: Comparison) -> Iterator[str]:
    cells = comparison.of(Relation.ALIKE)
    if cells:
        yield f"{plural(len(cells), 'cell')}: the same signature, no value on both sides to compare."
    cells = comparison.of(Relation.OTHER_INPUT)
    if cells:
        yield f"{plural(len(cells), 'cell')}: the same signature, but on other inputs, so that values say nothing."
    cells = comparison.of(Relation.FLAKY)
    if cells:
        names = _rows(each.row for each in cells)
        yield f"{plural(len(cells), 'cell')} flaky on one side or both, and not compared: {names}."
    cells = comparison.of(Relation.UNJUDGED)
    if cells:
        yield f"{plural(len(cells), 'cell')} not judged on one side or both, and not compared: {_why(cells)}."
    cells = comparison.of(Relation.SHARED)
    if cells:
        yield f"{plural(len(cells), 'cell')} not compared: one and the same observation stands in both files."


def _why_nothing(comparison: Comparison) -> str:
    if comparison.cells:
        return ""
    if not comparison.devices:
        there = (f"{listed([clean(name) for name in names])}" for names in comparison.aside)
        return f": A has {next(there)}, B has {next(there)}; --device A=B says which belong together"
    return ": no case of the same file name and instance has run on the same build in both"


def _why(cells: Iterable[Compared]) -> str:
    counts: dict[str, int] = {}
    for each in cells:
        old, new = each.before.judgement.verdict.value, each.after.judgement.verdict.value
        words = f"{old} in both" if old == new else f"{old} in A and {new} in B"
        counts[words] = counts.get(words, 0) + 1
    return listed([f"{number:,} {words}" for words, number in counts.items()])


def _circumstances(comparison: Comparison) -> Iterator[str]:
    facts = host_facts(comparison)
    differing = [fact for fact in facts if fact.differs]
    environments, unknown = environment_differences(comparison)
    if differing or environments:
        yield "What else differs:"
    for fact in differing:
        yield f"  {fact.name}: {_values_of(fact.first)} in A, {_values_of(fact.second)} in B"
    for words, builds in environments.items():
        yield f"  environment of {listed([clean(each) for each in builds], most=6)}: {words}"
    if unknown:
        yield f"Environments of which one is not known: {listed([clean(each) for each in unknown], most=6)}."
    same = [f"{fact.name} {_values_of(fact.first)}" for fact in facts if not fact.differs and fact.name != "device"]
    same += [] if environments or unknown else ["environments"]
    if same:
        yield f"The same in both: {', '.join(same)}."


def _values_of(values: Sequence[str]) -> str:
    return listed([clean(value) for value in values]) if values else "not known"


# --- as data ----------------------------------------------------------------------------------------------------


def comparison_data(comparison: Comparison) -> dict[str, object]:
    """A document that ``json.dumps`` takes.

    Keys:
        format: :data:`FORMAT`.
        a, b: Names of the files.
        devices: Pairs of devices that were compared; ``aside`` lists those of ``a`` and ``b`` that were not.
        factor: From which ratio on errors differ.
        counts: Relation to number of cells; ``bits_compared``, ``bits_equal``, ``wrong_and_equal``, ``other_message``,
            ``only_a``, ``only_b``.
        cells: Every cell in both: ``case_file``, ``instance``, ``device``, ``device_b``, ``build``, ``build_b``,
            ``relation``, ``signature_a``, ``signature_b``, ``verdict_a``, ``verdict_b``, ``bits_equal`` (null where
            nothing could be compared), ``error_a``, ``error_b``, ``ratio``, ``other_message``.
        only_a, only_b: ``case_file``, ``instance``, ``device``, ``build``.
        changed_files: Case files with another text.
        facts: ``name``, ``a``, ``b`` (lists of text), ``differs``.
        environments: ``differences`` in words, and ``builds``.
        environments_unknown: Builds of which the environment of one side is not known.
        exit_code: 0 no differences, 1 some, 3 nothing could be compared.
    """
    counts: dict[str, int] = {relation.value: len(comparison.of(relation)) for relation in Relation}
    valued = [each for each in comparison.cells if each.bits is not None]
    equal = [each for each in valued if each.bits]
    counts |= {
        "bits_compared": len(valued),
        "bits_equal": len(equal),
        "wrong_and_equal": wrong_among(equal),
        "other_message": sum(each.other_message for each in comparison.cells),
        "only_a": len(comparison.only_first),
        "only_b": len(comparison.only_second),
    }
    return {
        "format": FORMAT,
        "a": comparison.first.name,
        "b": comparison.second.name,
        "devices": [list(pair) for pair in comparison.devices],
        "aside": {"a": list(comparison.aside[0]), "b": list(comparison.aside[1])},
        "factor": comparison.factor,
        "counts": counts,
        "cells": [_cell(each) for each in comparison.cells],
        "only_a": [_place(row, build) for row, build in comparison.only_first],
        "only_b": [_place(row, build) for row, build in comparison.only_second],
        "changed_files": list(comparison.changed_files),
        "facts": [_fact(fact) for fact in host_facts(comparison)],
        "environments": [
            {"differences": words, "builds": list(builds)}
            for words, builds in environment_differences(comparison)[0].items()
        ],
        "environments_unknown": list(environment_differences(comparison)[1]),
        "exit_code": comparison.exit_code,
    }


def _cell(each: Compared) -> dict[str, object]:
    one, other = each.errors or (None, None)
    return {
        **_place(each.row, each.builds[0]),
        "device_b": each.device,
        "build_b": each.builds[1],
        "relation": each.relation.value,
        "verdict_a": each.before.judgement.verdict.value,
        "verdict_b": each.after.judgement.verdict.value,
        "signature_a": each.before.judgement.signature,
        "signature_b": each.after.judgement.signature,
        "bits_equal": each.bits,
        "error_a": _finite(one),
        "error_b": _finite(other),
        "ratio": _finite(each.ratio),
        "other_message": each.other_message,
    }


def _place(row: Row, build: str) -> dict[str, object]:
    return {"case_file": row[0], "instance": row[1], "device": row[2], "build": build}


def _fact(fact: Fact) -> dict[str, object]:
    return {"name": fact.name, "a": list(fact.first), "b": list(fact.second), "differs": fact.differs}


def _finite(value: float | None) -> float | str | None:
    """JSON has no infinity and no NaN."""
    return value if value is None or math.isfinite(value) else str(value)
