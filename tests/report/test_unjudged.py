"""What could not be judged, and what to do about it: the same words in every report."""

from __future__ import annotations

import dataclasses
from html import unescape

import pytest

from bisect_torch.model import BuildKind, Series, Verdict
from bisect_torch.report.data import as_data
from bisect_torch.report.html import html
from bisect_torch.report.junit import junit
from bisect_torch.report.markdown import markdown, nothing_found
from bisect_torch.report.summary import summary
from bisect_torch.report.text import plain
from bisect_torch.report.unjudged import unjudged
from tests.report.histories import findings, instance, observation, point, series
from tests.report.pages import Page
from tests.report.test_markdown import reported


def broken(reason: str) -> Series:
    row: Series = series("f", "broken", "broken")
    return dataclasses.replace(row, points=tuple(point(name, "broken", reason=reason) for name in row.builds))


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("torchvision.ops", "--with torchvision"),
        ("pkg_resources", "--with 'setuptools<82'"),
        ("bisect_torch", "a case file is named without -- and python: bisect-torch run FILE"),
    ],
)
def test_a_missing_module_comes_with_the_option_that_adds_it(module: str, hint: str) -> None:
    found = unjudged(findings(series("g", "ok", "ok"), broken(f"No module named {module!r}")))
    assert [(each.verdict, each.cells, each.builds, each.hint) for each in found] == [
        (Verdict.BROKEN, 2, ("2.4.1", "2.5.0"), hint)
    ]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("ImportError: cannot import name 'dynamo_export' from 'torch.onnx'", "from torch.onnx import dynamo_export"),
        ("AttributeError: module 'torch.cpu' has no attribute 'x'", "import torch.cpu; torch.cpu.x"),
        ("ModuleNotFoundError: No module named 'torch.distributed.x'", "import torch.distributed.x"),
        ("ImportError: cannot import name 'x' from 'mine'", ""),
        ("ModuleNotFoundError: No module named 'torch'", "--with torch"),
    ],
)
def test_tests_that_want_a_name_which_torch_lacks_come_with_the_line_that_finds_its_release(error, line) -> None:
    found = unjudged(findings(series("g", "ok", "ok"), broken(f"pytest cannot collect it: {error}")))
    assert [each.hint.removeprefix("a script of this line alone tells which release lacks it: ") for each in found] == [
        line
    ]


def test_reasons_that_differ_in_numbers_alone_are_told_once() -> None:
    row: Series = series("f", "infra", "infra")
    said = ("Python 3.9: failed in 7.8s (3 retries)", "Python 3.9: failed in 12.1s (3 retries)")
    points = (point(name, "infra", reason=reason) for name, reason in zip(row.builds, said, strict=True))
    found = unjudged(findings(series("g", "ok", "ok"), dataclasses.replace(row, points=tuple(points))))
    assert [(each.reason, each.cells, each.builds) for each in found] == [
        ("Python 3.9: failed in …s (3 retries)", 2, ("2.4.1", "2.5.0"))
    ]
    ended = ("pytest ended with status 4", "pytest ended with status 5")
    points = (point(name, "broken", reason=reason) for name, reason in zip(row.builds, ended, strict=True))
    assert [each.reason for each in unjudged(findings(dataclasses.replace(row, points=tuple(points))))] == list(ended)


@pytest.mark.parametrize(("runs", "again"), [(1, True), (2, False)])
def test_what_ended_by_one_signal_each_time_is_not_to_be_run_once_more(runs: int, again: bool) -> None:
    said = "ended by SIGKILL, which the kernel for lack of memory, somebody or the script itself may have sent"
    row: Series = series("f", "infra", "infra")
    row = dataclasses.replace(row, points=tuple(point(name, "infra", reason=said) for name in row.builds))
    seen = [
        dataclasses.replace(observation(instance("f"), name, outcome="lost", signal="SIGKILL"), run_id=str(run))
        for name in row.builds
        for run in range(runs)
    ]
    (found,) = unjudged(dataclasses.replace(findings(row), observations=seen))
    assert found.hint.startswith("run the same command again") is again
    assert found.hint.startswith("it ended so each time: does the script end itself") is not again


