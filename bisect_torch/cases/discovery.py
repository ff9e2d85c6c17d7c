"""From what the user names to cases and instances, before anything is downloaded."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisect_torch import own_files
from bisect_torch.cases.command import read_command
from bisect_torch.cases.discovered import Discovered
from bisect_torch.cases.imports import local_modules, read_bytes, sha256, uses_compile
from bisect_torch.cases.no_code import refuse_other
from bisect_torch.cases.reading import Reading, parse, read_cases
from bisect_torch.cases.requirements import unusable
from bisect_torch.cases.selecting import named_instances, no_such_case
from bisect_torch.cases.suites import DEFAULT_SUITE, suite_files
from bisect_torch.errors import UsageError
from bisect_torch.model import Case, CaseFile, CaseKind, Instance, Limits
from bisect_torch.nearest import is_python, which_one
from bisect_torch.own_files import OwnFiles
from bisect_torch.worker.declaration import expand

LeftOut = Callable[[Path, UsageError], None]


def discover(
    paths: Iterable[str | Path],
    *,
    suites: Sequence[str] = (),
    command: Sequence[str] = (),
    pytest_words: Sequence[str] | None = None,
    bad_if_output: str | None = None,
    timeout_s: float | None = None,
    own: OwnFiles = own_files.NONE,
    left_out: LeftOut | None = None,
) -> tuple[Discovered, ...]:
    """Read the files, folders, suites and the command that the user named; the default suite where nothing was named.

    Args:
        paths: Case files, scripts, and folders, which stand for the ``*.py`` in them that no other one there imports.
            A path that occurs twice counts once. ``FILE::NAME`` is one case or one instance of a file.
        suites: Names of groups of shipped files (:data:`~bisect_torch.cases.suites.SUITES`), which run beside the rest.
        command: Words after ``--``.
        pytest_words: Words after ``--pytest``; None without it. Seen from the working directory.
        bad_if_output: A regular expression; a match in the output of a cell means ``wrong``.
        timeout_s: Seconds for the cells of cases that declare none.
        own: Files that are the tool's own, and no part of a suite.
        left_out: Told of files of a folder that cannot be read, and which others depend on them; the rest is read all
            the same. Without it, and where nothing of a folder can be read, they are an error.

    Raises:
        UsageError: Something named does not exist or cannot be run as it stands, with file and line.
    """
    if bad_if_output is not None:
        _check_expression(bad_if_output)
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"the time limit is a positive number of seconds, not {timeout_s}", hint="--timeout 120")
    found: dict[Path, Discovered] = {}
    named = _read_named([str(name) for name in paths], left_out)
    if not named and not suites and not command and pytest_words is None:
        suites = (DEFAULT_SUITE,)
    named += [each for name in suites for each in _runnable(suite_files(name))]
    for one in named:
        found.setdefault(one.file.path, one)
    everything = [*found.values(), *([read_command(command)] if command else [])]
    if pytest_words is not None:
        from bisect_torch.cases.pytest_suite import read_suite

        if bad_if_output is not None:
            raise UsageError(
                "--bad-if-output is for scripts and commands: pytest tells itself what is bad",
                hint="leave it out, or run the suite as a command: -- python -m pytest …",
            )
        everything.append(read_suite(pytest_words, Path.cwd(), own))
    return tuple(_with_run_options(one, bad_if_output, timeout_s) for one in everything)


def _check_expression(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error as problem:
        raise UsageError(
            f"--bad-if-output {expression!r}: {problem}",
            hint="a regular expression of Python's re, as in --bad-if-output 'nan|inf'",
        ) from None


def _read_named(names: Sequence[str], left_out: LeftOut | None) -> list[Discovered]:
    """What paths stand for, those with ``::`` narrowed: a file that is also named without it is whole."""
    found: list[Discovered] = []
    chosen: dict[Path, set[str]] = defaultdict(set)
    whole: set[Path] = set()
    for name in names:
        path, mark, case = (name, "", "") if os.path.exists(name) else name.partition("::")
        read = _read_path(Path(path), left_out)
        if mark and not case:
            raise UsageError(f"{name}: no case is named after ::", hint=f"{path} alone means all of its cases")
        if mark and Path(path).is_dir():
            raise UsageError(f"{path} is a folder, and :: names a case of a file", hint="FOLDER/FILE.py::CASE")
        for one in read:
            if mark:
                chosen[one.file.path].add(case)
            else:
                whole.add(one.file.path)
        found += read
    return [_narrowed(one, frozenset() if one.file.path in whole else chosen[one.file.path]) for one in found]


def _narrowed(one: Discovered, only: Collection[str]) -> Discovered:
    """The file with the cases or instances of these names alone; all where there are none."""
    only = frozenset(only)
    instances = None if one.instances is None else _only(one.instances, only)
    return replace(one, instances=instances, only=only)


def _only(instances: tuple[Instance, ...], only: frozenset[str]) -> tuple[Instance, ...]:
    for name in sorted(only):
        if not named_instances(instances, name):
            raise no_such_case(name, instances)
    return tuple(each for each in instances if not only or only & {each.case.name, each.name})


def _read_path(path: Path, left_out: LeftOut | None) -> list[Discovered]:
    try:
        if path.is_dir():
            return _read_folder(path, left_out)
        if not path.exists():
            raise UsageError(f"{path}: no such file", hint=_nearest(path))
        refuse_other(path)
        path = path.resolve()
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from None
    found = _read_file(path)
    if _holds_nothing(found):
        raise UsageError(
            f"{path}: there is nothing in it to run, and so it would be ok in every build",
            hint="name a file that holds a case or a script",
        )
    return [found]


def _holds_nothing(one: Discovered) -> bool:
    """Whether a script has no statement: nothing but comments, and texts that stand for themselves."""
    if one.file.kind is not CaseKind.SCRIPT:
        return False
    body = parse(one.file.path, read_bytes(one.file.path)).body
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)


def _nearest(path: Path) -> str:
    meant = which_one(path, is_python)
    if meant is not None:
        return meant
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    there = sorted(each.name for each in path.parent.glob("*.py"))
    shown = f"{', '.join(there[:4])}{', …' if len(there) > 4 else ''}" if there else "no *.py"
    where = ", which holds" if path.parent == Path() else f"; {path.parent} holds"
    return f"paths are seen from the working directory{where} {shown}"


def _read_folder(folder: Path, left_out: LeftOut | None) -> list[Discovered]:
    wanted = _runnable(sorted(folder.resolve().glob("*.py")), left_out)
    if not wanted:
        raise UsageError(
            f"{folder}: the folder holds no *.py that can be run",
            hint="name a file; a helper that another file imports, or one that begins with _, is not run",
        )
    return wanted


def _runnable(files: Iterable[Path], left_out: LeftOut | None = None) -> list[Discovered]:
    """Those of a folder's files that are meant to be run: no helper, by its name or since another one imports it."""
    read: list[Discovered] = []
    unread: list[tuple[Path, UsageError]] = []
    for file in files:
        if file.is_file() and file.name[0] not in "._":
            try:
                found = _read_file(file.resolve())
                if not _holds_nothing(found):
                    read.append(found)
            except UsageError as error:
                unread.append((file.resolve(), error))
    if unread and (left_out is None or not read):
        raise unread[0][1]
    if left_out is not None:
        for path, why in unread:
            left_out(path, why)
    imported = {(one.file.path.parent / name).resolve() for one in read for name in one.file.local_modules}
    return [one for one in read if one.file.kind is CaseKind.CASE or one.file.path not in imported]


