"""JSON, CSV and JUnit say what the matrix says, are valid, and can be read back by what reads such files."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import junitparser
import pandas
import pytest
from jsonschema import Draft202012Validator

import bisect_torch.report.data as data
from bisect_torch.cli.judge import judged_again
from bisect_torch.model import Series
from bisect_torch.report.csv_table import COLUMNS, csv_table
from bisect_torch.report.data import as_data, json_text
from bisect_torch.report.findings import Findings
from bisect_torch.report.junit import junit
from bisect_torch.results import ResultsFile
from tests.report.histories import series
from tests.report.test_markdown import reported

DATA = Path(__file__).parents[1] / "data"
SCHEMA = json.loads((Path(data.__file__).parent / "findings.schema.json").read_text())
FILES = ["real_cases_matrix", "results_version_1", "large_index_bmm", "decoding"]


def closed(schema: Any) -> Any:
    """The same schema without room for keys that it does not describe."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if "properties" in made and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@pytest.fixture(scope="module", params=FILES)
def kept(request: pytest.FixtureRequest) -> Findings:
    return judged_again(ResultsFile.open(DATA / f"{request.param}.parquet"), None)


# --- JSON


def test_the_schema_is_one_and_describes_every_key() -> None:
    Draft202012Validator.check_schema(SCHEMA)

    def without_words(part: Any, path: str) -> list[str]:
        found = []
        if isinstance(part, dict):
            for name, each in part.get("properties", {}).items():
                found += [f"{path}.{name}"] if "description" not in each and not {"$ref", "anyOf"} & each.keys() else []
            found += [each for key, value in part.items() for each in without_words(value, f"{path}.{key}")]
        return found

    assert without_words(SCHEMA, "$") == []
    assert SCHEMA["properties"]["format"]["const"] == data.FORMAT


def test_the_document_of_every_kept_run_is_as_the_schema_says_and_has_no_other_keys(kept: Findings) -> None:
    document = json.loads(json_text(kept), parse_constant=pytest.fail)  # neither NaN nor Infinity

    assert [error.message for error in Draft202012Validator(closed(copy.deepcopy(SCHEMA))).iter_errors(document)] == []


def test_the_causes_are_in_the_data() -> None:
    found = reported(series("bmm[n=1]", "ok", "wrong"), series("bmm[n=2]", "ok", "wrong"), series("cat", "ok", "wrong"))

    (first, second) = as_data(found)["causes"]  # type: ignore[misc, has-type]

    def row(name: str) -> dict[str, str]:
        return {"case_file": "/cases/cases.py", "instance": name, "device": "cpu"}

    change = {
        "kind": "broke",
        "before": {"build": "2.4.1", "signature": "ok"},
        "after": {"build": "2.5.0", "signature": "wrong"},
        "confirmed": True,
    }
    together = [row("bmm[n=1]"), row("bmm[n=2]")]
    assert first == {
        "rows": together,
        "changes": [change],
        "same_history": [row("cat")],
        "same_history_rows": 1,
    }
    assert second == {"rows": [row("cat")], "changes": [change], "same_history": together, "same_history_rows": 2}


def test_many_causes_with_the_same_history_name_each_other_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_ALIKE", 5)
    found = reported(*(series(f"case_{number}", "ok", "wrong") for number in range(40)))

    causes: list[dict[str, list[object]]] = as_data(found)["causes"]  # type: ignore[assignment]

    assert len(causes) == 40
    assert {(len(each["same_history"]), each["same_history_rows"]) for each in causes} == {(5, 39)}


# --- CSV


def test_a_row_for_each_cell_that_csv_and_pandas_read_back(kept: Findings) -> None:
    text = csv_table(kept)
    rows = list(csv.DictReader(io.StringIO(text)))
    table = pandas.read_csv(io.StringIO(text), dtype={"build": str}, keep_default_na=False)

    cells = [(each, point) for each in kept.series for point in each.points]
    assert tuple(rows[0]) == COLUMNS == tuple(table.columns)
    assert [row["verdict"] for row in rows] == [point.judgement.verdict.value if point else "" for _, point in cells]
    assert list(table.verdict) == [row["verdict"] for row in rows]
    assert list(table.build) == [row["build"] for row in rows]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "\t=1", "\r=1", "\n=1"])
