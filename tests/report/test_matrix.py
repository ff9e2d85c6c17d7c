"""The matrix reads without colour, fits its width, and says what its signs mean."""

from __future__ import annotations

import dataclasses

import pytest

from bisect_torch.model import Verdict
from bisect_torch.report.heads import heads
from bisect_torch.report.marks import ABSENT, LETTERS, MARK_NOT_RUN, MARK_OK, NOT_RUN, RUNNING, Mark, marks_of
from bisect_torch.report.matrix import LONG, Row, blocks, draw, draw_unfolded, label_rows
from bisect_torch.report.parameters import in_common
from bisect_torch.report.text import plain, width_of
from tests.report.histories import RELEASES, point, series

W = Mark("W")


def row(instance: str, *marks: Mark, file: str = "/c/cases.py", device: str = "") -> Row:
    return Row(file, instance, device, (*marks, *[MARK_OK] * (len(RELEASES) - len(marks))))


ROWS = [
    row("nan_query", MARK_OK, W, W, file="/c/nan_query.py"),
    row("bmm[dtype=float32,batch=1]"),
    row("bmm[dtype=float32,batch=65552]", MARK_OK, MARK_OK, W),
    row("bmm[dtype=bfloat16,batch=1]"),
    row("bmm[dtype=bfloat16,batch=65552]", MARK_OK, MARK_OK, W),
    row("softmax", MARK_NOT_RUN),
]


def test_every_verdict_has_a_letter_of_its_own():
    signs = [LETTERS[verdict.value][0] for verdict in Verdict] + [ABSENT[0], NOT_RUN[0], RUNNING[0]]
    assert len(set(signs)) == len(signs)
    assert all(len(sign) == 1 for sign in signs)


def test_fifteen_releases_read_in_80_columns():
    assert plain(draw(ROWS, RELEASES, 80)) == (
        "                  2.\n"
        "                  4  5  5  6  7  7  8  9  9  10 11 12 12 13 14\n"
        "                  .1 .0 .1 .0 .0 .1 .0 .0 .1 .0 .0 .0 .1 .0 .0\n"
        "nan_query         ·  W  W  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·\n"
        "cases.py\n"
        "  bmm [dtype,batch]\n"
        "    *,1 (2×)      ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·\n"
        "    *,65552 (2×)  ·  ·  W  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·\n"
        "  softmax         ?  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·\n"
        "· ok  W wrong (silent)  ? not run\n"
    )


def alike(number: int) -> list[Row]:
    """Rows of which no choice of values tells those that are wrong."""
    return [row(f"bmm[dtype=float32,batch={n}]", MARK_OK, W if n in (2, 3) else MARK_OK) for n in range(number)]


def test_where_a_line_stands_for_rows_that_it_does_not_name_the_way_to_them_is_told():
    text = plain(draw(alike(5), RELEASES, 80, unfolded="bisect-torch judge r.parquet --unfold"))
    assert "  float32,2 and 1 other" in text
    assert text.endswith("\na line for each row: bisect-torch judge r.parquet --unfold\n")
    whole = plain(draw(ROWS, RELEASES, 80, unfolded="bisect-torch judge r.parquet --unfold"))
    assert "--unfold" not in whole, "each line says which rows it stands for"
    long = [row(f"case_{number}") for number in range(LONG + 1)]
    assert "--unfold" in plain(draw(long, RELEASES, 80, unfolded="bisect-torch judge r.parquet --unfold"))


@pytest.mark.parametrize("width", [40, 70, 120])
def test_unfolded_each_row_has_a_line_with_its_whole_name_and_all_its_marks(width):
    rows = [
        *alike(4),
        row("softmax", W, device="cuda"),
        dataclasses.replace(row("softmax", W), name="a/cases.py::softmax"),
        row(f"one[{'long' * 20}=1]"),
    ]
    names = [*(each.instance for each in rows[:4]), "softmax @cuda", "a/cases.py::softmax", rows[-1].instance]
    text = plain(draw_unfolded(rows, RELEASES, width))
    for name, each in zip(names, rows, strict=True):
        found = "".join(line.removeprefix(name) for line in text.splitlines() if line.startswith(f"{name} "))
        assert found.split() == [f"{mark.letter}{mark.small}".strip() for mark in each.marks]
    assert "others" not in text


HYBRID = "2.14.0+" + ",".join(f"package-{number}==1.{number}.0" for number in range(9))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_hybrid_has_a_tag_and_its_packages_are_listed_below_in_lines_that_fit(width):
    text = plain(draw([Row("/c/cases.py", "softmax", "", (MARK_OK, W))], ["2.14.0", HYBRID], width))
    lines = text.splitlines()

    assert lines[0].split() == ["2.14.0", "#1"]
    assert f"#1 {HYBRID.replace(',', ', ')}" in " ".join(text.split())
    assert all(width_of(line) <= width for line in lines)