def _read_file(path: Path) -> Discovered:
    source = read_bytes(path)
    try:
        return _read_source(path, source)
    except RecursionError:
        raise UsageError(
            f"{path}:1: cannot be read as Python: it is nested too deeply",
            hint="break the expression into several statements",
        ) from None


def _read_source(path: Path, source: bytes) -> Discovered:
    module = parse(path, source)
    reading = read_cases(path, module)
    neighbours = local_modules(path, module)
    # Cases that say so themselves make only themselves wait for the compiler stack, which takes seconds to load.
    declared = {case.name for case in reading.cases if "compile" in case.options.needs}
    others = [node for node in module.body if not (isinstance(node, ast.FunctionDef) and node.name in declared)]
    rest = ast.Module(body=others, type_ignores=[])
    needs_compile = any(uses_compile(one) for one in (rest, *neighbours.values()))
    file = CaseFile(
        path=path,
        sha256=hashlib.sha256(source).hexdigest(),
        kind=CaseKind.CASE if reading.is_case_file else CaseKind.SCRIPT,
        local_modules={one.relative_to(path.parent).as_posix(): sha256(one) for one in neighbours},
        needs_compile=needs_compile,
    )
    if not reading.is_case_file:
        script = Case(file=file, name=path.stem, line=_first_line(module))
        return Discovered(file, (script,), (Instance(script),))
    return _from_reading(file, reading)


