"""Suites: groups of shipped files, without the helpers among them; the default one where nothing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch import cases
from bisect_torch.cases import suites
from bisect_torch.errors import UsageError
from bisect_torch.shipped import shipped

CASE = "from bisect_torch import case\n@case\ndef f(): pass\n"
FILES = {
    "default.py": CASE,
    "large_index_quick.py": CASE,
    "large_index_bmm.py": "import large_index_shapes\n" + CASE,
    "large_index_shapes.py": "SHAPES = [1]\n",
    "_decoder.py": "",
    "decoding_greedy.py": "import _decoder\n" + CASE,
    "other.py": CASE,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(suites, "shipped", lambda name: {"cases": tmp_path}[name])
    return tmp_path


def names(found: tuple[cases.Discovered, ...]) -> list[str]:
    return [one.file.path.name for one in found]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (["default"], ["default.py", "large_index_quick.py"]),
        (["large-index"], ["large_index_bmm.py", "large_index_quick.py"]),
        (["decoding"], ["decoding_greedy.py"]),
        (["large-index", "default"], ["large_index_bmm.py", "large_index_quick.py", "default.py"]),
    ],
)
def test_a_suite_stands_for_its_files_but_not_for_their_helpers(
    folder: Path, named: list[str], expected: list[str]
) -> None:
    assert names(cases.discover([], suites=named)) == expected


def test_files_and_a_command_run_beside_a_suite(folder: Path) -> None:
    found = cases.discover([folder / "other.py"], suites=["decoding"], command=["true"])
    assert names(found) == ["other.py", "decoding_greedy.py", Path.cwd().name]


def test_the_default_suite_runs_only_where_nothing_is_named(folder: Path) -> None:
    assert names(cases.discover([])) == ["default.py", "large_index_quick.py"]
    assert names(cases.discover([folder / "other.py"])) == ["other.py"]
    assert names(cases.discover([], command=["true"])) == [Path.cwd().name]
    (folder / "large_index_quick.py").unlink()
    assert names(cases.discover([])) == ["default.py"]


def test_an_unknown_suite_names_those_that_there_are_and_a_missing_one_itself(folder: Path) -> None:
    with pytest.raises(UsageError, match="--suite 'smoke' is not known") as raised:
        cases.discover([], suites=["default", "smoke"])
    assert raised.value.hint == "the suites are: default, large-index, decoding"
    (folder / "decoding_greedy.py").unlink()
    with pytest.raises(UsageError, match="--suite decoding: this installation has no case file of it"):
        cases.discover([], suites=["decoding"])


def test_the_shipped_default_suite_is_there() -> None:
    assert suites.suite_files("default")[0] == shipped("cases") / "default.py"
