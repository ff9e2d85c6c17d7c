"""What a repro from a bug report lacks before its verdict means something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.cases.report_choice import Choice
from bisect_torch.cases.report_code import Code
from bisect_torch.cases.report_script import missing_imports, needed, packages, unknown_names
from bisect_torch.cases.report_versions import told

_VERSION = re.compile(
    r"(?i)\b(?:py)?torch(?:\s+version)?\s*(?:is)?\s*[:=]{0,2}\s*v?(\d+\.\d+\.\d+)(\.?dev\d+|a0\b|rc\d+)?"
)
_CHECKS = frozenset({"assert_close", "assert_allclose", "gradcheck", "opcheck", "check"})
_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal", "bernoulli", "dropout"}
)
_READERS = frozenset({"open", "load", "read_image"})
_WRITERS = frozenset({"save", "savez", "savez_compressed", "savetxt", "save_file"})
_SEEDS = frozenset({"manual_seed", "seed", "set_seed", "seed_all"})


_NAMES_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Warning)\b")
_LONGEST_SHOWN = 120


@dataclass(frozen=True)
class Advice:
    """One thing to do or to know.

    Args:
        kind: ``block``, ``import``, ``name``, ``assert``, ``expected``, ``compile``, ``device``, ``with``, ``file``,
            ``seed``, ``version``.
        text: A sentence.
    """

    kind: str
    text: str


def advice(choice: Choice, report: str, *, as_case: bool, releases: Sequence[str] = ()) -> tuple[Advice, ...]:
    """What to add, most important first.

    Args:
        report: The whole report, for the versions that it is about.
        as_case: A case file was written, not a script.
        releases: All that are known, oldest first.
    """
    code = choice.code
    found = [*_about_blocks(choice), *_about_names(code), *_about_verdict(code), *_about_needs(code, as_case)]
    return (*found, *_about_inputs(code), *_about_version(report, releases))


def options(code: Code) -> tuple[str, ...]:
    """Options of ``run`` that the code needs: ``--with X``."""
    return tuple(word for package in packages(code) for word in ("--with", package))


def reported_version(report: str) -> str | None:
    """The release of torch that the report names, as ``collect_env`` writes it; None where it names none or several."""
    found = {version for version, before in _VERSION.findall(report) if not before}
    return found.pop() if len(found) == 1 else None


def _last_before(report: str, releases: Sequence[str]) -> dict[str, str]:
    """Version of each nightly build that the report names, to the newest release that is surely older: the release of
    that version may have what the nightly had not."""
    early = {version for version, before in _VERSION.findall(report) if before}
    return {
        version: releases[releases.index(version) - 1]
        for version in early
        if version in releases and releases.index(version) > 0
    }


def first_two(report: str, releases: Sequence[str]) -> tuple[str, str]:
    """The two releases to run first: they tell already whether there is anything to look for between them.

    Args:
        releases: All that are known, oldest first.

    Returns:
        The newest that the report's sentences call right and the oldest that they call wrong, where that is clear; else
        the oldest and the newest that the report names; where it names one, that and the newest of all, or, where it is
        the newest, the oldest of all; else the oldest and the newest of all.
    """
    by_sentences = told(report, releases)
    if by_sentences.good is not None and by_sentences.bad is not None:
        return by_sentences.good, by_sentences.bad
    whole = {version for version, before in _VERSION.findall(report) if not before}
    said = {*whole, *by_sentences.named, *_last_before(report, releases).values()}
    named = [release for release in releases if release in said]
    if len(named) == 1 and named[0] != releases[-1]:
        return named[0], releases[-1]
    return (named[0], named[-1]) if len(named) > 1 else (releases[0], releases[-1])


def _too_old(report: str, releases: Sequence[str]) -> str | None:
    """The newest version of torch that the report names, where it is older than all releases; else None."""
    named = {_parts(version): version for version, _ in _VERSION.findall(report)}
    if not named or not releases or told(report, releases).named:
        return None
    newest = max(named)
    return named[newest] if newest < _parts(releases[0]) else None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _about_blocks(choice: Choice) -> Iterator[Advice]:
    if not choice.code.block.closed:
        yield Advice("block", "the block is never closed: all that follows in the report was taken")
    if choice.continued:
        lines = ", ".join(str(code.block.line) for code in choice.continued)
        numbers = ",".join(map(str, choice.together))
        yield Advice("block", f"the code at line {lines} shares names with it: --block {numbers} takes all of it")


def _about_names(code: Code) -> Iterator[Advice]:
    added = missing_imports(code)
    if added:
        yield Advice("import", f"imports were missing and have been added: {'; '.join(added)}")
    unknown = unknown_names(code)
    if unknown:
        yield Advice("name", f"define what the report leaves out: {', '.join(unknown)}")


def _about_verdict(code: Code) -> Iterator[Advice]:
    if decides(code.module):
        return
    printed = [
        node.lineno for node in ast.walk(code.module) if isinstance(node, ast.Call) and _is_call(node, {"print"})
    ]
    where = f" after line {printed[-1]} of the block, which only prints" if printed else ""
    yield Advice(
        "assert",
        f"nothing is checked: only an exception, a crash or a hang is bad. For wrong values add an assert{where}",
    )
    if code.output:
        shown = _shown(code.output)
        yield Advice("expected", f"the report shows what it printed, right or wrong: {shown}; assert what it should be")


def _shown(output: str) -> str:
    """Output in few words: an error by its last line, which names it, and values from the first on."""
    lines = [line.strip() for line in output.strip().splitlines()]
    text = lines[-1] if _NAMES_ERROR.match(lines[-1]) else " ".join(lines)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 2]} …"


def decides(module: ast.Module) -> bool:
    """Whether it fails by itself when values are not right."""
    for node in ast.walk(module):
        if isinstance(node, (ast.Assert, ast.Raise)) or _is_call(node, _CHECKS):
            return True
        name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if name.startswith("assert") or name == "exit":
            return True
    return False


def _is_call(node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in names


def _about_needs(code: Code, as_case: bool) -> Iterator[Advice]:
    for need in needed(code):
        if need == "compile":
            said = "the case says so (needs)" if as_case else 'a case (--case) can say so: needs=["compile"]'
            yield Advice("compile", f"it compiles: a C++ compiler must be there; {said}")
        else:
            how = (
                f"use the argument device and run with --device {need}" if as_case else "a script keeps its own device"
            )
            yield Advice("device", f"it asks for {need}: without one it fails for that reason; {how}")
    for package in packages(code):
        yield Advice("with", f"it imports more than torch: --with {package}")


def _about_inputs(code: Code) -> Iterator[Advice]:
    opened = _files_read(code.module)
    beside = [name for name in opened if not Path(name).is_absolute()]
    elsewhere = [name for name in opened if Path(name).is_absolute()]
    if beside:
        yield Advice("file", f"it reads files that must lie beside it: {', '.join(beside)}")
    if elsewhere:
        yield Advice("file", f"it reads files that must be there: {', '.join(elsewhere)}")
    random = any(_is_call(node, _RANDOM) for node in ast.walk(code.module))
    if random:
        seeded = any(_is_call(node, _SEEDS) for node in ast.walk(code.module))
        what = "random streams differ between releases" if seeded else "its random inputs have no seed"
        yield Advice("seed", f"{what}: fixed inputs (bisect_torch.numerics.uniform in a case) are the same on all")


def _files_read(module: ast.Module) -> list[str]:
    """Names of files that it opens and has not written itself in a line before, in order."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    written = {(name, call.lineno) for call in calls if _writes(call) for name in _texts(call)}
    read = {
        (names[0], call.lineno)
        for call in calls
        if _is_call(call, _READERS) and not _writes(call) and (names := _texts(call)) and names[0] is not None
    }
    return sorted({
        name for name, line in read if not any(name == other and before < line for other, before in written)
    })  # fmt: skip


