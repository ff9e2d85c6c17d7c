"""What could not be judged, and why, in few lines: by reason, with the builds that it concerns and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from bisect_torch.analysis import alike
from bisect_torch.analysis.judge import WANTS_FILE
from bisect_torch.model import BuildKind, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentence import case_of, subject
from bisect_torch.report.text import clean, listed, plural

_MOST_NAMES = 4
_MISSING = re.compile(r"No module named '?\"?([\w.]+)")


@dataclass(frozen=True)
class Unjudged:
    """Cells that say nothing about torch, for one reason.

    Args:
        cells: How many; 0 where the builds themselves are not known.
        builds: On which builds, in release order.
        hint: What to do about it; empty where there is nothing to do.
        rows: Which rows these are, the first few by name; empty where all are, or no cells are known.
    """

    verdict: Verdict
    reason: str
    cells: int
    builds: tuple[str, ...]
    hint: str
    rows: str = ""

    def __str__(self) -> str:
        reason = f": {clean(self.reason)}" if self.reason else ""
        if not self.cells:
            return with_hint(f"{self.where} is not known, and was not run{reason}", self.hint)
        of = f" ({self.rows})" if self.rows else ""
        return with_hint(f"{plural(self.cells, 'cell')} {self.verdict.value} in {self.where}{of}{reason}", self.hint)

    @property
    def where(self) -> str:
        """Its builds, the first few by name."""
        return listed([clean(name) for name in self.builds], most=5)


def unjudged(findings: Findings) -> list[Unjudged]:
    """One entry for each verdict and reason, those with the most cells first.

    Reasons that differ in numbers alone ("in 7.8s") are one, with ``…`` where they differ. What several entries want
    installed is told with the first of them, too.
    """
    places: dict[tuple[Verdict, str], Counter[str]] = {}
    answers: dict[tuple[Verdict, str], dict[int, int]] = {}
    for series, number in alike(findings.series):
        for point in series.answers:
            if point is not None and not point.judgement.verdict.judged:
                key = (point.judgement.verdict, point.judgement.reason)
                places.setdefault(key, Counter())[point.build] += number
                answers.setdefault(key, {})[id(series.answers)] = number
    alike_reasons: dict[tuple[Verdict, str], list[str]] = {}
    for verdict, reason in places:
        alike_reasons.setdefault((verdict, _with_numbers(reason, lambda: "#")), []).append(reason)
    found = [
        Unjudged(
            verdict,
            _in_common(reasons),
            names.total(),
            tuple(name for name in findings.build_names if name in names),
            hint(verdict, reasons[0], local=are_local(findings, names)),
            _rows({each: number for reason in reasons for each, number in answers[verdict, reason].items()}, findings),
        )
        for (verdict, _), reasons in alike_reasons.items()
        for names in [sum((places[verdict, reason] for reason in reasons), Counter[str]())]
    ]
    found += [
        Unjudged(Verdict.INFRA, reason, 0, (name,), hint(Verdict.INFRA, reason))
        for name, reason in findings.unknown.items()
    ]
    found = [replace(each, hint=_ENDS_SO) if _ends_so_again(each, findings) else each for each in found]
    return _with_all_packages(sorted(found, key=lambda each: -each.cells))


def _rows(answers: Mapping[int, int], findings: Findings) -> str:
    """The rows with these answers, the first few by name; empty where that are all rows.

    Args:
        answers: Identity of the answers of alike rows to how many there are.
    """
    if sum(answers.values()) == len(findings.series):
        return ""
    cases: dict[tuple[str, str, str], list[Series]] = {}
    for series in findings.series:
        if id(series.answers) in answers:
            cases.setdefault(case_of(series), []).append(series)
    return listed([subject(group, findings) for group in cases.values()], most=_MOST_NAMES)


_ENDED_BY = re.compile(r"ended by (SIG\w+),")
_ENDS_SO = "it ended so each time: does the script end itself, does it need more memory, or does something here end it?"


def _ends_so_again(told: Unjudged, findings: Findings) -> bool:
    """Whether each of these cells was ended by one signal in two runs at least: in each it had run a second time, of
    which the first end is not kept."""
    ended = _ENDED_BY.match(told.reason) if told.verdict is Verdict.INFRA else None
    if ended is None:
        return False
    cells = [
        (series, point.build)
        for series in findings.series
        for point in series.answers
        if point is not None and point.judgement.verdict is told.verdict and point.judgement.reason == told.reason
    ]
    facts = [findings.facts(series, build, ("signal",)) for series, build in cells]
    return bool(facts) and all(each.count((ended[1],)) >= _RUNS_TO_TELL for each in facts)


_RUNS_TO_TELL = 2

_QUOTED_OR_NUMBER = re.compile(
    r"""(?<!\w)(?P<mark>['"]).*?(?P=mark)
    |(?<!status[ ])(?<!signal[ ])(?<!code[ ])(?<!errno[ ])(?<![\w.])(?P<number>0x[0-9a-f]+|\d+(?:[.:]\d+)*)""",
    re.VERBOSE,
)
"""Numbers that may differ between two tellings of one reason. What a process ended with is no such number, nor is what
stands in quotation marks: a name."""


def _with_numbers(reason: str, instead: Callable[[], str]) -> str:
    """A reason with something else in place of each number that may differ."""
    return _QUOTED_OR_NUMBER.sub(lambda found: found[0] if found["number"] is None else instead(), reason)


def _in_common(reasons: Sequence[str]) -> str:
    """Reasons that differ in numbers alone, as one."""
    if len(reasons) == 1:
        return reasons[0]
    every = [[found["number"] for found in _QUOTED_OR_NUMBER.finditer(reason) if found["number"]] for reason in reasons]
    numbers = iter([column[0] if len(set(column)) == 1 else "…" for column in zip(*every, strict=True)])
    return _with_numbers(reasons[0], lambda: next(numbers))


def _with_all_packages(found: Sequence[Unjudged]) -> list[Unjudged]:
    """The first that wants a package installed says it for all too, so that one line brings them."""
    wanting = [place for place, each in enumerate(found) if each.hint.startswith("--with ")]
    options = " ".join(dict.fromkeys(found[place].hint for place in wanting))
    told = list(found)
    for place in wanting[:1]:
        own = found[place].hint
        told[place] = replace(found[place], hint=own if own == options else f"{own}; for all of these {options}")
    return told


_BROUGHT_BY = {"pkg_resources": "'setuptools<82'"}
"""What brings a module that torch's own environments once had: nothing of that name can be installed."""


def are_local(findings: Findings, names: Container[str]) -> bool:
    """Whether all these builds are local interpreters."""
    return all(build.kind is BuildKind.LOCAL for build in findings.builds if build.name in names)


def with_hint(reason: str, hint: str) -> str:
    """``No module named 'scipy' (hint: --with scipy)``."""
    return f"{reason} (hint: {hint})".strip() if hint else reason


_WANTS_VARIABLE = re.compile(r"it wants the variable (\w+)")
_NO_DEVICE = re.compile(r"(\w+): no \1 device")
_SECRET = re.compile(r"\w+(?:_TOKEN|_KEY|SECRET\w*|PASSWORD)")


_ABSENT_AT_COLLECTION = re.compile(
    r"pytest cannot collect it: (?:ImportError: cannot import name '(?P<name>\w+)' from '(?P<of>torch[\w.]*)'"
    r"|AttributeError: module '(?P<module>torch[\w.]*)' has no attribute '(?P<attribute>\w+)'"
    r"|ModuleNotFoundError: No module named '(?P<missing>torch\.[\w.]+)')"
)


def _hint_of_collection(reason: str) -> str:
    """How the release is found that lacks a name of torch without which a file of tests is not read; else empty."""
    found = _ABSENT_AT_COLLECTION.match(reason)
    if found is None:
        return ""
    line = f"import {found['missing']}"
    if found["name"]:
        line = f"from {found['of']} import {found['name']}"
    elif found["module"]:
        line = f"import {found['module']}; {found['module']}.{found['attribute']}"
    return f"a script of this line alone tells which release lacks it: {line}"


def _hint_of_missing_file(reason: str) -> str:
    """What to do where a file of the user's own is not there: :mod:`bisect_torch.worker.missing_file` says where."""
    name = reason.removeprefix(WANTS_FILE).partition(", which is not ")[0]
    if name.startswith("~"):
        return f"nothing expands the ~ in it: write os.path.expanduser({name!r})"
    write = f"in place of {name!r} write Path(__file__).parent / {name!r} (from pathlib import Path)"
    if reason.endswith("but beside the case file"):
        return write
    if reason.endswith("but beside the script"):
        return f"start the run in the script's folder, or {write}"
    if reason.endswith("in which a case runs"):
        return f"put it beside the case file, and {write}"
    return "put it there and run the same command again"


def _hint_of_what_lacks(reason: str) -> str:
    """What to do where a case wants something that it does not get; empty where it is something else."""
    if wanted := _WANTS_VARIABLE.match(reason):
        passed = _SECRET.fullmatch(wanted[1])
        return f"--pass-env {wanted[1]}" if passed else "a command sets it: -- torchrun --nproc-per-node=1 SCRIPT"
    if reason.startswith(WANTS_FILE):
        return _hint_of_missing_file(reason)
    if reason.startswith("torch was still being loaded"):
        return "a longer --timeout: a script that sets variables loads torch in its own time"
    if reason.startswith("torch and what its file imports were not loaded"):
        return "a busy machine needs longer; and what stands at the top of the file runs while it is loaded"
    if _NO_DEVICE.fullmatch(reason):
        return "put cpu in its place, if the bug shows there too; `bisect-torch doctor` says what it sees of a GPU"
    if absent := _hint_of_collection(reason):
        return absent
    if reason.startswith("it wants arguments"):
        return "a command has some: -- python SCRIPT ARGUMENTS"
    if reason.startswith("it asks for input"):
        return "write it into the script, or give it to a command: -- sh -c 'echo INPUT | python SCRIPT'"
    if "is imported in place of" in reason:
        return "rename that file, and run it with --fresh"
    if reason.startswith("exit status 127") and reason.endswith(": command not found"):
        return "is its name right? it must be on PATH, or come with a package: --with PACKAGE"
    return "--python chooses a newer one" if reason.startswith("Python cannot read it") else ""


def hint(verdict: Verdict, reason: str, *, local: bool = False) -> str:
    """What to do about a cell that could not be judged; empty where there is nothing to do.

    Args:
        local: It concerns none but local interpreters, into which the tool installs nothing.
    """
    if verdict is Verdict.INFRA:
        return "run the same command again: only what is missing runs"
    if verdict is Verdict.BROKEN and (told := _hint_of_what_lacks(reason)):
        return told
    if verdict is Verdict.BROKEN and (missing := _MISSING.search(reason)):
        module = missing[1].partition(".")[0]
        if module == "bisect_torch":  # a command has the environment's own modules only
            return "a case file is named without -- and python: bisect-torch run FILE"
        module = _BROUGHT_BY.get(module, module)
        return f"install {module} in that interpreter's environment" if local else f"--with {module}"
    if verdict is Verdict.BROKEN and reason.startswith("the case's own mistake"):
        return "mend it and run the same command again"
    if verdict is Verdict.BROKEN and "changed during the run" in reason:
        return "run the same command again: the environment is made anew"
    if verdict is Verdict.BROKEN and reason.startswith("pytest ended with status 5"):
        return "`pytest --collect-only` with the same words lists the tests that it finds"
    if verdict is Verdict.BROKEN and "compiler" in reason:
        return "install a C++ compiler (g++ or clang++) and put it on PATH"
    if verdict is Verdict.UNINSTALLABLE and reason.endswith("is not in the package index"):
        return "are name and version right? --with takes what `pip install` takes"
    if verdict is Verdict.UNINSTALLABLE:
        return "`bisect-torch releases` lists what can be installed for which Python; --python chooses one"
    if verdict.value == "undecidable":
        return "with these tolerances in their check() they can be judged"
    return ""
