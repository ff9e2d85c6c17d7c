"""What makes a suite the same suite, and what is said of a test on a build that does not have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.cases import Collection, collection_of, read_suite
from bisect_torch.cases.pytest_suite import COLLECTION
from bisect_torch.errors import UsageError
from bisect_torch.model import Instance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "tests" / "test_b.py").write_text("def test_b(): pass\n")
    (tmp_path / "tests" / "helper.py").write_text("")
    (tmp_path / "library.py").write_text("")
    return tmp_path


def hashes(folder: Path, *words: str) -> tuple[str, str, str]:
    """Of the suite, of one of its files, and of what stands beside the tests."""
    suite = read_suite(words or ("tests",), folder)
    row = {"file": str(folder / "tests" / "test_a.py"), "test": "test_a", "line": 1}
    (test,) = collection_of(suite, [row]).tests
    return suite.file.sha256, test.case.file.sha256, test.case.file.local_modules["(beside the tests)"]


@pytest.mark.parametrize(
    ("changed", "which"),
    [
        ("tests/test_a.py", (True, True, False)),
        ("tests/test_b.py", (True, False, False)),  # tests of one file do not depend on those of another
        ("tests/helper.py", (True, False, True)),
        ("tests/new.json", (True, False, True)),
        ("library.py", (True, False, True)),
        ("pyproject.toml", (True, False, True)),
        ("results.parquet", (False, False, False)),
        (".hidden/x.py", (False, False, False)),
        ("tests/__pycache__/test_a.cpython-311.pyc", (False, False, False)),
    ],
)
def test_a_changed_file_counts_for_the_tests_that_may_depend_on_it(
    folder: Path, changed: str, which: tuple[bool, bool, bool]
) -> None:
    before = hashes(folder)
    (folder / changed).parent.mkdir(exist_ok=True)
    (folder / changed).write_text("# other\n")
    assert tuple(old != new for old, new in zip(before, hashes(folder), strict=True)) == which


def test_words_variables_and_settings_above_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_suite(["."], folder / "tests").file.sha256
    assert read_suite([".", "-q"], folder / "tests").file.sha256 != before
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "of the tool's own tests")
    assert read_suite(["."], folder / "tests").file.sha256 == before
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    assert read_suite(["."], folder / "tests").file.sha256 != before
    monkeypatch.undo()
    (folder / "pytest.ini").write_text("[pytest]\n")
    assert read_suite(["."], folder / "tests").file.sha256 != before


@pytest.mark.parametrize(
    "words", [["-n", "4"], ["-n4"], ["--numprocesses=4"], ["--forked"], ["tests/absent.py"], ["absent::test_a"]]
)
def test_words_that_cannot_be_used_are_refused(folder: Path, words: list[str]) -> None:
    with pytest.raises(UsageError):
        read_suite(words, folder)


@pytest.mark.parametrize("words", [["tets"], ["-q", "tets"], ["tests", "tets"], ["-k", "a", "tets"], ["-x", "./tets"]])
def test_a_folder_that_does_not_exist_is_refused_with_the_nearest(folder: Path, words: list[str]) -> None:
    """pytest would say so once for each build, after its environment was made."""
    with pytest.raises(UsageError, match="--pytest tets: no such file or folder") as refused:
        read_suite(words, folder)
    assert (refused.value.hint or "").endswith("did you mean tests?")


@pytest.mark.parametrize(
    "words",
    [
        ["tests", "-k", "tets"], ["-W", "error::UserWarning"], ["-p", "tets", "tests"], ["--cov", "tets"], ["@tets"],
        ["--pyargs", "tets.tests"], ["-vk", "tets"], ["tests/test_a.py::test_a"], ["--deselect", "tets.py::test_a"],
    ],
)  # fmt: skip
def test_what_may_be_no_path_is_left_to_pytest(folder: Path, words: list[str]) -> None:
    assert read_suite(words, folder).cases[0].argv == tuple(words)


def test_modules_that_the_settings_ask_for_are_left_to_pytest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --pyargs\n")
    assert read_suite(["tets.tests"], folder)
    (folder / "pytest.ini").unlink()
    monkeypatch.setenv("PYTEST_ADDOPTS", "--pyargs")
    assert read_suite(["tets.tests"], folder)


def collection(folder: Path, *rows: dict[str, object]) -> Collection:
    return collection_of(read_suite(["tests"], folder), rows)


def problem(path: Path | str, outcome: str = "environment_broken", inside: str = "") -> dict[str, object]:
    return {"problem": str(path), "inside": inside, "outcome": outcome, "reason": "why"}


def made(folder: Path, name: str = "test_a", file: str = "test_a.py") -> Instance:
    row = {"file": str(folder / "tests" / file), "test": name, "line": 1}
    (found,) = collection(folder, row).tests
    return found


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        (None, ("skipped", "pytest does not collect it on this build")),
        ("tests/test_a.py", ("environment_broken", "pytest cannot collect it: why")),
        ("tests", ("environment_broken", "pytest cannot collect it: why")),
        ("", ("environment_broken", "why")),
        ("tests/test_b.py", ("skipped", "pytest does not collect it on this build")),
        ("tests/test", ("skipped", "pytest does not collect it on this build")),
    ],
    ids=["nothing said", "its file", "its folder", "everything", "another file", "a beginning of its name"],
)
def test_a_test_that_a_build_does_not_have_is_said_and_never_judged(
    folder: Path, row: str | None, answer: tuple[str, str]
) -> None:
    rows = [] if row is None else [problem(folder / row if row else "")]
    assert collection(folder, *rows).why_not(made(folder)) == answer


def test_a_file_that_skips_as_a_whole_skips_its_tests(folder: Path) -> None:
    found = collection(folder, problem(folder / "tests" / "test_a.py", "skipped"))
    assert found.why_not(made(folder)) == ("skipped", "why")
    assert (found.rows, found.whole) == ((), True)


def test_a_class_that_cannot_be_collected_concerns_its_own_tests(folder: Path) -> None:
    found = collection(folder, problem(folder / "tests" / "test_a.py", inside="Test"))
    assert found.why_not(made(folder, "Test::test_a")) == ("environment_broken", "pytest cannot collect it: why")
    assert found.why_not(made(folder, "TestOther::test_a")) == ("skipped", "pytest does not collect it on this build")


def test_what_could_not_be_collected_has_a_row_so_that_it_is_seen(folder: Path) -> None:
    path = folder / "tests" / "test_b.py"
    broken = collection(folder, problem(path))
    (row,) = broken.rows
    assert (row.name, row.case.file.path) == (COLLECTION, path)
    assert broken.why_not(row) == ("environment_broken", "pytest cannot collect it: why")
    elsewhere = collection(folder, {"file": str(path), "test": "test_b", "line": 1})
    assert elsewhere.why_not(row) == (
        "skipped",
        "pytest collects it on this build: its tests have rows of their own",
    )
    assert (broken.whole, elsewhere.whole) == (False, True)