def test_wide_terminals_get_whole_version_numbers():
    first = plain(draw(ROWS, RELEASES, 160)).splitlines()[0]
    assert first.split() == list(RELEASES)


@pytest.mark.parametrize("width", [40, 50, 60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal_and_no_build_is_lost(width):
    long = row("a_case_with_a_rather_long_name_that_needs_room[parameter=with_a_long_value]", W)
    lines = plain(draw([*ROWS, long], RELEASES, width)).splitlines()
    assert max(width_of(line) for line in lines) <= width
    parts = blocks(label_rows([*ROWS, long], fold=True), RELEASES, width)
    assert [place for part in parts for place in part] == list(range(len(RELEASES)))
    assert sum("soft" in line for line in lines) == len(parts)


def test_builds_that_are_no_release_get_a_tag_and_a_key():
    names = ("2.13.0", "2.16.0.dev20261128", "/opt/venv/bin/python")
    top = heads(names, 9)
    assert [line.split() for line in top.lines] == [["2.", "11"], ["13", "28", "#1"], [".0"]]
    assert top.key == ("11-28 2.16.0.dev20261128", "#1 /opt/venv/bin/python")


def test_nightlies_are_headed_by_their_day_and_explained_together():
    names = ("2.15.0", "2.16.0.dev20261130", "2.16.0.dev20261201", "2.16.0.dev20261202", "2.16.0 (test)")
    wide = heads(names, 200)
    assert wide.lines[0].split() == ["2.15.0", "11-30", "12-01", "12-02", "#1"]
    assert wide.key == ("11-30 … 12-02 2.16.0.dev20261130 … 2.16.0.dev20261202", "#1 2.16.0 (test)")
    narrow = heads(names, 16)
    assert [line.split() for line in narrow.lines] == [["2.", "11", "12"], ["15", "30", "01", "02", "#1"], [".0"]]
    assert narrow.lines[0] == "2. 11 12       "


def test_days_that_two_nightlies_share_are_numbered_instead():
    names = ("2.12.0.dev20251128", "2.16.0.dev20261128")
    assert heads(names, 80).key == ("#1 2.12.0.dev20251128", "#2 2.16.0.dev20261128")


def test_the_small_mark_tells_what_the_letter_hides():
    one = series("f", "error:A", "error:A", "error:B", "ok", "wrong|error:B", "absent")
    points = tuple(
        dataclasses.replace(each, judgement=dataclasses.replace(each.judgement, detail=detail))
        for each, detail in zip(one.points, ("x", "y", "y", "", "", ""), strict=True)
    )
    shown = [mark.letter + mark.small for mark in marks_of(dataclasses.replace(one, points=points))]
    assert shown == ["E ", "E'", "E*", "· ", "E~", "A "]


def test_cells_that_were_not_run_are_shown_as_such():
    assert [mark.letter for mark in marks_of(series("f", "ok", None, "ok"))] == ["·", "?", "·"]


def test_a_point_that_could_not_be_judged_does_not_hide_a_change_of_message():
    one = series("f", "error:A", "infra", "error:A")
    last = point("2.5.1", "error:A", detail="new")
    assert [mark.small for mark in marks_of(dataclasses.replace(one, points=(*one.points[:2], last)))] == [
        " ",
        " ",
        "'",
    ]


def test_in_a_long_matrix_rows_that_are_ok_everywhere_are_counted_only():
    rows = [row(f"case_{number}") for number in range(LONG + 1)] + [row("bad_one", W)]
    lines = plain(draw(rows, RELEASES, 80)).splitlines()
    assert f"and {LONG + 1} rows not shown: ok in every build" in lines
    assert any(line.startswith("bad_one") for line in lines)
    assert not any(line.startswith("case_") for line in lines)


def test_devices_are_named_where_there_are_several():
    text = plain(draw([row("f", W, device="cpu"), row("f", device="cuda")], RELEASES, 80))
    assert "@cpu" in text
    assert "@cuda" in text


def test_control_characters_in_names_are_written_as_escapes():
    assert "\x1b" not in plain(draw([row("f[x=\x1b[31m]", W), row("f[x=\x1b[32m]")], RELEASES, 80))


@pytest.mark.parametrize(
    ("group", "shared"),
    [
        ({"f[a=1,b=2]", "f[a=2,b=2]"}, (("b", "2"),)),
        ({"f[a=1,b=1]", "f[a=2,b=2]"}, ()),
        ({"f[a=1,b=2]"}, (("a", "1"), ("b", "2"))),
        ({"f[a=1,b=1]", "f[a=1,b=2]", "f[a=2,b=2]"}, ()),
    ],
)
def test_values_in_common_single_out_the_group_or_are_not_given(group, shared):
    every = ["f[a=1,b=1]", "f[a=1,b=2]", "f[a=2,b=1]", "f[a=2,b=2]"]
    assert in_common(group, every) == shared
