"""The rules of ``bisect_torch/README.md`` hold: what a room may import, what it may load, where a promise is kept."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bisect_torch"
PAGE = (PACKAGE / "README.md").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()

IN_ENVIRONMENTS = ("worker", "numerics")
"""Rooms that are copied into the environment of a build."""

IMPORT_NAMES = {"beautifulsoup4": "bs4", "pypi-simple": "pypi_simple"}


def table(name: str) -> list[list[str]]:
    """The cells of a table between ``<!-- name -->`` and ``<!-- /name -->``, without its head."""
    part = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    rows = [line.strip()[1:-1].split("|") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


MAY_IMPORT = {row[0].strip("`"): named(row[2]) for row in table("rooms")}
LIBRARIES = {row[0].strip("`"): {name for name in re.split(r",\s*", row[3]) if name} for row in table("rooms")}
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Full names of what a file imports, also inside of functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path: Path) -> set[str]:
    found = {name.split(".")[1] for name in imported(path) if name.startswith("bisect_torch.")}
    return (found & set(ROOMS)) - {"model"}  # every room speaks its words


def libraries_of(path: Path) -> set[str]:
    tops = {name.partition(".")[0] for name in imported(path)}
    return tops - set(sys.stdlib_module_names) - {"bisect_torch", "tomllib"}  # of Python 3.11


def test_the_page_names_every_room() -> None:
    assert sorted(MAY_IMPORT) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_the_page_allows_and_all_of_it(room: str) -> None:
    found = set.union(*(rooms_of(path) for path in files_of(room))) - {room}
    if room == "cli":
        assert found <= set(ROOMS)
    else:
        assert found == MAY_IMPORT[room]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_the_libraries_that_the_page_names(room: str) -> None:
    assert set.union(*(libraries_of(path) for path in files_of(room))) == LIBRARIES[room]


DOORS = [path for path in PACKAGE.glob("*/__init__.py") if "= opened(" in path.read_text()]
"""Of rooms whose names are loaded when they are used first."""


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.parent.name)
def test_a_door_that_opens_late_gives_all_that_it_names(door: Path) -> None:
    room = importlib.import_module(f"bisect_torch.{door.parent.name}")
    given = {name: vars(room).get(name) or getattr(room, name) for name in room.__all__}
    named = {name.rpartition(".")[2] for name in imported(door) if name.startswith(f"{room.__name__}.")}
    assert named == set(room.__all__), "what mypy is told"
    assert [name for name, value in given.items() if isinstance(value, types.ModuleType)] == []
    files = {path.stem for path in door.parent.iterdir()}
    assert sorted(files & set(room.__all__)) == [], "a file that is loaded would take the name's place"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018


def test_imports_go_one_way() -> None:
    """No room imports, over however many others, one that imports it."""
    behind: dict[str, set[str]] = {}

    def reached(room: str) -> set[str]:
        if room not in behind:
            behind[room] = set()
            behind[room] = MAY_IMPORT[room].union(*(reached(each) for each in MAY_IMPORT[room]))
        return behind[room]

    assert [room for room in ROOMS if room in reached(room)] == []


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of files each of which imports, over however many others, all of its group."""

    def reached(begin: str) -> set[str]:
        found: set[str] = set()
        left = [begin]
        while left:
            new = imports[left.pop()] - found
            found |= new
            left += new
        return found

    behind = {name: reached(name) for name in imports}
    return {frozenset(other for other in behind[name] if name in behind[other]) for name in imports} - {frozenset()}


def test_a_circle_is_found() -> None:
    found = circles({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set(), "e": {"e"}})
    assert found == {frozenset("bc"), frozenset("e")}


