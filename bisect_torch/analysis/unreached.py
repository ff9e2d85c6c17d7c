"""Where a build is ok although what failed on another may not have run there. Pure.

Nobody traces what a case runs. These are the signs that it leaves: the test that failed is skipped, the script has left
by ``sys.exit`` above the line that failed, it prints on this build alone that it skips something, it compares nothing
although it did, or the line that failed stands behind a condition on torch's version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

from bisect_torch.analysis.guards import condition_in, guard_of
from bisect_torch.analysis.normalise import normalise
from bisect_torch.model import Observation, beside

NOTED = "stands_behind"
"""Name of the measurement that says what :func:`stands_behind` found."""

_SKIPS = re.compile(
    r"^.*\b(?:skip(?:s|ped|ping)?|unsupported|not (?:supported|available|applicable|tested)|nothing (?:was )?tested)\b"
    ".*$",
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST = 100


def why_unreached(
    before: Sequence[Observation], after: Sequence[Observation], sources: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Why what failed may not have run on another build that is ok, in words; empty where nothing says so.

    Args:
        before: Of the cell that failed.
        after: Of the same cell on the other build, a newer one.
        sources: SHA-256 to the text that ran, for conditions that it holds.
    """
    return ", and ".join(_signs(before, after, sources))


def stands_behind(failed: Observation, source: str) -> str:
    """What is to be noted of a failure (:data:`NOTED`) whose text is not kept; empty where there is nothing.

    Args:
        source: The text of its case file.
    """
    return _behind(_failing_lines([failed]), source)


def _signs(before: Sequence[Observation], after: Sequence[Observation], sources: Mapping[str, str]) -> Iterator[str]:
    skipped = _skipped_tests(after)
    failed = [name for each in before for name in _texts(each.measured.get("failed_tests"))]
    for name in dict.fromkeys(failed):
        if name in skipped:
            reason = f": {skipped[name]}" if skipped[name] else ""
            yield f"{name.removeprefix('__main__.')}, which failed, is skipped{reason}"
            break
    if line := _skips(before, after):
        yield f'it prints "{_shortened(line)}"'
    left = {each.measured.get("left_at_line") for each in after}
    place = next(iter(left)) if len(left) == 1 else None
    failing = _failing_lines(before)
    if isinstance(place, int) and failing and place < failing[-1]:
        yield f"it leaves at line {place}, above line {failing[-1]}, which failed"
    elif guard := _guard(before, failing, sources) or _noted(before):
        yield guard
    compared = min((each.checks for each in before), default=0)
    if compared and after and not any(each.checks for each in after):
        yield "it compares nothing there"


def _guard(before: Sequence[Observation], failing: Sequence[int], sources: Mapping[str, str]) -> str:
    """The condition that the line which failed stands behind, or any in what ran, files beside it included."""
    if not before:
        return ""
    source = sources.get(before[0].case_file_hash, "")
    if behind := _behind(failing, source):
        return behind
    if (at := condition_in(source, before[0].case)) is not None:
        return f"it goes by torch's version or names at line {at}: {_line(source, at)}"
    for name, digest in beside(before[0].local_modules).modules.items():
        text = sources.get(digest, "")
        if (at := condition_in(text, None)) is not None:
            return f"{name} goes by torch's version or names at line {at}: {_line(text, at)}"
    return ""


def _line(source: str, number: int) -> str:
    return _shortened(source.splitlines()[number - 1].strip())


def _behind(failing: Sequence[int], source: str) -> str:
    for line in reversed(failing):
        if (at := guard_of(source, line)) is not None:
            return f"line {line}, which failed, stands behind line {at}: {_line(source, at).rstrip(':')}"
    return ""


def _noted(before: Sequence[Observation]) -> str:
    notes = {each.measured.get(NOTED) for each in before}
    note = notes.pop() if len(notes) == 1 else None
    return note if isinstance(note, str) else ""


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _skipped_tests(observations: Sequence[Observation]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in observations:
        kept = each.measured.get("skipped_tests")
        for pair in kept if isinstance(kept, list) else ():
            if isinstance(pair, list) and len(pair) == len(_texts(pair)) == 2:
                found[pair[0]] = pair[1]
    return found


def _skips(before: Sequence[Observation], after: Sequence[Observation]) -> str:
    """A line about skipping that each run on the one build has printed, and none on the other."""
    printed = [[found[0].strip() for found in _SKIPS.finditer(each.stdout_tail or "")] for each in after]
    known = {normalise(found[0].strip()) for each in before for found in _SKIPS.finditer(each.stdout_tail or "")}
    everywhere = set.intersection(*({normalise(line) for line in lines} for lines in printed)) if printed else set()
    return next((line for line in printed[0] if normalise(line) in everywhere - known), "") if printed else ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _failing_lines(observations: Sequence[Observation]) -> tuple[int, ...]:
    """Lines of the case's own file in a traceback, the innermost last, where all agree."""
    lines = set()
    for each in observations:
        name = PurePosixPath(each.case_file).name
        found = re.findall(rf'^  File "(?:[^"]*/)?{re.escape(name)}", line (\d+)', each.traceback or "", re.MULTILINE)
        lines.add(tuple(int(line) for line in found))
    return lines.pop() if len(lines) == 1 else ()
