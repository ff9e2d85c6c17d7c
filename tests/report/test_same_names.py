"""Two case files that have a case of the same name, as in merged results: every format tells their rows apart."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import pytest

from bisect_torch.cli.rows import is_named
from bisect_torch.report.csv_table import csv_table
from bisect_torch.report.data import as_data
from bisect_torch.report.drift import drifts
from bisect_torch.report.files import short_names
from bisect_torch.report.findings import Findings
from bisect_torch.report.html.document import matrix
from bisect_torch.report.junit import junit
from bisect_torch.report.markdown import markdown
from bisect_torch.report.matrix import label_rows
from bisect_torch.report.picture import svg
from bisect_torch.report.sentences import sentences
from bisect_torch.report.summary import rows_of, summary
from bisect_torch.report.text import plain
from tests.report.histories import instance, observation, series
from tests.report.test_markdown import reported

OURS, THEIRS = "ours/numeric.py", "theirs/numeric.py"


def found() -> Findings:
    return reported(
        series("softmax", "ok", "wrong", file=OURS),
        series("softmax", "wrong", "ok", file=THEIRS),
        series("bmm[n=1]", "wrong", "wrong", file=THEIRS),
        series("bmm[n=2]", "wrong", "wrong", file=THEIRS),
    )


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/numeric.py", "b/other.py"], ["numeric.py", "other.py"]),
        (["a/numeric.py", "b/numeric.py", "c/other.py"], ["a/numeric.py", "b/numeric.py", "other.py"]),
        (["x/a/n.py", "y/a/n.py", "a/n.py", "n.py"], ["x/a/n.py", "y/a/n.py", "a/n.py", "n.py"]),
        ([".", "n.py"], ["commands", "n.py"]),
    ],
)
def test_a_file_is_called_by_as_much_of_its_path_as_tells_it_apart(paths: list[str], names: list[str]) -> None:
    assert list(short_names(paths).values()) == names


def test_a_command_and_a_script_of_one_name_are_told_apart_and_found_by_what_is_shown() -> None:
    command, script = series("plateau", "wrong", "wrong", file="."), series("plateau", "ok", "ok", file="plateau.py")
    told = reported(command, script)

    assert "\ncommands\n  plateau " in plain(summary(told, 100))
    assert [told.name_of(each) for each in (command, script)] == ["commands::plateau", "plateau.py::plateau"]
    assert [is_named("commands::plateau", each) for each in (command, script)] == [True, False]


def test_sentences_and_matrix() -> None:
    text = plain(summary(found(), 100))

    assert "\nours/numeric.py\n  softmax " in text
    assert "\ntheirs/numeric.py\n  softmax " in text
    assert "ours/numeric.py::softmax gives silently wrong values from 2.5.0 on (last good 2.4.1)." in text
    assert "theirs/numeric.py::softmax is fixed in 2.5.0" in text
    assert "both instances of bmm give silently wrong values" in text  # only one file has it


def test_scripts_of_one_name_in_two_folders_have_headings() -> None:
    rows = rows_of(reported(series("repro", "ok", file="a/repro.py"), series("repro", "ok", file="b/repro.py")))

    assert [each.label for each in label_rows(rows, fold=True)] == ["a/repro.py", "  repro", "b/repro.py", "  repro"]


def test_markdown() -> None:
    text = markdown(found())

    assert "| torch | `ours/numeric.py::softmax` | `theirs/numeric.py::softmax` |" in text
    assert "1. `ours/numeric.py::softmax` gives silently wrong values" in text
    assert "#### 3. `theirs/numeric.py::softmax`" in text


def test_data_and_page() -> None:
    told = found()
    data = as_data(told)

    rows = [[row["case_file"] for row in each["rows"]] for each in data["findings"]]  # type: ignore[attr-defined]
    assert rows == [[OURS], [THEIRS], [THEIRS, THEIRS]]
    page = matrix(told, sentences(told), 3)
    assert page["cases"] == [
        {"file": OURS, "name": "softmax"}, {"file": THEIRS, "name": "softmax"}, {"file": THEIRS, "name": "bmm"},
    ]  # fmt: skip
    assert [each["rows"] for each in page["findings"]] == [[0], [1], [2, 3]]  # type: ignore[attr-defined]


def test_csv_junit_and_picture() -> None:
    told = found()

    lines = list(csv.DictReader(io.StringIO(csv_table(told))))
    assert {each["case_file"] for each in lines if each["instance"] == "softmax"} == {OURS, THEIRS}
    tests = ElementTree.fromstring(junit(told)).iter("testcase")
    assert {each.get("classname") for each in tests if each.get("name") == "softmax"} == {OURS, THEIRS}
    assert {OURS, THEIRS} <= {each.text for each in ElementTree.fromstring(svg(told)).iter() if each.text}


def test_drift() -> None:
    rows = series("softmax", "ok", "ok", file=OURS), series("softmax", "ok", "ok", file=THEIRS)
    seen = tuple(
        observation(instance("softmax", file=file), build, digest=digest)
        for file in (OURS, THEIRS)
        for build, digest in (("2.4.1", "aa"), ("2.5.0", "aa" if file == OURS else "bb"))
    )

    assert [each.instances for each in drifts(reported(*rows, observations=seen))] == [("theirs/numeric.py::softmax",)]


def test_a_row_is_chosen_by_its_file_and_case() -> None:
    one, other = series("bmm[n=1]", "ok", file=OURS), series("bmm[n=1]", "ok", file=THEIRS)

    for name in (f"{OURS}::bmm[n=1]", f"{OURS}::bmm"):
        assert (is_named(name, one), is_named(name, other)) == (True, False)
