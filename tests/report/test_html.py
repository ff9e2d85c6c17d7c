"""The page as text: one file, sealed against what results may hold, and the same facts as the findings."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import unicodedata
from pathlib import Path

import pytest

from bisect_torch.cases.selecting import matching
from bisect_torch.cli import parser as program
from bisect_torch.cli.judge import judged_again
from bisect_torch.model import BuildKind, Series, Verdict
from bisect_torch.report.data import as_data
from bisect_torch.report.drift import drifts
from bisect_torch.report.findings import Findings
from bisect_torch.report.html import embedded, html
from bisect_torch.report.html.columns import column
from bisect_torch.report.html.long_texts import BUDGET, limit_for, shortened
from bisect_torch.report.marks import marks_of
from bisect_torch.report.rerun import build_part, instance_part, run_part
from bisect_torch.report.sentences import sentences
from bisect_torch.report.text import clean_lines
from bisect_torch.report.title import about, title
from bisect_torch.results import ResultsFile
from tests.report import histories
from tests.report.hostile import ATTACKS, CANARY, hostile_findings
from tests.report.pages import Page, entries
from tests.support.many_cells import many_cells

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def real() -> Findings:
    return judged_again(ResultsFile.open(DATA / "real_cases_matrix.parquet", must_exist=True), None)


@pytest.fixture(scope="module")
def page(real: Findings) -> Page:
    return Page(html(real))


# --- one file


def test_the_page_loads_nothing(page: Page) -> None:
    for _, tag, attributes in page.elements:
        assert "src" not in attributes
        assert not [name for name in attributes if name.startswith("on")], "no inline handler"
        if tag == "link":
            assert attributes["href"] == "data:,"
    assert not [style for style in page.styles if "url(" in style or "@import" in style]


def test_only_the_scripts_and_styles_that_the_policy_names_by_hash_may_run(page: Page) -> None:
    def hashes(texts: list[str]) -> list[str]:
        return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts]

    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert rules["script-src"].split() == hashes(page.code)
    assert rules["style-src"].split() == hashes(page.styles)
    assert rules["default-src"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"


def test_the_vendored_library_is_what_its_authors_published() -> None:
    folder = Path(embedded.__file__).parent / "vendor" / "uplot"

    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    assert found == embedded.VENDORED
    assert f"(v{embedded.UPLOT})" in embedded.plot_script()


def test_the_licence_of_the_library_is_in_the_page(real: Findings) -> None:
    assert "Copyright (c) 2022 Leon Sorokin" in html(real)


def test_own_scripts_never_parse_text_as_markup() -> None:
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", embedded.own_script()
    )


def test_the_page_has_the_title_of_the_picture(page: Page, real: Findings) -> None:
    whole = f"{title(real)}: {about(real)}"
    assert page.texts[0] == whole
    assert title(real) in page.texts
    assert f"<dc:title>{whole}</dc:title>" in (DATA / "reports" / "real_cases_matrix.svg").read_text()


def test_the_outline_is_as_it_was_read(page: Page) -> None:
    """The structure of the page and of its data; ``BISECT_TORCH_UPDATE_SNAPSHOTS=1`` writes it anew."""
    lines: list[str] = []
    for depth, tag, attributes in page.elements:
        kept = " ".join(
            f"{name}={attributes[name]}" for name in ("id", "class", "role", "type") if attributes.get(name)
        )
        line = f"{'  ' * depth}{tag} {kept}".rstrip()
        if line not in lines:  # each finding looks alike
            lines.append(line)
    for name in ("matrix-data", "details-data"):
        for key, value in page.data(name).items():
            inside = sorted(value) if key in ("cells", "rows", "observations") else ""
            lines.append(f"{name}: {key} {' '.join(inside)}".rstrip())
    text = "\n".join(lines) + "\n"
    snapshot = DATA / "html_outline.txt"
    if os.environ.get("BISECT_TORCH_UPDATE_SNAPSHOTS"):
        snapshot.write_text(text)
    assert text == snapshot.read_text()


# --- the same facts


def test_the_matrix_has_the_verdicts_and_marks_of_the_terminal(page: Page, real: Findings) -> None:
    data = page.data("matrix-data")
    letters = {each["name"]: each["letter"] for each in data["verdicts"]}
    number = len(real.series) * len(real.builds)

    verdicts = entries(data["cells"]["verdict"], number)
    small = entries(data["cells"]["small"], number)

    marks = [mark for series in real.series for mark in marks_of(series)]
    assert [letters[name] for name in verdicts] == [mark.letter for mark in marks]
    assert [sign or " " for sign in small] == [mark.small for mark in marks]
    assert entries(data["rows"]["instance"], len(real.series)) == [each.instance for each in real.series]


def test_every_sentence_is_told_with_its_compare_link(page: Page, real: Findings) -> None:
    found = sentences(real)
    links = [attributes["href"] for _, tag, attributes in page.elements if tag == "a"]

    assert [each.text for each in found] == [text for text in page.texts if text in {each.text for each in found}]
    assert [each.compare for each in found if each.compare] == [link for link in links if link and "compare" in link]


def test_a_sentence_leads_to_its_rows_and_its_newer_build(page: Page, real: Findings) -> None:
    for place, sentence in zip(page.data("matrix-data")["findings"], sentences(real), strict=True):
        assert {real.series[row].instance for row in place["rows"]} == set(sentence.instances)
        assert real.build_names[place["build"]] == sentence.after


def test_every_transition_is_marked_at_its_newer_end(page: Page, real: Findings) -> None:
    edges = entries(page.data("matrix-data")["cells"]["edge"], len(real.series) * len(real.builds))
    names = [(series.instance, build) for series in real.series for build in real.build_names]

    marked = {name: edge for name, edge in zip(names, edges, strict=True) if edge}

    assert marked == {
        (each.series.instance, each.after.build): f"{each.kind.value} after {each.before.build}"
        for each in real.transitions
    }


@pytest.mark.parametrize(("source", "word"), [("torch.f()", "no longer bad"), ("assert torch.f()", "fixed")])
def test_what_is_not_known_to_be_fixed_is_not_marked_so(source: str, word: str) -> None:
    row = histories.series("f", "error:E", "ok")
    moved = (histories.transition("fixed", row, "2.4.1", "2.5.0"),)
    seen = (histories.observation(histories.instance("f"), "2.5.0"),)
    found = histories.findings(row, transitions=moved, observations=seen, sources={"00": f"import torch\n{source}\n"})
    text = html(found)
    assert f'<span class="kind">{word}</span>' in text
    edges = entries(Page(text).data("matrix-data")["cells"]["edge"], 2)
    assert edges == ["", f"{word} after 2.4.1"]
    (told,) = as_data(found)["findings"]
    assert told["word"] == word


def test_other_bits_are_marked_in_the_cell_where_they_begin() -> None:
    findings = judged_again(ResultsFile.open(DATA / "decoding.parquet", must_exist=True), None)
    data = Page(html(findings)).data("matrix-data")
    bits = entries(data["cells"]["drift"], len(findings.series) * len(findings.builds))
    names = [(series.instance, build) for series in findings.series for build in findings.build_names]

    marked = {name for name, each in zip(names, bits, strict=True) if each & 1}

    told = {(name, each.after) for each in drifts(findings) if each.what == "digest" for name in each.instances}
    assert marked == told
    assert marked


def test_every_observation_of_a_cell_is_in_the_page(page: Page, real: Findings) -> None:
    data = page.data("details-data")
    numbers = entries(data["cells"]["observations"], len(real.series) * len(real.builds))
    cells = [real.observed(series, build) for series in real.series for build in series.builds]
    workers = entries(data["observations"]["worker"], sum(numbers))
    tracebacks = entries(data["observations"]["traceback"], sum(numbers))

    assert numbers == [len(cell) for cell in cells]
    assert workers == [each.worker for cell in cells for each in cell]
    assert tracebacks == [each.traceback and clean_lines(each.traceback) for cell in cells for each in cell]


# --- hostile content


def test_nothing_that_a_case_printed_is_markup_or_a_control_character() -> None:
    text = html(hostile_findings())
    page = Page(text)

    text.encode()  # no lone surrogate
    assert [tag for _, tag, _ in page.elements].count("script") == 4
    assert "img" not in {tag for _, tag, _ in page.elements}
    assert {unicodedata.category(char) for char in text if char not in "\n\t"} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()
    shown = page.data("details-data")["observations"]["traceback"]["values"]
    assert shown == [clean_lines("\n".join(ATTACKS))]
    assert "\\u202egnp.exe" in shown[0]
    assert all(CANARY not in code for code in page.code)


def test_colours_go_and_other_escapes_are_shown() -> None:
    assert clean_lines("a\x1b[1;31mb\x1b[0m\n\tc\x1b[2J\r\n\x00\u202e") == "ab\n\tc\\x1b[2J\n\\x00\\u202e"


# --- running it again


@pytest.mark.parametrize(
    "instance", ["bmm", "bmm[dtype=bfloat16,size=above 2**32]", "f[a=(1, 2),b=not so]", "f[a=[1, 2]]"]
)
def test_the_choice_of_an_instance_fits_it(instance: str) -> None:
    known = histories.instance(instance)

    _, expression = shlex.split(instance_part(known.name))

    assert matching([known, histories.instance("other")], expression) == (known,)


def test_the_command_of_a_cell_is_one_that_the_program_takes(real: Findings) -> None:
    (run,) = real.runs
    head, tail = run_part(real.observations[0], run).split("\n")
    line = f"{head} {build_part('2.7.0', BuildKind.RELEASE)} {instance_part('sign_nan')} --fresh -o again.parquet"

    args = _parsed(line)

    assert tail == ""
    assert args.python == "3.11"
    assert args.timeout == 90
    assert args.versions == [("2.7.0",)]
    assert [path.name for path in args.files] == ["as_strided_huge_offset.py"]


def test_the_command_keeps_what_the_run_was_asked_for() -> None:
    words = ["run", "a b.py", "--with", "scipy>=1", "--isolation", "process", "--seed=3", "--thorough", "-o", "x"]
    run = {"arguments": words, "threads": 2, "timeout_s": 60}
    made = histories.observation(
        histories.instance("f", file="a b.py"), "2.7.0", python="3.12.1", backend="cpu", device="cuda:1", seed=0
    )

    head = run_part(made, run).split("\n")[0]

    assert shlex.split(head) == [
        "bisect-torch", "run", "a b.py", "--python=3.12", "--torch-backend=cpu", "--device=cuda:1", "--threads=2",
        "--timeout=60", "--with", "scipy>=1", "--isolation", "process", "--seed=3", "--thorough",
    ]  # fmt: skip
    assert _parsed(f"{head} {build_part('2.16.0.dev20261128', BuildKind.NIGHTLY)}").thorough


def test_a_command_and_a_test_suite_keep_their_own_words() -> None:
    made = histories.observation(histories.instance("python"), "2.7.0")

    head, tail = run_part(made, {"arguments": ["run", "--", "python", "a b.py"]}).split("\n")

    assert (head, tail) == ("bisect-torch run", "-- python 'a b.py'")


def test_a_shipped_case_is_named_by_its_suite() -> None:
    made = histories.observation(histories.instance("f", file="/somewhere/shipped/large_index_quick.py"), "2.7.0")

    def line(*words: str) -> str:
        return run_part(made, {"arguments": ["run", *words]}).split("\n")[0]

    assert line("--from", "2.4.1") == "bisect-torch run --suite=default"
    assert line("--suite", "decoding,large-index") == "bisect-torch run --suite=large-index"
    assert line("cases/large_index_quick.py") == "bisect-torch run cases/large_index_quick.py"


def _parsed(line: str):  # type: ignore[no-untyped-def]
    own, _ = program.before_dashes(shlex.split(line)[1:])
    parser, _ = program.build_parser(program.chosen_by(own))
    args, unknown = parser.parse_known_args(own)
    assert unknown == []
    return args


# --- size


def test_a_page_with_many_cells_takes_about_a_hundred_bytes_for_each() -> None:
    findings = many_cells(30_000)

    assert len(html(findings).encode()) / 30_000 < 130


def test_a_column_says_each_value_once() -> None:
    many = [f"value {number % 300}" for number in range(1000)]

    packed = column(many)

    assert (len(packed["values"]), packed["bytes"]) == (300, 2)  # type: ignore[arg-type]
    assert entries(packed, 1000) == many
    assert column([None] * 5) == {"values": [None]}
    assert column([float("inf"), float("nan")])["values"] == ["inf", "nan"]


def test_long_texts_are_cut_only_where_all_of_them_would_be_too_much() -> None:
    few = ["x" * 50_000]
    many = [f"{number:06d}" * 2000 for number in range(3000)]

    assert shortened(limit_for(few))(few[0]) == few[0]
    limit = limit_for(many)
    assert sum(min(len(each), limit) for each in many) <= BUDGET
    cut = shortened(limit)(many[7])
    assert cut is not None
    assert f"{len(many[7]) - limit:,} characters left out" in cut
    assert cut.startswith("000007")
    assert cut.endswith("000007")


def test_results_without_observations_or_cells_are_a_page_too() -> None:
    bare = histories.findings(histories.series("f", "ok", None, "broken"))
    empty = Findings((), {}, (), ())

    assert Page(html(bare)).data("details-data")["cells"]["observations"]["values"] == [0]
    assert "No transition" in html(empty)


def test_a_build_that_was_not_run_and_an_absent_api_have_verdicts_of_their_own() -> None:
    row: Series = histories.series("f", "absent", None, "ok")

    data = Page(html(histories.findings(row))).data("matrix-data")

    assert entries(data["cells"]["verdict"], 3) == ["absent", "not-run", Verdict.OK.value]
