"""What happened in a cell beside its verdict. Pure.

Exceptions that Python passes over, further tests that failed, input that is empty, asserts that are left out, files
beside a script that were not imported.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from bisect_torch.analysis.columns import telling
from bisect_torch.model import Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.phrases import does
from bisect_torch.report.rerun import split_words, words_of
from bisect_torch.report.sentence import case_of, key_of, subject
from bisect_torch.report.text import clean, listed, plural, shorten

_IGNORED = "ignored in "
_OWN = "bisect-torch: "
_IGNORED_TEXT = re.compile(f'"{_IGNORED}')
_OWN_TEXT = re.compile(f'"{_OWN}')
_FAILED_TESTS = re.compile('"failed_tests":')
_NO_ASSERTS = re.compile("-[a-zA-Z]*O[a-zA-Z]*")
_READS_INPUT = re.compile(r"\bsys\.stdin\b")
_MOST_BUILDS = 5
_MOST_NAMES = 3
_LONGEST = 160

_A_TEST = "a test"
_ADVICE = {
    "a thread": "let the main thread raise it",
    "a process": "let the main process look at its exitcode",
    _A_TEST: "unittest.main(), or sys.exit(pytest.main(…)), ends with a status that tells",
}
_OTHERWISE = "raise it where somebody sees it"

_Place = tuple[str, str, str]


def overlooked_words(findings: Findings) -> list[str]:
    """A sentence for each, rows of one case that went alike together."""
    return [
        *_ignored(findings),
        *_failed_tests(findings),
        *_empty_input(findings),
        *_of_commands(findings),
        *_passed_over(findings),
    ]


# --- exceptions that Python passes over


def _ignored(findings: Findings) -> Iterator[str]:
    seen: dict[tuple[_Place, str, str], dict[str, str]] = {}
    for each in findings.holding("warnings", _IGNORED_TEXT):
        for text in json.loads(each.warnings):
            if text.startswith(_IGNORED):
                where, _, raised = text.removeprefix(_IGNORED).partition(": ")
                place = each.case_file, each.instance, each.device
                seen.setdefault((place, where, raised.partition(":")[0]), {}).setdefault(each.build_name, raised)
    rows = {key_of(series): series for series in findings.series}
    alike: dict[tuple[object, ...], tuple[str, dict[str, str], list[Series]]] = {}
    for (place, where, kind), builds in seen.items():
        if place in rows:
            series = rows[place]
            key = case_of(series), where, kind, *(_signatures(series, builds, inside) for inside in (True, False))
            alike.setdefault(key, (where, builds, []))[2].append(series)
    for where, builds, group in alike.values():
        yield from _sentences(where, builds, group, findings)


def _signatures(series: Series, builds: Mapping[str, str], inside: bool) -> tuple[tuple[str, str], ...]:
    """The judged builds where it was seen, or where it was not, with what they say otherwise."""
    points = [point for point in series.points if point is not None and point.judgement.verdict.judged]
    return tuple((each.build, each.judgement.signature) for each in points if (each.build in builds) is inside)


def _sentences(where: str, raised: Mapping[str, str], group: Sequence[Series], findings: Findings) -> Iterator[str]:
    points = [point for point in group[0].points if point is not None and point.judgement.verdict.judged]
    found = [point for point in points if point.build in raised]
    ok = [point.build for point in found if point.judgement.verdict is Verdict.OK]
    name = subject(group, findings)
    if ok:
        without = [point.build for point in points if point.judgement.verdict is Verdict.OK and point.build not in ok]
        on = f"{_builds(ok)}, not on {_builds(without)}" if without else _builds(ok)
        text = _first_line(raised[ok[0]])
        if where == _A_TEST:
            what = f"a test failed on {on} and the script ended with 0 all the same"
        else:
            what = f"an exception in {clean(where)} was printed and ignored on {on}"
        yield f"{name}: {what}: {text}; {_ADVICE.get(where, _OTHERWISE)}."
    for point in found:
        if point.judgement.verdict is not Verdict.OK:
            text = _first_line(raised[point.build])
            yield f"{name} {does(point.judgement)} on {clean(point.build)}, where {clean(where)} raised {text}."
            return


def _first_line(raised: str) -> str:
    return shorten(clean(raised.partition("\n")[0]), _LONGEST)


# --- tests that a script runs itself


def _failed_tests(findings: Findings) -> Iterator[str]:
    names: dict[_Place, dict[str, tuple[str, ...]]] = {}
    for each in findings.holding("measurements", _FAILED_TESTS):
        failed = each.measured.get("failed_tests")
        if isinstance(failed, list) and all(isinstance(name, str) for name in failed):
            names.setdefault((each.case_file, each.instance, each.device), {})[each.build_name] = tuple(failed)
    for series in findings.series if names else ():
        bad = {point.build for point in series.points if point is not None and point.judgement.verdict.bad}
        builds = {name: failed for name, failed in names.get(key_of(series), {}).items() if name in bad}
        if len(set(builds.values())) > 1 or any(len(failed) > 1 for failed in builds.values()):
            yield _tests_sentence(series, builds, findings)


def _tests_sentence(series: Series, builds: Mapping[str, tuple[str, ...]], findings: Findings) -> str:
    alike: dict[tuple[str, ...], list[str]] = {}
    for build in series.builds:
        if build in builds:
            alike.setdefault(builds[build], []).append(build)
    words = [
        f"{plural(len(failed), 'test')} on {_builds(on)} ({listed([_test(name) for name in failed], most=_MOST_NAMES)})"
        for failed, on in alike.items()
    ]
    file = clean(findings.file_names.get(series.case_file, series.case_file))
    return (
        f"{clean(findings.name_of(series))} is judged by the first of its tests that fails: {listed(words)}; "
        f"`bisect-torch run --pytest {file}` makes each test a row."
    )


def _test(name: str) -> str:
    """Without the module, which is the script."""
    return clean(name.removeprefix("__main__.").rpartition("::")[2])


# --- scripts that read what is not there


def _empty_input(findings: Findings) -> Iterator[str]:
    reading = {hashed for hashed, source in findings.sources.items() if _READS_INPUT.search(source)}
    names = ("case_file", "case_file_hash")
    seen = telling(findings.observations, names) if reading else ()
    for file in dict.fromkeys(each.case_file for each in seen if each.case_file_hash in reading):
        name = clean(findings.file_names.get(file, file))
        yield f"{name} reads sys.stdin, which is empty: a command can fill it, as -- sh -c '… | python {name}'."


def _of_commands(findings: Findings) -> Iterator[str]:
    """Commands that tell Python to leave out what the script asserts, or that run tests."""
    commands = [split_words(words_of(run))[1] for run in findings.runs]
    for words in dict.fromkeys(tuple(words[1:]) for words in commands if words[:1] == ["--"]):
        line = clean(shlex.join(words))
        python = PurePath(words[0]).name.startswith("python")
        options = list(itertools.takewhile(lambda word: word.startswith("-"), words[1:]))
        if python and any(map(_NO_ASSERTS.fullmatch, options)):
            yield f"`{line}` leaves out every assert: what they check was not checked."
        if words[0] == "pytest" or (python and words[1:3] in (("-m", "pytest"), ("-m", "unittest"))):
            yield f"`{line}` is one row, judged by its status alone: `bisect-torch run --pytest` makes each test a row."


# --- files beside a script


def _passed_over(findings: Findings) -> Iterator[str]:
    texts = dict.fromkeys(
        text.removeprefix(_OWN)
        for each in findings.holding("warnings", _OWN_TEXT)
        for text in json.loads(each.warnings)
        if text.startswith(_OWN)
    )
    yield from (f"{clean(text)}." for text in texts)


# ---


def _builds(names: Sequence[str]) -> str:
    return listed([clean(name) for name in names], most=_MOST_BUILDS)