def _writes(call: ast.Call) -> bool:
    """Whether it writes to a file that it names: a ``save``, or an ``open`` to write."""
    if _is_call(call, {"open"}):
        modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return any(isinstance(mode, ast.Constant) and re.match("[wxa]", str(mode.value)) for mode in modes)
    return _is_call(call, _WRITERS)


def _texts(call: ast.Call) -> list[str | None]:
    """The arguments of a call that stand there as text, in their order; None for any other."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in ("f", "file"))]
    return [
        each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else None for each in arguments
    ]


def _about_version(report: str, releases: Sequence[str]) -> Iterator[Advice]:
    by_sentences = told(report, releases)
    if by_sentences.good is not None:
        yield Advice("version", f"by the report {by_sentences.good} is right, and {by_sentences.bad} is not")
        return
    if old := _too_old(report, releases):
        yield Advice(
            "version",
            f"the report is about torch {old}, and the first release that this tool runs is {releases[0]}: what broke "
            "before cannot be found; the next line tells whether the bug is still there",
        )
        return
    version = reported_version(report)
    if version:
        yield Advice("version", f"the report is about torch {version}: choose a range that includes it")
        return
    for nightly, release in _last_before(report, releases).items():
        about = f"the report is about a build before {nightly}, which may hold the fix already"
        yield Advice("version", f"{about}: begin with {release}")