def test_no_text_begins_like_a_formula(text: str) -> None:
    written = csv_table(reported(series(text, "ok", "skip", file=text)))
    (first, *_) = csv.DictReader(io.StringIO(written))

    assert not {cell[0] for row in csv.reader(io.StringIO(written)) for cell in row if cell} & set("=+-@＝\t\r\n")
    assert first["instance"].lstrip("'\\tnr") == text.strip()


def test_a_number_is_a_number_and_what_was_not_run_is_empty() -> None:
    table = pandas.read_csv(io.StringIO(csv_table(reported(series("bmm", "ok", None)))))

    assert table.processes.tolist()[0] == 3
    assert table.isna().verdict.tolist() == [False, True]


# --- JUnit


def suites(text: str) -> list[junitparser.TestSuite]:
    return list(junitparser.JUnitXml.fromstring(text.encode()))


OUTCOMES = {
    "ok": None,
    "wrong": ("failure", "wrong"),
    "error:ValueError": ("error", "error:ValueError"),
    "crash:SIGFPE": ("error", "crash:SIGFPE"),
    "absent": ("error", "error:AttributeError"),
    "ok|wrong": ("failure", "flaky"),
    "skip": ("skipped", "skip"),
    "broken": ("skipped", "broken"),
    "uninstallable": ("skipped", "uninstallable"),
    "infra": ("skipped", "infra"),
    None: ("skipped", "not run"),
}


def test_a_suite_for_each_build_and_a_test_for_each_cell() -> None:
    found = suites(junit(reported(series("bmm", *OUTCOMES))))

    results = [list(test) for suite in found for test in suite]
    seen = [None if not test.result else (test.result[0]._tag, test.result[0].type) for (test,) in map(list, found)]
    assert len(results) == len(OUTCOMES)
    assert seen == list(OUTCOMES.values())
    assert [suite.name for suite in found][:2] == ["torch 2.4.1", "torch 2.5.0"]
    assert [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in found] == [
        (1, int("failure" in (kind or ())), int("error" in (kind or ())), int("skipped" in (kind or ())))
        for kind in OUTCOMES.values()
    ]


def test_the_counts_of_every_kept_run_are_those_of_the_matrix(kept: Findings) -> None:
    root = junitparser.JUnitXml.fromstring(junit(kept).encode())
    cells = [point for each in kept.series for point in each.points]

    bad = [point for point in cells if point and (point.flaky or point.judgement.verdict.bad)]
    failures = [point for point in bad if point.flaky or point.judgement.verdict.value == "wrong"]
    assert (root.tests, root.failures, root.errors) == (len(cells), len(failures), len(bad) - len(failures))


def test_what_xml_does_not_allow_is_written_as_escapes() -> None:
    nasty = "\x00\x08\x1b[31m\ufffe\ud800\u202e]]> & <b>"
    facts: dict[str, object] = {"traceback": nasty, "stdout_tail": f"{nasty}\n\tsecond", "message": nasty}
    text = junit(reported(series(f"bmm[{nasty}]", "ok", "error:ValueError", file=nasty), facts=facts))

    assert not re.search("[\x00\x08\x1b\ufffe\ud800\u202e]", text)
    ((_,), (test,)) = map(list, suites(text))
    assert test.result[0].text == (
        "\\x00\\x08\\x1b[31m\\ufffe\\ud800\\u202e]]> & <b>\n--- stdout\n"
        "\\x00\\x08\\x1b[31m\\ufffe\\ud800\\u202e]]> & <b>\n\tsecond"
    )


def test_the_same_row_on_two_devices_has_two_names() -> None:
    rows: list[Series] = [series("bmm", "ok"), series("bmm", "ok", device="cuda")]
    (suite,) = suites(junit(reported(*rows)))

    assert [test.name for test in suite] == ["bmm on cpu", "bmm on cuda"]