def _first_line(module: ast.Module) -> int:
    return module.body[0].lineno if module.body else 1


def _from_reading(file: CaseFile, reading: Reading) -> Discovered:
    cases: list[Case] = []
    instances: list[Instance] = []
    for declared in reading.cases:
        options = declared.options
        case = Case(
            file=file,
            name=declared.name,
            line=declared.line,
            devices=options.devices,
            needs=options.needs,
            issue=options.issue,
        )
        _check_needs(case)
        cases.append(case)
        limits = Limits(options.memory, options.timeout)
        choices = expand(declared.parameters or {})
        instances += [Instance(case, tuple(choice.items()), limits) for choice in choices]
    return Discovered(file, tuple(cases), None if reading.dynamic else tuple(instances))


def _check_needs(case: Case) -> None:
    for need in case.needs:
        problem = unusable(need)
        if problem:
            raise UsageError(
                f"{case.file.path}:{case.line}: case {case.name!r}: needs {need!r}: {problem}",
                hint='for example needs=["torch>=2.6", "compile"]',
            )


def _with_run_options(one: Discovered, bad_if_output: str | None, timeout_s: float | None) -> Discovered:
    cases = {
        case.name: replace(case, bad_if_output=bad_if_output if bad_if_output is not None else case.bad_if_output)
        for case in one.cases
    }
    instances = one.instances
    if instances is not None:
        instances = tuple(
            replace(
                instance,
                case=cases[instance.case.name],
                limits=_limits(vars(instance.limits), timeout_s),
            )
            for instance in instances
        )
    return replace(
        one, cases=tuple(cases.values()), instances=instances, bad_if_output=bad_if_output, timeout_s=timeout_s
    )


def from_expansion(discovered: Discovered, rows: Iterable[Mapping[str, Any]]) -> tuple[Instance, ...]:
    """The instances of a file that a worker expanded.

    Args:
        rows: One per instance, as ``bisect_torch.worker.api.describe`` gives them.

    Raises:
        UsageError: The file declares no case, something that cannot be run, or none of a name that was asked for.
    """
    rows = list(rows)
    file = discovered.file
    lines = {case.name: case.line for case in discovered.cases}
    cases: dict[str, Case] = {}
    instances: list[Instance] = []
    for row in rows:
        name = row["case"]
        if name not in cases:
            cases[name] = Case(
                file=file,
                name=name,
                line=lines.get(name, row["line"]),
                devices=tuple(row["devices"]),
                needs=tuple(row["needs"]),
                issue=row["issue"],
                bad_if_output=discovered.bad_if_output,
            )
            _check_needs(cases[name])
        instances.append(
            Instance(
                cases[name],
                tuple(row["parameters"].items()),
                _limits(row, discovered.timeout_s),
                {device: _limits(each, discovered.timeout_s) for device, each in row.get("by_device", {}).items()},
            )
        )
    if not instances:
        raise UsageError(f"{file.path}:1: declares no case", hint="a case is a function under @case")
    return _only(tuple(instances), discovered.only)


def _limits(declared: Mapping[str, Any], timeout_s: float | None) -> Limits:
    """What a case declares; the run's time where it declares none."""
    own = declared["timeout_s"]
    return Limits(dict(declared["memory"]), own if own is not None else timeout_s)