def test_the_first_that_lacks_a_package_asks_for_all_and_each_for_its_own() -> None:
    row: Series = series("f", "broken", "broken")
    lacks = ("No module named 'onnxscript'", "No module named 'onnx'")
    points = (point(name, "broken", reason=reason) for name, reason in zip(row.builds, lacks, strict=True))
    found = unjudged(findings(dataclasses.replace(row, points=tuple(points))))
    assert [each.hint for each in found] == [
        "--with onnxscript; for all of these --with onnxscript --with onnx",
        "--with onnx",
    ]


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("it wants the variable RANK, which is not set", "a command sets it: -- torchrun --nproc-per-node=1 SCRIPT"),
        ("it wants the variable HF_TOKEN, which is not set", "--pass-env HF_TOKEN"),
        (
            "it wants arguments: the following arguments are required: -n",
            "a command has some: -- python SCRIPT ARGUMENTS",
        ),
        (
            "it asks for input, and there is nobody to give any",
            "write it into the script, or give it to a command: -- sh -c 'echo INPUT | python SCRIPT'",
        ),
        (
            "torch was still being loaded when its 2 s were over",
            "a longer --timeout: a script that sets variables loads torch in its own time",
        ),
        (
            "torch and what its file imports were not loaded after 600 s",
            "a busy machine needs longer; and what stands at the top of the file runs while it is loaded",
        ),
        ("it wants the file a/in.pt, which is not there", "put it there and run the same command again"),
        (
            "it wants the file in.pt, which is not in the working directory, but beside the script",
            "start the run in the script's folder, or in place of 'in.pt' write Path(__file__).parent / 'in.pt' "
            "(from pathlib import Path)",
        ),
        (
            "it wants the file a/in.pt, which is not in the folder of its own in which a case runs, but beside the "
            "case file",
            "in place of 'a/in.pt' write Path(__file__).parent / 'a/in.pt' (from pathlib import Path)",
        ),
        (
            "it wants the file in.pt, which is not beside the case file, nor in the folder of its own in which a case "
            "runs",
            "put it beside the case file, and in place of 'in.pt' write Path(__file__).parent / 'in.pt' "
            "(from pathlib import Path)",
        ),
        (
            "it wants the file ~/in.pt, which is not in the working directory",
            "nothing expands the ~ in it: write os.path.expanduser('~/in.pt')",
        ),
        (
            "exit status 127: nosuch: command not found",
            "is its name right? it must be on PATH, or come with a package: --with PACKAGE",
        ),
        (
            "cuda: no cuda device",
            "put cpu in its place, if the bug shows there too; `bisect-torch doctor` says what it sees of a GPU",
        ),
        ("Python cannot read it: invalid syntax", "--python chooses a newer one"),
        ("a file random.py is imported in place of the real random", "rename that file, and run it with --fresh"),
    ],
)
def test_what_lacks_comes_with_the_way_to_give_it(reason: str, hint: str) -> None:
    assert [each.hint for each in unjudged(findings(broken(reason)))] == [hint]


def test_the_rows_that_were_not_judged_are_named_unless_it_is_all_of_them() -> None:
    skipped = [series(name, "ok", "skip") for name in ("b[n=1]", "c", "d", "e")]
    rows = [series("a", "ok", "ok"), series("b[n=2]", "ok", "ok"), *skipped, series("b[n=3]", "ok", "skip")]
    assert [str(each) for each in unjudged(findings(*rows[:3]))] == ["1 cell skip in 2.5.0 (b[n=1])"]
    told = "5 cells skip in 2.5.0 (2 of 3 instances of b, c, d and e)"
    assert [str(each) for each in unjudged(findings(*rows))] == [told]
    told = "6 cells skip in 2.5.0 (2 of 3 instances of b, c, d and 2 more)"
    assert [str(each) for each in unjudged(findings(*rows, series("f", "ok", "skip")))] == [told]
    assert [str(each) for each in unjudged(findings(*skipped))] == ["4 cells skip in 2.5.0"]


def test_a_missing_package_is_told_with_the_same_words_in_every_report() -> None:
    row = broken("No module named 'scipy'")
    found = reported(series("g", "ok", "wrong"), row)
    told = "2 cells broken in 2.4.1 and 2.5.0 (f): No module named 'scipy' (hint: --with scipy)"

    assert f"{told}\n" in plain(summary(found, 120))
    assert f"Not judged: {told}." in markdown(found)
    without = told.replace(" (f)", "")
    assert nothing_found(reported(row)) == [f"nothing could be judged: {without}"]
    assert told in unescape(html(found))
    assert [each["text"] for each in as_data(found)["unjudged"]] == [told]  # type: ignore[attr-defined]


def test_a_broken_cell_says_what_to_do_about_it() -> None:
    found = reported(broken("No module named 'scipy'"))

    reasons = Page(html(found)).data("details-data")["cells"]["reason"]["values"]
    assert reasons == ["No module named 'scipy' (hint: --with scipy)"]
    assert junit(found).count("\"No module named 'scipy' (hint: --with scipy)\"") == 2
    local = dataclasses.replace(
        found, builds=tuple(dataclasses.replace(each, kind=BuildKind.LOCAL) for each in found.builds)
    )
    assert "(hint: install scipy in that interpreter's environment)" in junit(local)


def test_broken_does_not_blame_the_environment_for_a_slip_of_the_case() -> None:
    found = reported(series("g", "ok", "wrong"), broken("the case's own mistake: name 'chekk' is not defined"))

    assert "*broken*: something that is not torch is missing or at fault, which says nothing about torch" in markdown(
        found
    )
    assert "B broken (environment or case)" in plain(summary(found, 120))
