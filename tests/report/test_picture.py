"""The picture says what the text matrix says, fits a page on GitHub, is the same every time, and obeys no name."""

from __future__ import annotations

import io
import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from bisect_torch.cli.judge import judged_again
from bisect_torch.model import Series, Verdict
from bisect_torch.report import picture
from bisect_torch.report.canvas import ellipsised, shown, width
from bisect_torch.report.findings import Findings
from bisect_torch.report.marks import ABSENT, LETTERS
from bisect_torch.report.matrix import label_rows
from bisect_torch.report.summary import rows_of
from bisect_torch.results import ResultsFile
from tests.report.histories import RELEASES, build, point

DATA = Path(__file__).parent.parent / "data"
SVG = "{http://www.w3.org/2000/svg}"


def kept(name: str) -> Findings:
    return judged_again(ResultsFile.open(DATA / name, must_exist=True), None)


def found(*rows: tuple[str, Sequence[str | None]], builds: Sequence[str] = RELEASES) -> Findings:
    """One series per row: its instance, and its signatures from the first build on (ok for the rest)."""
    made = []
    for instance, signatures in rows:
        all_of_them = (*signatures, *["ok"] * (len(builds) - len(signatures)))
        points = (None if word is None else point(name, word) for name, word in zip(builds, all_of_them, strict=True))
        made.append(Series("/cases/cases.py", instance, "cpu", tuple(builds), tuple(points)))
    return Findings(builds=tuple(map(build, builds)), environments={}, series=tuple(made), transitions=())


def words(text: str) -> list[tuple[float, float, str]]:
    """Every text of a drawing with its place, in the order of drawing."""
    root = ElementTree.fromstring(text)
    return [(float(each.get("x", 0)), float(each.get("y", 0)), each.text or "") for each in root.iter(f"{SVG}text")]


def fills(text: str) -> list[str]:
    """Colours of the boxes, in the order of drawing."""
    return re.findall(r'<path d="[^"]*" (?:clip-path="[^"]*" )?style="fill: (#[0-9a-f]{6})', text)


