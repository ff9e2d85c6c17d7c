"""From what the user names to cases and instances, before anything is downloaded."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bisect_torch.cases.imports import local_modules, read_bytes, sha256, uses_compile
from bisect_torch.cases.reading import Reading, parse, read_cases
from bisect_torch.cases.requirements import unusable
from bisect_torch.errors import UsageError
from bisect_torch.model import Case, CaseFile, CaseKind, Instance
from bisect_torch.worker.declaration import expand

_HASHED_ARGUMENT_BYTES = 64 << 20


@dataclass(frozen=True)
class Discovered:
    """A file with its cases.

    Args:
        cases: As far as reading tells.
        instances: In order; None where the file must be expanded in a worker (see :func:`from_expansion`).
        bad_if_output: The run's, for cases that are known only later.
        timeout_s: The run's, for the same.
    """

    file: CaseFile
    cases: tuple[Case, ...]
    instances: tuple[Instance, ...] | None
    bad_if_output: str | None = None
    timeout_s: float | None = None


def discover(
    paths: Iterable[str | Path],
    *,
    command: Sequence[str] = (),
    bad_if_output: str | None = None,
    timeout_s: float | None = None,
) -> tuple[Discovered, ...]:
    """Read the files, folders and the command that the user named.

    Args:
        paths: Case files, scripts, and folders, which stand for the ``*.py`` in them that no other one there imports.
            A path that occurs twice counts once.
        command: Words after ``--``.
        bad_if_output: A regular expression; a match in the output of a cell means ``wrong``.
        timeout_s: Seconds for the cells of cases that declare none.

    Raises:
        UsageError: Something named does not exist or cannot be run as it stands, with file and line.
    """
    if bad_if_output is not None:
        _check_expression(bad_if_output)
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"the time limit is a positive number of seconds, not {timeout_s}")
    found: dict[Path, Discovered] = {}
    for name in paths:
        for one in _read_path(Path(name)):
            found.setdefault(one.file.path, one)
    everything = [*found.values(), *([_read_command(command)] if command else [])]
    if not everything:
        raise UsageError("no case file, script or command was named")
    return tuple(_with_run_options(one, bad_if_output, timeout_s) for one in everything)


def _check_expression(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error as problem:
        raise UsageError(f"--bad-if-output {expression!r}: {problem}") from None


def _read_path(path: Path) -> list[Discovered]:
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise UsageError(f"{path}: no such file", hint=_nearest(path))
    return [_read_file(path.resolve())]


def _nearest(path: Path) -> str | None:
    if path.suffix != ".py" and path.with_name(path.name + ".py").is_file():
        return f"did you mean {path.with_name(path.name + '.py')}?"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either"
    return None


def _read_folder(folder: Path) -> list[Discovered]:
    files = [file for file in sorted(folder.resolve().glob("*.py")) if file.is_file() and file.name[0] not in "._"]
    read = [_read_file(file) for file in files]
    imported = {(one.file.path.parent / name).resolve() for one in read for name in one.file.local_modules}
    wanted = [one for one in read if one.file.kind is CaseKind.CASE or one.file.path not in imported]
    if not wanted:
        raise UsageError(f"{folder}: the folder holds no *.py that can be run")
    return wanted


def _read_file(path: Path) -> Discovered:
    source = read_bytes(path)
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
            memory=options.memory,
            timeout_s=options.timeout,
            devices=options.devices,
            needs=options.needs,
            issue=options.issue,
        )
        _check_needs(case)
        cases.append(case)
        instances += [Instance(case, tuple(choice.items())) for choice in expand(declared.parameters or {})]
    return Discovered(file, tuple(cases), None if reading.dynamic else tuple(instances))


def _check_needs(case: Case) -> None:
    for need in case.needs:
        problem = unusable(need)
        if problem:
            raise UsageError(f"{case.file.path}:{case.line}: case {case.name!r}: needs {need!r}: {problem}")


def _read_command(command: Sequence[str]) -> Discovered:
    words = [str(word) for word in command]
    files = {word: Path(word) for word in words[1:] if Path(word).is_file()}
    small = {word: path for word, path in files.items() if path.stat().st_size <= _HASHED_ARGUMENT_BYTES}
    file = CaseFile(
        path=Path.cwd(),
        sha256=hashlib.sha256(json.dumps(words).encode()).hexdigest(),
        kind=CaseKind.COMMAND,
        # A script among the words decides as much as the words: editing it must run the command again.
        local_modules={word: sha256(path) for word, path in small.items()},
    )
    case = Case(file=file, name=Path(words[0]).stem or words[0], argv=tuple(words))
    return Discovered(file, (case,), (Instance(case),))


def _with_run_options(one: Discovered, bad_if_output: str | None, timeout_s: float | None) -> Discovered:
    cases = {
        case.name: replace(
            case,
            bad_if_output=bad_if_output if bad_if_output is not None else case.bad_if_output,
            timeout_s=case.timeout_s if case.timeout_s is not None else timeout_s,
        )
        for case in one.cases
    }
    instances = one.instances
    if instances is not None:
        instances = tuple(replace(instance, case=cases[instance.case.name]) for instance in instances)
    return Discovered(one.file, tuple(cases.values()), instances, bad_if_output, timeout_s)


def from_expansion(discovered: Discovered, rows: Iterable[Mapping[str, Any]]) -> tuple[Instance, ...]:
    """The instances of a file that a worker expanded.

    Args:
        rows: One per instance, as ``bisect_torch.worker.api.describe`` gives them.

    Raises:
        UsageError: The file declares no case, or something that cannot be run.
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
                memory=dict(row["memory"]),
                timeout_s=row["timeout_s"] if row["timeout_s"] is not None else discovered.timeout_s,
                devices=tuple(row["devices"]),
                needs=tuple(row["needs"]),
                issue=row["issue"],
                bad_if_output=discovered.bad_if_output,
            )
            _check_needs(cases[name])
        instances.append(Instance(cases[name], tuple(row["parameters"].items())))
    if not instances:
        raise UsageError(f"{file.path}:1: declares no case")
    return tuple(instances)