def test_files_import_in_no_circle() -> None:
    """Also inside of functions and for types alone."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    found = circles(
        {
            name: {each for each in (*imported(path), *(full.rpartition(".")[0] for full in imported(path)))} & {*names}
            for name, path in names.items()
        }
    )
    kept = {"bisect_torch.report.findings", "bisect_torch.report.beside"}
    assert found == {frozenset(kept)}, "findings keep what is told of files beside, which takes long to find out"


def test_what_lies_beside_the_rooms_imports_none() -> None:
    beside = [path for path in PACKAGE.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    found = {path.name: rooms_of(path) for path in beside if rooms_of(path)}
    assert found == {"child_processes.py": {"redaction"}}, "whose children get no secrets unless they are named"
    assert {path.stem for path in beside} == named(PAGE.partition("Beside the rooms")[2].partition("\n\n")[0])


def test_the_orchestrator_never_imports_torch() -> None:
    guilty = [
        room
        for room in ROOMS
        if room not in IN_ENVIRONMENTS
        for path in files_of(room)
        if "torch" in libraries_of(path)
    ]
    assert guilty == []


@pytest.mark.parametrize("room", IN_ENVIRONMENTS)
def test_what_goes_into_environments_is_python_3_8(room: str) -> None:
    for path in [*files_of(room), PACKAGE / "__init__.py"]:
        ast.parse(path.read_text(), feature_version=(3, 8))


PURE = [*files_of("analysis"), PACKAGE / "engine" / "plan.py"]
OUTSIDE = {"os", "subprocess", "socket", "requests", "tempfile", "shutil", "time", "threading", "logging"}
CALLS = {"open", "print", "input", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "exists"}


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_pure_files_do_no_input_or_output(path: Path) -> None:
    assert {name.partition(".")[0] for name in imported(path)} & OUTSIDE == set()
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named_calls = {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}
    assert (
        named_calls & {"open", "print", "input", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir"}
        == set()
    )


def test_children_are_started_in_the_named_places() -> None:
    """Of the orchestrator; ``worker`` starts its own, and the script that ``new`` writes is only named there."""
    calls = {"Popen", "run", "check_output", "check_call", "call", "system", "popen", "posix_spawn", "fork", "forkpty"}
    found = set()
    for room in [room for room in ROOMS if room not in IN_ENVIRONMENTS]:
        for path in files_of(room):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                base = node.func.value
                if isinstance(base, ast.Name) and base.id in ("subprocess", "os") and node.func.attr in calls:
                    found.add(str(path.relative_to(PACKAGE)))
    assert found == {"engine/worker_process.py"}, "it keeps the pipe to a worker open, and takes its words from here"


def test_everything_is_caught_at_the_outermost_edges_alone() -> None:
    """``except Exception``; what a thread hands over to another (``BaseException``) is raised again there."""
    found = set()
    for room in [room for room in ROOMS if room not in IN_ENVIRONMENTS]:
        for path in files_of(room):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.ExceptHandler)
                    and isinstance(node.type, ast.Name)
                    and node.type.id == "Exception"
                ):
                    found.add(str(path.relative_to(PACKAGE)))
    assert found == {"cli/main.py"}


@pytest.mark.parametrize("row", table("invariants"), ids=lambda row: row[0])
def test_a_promise_names_files_that_are_there(row: list[str]) -> None:
    kept, tested = named(row[1]), named(row[2])
    assert kept
    assert tested
    assert [name for name in kept if not (PACKAGE / name).is_file()] == []
    assert [name for name in tested if "def test_" not in (ROOT / name).read_text()] == []


def test_every_path_of_the_page_is_there() -> None:
    part = PAGE.partition("## The life of a cell")[2].partition("<!-- invariants -->")[0]
    assert [name for name in named(part) if name.endswith(".py") and not (PACKAGE / name).is_file()] == []
    assert [link for link in re.findall(r"\]\(([^)#:]+)\)", PAGE) if not (PACKAGE / link).exists()] == []


def requirements() -> set[str]:
    """Names that the tool itself needs, with the extras of reports and of Ray."""
    listed = re.findall(r"^(?:dependencies|report|ray) = \[\n(.*?)^\]", PROJECT, re.DOTALL | re.MULTILINE)
    return {re.match(r"[\w-]+", line.strip(' ",'))[0] for part in listed for line in part.splitlines()}  # type: ignore[index]


def test_the_page_says_why_of_every_library_and_each_is_used() -> None:
    part = PAGE.partition("## Libraries")[2]
    told = {line.split("|")[1].split("(")[0].strip() for line in part.splitlines() if line.startswith("| ")} - {
        "library"
    }
    assert told == requirements()
    used = set.union(*LIBRARIES.values()) - {"torch", "numpy", "pytest"}
    used |= set.union(*(libraries_of(path) for path in PACKAGE.glob("*.py")))
    assert used == {IMPORT_NAMES.get(name, name) for name in requirements()}


def test_the_picture_names_every_room() -> None:
    text = (PACKAGE / "data_flow.svg").read_text()
    assert [room for room in ROOMS if f">{room}<" not in text and room not in ("redaction", "model")] == []
    assert "redaction" in text


@pytest.mark.parametrize("room", ["engine", "worker"])
def test_the_door_of_a_large_room_leads_to_each_of_its_files(room: str) -> None:
    door = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    inside = [path for path in (PACKAGE / room).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert set(re.findall(r"``(\w+)``", door)) == {path.stem for path in inside} - {"__init__", "__main__"}