def lines(text: str) -> list[list[str]]:
    """The texts that stand on one line, from left to right."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, word in words(text):
        rows.setdefault(round(y), []).append((x, word))
    return [[word for _, word in sorted(row)] for _, row in sorted(rows.items())]


def test_the_picture_of_the_real_matrix_is_as_it_was_looked_at():
    """The kept drawing was opened in a browser. Its words, where they stand and the colours of its boxes are compared,
    not its bytes, which other versions of matplotlib write otherwise. ``BISECT_TORCH_UPDATE_SNAPSHOTS=1`` writes anew.
    """
    drawn = picture.svg(kept("real_cases_matrix.parquet"))
    page = DATA / "reports" / "real_cases_matrix.svg"
    if os.environ.get("BISECT_TORCH_UPDATE_SNAPSHOTS"):
        page.write_text(drawn)
    looked_at = page.read_text()

    assert [(round(x), round(y), word) for x, y, word in words(drawn)] == [
        (round(x), round(y), word) for x, y, word in words(looked_at)
    ]
    assert fills(drawn) == fills(looked_at)


def test_the_real_matrix_has_its_versions_letters_and_legend():
    findings = kept("real_cases_matrix.parquet")
    drawn = lines(picture.svg(findings))

    assert drawn[:2] == [
        ["20 case files on torch 2.4.1 … 2.14.0"],
        ["Verdicts of 20 instances on 15 builds, by bisect-torch 0.1.0, 2026-11-30"],
    ]
    assert drawn[2] == list(RELEASES)
    for line in label_rows(rows_of(findings), fold=True):
        assert line.marks is not None
        row = next(row for row in drawn if row[0] == line.label)
        assert (row[1:], line.label) == ([(mark.letter + mark.small).strip() for mark in line.marks], line.label)
    everything = [word for line in drawn for word in line]
    assert {"ok", "wrong (silent)", "error", "crash", "API absent", "flaky"} <= set(everything)
    assert everything[-1] == "AMD EPYC, Linux-x86_64-avx512, Python 3.11.7"


def test_few_builds_take_no_more_room_than_they_need():
    """Right of the widest line there is no more than the margin, in dots of the PNG."""
    findings = found(("softmax", ["ok", "wrong"]), builds=RELEASES[:2])
    image = Image.open(io.BytesIO(picture.png(findings))).convert("L")
    drawn = image.point(lambda light: 255 if light < 250 else 0).getbbox()

    assert drawn is not None
    assert image.width < 350 * picture.SCALE
    assert image.width - drawn[2] <= 14 * picture.SCALE
    assert image.height - drawn[3] <= 18 * picture.SCALE


@pytest.mark.parametrize(
    ("files", "title"),
    [
        (["a/cases.py"], "cases.py on torch 2.4.1 … 2.5.0"),
        (["a/cases.py", "b/cases.py"], "a/cases.py and b/cases.py on torch 2.4.1 … 2.5.0"),
        (["."], "softmax on torch 2.4.1 … 2.5.0"),
        (["a.py", "b.py", "c.py", "d.py"], "4 case files on torch 2.4.1 … 2.5.0"),
    ],
)
def test_the_title_says_what_of(files, title):
    names = RELEASES[:2]
    rows = tuple(Series(file, "softmax", "cpu", names, tuple(point(name, "ok") for name in names)) for file in files)
    run = {"tool_version": "0.2", "started_at": "2026-11-29T10:00:00+00:00"}
    drawn = picture.svg(Findings(tuple(map(build, names)), {}, rows, (), runs=(run,)))

    heads = [word for _, _, word in words(drawn)][:2]
    assert heads[0] == title
    assert heads[1].startswith(f"Verdicts of {len(files)} instance")
    assert heads[1].endswith("on 2 builds, by bisect-torch 0.2, 2026-11-29")
    assert f"<dc:title>{title}: Verdicts of" in drawn


def test_a_hybrid_has_all_its_packages_below_the_matrix_and_nothing_leaves_the_picture():
    packages = (
        "filelock==3.16.0",
        "fsspec==2024.9.0",
        "jinja2==3.1.4",
        "networkx==3.3",
        "numpy==2.1.1",
        "sympy==1.13.2",
    )
    name = f"2.14.0+{','.join(packages)}"
    drawn = picture.svg(found(("softmax", ["ok", "wrong"]), builds=["2.14.0", name]))
    everything = " ".join(word for _, _, word in words(drawn))

    assert f"#1 {name.replace(',', ', ')}" in everything
    assert "…" not in everything
    assert "cases.py on torch 2.14.0 " in everything


@pytest.mark.parametrize("name", ["real_cases_matrix", "large_index_neighbours"])
def test_a_png_has_two_dots_a_pixel_and_both_formats_the_same_proportions(name):
    findings = kept(f"{name}.parquet")
    image = Image.open(io.BytesIO(picture.png(findings)))
    image.load()
    root = ElementTree.fromstring(picture.svg(findings))

    assert image.format == "PNG"
    assert image.width <= picture.WIDTH * picture.SCALE == 1680
    left, top, wide, high = map(float, root.get("viewBox", "").split())
    assert (left, top) == (0, 0)
    assert root.get("width") == f"{image.width / picture.SCALE * 0.75:g}pt", "630 points are 840 pixels of CSS"
    assert (image.width == 1680) == (len(findings.builds) == 15)
    assert math.isclose(image.height / image.width, high / wide, rel_tol=0.01)
    assert 100 < image.height / picture.SCALE < 1500


def test_the_same_findings_give_the_same_bytes_and_no_date():
    findings = kept("real_cases_matrix.parquet")
    first, second = picture.svg(findings), picture.svg(findings)

    assert first == second
    assert picture.png(findings) == picture.png(findings)
    assert "<dc:date>" not in first


def test_the_users_own_settings_of_matplotlib_do_not_count_and_are_left_alone():
    findings = found(("softmax", ["ok", "wrong"]))
    plain = picture.svg(findings)
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "figure.facecolor": "black"}):
        assert picture.svg(findings) == plain
        assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["svg.fonttype"]) == (30, "path")


def test_a_letter_reads_on_its_colour_and_colours_differ_in_lightness_too():
    def lightness(colour: str) -> float:
        """Relative luminance, WCAG 2.2."""
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: float, other: float) -> float:
        return (max(one, other) + 0.05) / (min(one, other) + 0.05)

    judged = {LETTERS[verdict.value][0] for verdict in Verdict if verdict.judged}
    assert judged | {LETTERS["undecidable"][0], ABSENT[0]} == set(picture._COLOURS)
    for fill, letter in [*picture._COLOURS.values(), picture._NO_COLOUR]:
        assert contrast(lightness(fill), lightness(letter)) >= 4.5, fill
    fills = [lightness(picture._COLOURS[letter][0]) for letter in "·EWC"]
    assert fills == sorted(fills, reverse=True)
    assert all(contrast(one, other) >= 1.3 for one, other in pairwise(fills))


def test_a_long_matrix_leaves_out_what_never_changes_and_says_so():
    rows = [(f"good_{number}[a,b]", ["ok"]) for number in range(70)]
    rows += [(f"bad_{number}", ["wrong"] * 15) for number in range(50)]
    rows += [(f"changed_{number}", ["ok", "wrong"]) for number in range(15)]
    everything = [word for _, _, word in words(picture.svg(found(*rows)))]

    assert "Not shown: 70 rows, ok in every build; 50 rows, the same in every build." in everything
    assert [word for word in everything if word.startswith("changed_")] == [f"changed_{n}" for n in range(15)]
    assert not [word for word in everything if word.startswith(("good_", "bad_"))]
    assert "Verdicts of 135 instances on 15 builds, by bisect-torch" in everything


def test_what_is_still_too_long_is_cut_and_counted():
    rows = [(f"changed_{number}", ["ok", "wrong"]) for number in range(90)]
    everything = [word for _, _, word in words(picture.svg(found(*rows)))]

    assert sum(word.startswith("changed_") for word in everything) == picture.MOST_LINES
    assert "Not shown: 50 more lines." in everything


def test_many_builds_stand_in_blocks_under_one_another_and_none_is_lost():
    nightlies = [f"2.16.0.dev202611{day:02}" for day in range(1, 31)] + list(RELEASES)
    drawn = picture.svg(found(("softmax", ["ok"] * 20 + ["wrong"]), builds=nightlies))
    everything = [word for _, _, word in words(drawn)]

    heads = [f"11-{day:02}" for day in range(1, 31)] + list(RELEASES)
    assert [word for word in everything if word in heads] == heads, "23 and 22"
    assert everything.count("softmax") == 2
    assert everything.count("W") == 1 + 1, "a cell and the legend"
    assert everything.count("·") == 44 + 1
    assert [word for word in everything if word.startswith("11-") and " … " in word] == [
        "11-01 … 11-23 2.16.0.dev20261101 … 2.16.0.dev20261123",
        "11-24 … 11-30 2.16.0.dev20261124 … 2.16.0.dev20261130",
    ]


HOSTILE = (
    "$\\frac{1}{0}$",
    "a & b < c > d ]]> <script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "right\u202eot\u2066left",
    "日本語のテスト",
    "emoji_\U0001f600",
    "lone_\ud800",
    "x" * 400,
    "combining_e\u0301\u0301\u0301",
    "-- comment -->",
    "\ufffe\x00",
    "${HOME} %s {0}",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_only_ever_text(name):
    """Warnings are errors here: a missing glyph or a formula that cannot be read would be one."""
    findings = found((name, ["ok", "wrong"]))
    drawn = picture.svg(findings)

    ElementTree.fromstring(drawn)
    assert "<script" not in drawn
    assert all(char.isprintable() or char == "\n" for char in drawn)
    assert Image.open(io.BytesIO(picture.png(findings))).width == 1680


def test_what_has_no_glyph_is_shown_as_its_escape_and_dollars_as_dollars():
    assert shown("日_é_\U0001f9ff") == "\\u65e5_é_\\U0001f9ff"
    assert shown("$x$") == "$x$"
    drawn = picture.svg(found(("$x^2$ 日", ["wrong"])))
    assert [word for _, _, word in words(drawn) if "x^2" in word] == ["$x^2$ \\u65e5"]


def test_a_long_name_loses_its_middle_and_stays_in_its_room():
    name = "attention_of_a_very_long_name_indeed[dtype=bfloat16,layout=transposed,batch=65552]"
    short = ellipsised(name, 12, 200)
    assert width(short, 12) <= 200 < width(short + "xx", 12)
    assert short.startswith("attention_of")
    assert short.endswith("65552]")
    assert short.count("…") == 1
    assert ellipsised("softmax", 12, 200) == "softmax"


def test_no_text_of_a_wide_matrix_leaves_the_picture():
    rows = [("x" * 300, ["wrong"]), ("y[" + ",".join(f"p{n}={n}" for n in range(60)) + "]", ["error:RuntimeError"])]
    root = ElementTree.fromstring(picture.svg(found(*rows)))
    starts = [each for each in root.iter(f"{SVG}text") if "text-anchor: start" in each.get("style", "")]
    assert len(starts) > 4
    for each in starts:
        bold = "700" in each.get("style", "")
        assert float(each.get("x", 0)) + width(each.text or "", 12, bold=bold) * 0.75 <= 630, each.text
