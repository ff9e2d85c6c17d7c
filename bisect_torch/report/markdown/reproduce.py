"""How to see it again: command lines, where to go on in the source, and the hashes of what ran."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from bisect_torch.analysis.causes import Cause
from bisect_torch.model import BuildKind, Observation, Transition
from bisect_torch.report.files import COMMANDS
from bisect_torch.report.findings import Findings
from bisect_torch.report.handoff import bisect_command
from bisect_torch.report.markdown.ends import End
from bisect_torch.report.markdown.syntax import block_text, code, fence, prose
from bisect_torch.report.rerun import carried, instance_part, split_words, what_ran, words_of
from bisect_torch.report.rerun_tests import words_for
from bisect_torch.report.retyped import not_an_option, shell_line, typed

_PROJECT = re.compile(r"[\w.-]+")


def run_again(cause: Cause, ends: Sequence[End], findings: Findings, script: str | None) -> Iterator[str]:
    """The command lines that show it again, first those that need nothing but pip.

    Args:
        script: Name of the plain script that the report shows; None where it shows none.
    """
    lines = [*_without_the_tool(ends, findings, script), *_with_the_tool(cause, ends, findings)]
    if lines:
        yield f"**Run it again**\n\n{fence(chr(10).join(lines), 'sh')}"


def further(ends: Sequence[End], change: Sequence[Transition], findings: Findings) -> tuple[str, str]:
    """The folded part of a finding, its HTML title and its text: where to go on in the source, and hashes."""
    parts = []
    source = _git_bisect(change[0], findings) if change else None
    if source is not None:
        parts.append(f"In a source checkout:\n\n{fence(source, 'sh')}")
        if not _descends(change[0], findings):
            parts.append("Releases lie on branches of their own: git asks for their merge base first.")
    parts.append("\n".join(f"- {line}" for line in _hashes(ends, findings)))
    return "<code>git bisect</code>, hashes" if source is not None else "hashes", "\n\n".join(parts)


def is_script(seen: Observation, source: str | None) -> bool:
    """Whether ``python FILE`` does the same."""
    stem = PurePath(seen.case_file).stem
    return seen.case == stem == seen.instance and source is not None and "bisect_torch" not in source


def command_of(seen: Observation, findings: Findings) -> str:
    """The words of a command, as a shell takes them."""
    _, tail = split_words(words_of(run_of(findings, seen)))
    return shell_line(map(typed, tail[1:]))


def _without_the_tool(ends: Sequence[End], findings: Findings, script: str | None) -> Iterator[str]:
    seen = ends[-1].seen
    own, tail = split_words(words_of(run_of(findings, seen)))
    command = shell_line(["python", not_an_option(script)]) if script is not None else _python_command(tail)
    extras = _extras(own)
    if command is None or extras is None or any(end.seen.backend not in (None, "pypi") for end in ends):
        return
    if seen.python:
        yield f"# with Python {block_text(seen.python)}"
    for end in ends:
        yield f"{_install(end, findings, extras)} && {command}  # {block_text(end.short)}"
    yield ""


def _python_command(tail: Sequence[str]) -> str | None:
    """The command where Python is what it starts."""
    plain = tail[:1] == ["--"] and tail[1:2] in (["python"], ["python3"])
    return shell_line(map(typed, tail[1:])) if plain else None


def _extras(own: Sequence[str]) -> list[str] | None:
    """Projects that were installed beside torch; None where one of them is the user's own folder."""
    names = []
    for place, word in enumerate(own):
        option, sign, value = word.partition("=")
        if option == "--with-editable":
            return None
        if option == "--with":
            text = value if sign else "".join(own[place + 1 : place + 2])
            names += [found[0].lower()] if (found := _PROJECT.match(text)) else []
    return names


def _with_the_tool(cause: Cause, ends: Sequence[End], findings: Findings) -> Iterator[str]:
    seen = ends[-1].seen
    own, tail = split_words(words_of(run_of(findings, seen)))
    builds = [findings.build(end.build) for end in ends]
    if any(build is None or build.kind is BuildKind.LOCAL for build in builds):
        return
    line = ["bisect-torch", "run", *([] if tail else [what_ran(seen, own)])]
    if not tail and seen.instance != PurePath(seen.case_file).stem:
        line += shlex.split(instance_part(seen.instance)) if len(cause.series) == 1 else ["-k", seen.case]
    if tail[:1] == ["--pytest"]:
        chosen, tail = words_for([(each.case_file, each.instance) for each in cause.series], tail)
        line += chosen
    line += ["--versions", ",".join(end.build for end in ends)]
    if seen.python:
        line += ["--python", ".".join(seen.python.split(".")[:2])]
    if seen.backend not in (None, "pypi", "local"):
        line += ["--torch-backend", str(seen.backend)]
    if seen.device != "cpu":
        line += ["--device", seen.device]
    threads = run_of(findings, seen).get("threads")
    if threads:
        line += ["--threads", str(threads)]
    yield shell_line([*line, *carried(own), *map(typed, tail)])


def _install(end: End, findings: Findings, extras: Sequence[str]) -> str:
    environment = findings.environments.get(end.build)
    beside = environment.packages if environment is not None else {}
    wanted = [
        f"torch=={end.seen.build}",
        *(f"{name}=={beside[name]}" for name in dict.fromkeys(("numpy", "setuptools", *extras)) if name in beside),
    ]
    return shell_line(["pip", "install", *wanted])


def is_command(seen: Observation) -> bool:
    """Whether it ran what stood after ``--``."""
    return seen.case_file == COMMANDS


def file_of(seen: Observation) -> str:
    """The case file's own name."""
    return PurePath(seen.case_file).name


def run_of(findings: Findings, seen: Observation) -> Mapping[str, object]:
    """The manifest of the run that saw it; empty where it is not known."""
    return next((run for run in reversed(findings.runs) if run.get("run_id") == seen.run_id), {})


def _git_bisect(transition: Transition, findings: Findings) -> str | None:
    old, new = findings.origin(transition.before.build), findings.origin(transition.after.build)
    if old is None or new is None or not (old.resolved and new.resolved) or old.point == new.point:
        return None
    return bisect_command(transition.kind, old, new)


def _descends(transition: Transition, findings: Findings) -> bool:
    builds = [findings.build(end.build) for end in (transition.before, transition.after)]
    return all(build is not None and build.kind is BuildKind.NIGHTLY for build in builds)


def _hashes(ends: Sequence[End], findings: Findings) -> Iterator[str]:
    seen = ends[-1].seen
    run = run_of(findings, seen)
    if run.get("tool_version"):
        yield f"bisect-torch {prose(str(run['tool_version']))}, run {code(seen.run_id)}"
    what = code(file_of(seen)) if file_of(seen) else "the command's words"
    yield f"SHA-256 of {what}: {code(seen.case_file_hash)}"
    for end in ends:
        if end.seen.lock_hash:
            yield f"SHA-256 of the lock of {prose(end.build)}: {code(end.seen.lock_hash)}"
        commit = findings.commit(end.build)
        if commit:
            yield f"torch {prose(end.build)} was built from {code(commit)}"
