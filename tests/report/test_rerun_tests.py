"""A report's line for tests of a suite runs these tests and no others."""

from __future__ import annotations

import pytest

from bisect_torch.cases.pytest_suite import COLLECTION, WHOLE
from bisect_torch.report.rerun_tests import MOST_TESTS, words_for

ONE = ("tests/test_a.py", "TestA::test_x[float32-2]")
NODE = "tests/test_a.py::TestA::test_x[float32-2]"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tests", NODE),
        ("", NODE),
        (".", NODE),
        ("./tests/ -q", f"-q {NODE}"),
        ("-x tests/test_a.py tests/test_b.py", f"-x {NODE}"),
        ("tests/test_a.py::TestA -k x", f"-k x {NODE}"),
        ("<cwd>/tests --tb short", f"--tb short {NODE}"),
        ("--strict-markers tests -p no:randomly", f"--strict-markers -p no:randomly {NODE}"),
    ],
)
def test_a_test_is_named_by_its_node_id_in_place_of_the_folders_that_hold_it(words: str, expected: str) -> None:
    assert words_for([ONE], ["--pytest", *words.split()]) == ([], ["--pytest", *expected.split()])


@pytest.mark.parametrize("words", [["--pyargs", "torch.testing"], ["../other"], ["@words.txt"], ["tests/other"]])
def test_where_pytests_words_do_not_name_its_folder_the_tools_own_expression_chooses(words: list[str]) -> None:
    assert words_for([ONE], ["--pytest", *words]) == (["-k", ONE[1]], ["--pytest", *words])


def test_several_tests_are_named_each_and_many_are_the_whole_suite() -> None:
    two = [ONE, ("tests/sub/test_b.py", "test_y")]
    assert words_for([*two, ONE], ["--pytest", "tests"])[1] == ["--pytest", NODE, "tests/sub/test_b.py::test_y"]
    many = [("tests/test_a.py", f"test_{number}") for number in range(MOST_TESTS + 1)]
    assert words_for(many, ["--pytest", "tests", "-q"]) == ([], ["--pytest", "tests", "-q"])


def test_what_could_not_be_collected_is_its_file_or_all() -> None:
    assert words_for([("tests/test_a.py", COLLECTION)], ["--pytest", "tests"]) == ([], ["--pytest", "tests/test_a.py"])
    assert words_for([(WHOLE, COLLECTION)], ["--pytest", "-q"]) == ([], ["--pytest", "-q"])
