"""The text at the end: nothing hidden, nothing claimed that was not seen."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest

from bisect_torch.analysis import Tolerances
from bisect_torch.model import BuildKind
from bisect_torch.report.data import as_data
from bisect_torch.report.drift import drift_words, drifts
from bisect_torch.report.summary import summary
from bisect_torch.report.terminal import print_lines
from bisect_torch.report.text import clean, for_encoding, plain, width_of
from tests.report.histories import environment, findings, instance, observation, point, series, transition


def a_run(**facts):
    rows = (
        series("bmm[batch=1]", "ok", "ok", "ok"),
        series("bmm[batch=65552]", "ok", "ok", "wrong"),
        series("softmax", "ok", None, "infra"),
    )
    moved = (transition("broke", rows[1], "2.5.0", "2.5.1"),)
    environments = {name: environment(name, cuda="12.1" if name == "2.4.1" else "12.4") for name in rows[0].builds}
    known = {"results": Path("out/results.parquet"), "seconds": 61.0, "continue_with": "bisect-torch run c.py", **facts}
    return findings(*rows, transitions=moved, environments=environments, **known)


def test_the_whole_text_at_80_columns():
    assert plain(summary(a_run(), 80)) == (
        "         2.4.1  2.5.0  2.5.1\n"
        "bmm [batch]\n"
        "  1      ·      ·      ·\n"
        "  65552  ·      ·      W\n"
        "softmax  ·      ?      I\n"
        "· ok  W wrong (silent)  I infrastructure failed  ? not run\n"
        "\n"
        "bmm[batch=65552] gives silently wrong values from 2.5.1 on (last good 2.5.0).\n"
        "  signature         ok → wrong\n"
        "  commits           250000000000 → 251000000000\n"
        "  https://github.com/pytorch/pytorch/compare/250000000000...251000000000\n"
        "  also differ       nothing else: only torch\n"
        "  confidence        3 and 3 processes agree, each side once in its own\n"
        "                    interpreter\n"
        "\n"
        "2 instances are ok in every build that was judged.\n"
        "CUDA is not the same in all builds: 12.1 in 2.4.1 and 12.4 in 2.5.0 and 2.5.1.\n"
        "1 cell infra in 2.5.1 (softmax) (hint: run the same command again: only what is\n"
        "  missing runs)\n"
        "\n"
        "8 cells in 1 min 1 s: 6 ok, 1 wrong, 1 infra; 1 not run\n"
        "results: out/results.parquet  (pandas, polars and DuckDB open it)\n"
        "the same command runs only what is new; --fresh runs all again\n"
    )


def test_what_else_differs_between_two_builds_is_told_once():
    rows = series("f", "ok", "wrong", "ok"), series("g", "ok", "crash:SIGSEGV", "ok"), series("h", "wrong", "ok", "ok")
    ends = ("2.4.1", "2.5.0")
    moved = [transition(kind, row, *ends) for kind, row in zip(("broke", "broke", "fixed"), rows, strict=True)]
    moved += [transition("fixed", each, "2.5.0", "2.5.1") for each in rows[:2]]
    packages = [f"package_with_a_long_name_{number}" for number in range(3)]
    environments = {
        name: environment(name, cuda="12.4", **dict.fromkeys(packages, version))
        for name, version in zip(rows[0].builds, ("1", "2", "2"), strict=True)
    }
    run = findings(*rows, transitions=tuple(moved), environments=environments)

    text = plain(summary(run, 200))

    assert text.count("package-with-a-long-name-1 1 → 2") == 1
    assert text.count("  also differ       as at f above (2.4.1 → 2.5.0)\n") == 2
    assert text.count("/compare/241000000000...250000000000") == 1
    assert text.count("  also differ       nothing else: only torch\n") == 2
    assert text.count("/compare/250000000000...251000000000") == 2
    data = [each["evidence"] for each in as_data(run)["findings"]]
    assert sum("package-with-a-long-name-1" in each["also differ"] for each in data) == 3, "each is whole for machines"


def test_where_files_share_names_the_pointer_to_what_else_differs_has_the_file():
    rows = [series("f", "ok", "wrong", file=f"/cases/{name}.py") for name in ("one", "two")]
    moved = tuple(transition("broke", row, "2.4.1", "2.5.0") for row in rows)
    environments = {
        name: environment(name, **{f"a_package_{number}": version for number in range(9)})
        for name, version in zip(rows[0].builds, "12", strict=True)
    }
    text = plain(summary(findings(*rows, transitions=moved, environments=environments), 200))
    assert "  also differ       as at one.py::f above (2.4.1 → 2.5.0)\n" in text


@pytest.mark.parametrize("width", [40, 80, 160])
def test_lines_fit_the_width_except_addresses_and_paths(width):
    lines = plain(summary(a_run(), width)).splitlines()
    long = [line for line in lines if width_of(line) > width]
    assert all("https://" in line or "continue with" in line for line in long)


def test_counts_add_up_to_all_cells():
    document = as_data(a_run())
    counts = dict(document["counts"])
    flaky = counts.pop("flaky")
    assert sum(counts.values()) == 9
    assert flaky == 0


def test_an_interrupted_run_says_what_is_kept_and_how_to_go_on():
    text = plain(summary(a_run(interrupted=True), 80))
    assert "interrupted: what had finished is kept\ncontinue with: bisect-torch run c.py\n" in text


def test_a_run_that_is_cut_off_before_anything_was_judged_is_no_matrix_of_question_marks():
    series = tuple(dataclasses.replace(each, points=(None,) * len(each.builds)) for each in a_run().series)
    text = plain(summary(dataclasses.replace(a_run(interrupted=True), series=series), 80))
    assert text == "interrupted before anything was judged\ncontinue with: bisect-torch run c.py\n"


def test_a_run_without_any_cell_still_says_so():
    assert plain(summary(findings(), 80)).startswith("0 cells: none\n")


def test_a_local_interpreter_is_named_with_the_torch_that_it_holds():
    made = findings(series("f", "ok", "ok"), environments={"2.5.0": environment("2.5.0")})
    local = dataclasses.replace(made.builds[1], kind=BuildKind.LOCAL)
    text = plain(summary(dataclasses.replace(made, builds=(made.builds[0], local)), 80))
    assert "2.5.0 has torch 2.5.0+cu128.\n" in text


@pytest.mark.parametrize("width", [40, 70, 72, 100])
def test_an_address_stands_whole_on_a_line_and_is_not_indented_where_that_makes_it_too_long(width):
    address = f"https://github.com/pytorch/pytorch/compare/{'25'.ljust(12, '0')}...{'251'.ljust(12, '0')}"
    assert len(address) == 70, "as wide as a narrow terminal"
    (line,) = [line for line in plain(summary(a_run(), width)).splitlines() if "https://" in line]
    assert line == (f"  {address}" if width >= 72 else address)


def test_a_row_that_was_never_judged_comes_with_the_way_to_a_file_without_it():
    told = "the results without what was never judged, in a new file: bisect-torch merge r.parquet -k "

    def text(*others: str, at_fault: tuple[str, ...] = ("f",)) -> str:
        rows = [series(name, "broken", "infra") for name in at_fault]
        rows += [series(other, "ok", "ok") for other in others]
        return plain(summary(findings(*rows, results=Path("r.parquet")), 140))

    assert f"{told}'not f' -o other.parquet\n" in text("g[n=1]", "g[n=2]")
    assert f"{told}'not (f or h)' -o other.parquet\n" in text("g", at_fault=("f", "h[n=1]", "h[n=2]"))
    assert "merge" not in text("of_all")  # "not f" would take that one out, too
    assert "merge" not in text("g", at_fault=tuple(f"f{number}" for number in range(7)))  # too many to name
    assert "merge" not in text()  # nothing would be left
    once = findings(series("f", "broken", "ok"), series("g", "skip", "skip"), results=Path("r.parquet"))
    assert "merge" not in plain(summary(once, 120))


def test_the_summary_has_a_line_for_each_row_where_that_is_asked_for():
    rows = [series(f"bmm[n={n}]", "ok", "wrong" if n in (1, 2) else "ok") for n in range(4)]
    made = findings(*rows, results=Path("out dir/r.parquet"))
    folded, unfolded = plain(summary(made, 100)), plain(summary(made, 100, unfolded=True))
    assert "  1 and 1 other" in folded
    assert "a line for each row: bisect-torch judge 'out dir/r.parquet' --unfold\n" in folded
    assert "bmm[n=2]  ·      W\n" in unfolded
    assert "--unfold" not in unfolded


def test_nothing_changed_is_said():
    assert "No verdict changed between these builds.\n" in plain(summary(findings(series("f", "ok", "ok")), 80))


def test_the_data_is_json_without_infinities_and_names_every_cell():
    row = series("f", "ok", "wrong")
    row = type(row)(
        row.case_file, row.instance, row.device, row.builds, (None, point("2.5.0", "wrong", rel_error=float("inf")))
    )
    document = json.loads(json.dumps(as_data(findings(row)), allow_nan=False))
    assert document["series"][0]["cells"]["2.4.1"] is None
    assert document["series"][0]["cells"]["2.5.0"]["rel_error"] == "inf"
    assert sorted(document) == [
        "builds", "causes", "continue_with", "counts", "decoding", "dependency_drift", "drift", "findings", "format",
        "interrupted", "notes",
        "predictions", "ran", "remarks", "results", "seconds", "series", "unjudged", "unlike_files",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        (None, "8 cells in 1 min 1 s: 6 ok"),
        (8, "8 cells in 1 min 1 s: 6 ok"),
        (3, "8 cells, 5 known from before, 3 run in 1 min 1 s: 6 ok"),
        (0, "8 cells, all known from before: 6 ok"),
    ],
)
def test_the_time_is_that_of_the_cells_which_ran(ran: int | None, told: str) -> None:
    """Of nine cells one is not known."""
    run = a_run(ran=ran)
    assert f"\n{told}, 1 wrong, 1 infra; 1 not run\n" in plain(summary(run, 120))
    assert as_data(run)["ran"] == ran


def test_where_nothing_ran_no_time_is_told() -> None:
    known = plain(summary(findings(series("f", "ok", "ok"), seconds=0.3, ran=0), 80))
    assert "2 cells, all known from before: 2 ok" in known


def test_the_data_says_what_the_text_says():
    run = a_run()
    text = " ".join(plain(summary(run, 200)).split())
    for finding in as_data(run)["findings"]:
        assert finding["text"] in text


def drifted(*digests, what="digest", seeds=None):
    of = instance("f", file="/cases/cases.py")
    row = series("f", *["ok"] * len(digests))
    seeds = seeds or [0] * len(digests)
    seen = tuple(
        observation(of, name, seed=seed, **{what: digest})
        for name, digest, seed in zip(row.builds, digests, seeds, strict=True)
    )
    return drifts(findings(row, observations=seen))


def test_bits_that_differ_between_two_ok_builds_are_mentioned_and_are_no_transition():
    assert [(each.before, each.after) for each in drifted("a", "a", "b")] == [("2.5.0", "2.5.1")]
    assert drift_words(drifted("a", "a", "b")) == ["output bits differ between 2.5.0 and 2.5.1 in f (all are ok)"]
    assert drift_words(drifted("a", "b", "c")) == [
        "output bits differ (all are ok) between 2.4.1 and 2.5.0 in f and between 2.5.0 and 2.5.1 in f"
    ]
    told = "output bits differ (all are ok) between 2.4.1 and 2.5.0 in f, between 2.5.0 and 2.5.1 in f and between "
    assert drift_words(drifted(*"abcdef")) == [told + "3 more pairs of builds"]


def test_a_reference_that_drifts_is_said_in_other_words():
    assert drift_words(drifted("a", "b", what="reference_digest")) == [
        "reference bits differ between 2.4.1 and 2.5.0 in f (what the results are measured with changed too)"
    ]


def test_digests_of_different_seeds_are_not_compared():
    assert drifted("a", "b", seeds=[0, 1]) == []


def test_text_from_outside_is_one_harmless_line():
    assert clean("a\x1b[31mb\r\n\u202ec\u2028\ud800\x9b") == "a\\x1b[31mb\\r\\n\\u202ec\\u2028\\ud800\\x9b"
    assert clean("größer ≥ 2 – 数") == "größer ≥ 2 – 数"


def test_a_stream_that_cannot_write_the_signs_gets_others():
    assert for_encoding("· ok … → é", "ascii") == ". ok _ > \\xe9"
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_lines(summary(a_run(), 80), stream)
    stream.flush()
    assert b"ok > wrong" in stream.buffer.getvalue()


@pytest.mark.parametrize(
    ("newest", "code"),
    [
        (["ok", "ok"], 0),
        (["ok", "skip"], 0),
        (["skip", "skip"], 0),
        (["ok", "wrong"], 1),
        (["infra", "wrong"], 1),
        (["ok", "ok|wrong"], 1),
        (["ok", "infra"], 3),
        (["ok", "broken"], 3),
        (["uninstallable", "uninstallable"], 3),
        (["ok", None], 3),
        ([], 3),
    ],
)
def test_the_exit_code_is_about_the_newest_build(newest, code):
    rows = [series(f"f{number}", "wrong", each) for number, each in enumerate(newest)]
    assert findings(*rows).exit_code == code
    assert findings(*rows, interrupted=True).exit_code == 130


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            ("ok", "timeout"),
            "1 cell had no end within the time limit. Whether it hangs or is only slow here, a longer one tells: "
            "--timeout, or timeout= of a case.",
        ),
        (
            ("timeout", "timeout"),
            "2 cells had no end within the time limit. Whether they hang or are only slow here, a longer one tells: "
            "--timeout, or timeout= of a case.",
        ),
    ],
)
def test_where_time_ran_out_a_longer_limit_is_named(cells, said):
    assert said in plain(summary(findings(series("f", *cells)), 200))


def test_where_everything_ended_no_time_limit_is_named():
    assert "time limit" not in plain(summary(findings(series("f", "ok", "wrong")), 200))


def test_other_tolerances_are_advised_until_they_were_given():
    row = series("f", "ok", "wrong")
    points = tuple(dataclasses.replace(each, rel_error=1e-3) for each in row.points)
    made = findings(dataclasses.replace(row, points=points), results=Path("r.parquet"))
    assert "judge r.parquet --rtol 1e-3 --atol 1e-5" in plain(summary(made, 100))
    assert "--rtol" not in plain(summary(dataclasses.replace(made, tolerances=Tolerances(rtol=1e-3)), 100))
