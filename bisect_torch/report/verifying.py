"""The code of somebody's results, shown before it runs, and what became of their claims. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bisect_torch.analysis.verifying import Answer, Verified
from bisect_torch.model import Point
from bisect_torch.report.text import Line, clean, listed, plural, wrap

FORMAT = 1
"""Version of the JSON document."""

_STYLES = {Answer.REPRODUCED: "green", Answer.NOT_REPRODUCED: "bold red", Answer.CANNOT_SAY: "yellow"}
_LINE_END = re.compile(r"\r\n|\r|\n")
_TAB = 8


def shown_code(name: str, sha256: str, text: str) -> list[str]:
    """A file as it will run, with numbers of lines as Python counts them.

    Whatever could hide code is written as its escape: direction marks, control characters, escapes of a terminal.
    """
    lines = _LINE_END.split(text)
    lines = lines[:-1] if lines[-1] == "" else lines
    width = len(str(len(lines)))
    head = f"--- {clean(name)} ({plural(len(lines), 'line')}, SHA-256 {sha256})"
    return [head, *(f"{number:>{width}} | {clean(line.expandtabs(_TAB))}" for number, line in enumerate(lines, 1))]


def plan_lines(
    instances: Sequence[str],
    builds: Sequence[str],
    python: str | None,
    timeout_s: float,
    packages: Mapping[str, Sequence[str]],
    differences: Sequence[str],
) -> list[str]:
    """Where and under which conditions it would run."""
    names = listed([clean(name) for name in instances], most=6)
    lines = [f"{names} on torch {listed([clean(name) for name in builds])}, Python {clean(python or 'of your choice')}"]
    lines.append(f"each cell at most {timeout_s:g} s, in at least three processes, as the user who runs this command")
    for build, pins in packages.items():
        lines.append(f"{clean(build)} with the packages of the file's own lock, by hash: {clean(', '.join(pins))}")
    return lines + [f"note: {clean(each)}" for each in differences]


def verified_lines(found: Sequence[Verified], width: int, notes: Iterable[str] = ()) -> list[Line]:
    """One sentence for each claim, then the counts."""
    lines: list[Line] = []
    for each in found:
        lines += sentence_lines(each, width)
        lines += [((word, "dim"),) for note in each.differences for word in wrap(f"  {clean(note)}".split(" "), width)]
    lines += [((clean(note), "dim"),) for note in notes]
    answers = [each.answer for each in found]
    counts = ", ".join(f"{answers.count(each)} {each.value}" for each in Answer if each in answers)
    return [*lines, ((f"{plural(len(found), 'claim')}: {counts}" if found else "nothing is claimed", "bold"),)]


def sentence_lines(found: Verified, width: int) -> list[Line]:
    """The sentence in lines of at most ``width`` columns."""
    return [((line, _STYLES[found.answer]),) for line in wrap(sentence(found).split(" "), width, indent="  ")]


def sentence(found: Verified) -> str:
    """``rms_norm, 2.6.0 → 2.7.0: reproduced: ok, then wrong, in 3 and 3 processes.``"""
    claim = found.claim
    claimed = f"{clean(claim.before.judgement.signature)} → {clean(claim.after.judgement.signature)}"
    what = f"{clean(claim.series.instance)}, {clean(claim.before.build)} → {clean(claim.after.build)}"
    if found.answer is Answer.REPRODUCED and found.before is not None and found.after is not None:
        processes = f"in {found.before.processes} and {found.after.processes} processes"
        return f"{what}: reproduced: {claimed}, {processes}."
    return f"{what}: {found.answer.value}: {clean(found.reason)} (claimed {claimed})."


def verified_data(found: Sequence[Verified], exit_code: int, notes: Iterable[str]) -> dict[str, object]:
    """A document that ``json.dumps`` takes.

    Keys:
        format: :data:`FORMAT`.
        claims: ``case_file``, ``instance``, ``device``, ``before`` and ``after`` with ``build``, ``claimed`` and
            ``seen`` (signatures; null where it did not run), ``processes``; ``answer``, ``reason``, ``differences``.
        exit_code, notes.
    """
    return {
        "format": FORMAT,
        "claims": [
            {
                "case_file": each.claim.series.case_file,
                "instance": each.claim.series.instance,
                "device": each.claim.series.device,
                "before": _end(each.claim.before, each.before),
                "after": _end(each.claim.after, each.after),
                "answer": each.answer.value,
                "reason": each.reason,
                "differences": list(each.differences),
            }
            for each in found
        ],
        "exit_code": exit_code,
        "notes": list(notes),
    }


def _end(claimed: Point, seen: Point | None) -> dict[str, object]:
    return {
        "build": claimed.build,
        "claimed": claimed.judgement.signature,
        "seen": None if seen is None else seen.judgement.signature,
        "processes": 0 if seen is None else seen.processes,
    }
