"""Rows that are ok only because they ran to their end: scripts and cases whose text checks nothing."""

from __future__ import annotations

import ast
import enum
import functools
import itertools
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bisect_torch.analysis.columns import telling
from bisect_torch.analysis.python_text import tree_of
from bisect_torch.model import Observation, Series, beside
from bisect_torch.report.excerpt import excerpt, imported_roots, is_case, names_of_case, returned_values
from bisect_torch.report.files import COMMANDS
from bisect_torch.report.findings import Findings
from bisect_torch.report.rerun import words_of
from bisect_torch.report.running import running_nodes, uncalled_tests
from bisect_torch.report.text import clean, listed
from bisect_torch.report.upshot import ok_throughout

_MOST_NAMES = 6
_MOST_ROWS = 100
_FACTS = ("case_file", "case", "case_file_hash", "local_modules", "run_id")
_CHECKING = re.compile(
    "assert|check(?!point)|expect|verif|validat|fail|raise|anomaly|exit|abort|kill|record|filterwarnings|simplefilter"
    "|run_?tests?",
    re.IGNORECASE,
)
"""What is called anything like this may be a check."""

_HIDING = frozenset({"eval", "exec", "globals", "locals", "vars", "quit", "__import__"})
"""Built-in functions that may do what the text does not show."""

_HARMLESS = frozenset({"torch", "numpy", "bisect_torch"})
_MAY_CHECK = frozenset(
    {"unittest", "doctest", "subprocess", "runpy", "importlib", "multiprocessing", "ctypes", "signal"}
)
"""Of the standard library: what tests, or runs something else."""


def unchecked_words(findings: Findings) -> list[str]:
    """One sentence with the rows, where there are any."""
    series = unchecked(findings)
    rows = [clean(findings.name_of(each)) for each in series]
    if not rows:
        return []
    ran = "row only ran to its end" if len(rows) == 1 else "rows only ran to their end"
    names = listed(rows, most=_MOST_NAMES)
    text = f"{len(rows):,} {ran}: nothing was checked, only an exception, a crash or a hang would have shown ({names})."
    if files := dict.fromkeys(_with_tests(series, findings)):
        text += f" Nothing calls the tests of {listed(list(files))}: `bisect-torch run --pytest FILE` runs them."
    return [text]


def _with_tests(series: Iterable[Series], findings: Findings) -> Iterator[str]:
    """Names of files with tests that nothing in them calls."""
    for each in itertools.islice(series, _MOST_ROWS):
        facts = (found for build in each.builds for found in findings.facts(each, build, ("case_file_hash",)))
        if any(_has_uncalled_tests(findings.sources.get(str(digest), "")) for (digest,) in facts):
            yield clean(findings.file_names.get(each.case_file, each.case_file))


@functools.lru_cache(maxsize=256)
def _has_uncalled_tests(source: str) -> bool:
    tree = tree_of(source)
    return tree is not None and bool(uncalled_tests(tree))


def unchecked(findings: Findings) -> list[Series]:
    """Series that are ok wherever they were judged, of scripts and cases that are known to check nothing.

    Of commands, of test suites and of what imports more than torch, numpy and the standard library nothing is known.
    """
    one_of_each = {
        tuple(getattr(each, name) for name in _FACTS): each for each in telling(findings.observations, _FACTS)
    }
    known: dict[tuple[str, str], _Known] = {}
    for each in one_of_each.values():
        place = each.case_file, each.case
        known[place] = min(known.get(place, _Known.RUNS), _known_of(each, findings.sources, findings.runs))
    if not any(known.values()):
        return []
    return [
        each
        for each in findings.series
        if (what := known.get((each.case_file, each.instance.partition("[")[0]), _Known.MAY_CHECK))
        and ok_throughout(each)
        and (what is _Known.RUNS or not _keeps_a_value(each, findings))
    ]


def only_ran(
    observations: Sequence[Observation], sources: Mapping[str, str], runs: Iterable[Mapping[str, Any]] = ()
) -> bool:
    """Whether what is ok is known to have checked nothing, as far as :func:`unchecked` knows.

    Args:
        observations: Of one cell.
        sources: SHA-256 to the text that ran.
        runs: Manifests of the runs that made them, by which their output may have been looked at.
    """
    seen = [_known_of(each, sources, runs) for each in observations]
    if not seen or not all(seen):
        return False
    return all(each is _Known.RUNS for each in seen) or not any(each.digest for each in observations)


class _Known(enum.IntEnum):
    """What the text of a case tells: it may check something, or gives a value at most, or only runs."""

    MAY_CHECK = 0
    GIVES = 1
    RUNS = 2


def _keeps_a_value(series: Series, findings: Findings) -> bool:
    """Whether what the case gave was recorded: a module, or an object of a class of its own, cannot be."""
    return any(digest for build in series.builds for (digest,) in findings.facts(series, build, ("digest",)))


def _known_of(observation: Observation, sources: Mapping[str, str], runs: Iterable[Mapping[str, Any]]) -> _Known:
    source = sources.get(observation.case_file_hash)
    if source is None or observation.case_file == COMMANDS or beside(observation.local_modules).modules:
        return _Known.MAY_CHECK
    run = next((run for run in runs if run.get("run_id") == observation.run_id), {})
    words = words_of(run)
    # A recheck takes the options of the earlier run, which its own line does not name.
    if words[:1] == ["recheck"] or any(word.partition("=")[0] == "--bad-if-output" for word in words):
        return _Known.MAY_CHECK
    if checks_nothing(source, observation.case):
        return _Known.RUNS
    return _Known.GIVES if checks_nothing(source, observation.case, or_gives=True) else _Known.MAY_CHECK


@functools.lru_cache(maxsize=256)
def checks_nothing(source: str, case: str, *, or_gives: bool = False) -> bool:
    """Whether a script, or this case of a case file, surely neither checks anything nor gives a value.

    Args:
        source: The whole file.
        or_gives: It may give a value.
    """
    text = excerpt(source, case).text
    tree = tree_of(text)
    if tree is None:
        return False
    names = names_of_case(tree)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and is_case(node, names)]
    gives_value = any(returned_values(function) for function in functions)
    running = running_nodes(tree)
    checkers = _bound_to_checkers(running)
    return (or_gives or not gives_value) and not any(_may_check(node, checkers) for node in running)


def _may_check(node: ast.AST, checkers: Container[str]) -> bool:
    """
    Args:
        checkers: Names of modules that may check, and of what is imported from them. Loading them checks nothing.
    """
    if isinstance(node, (ast.Assert, ast.Raise, ast.Try)):
        return True
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return not set(imported_roots(node)) <= _HARMLESS | sys.stdlib_module_names
    if isinstance(node, ast.Name) and (node.id in _HIDING or node.id in checkers):
        return True
    return any(_CHECKING.search(name) for name in _names(node))


def _bound_to_checkers(nodes: Iterable[ast.AST]) -> set[str]:
    imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {
        name.asname or name.name.partition(".")[0]
        for node in imports
        if set(imported_roots(node)) & _MAY_CHECK
        for name in node.names
    }


def _names(node: ast.AST) -> Iterator[str]:
    """What is used by name here; importing a name is no use of it."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg
