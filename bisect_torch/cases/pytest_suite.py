"""A project's pytest suite: what its words and files are, and which of its tests one build collects.

Which tests there are only pytest knows, and it may differ from build to build: it is asked in every environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bisect_torch import own_files
from bisect_torch.cases.discovered import Discovered
from bisect_torch.cases.imports import uses_compile
from bisect_torch.cases.reading import parse
from bisect_torch.errors import UsageError
from bisect_torch.model import Case, CaseFile, CaseKind, Instance
from bisect_torch.nearest import is_python, which_one
from bisect_torch.own_files import OwnFiles

COLLECTION = "(collection)"
"""Name of the row of what could not be collected: a file, a folder, or all."""

WHOLE = "pytest"
"""Name of the file of that row, in the working directory, where it is about all: there is no such file."""

PYTEST_REQUIREMENTS = ("pytest==8.4.2; python_version >= '3.9'", "pytest==8.3.5; python_version < '3.9'")
"""What is installed where the user names no pytest: one version for all releases, so that it is no difference between
them. The second is the last for Python 3.8, which torch 2.4.1 still has wheels for."""

_OF_THE_TOOL = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
_SETTINGS = ("pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "conftest.py")
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "build", "dist", "venv"})
_MOST_FILES = 20_000
_READ_BYTES = 1 << 20
_FLAG = re.compile(r"-[qvsxlh]+")
"""Options of pytest's that take no value."""

_OTHER_PROCESSES = ("-n", "--numprocesses", "--dist", "--tx", "--forked", "--boxed")


def read_suite(words: Sequence[str], folder: Path, own: OwnFiles = own_files.NONE) -> Discovered:
    """The suite that ``--pytest WORDS`` names, seen from a working directory. pytest itself is not asked yet.

    Its hash covers the words, pytest's variables, and every file on which the tests may depend: those below the working
    directory and below the folders that the words name, and pytest's settings above these. What the tool itself writes
    to, and its reports in the working directory that git does not track, are none of them.

    Raises:
        UsageError: A file or folder that is named does not exist, a word cannot be used here, or there are too many
            files to be the tests of a project.
    """
    _check(words, folder)
    variables = {name: text for name, text in os.environ.items() if name.startswith("PYTEST_")}
    known = [list(words), sorted(set(variables.items()) - {(name, variables.get(name)) for name in _OF_THE_TOOL})]
    tests, rest = hashlib.sha256(), hashlib.sha256(json.dumps(known).encode())
    reports = own_files.untracked_reports(folder)
    covered: dict[str, str] = {}
    for path in _files(words, folder):
        if path in reports or path in own:
            continue
        name = os.path.relpath(path, folder)
        covered[name] = _file_hash(path)
        digest = tests if _holds_tests(path) else rest
        digest.update(f"{name}\0{covered[name]}\n".encode())
    support = rest.hexdigest()
    file = CaseFile(
        path=folder / WHOLE,
        sha256=hashlib.sha256(f"{support} {tests.hexdigest()}".encode()).hexdigest(),
        kind=CaseKind.PYTEST,
        local_modules={"(beside the tests)": support},
    )
    return Discovered(file, (Case(file=file, name=COLLECTION, argv=tuple(words)),), None, covered=covered)


def declares(option: str, words: Sequence[str], folder: Path) -> bool:
    """Whether a file of the suite, such as a ``conftest.py``, gives pytest this option.

    Raises:
        UsageError: There are too many files to be the tests of a project.
    """
    texts = (path.read_bytes() for path in _files(words, folder) if path.suffix == ".py" and path.is_file())
    named = re.compile(rb"""['"]%s['"]""" % re.escape(option.encode()))
    return any(b"addoption" in text and named.search(text) is not None for text in texts)


def _check(words: Sequence[str], folder: Path) -> None:
    for word in words:
        if word.partition("=")[0] in _OTHER_PROCESSES or (word.startswith("-n") and word[2:].isdigit()):
            raise UsageError(
                f"--pytest {word}: tests in processes that only pytest watches could not be blamed",
                hint="--jobs says how many processes run at once",
            )
    for path in _named(words, folder):
        if not os.path.exists(path):
            shown = path.relative_to(folder) if path.is_relative_to(folder) else path
            raise UsageError(f"--pytest {shown}: no such file or folder", hint=_nearest(shown))


def _nearest(path: Path) -> str:
    seen = "paths after --pytest are seen from the working directory"
    meant = which_one(path, is_python)
    return seen if meant is None else f"{seen}; {meant}"


def _named(words: Sequence[str], folder: Path) -> list[Path]:
    """Files and folders among the words: those that stand there as such, also where they do not exist.

    What follows an option of pytest's may be its value, as in ``-W error::UserWarning``.
    """
    found = []
    for before, word in zip(("", *words), words, strict=False):
        if word.startswith("-"):
            continue
        path = folder / word.partition("::")[0]
        value = before.startswith("-") and not _FLAG.fullmatch(before)
        holds_words = word[:1] in ("", "@")  # @FILE
        if os.path.exists(path) or not (value or holds_words or _are_modules(words, folder)):
            found.append(path)
    return found


def _are_modules(words: Sequence[str], folder: Path) -> bool:
    """Whether words name modules, not files: ``--pyargs``, which may also stand in the project's settings."""
    settings = (each / name for each in (folder, *folder.parents) for name in _SETTINGS)
    texts = (path.read_bytes() for path in settings if path.is_file())
    return "--pyargs" in " ".join((*words, os.environ.get("PYTEST_ADDOPTS", ""))) or any(
        b"--pyargs" in text for text in texts
    )


def _files(words: Sequence[str], folder: Path) -> list[Path]:
    found: dict[Path, None] = {}
    named = [path.resolve() for path in _named(words, folder) if os.path.exists(path)]  # others may be no path at all
    for top in [folder, *named]:
        for path in _below(top) if top.is_dir() else [top]:
            found[path] = None
            if len(found) > _MOST_FILES:
                raise UsageError(
                    f"--pytest: more than {_MOST_FILES} files lie below {top}", hint="start it in the project's folder"
                )
        for above in (top, *top.parents):
            found.update((above / name, None) for name in _SETTINGS if (above / name).is_file())
    return sorted(found)


def _below(folder: Path) -> Iterator[Path]:
    """Files that may matter to tests, without what is hidden, made, or another environment's."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in sorted(folders)
            if name[0] != "." and name not in _PASSED_OVER and not name.endswith(".egg-info")
            and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
        ]  # fmt: skip
        for name in sorted(names):
            path = Path(parent, name)
            if name[0] != "." and not name.endswith((".pyc", ".parquet", ".journal")) and path.is_file():
                yield path


def _holds_tests(path: Path) -> bool:
    return path.suffix == ".py" and (path.stem.startswith("test_") or path.stem.endswith("_test"))


def _file_hash(path: Path) -> str:
    """Of its bytes; of size and time for what is too large to be read each time."""
    try:
        status = path.stat()
        if status.st_size > _READ_BYTES:
            return f"{status.st_size} {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


def _needs_compile(path: Path) -> bool:
    """Whether the compiler stack should be loaded before pytest, so that it is no test's time.

    Not where variables are set that torch may read when it is loaded.
    """
    if path.suffix != ".py" or not path.is_file():
        return False
    sources = [path.read_bytes(), *(each.read_bytes() for each in [path.with_name("conftest.py")] if each.is_file())]
    if any(b"environ" in source or b"putenv" in source for source in sources):
        return False
    try:
        return uses_compile(parse(path, sources[0]))
    except UsageError:  # pytest says so itself
        return False


# --- what a build collects


@dataclass(frozen=True)
class Uncollected:
    """A file or folder that pytest could not collect on a build, or that skips as a whole.

    Args:
        path: Empty for everything.
        inside: A class in the file; empty for all of it.
        outcome: Value of :class:`~bisect_torch.model.Outcome`.
        reason: In words.
    """

    path: str
    inside: str
    outcome: str
    reason: str

    @property
    def words(self) -> str:
        """The reason as it is shown."""
        return f"pytest cannot collect it: {self.reason}" if self.path and self.outcome != "skipped" else self.reason

    def covers(self, instance: Instance) -> bool:
        """Whether an instance is one of its tests."""
        path, name = str(instance.case.file.path), instance.case.name
        if not self.path:
            return True
        if self.inside:
            return path == self.path and name.startswith(f"{self.inside}::")
        return path == self.path or path.startswith(self.path + os.sep)


@dataclass(frozen=True)
class Collection:
    """What pytest collects on one build.

    Args:
        tests: In pytest's order.
        uncollected: What it could not.
        rows: One instance for each of these, besides the tests.
    """

    tests: tuple[Instance, ...]
    uncollected: tuple[Uncollected, ...]
    rows: tuple[Instance, ...]

    @property
    def instances(self) -> tuple[Instance, ...]:
        """What is a row of the matrix: files that cannot be collected, and tests."""
        return (*self.rows, *self.tests)

    @property
    def whole(self) -> bool:
        """Whether it says the same whenever it is asked: nothing was broken."""
        return all(each.outcome == "skipped" for each in self.uncollected)

    def why_not(self, instance: Instance) -> tuple[str, str] | None:
        """Outcome and reason of an instance that is no test on this build; None for one that can be run."""
        if instance.case.name != COLLECTION:
            if (instance.case.file.path, instance.name) in self._names:
                return None
            for each in self.uncollected:
                if each.covers(instance):
                    return each.outcome, each.words
            return "skipped", "pytest does not collect it on this build"
        for each in self.uncollected:
            if Path(each.path) == instance.case.file.path or not each.path:
                return each.outcome, each.words
        return "skipped", "pytest collects it on this build: its tests have rows of their own"

    @cached_property
    def _names(self) -> frozenset[tuple[Path, str]]:
        return frozenset((test.case.file.path, test.name) for test in self.tests)


def collection_of(suite: Discovered, rows: Iterable[Mapping[str, Any]]) -> Collection:
    """What a worker's rows say (``worker.session.rows_of``)."""
    rows = list(rows)
    whole = suite.file
    argv = suite.cases[0].argv
    files: dict[str, CaseFile] = {}

    def file(name: str) -> CaseFile:
        if name not in files:
            path = Path(name)
            files[name] = CaseFile(path, _file_hash(path), CaseKind.PYTEST, whole.local_modules, _needs_compile(path))
        return files[name]

    tests = [
        Instance(Case(file=file(row["file"]), name=row["test"], line=row["line"], argv=argv))
        for row in rows
        if "test" in row
    ]
    uncollected = [
        Uncollected(row["problem"], row["inside"], row["outcome"], row["reason"]) for row in rows if "problem" in row
    ]
    failed = dict.fromkeys(each.path for each in uncollected if each.outcome != "skipped")
    own = [Instance(Case(file=file(path) if path else whole, name=COLLECTION, argv=argv)) for path in failed]
    return Collection(tuple(tests), tuple(uncollected), tuple(own))
