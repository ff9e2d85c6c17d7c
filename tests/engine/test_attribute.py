"""Torch or a dependency, end to end: fake wheels whose versions decide what a case does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import Wheel, fake_numpy, fake_package, fake_torch

OLD_DAY, NEW_DAY, LATER = "2024-09-04", "2024-10-14", "2024-12-01"

CASES = """
import numpy
import setuptools
import torch
import triton
from bisect_torch import case

old_torch = torch.__version__ == "2.1.0"
old_numpy = numpy.__version__ == "2.1.1"
old_setuptools = setuptools.__version__ == "74.1.2"

@case
def by_torch():
    assert old_torch

@case
def by_numpy():
    if not old_numpy:
        raise RuntimeError("no such thing in numpy")

@case
def by_both():
    assert old_torch or old_numpy

@case
def by_either():
    assert old_torch and old_numpy

@case
def by_two_packages():
    assert old_numpy or old_setuptools

@case
def by_triton():
    assert triton.__version__ == "3.1.0"

@case
def by_mixing():
    if old_torch != old_numpy:
        raise ValueError("these two do not go together")
    assert old_torch

@case
def never():
    pass
"""


def wheels(*, old_requires: Iterable[str] = (), new_requires: Iterable[str] = ()) -> list[Wheel]:
    """Two releases that pin their triton; numpy and setuptools went on between them, and after."""
    found = [
        fake_torch("2.1.0", requires=["triton==3.1.0", *old_requires], upload_time=OLD_DAY),
        fake_torch("2.2.0", requires=["triton==3.2.0", *new_requires], upload_time=NEW_DAY),
    ]
    for project, versions in {
        "triton": ["3.1.0", "3.2.0"],
        "numpy": ["2.1.1", "2.2.0", "2.3.0"],
        "setuptools": ["74.1.2", "75.0.0"],
    }.items():
        days = ["2024-08-01", "2024-10-01", LATER]
        make = fake_numpy if project == "numpy" else partial(fake_package, project)
        found += [make(version, upload_time=day) for version, day in zip(versions, days, strict=False)]
    return found


@contextmanager
def tool_on(folder: Path, found: list[Wheel]) -> Iterator[Tool]:
    with FakeIndex(found) as index:
        tool = Tool(folder, index)
        tool.write("cases.py", CASES)
        yield tool


def attribute(tool: Tool, *words: str) -> Answer:
    return tool.call(tool.words("attribute", "results.parquet", *words))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """A tool whose results hold both releases; its hybrids serve all tests of this module."""
    with tool_on(tmp_path_factory.mktemp("attribute"), wheels()) as tool:
        answer = tool.run("cases.py", "--from", "2.1.0", "--json")
        assert answer.code == 1, answer.stderr
        yield tool


ANSWERS: dict[str, tuple[str, list[str], str]] = {
    "by_torch": ("torch", [], "torch, or what cannot be separated from it: triton."),
    "by_numpy": ("dependency", ["numpy"], "numpy 2.1.1 → 2.2.0, not torch: torch 2.2.0 with numpy 2.1.1 is as before"),
    "by_both": (
        "together",
        ["numpy"],
        "only both together, torch 2.2.0 or what cannot be separated from it (triton), and numpy 2.1.1 → 2.2.0",
    ),
    "by_either": ("either", ["numpy"], "each alone is enough: torch 2.2.0"),
    "by_two_packages": ("dependency", ["numpy", "setuptools"], "numpy 2.1.1 → 2.2.0 and setuptools 74.1.2 → 75.0.0"),
    "by_triton": ("torch", [], "torch, or what cannot be separated from it: triton."),
    "by_mixing": ("inseparable", [], "cannot be separated"),
}


QUICK = ("by_torch", "by_numpy", "by_mixing")


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in ANSWERS]
)
def test_what_made_the_difference_is_named(ran: Tool, case: str) -> None:
    cause, packages, sentence = ANSWERS[case]

    answer = attribute(ran, case, "--json")

    assert answer.code == (3 if cause == "inseparable" else 0), answer.stderr
    data = answer.data
    assert (data["cause"], data["packages"]) == (cause, packages)
    assert sentence in data["text"]
    held = {each["name"]: each["inseparable"] for each in data["differ"]}
    assert held["triton"] == {"new": "torch requires triton==3.2.0", "old": "torch requires triton==3.1.0"}
    assert held["numpy"] == held["setuptools"] == {}
    whole = [each["build"] for each in data["hybrids"][:2]]
    assert whole == ["2.2.0+numpy==2.1.1,setuptools==74.1.2", "2.1.0+numpy==2.2.0,setuptools==75.0.0"]
    for hybrid in data["hybrids"]:
        assert hybrid["processes"] >= 3


def test_a_dry_run_says_what_is_there_and_makes_nothing(ran: Tool) -> None:
    results = (ran.folder / "results.parquet").read_bytes()
    begun = len(ran.index.begun)

    answer = attribute(ran, "by_two_packages", "--dry-run")
    data = attribute(ran, "by_two_packages", "--dry-run", "--json").data

    assert answer.code == 0, answer.stderr
    first, hybrids, rows, row = answer.stdout.splitlines()
    assert first == "2 builds: 2 environments are there, 0 to be made"
    assert hybrids.startswith("note: where the two differ, hybrids of them are made one after another")
    assert (rows, row) == ("would run 1 instance on each build", "  by_two_packages")
    assert [build["name"] for build in data["builds"]] == ["2.1.0", "2.2.0"]
    assert (ran.folder / "results.parquet").read_bytes() == results
    assert not [path for path in ran.index.begun[begun:] if path.endswith(".whl")]


def test_after_a_run_of_one_case_another_one_of_that_file_is_found(ran: Tool) -> None:
    """Of the newest run's line the file counts, not the case that it named."""
    assert ran.run("cases.py::never", "--from", "2.1.0").code == 0

    answer = attribute(ran, "by_torch", "--dry-run")

    assert answer.code == 0, answer.stderr
    assert answer.stdout.endswith("would run 1 instance on each build\n  by_torch\n")


def test_a_second_time_nothing_is_made_or_run_and_the_text_says_the_same(ran: Tool) -> None:
    first = attribute(ran, "by_numpy")
    begun = len(ran.index.begun)

    again = attribute(ran, "by_numpy")

    assert (again.code, again.stdout) == (first.code, first.stdout)
    assert "4 cells, 4 known from before" in again.stderr
    assert "built in" not in again.stderr
    assert not [path for path in ran.index.begun[begun:] if path.endswith(".whl")]
    text = " ".join(again.stdout.split())
    assert "torch 2.1.0 with numpy 2.2.0: as after (error:RuntimeError, in 3 processes)" in text
    assert "inseparable triton 3.1.0 → 3.2.0: torch requires triton==3.1.0 (2.1.0)" in text


def test_whoever_reads_the_results_later_is_told_what_it_found(ran: Tool) -> None:
    """Also where all that it asks for was known, and no run is begun."""
    hint = "bisect-torch attribute results.parquet by_numpy"
    for name in ("by_torch", "by_numpy", "by_torch"):
        attribute(ran, name)
    kept = (ran.folder / "results.parquet").read_bytes()
    attribute(ran, "by_numpy")
    judged = ran.call(ran.words("judge", "results.parquet", "--json")).data["findings"]
    page = ran.call(ran.words("report", "results.parquet", "by_numpy")).stdout

    assert (ran.folder / "results.parquet").read_bytes() == kept
    told = {each["instances"][0]: each["evidence"].get("attributed to") for each in judged}
    assert told["by_numpy"] == "numpy 2.1.1 → 2.2.0, not torch (`bisect-torch attribute`)"
    assert told["by_torch"] == "torch, or what cannot be separated from it: triton (`bisect-torch attribute`)"
    assert "- attributed to: numpy 2.1.1 → 2.2.0, not torch (`bisect-torch attribute`)\n" in page
    assert hint not in page

    # One of another text of the case is none of this one.
    path = ran.folder / "cases.py"
    path.write_text(f"{CASES}\n# changed\n")
    try:
        again = ran.run("cases.py", "-k", "by_numpy", "--from", "2.1.0", "--json").data["findings"]
    finally:
        path.write_text(CASES)
        ran.run("cases.py", "--from", "2.1.0", "--fresh")
    (evidence,) = [each["evidence"] for each in again if each["instances"] == ["by_numpy"]]
    assert "attributed to" not in evidence
    assert hint in evidence["imported too"]


def test_hybrids_have_no_place_in_the_matrix_and_can_be_removed_by_name(ran: Tool) -> None:
    attribute(ran, "by_numpy")

    judged = ran.call(ran.words("judge", "results.parquet", "--json")).data
    listed = ran.call(ran.words("envs", "list", "--store", str(ran.folder / "store"))).stdout
    path = ran.call(ran.words("envs", "path", "2.2.0", "--store", str(ran.folder / "store")))

    assert [build["name"] for build in judged["builds"]] == ["2.1.0", "2.2.0"]
    assert all(list(series["cells"]) == ["2.1.0", "2.2.0"] for series in judged["series"])
    lines = listed.splitlines()
    at = lines.index("2.2.0+numpy==2.1.1,setuptools==74.1.2")  # longer than its column: a line of its own
    assert {line.index(" Python 3") for line in lines if " Python 3" in line} == {24 + 1 + 28}
    assert lines[at + 1].split()[:2] == ["2.2.0", "Python"]
    assert "has 2 environments" not in path.stderr


def test_what_does_not_change_or_is_not_there_is_refused(ran: Tool) -> None:
    for words, code, said in (
        (("never",), 2, "never does not change in results.parquet"),
        (("by_nunpy",), 2, "did you mean by_numpy?"),
        (("by_torch", "--before", "2.2.0"), 2, "it changes from 2.1.0 to 2.2.0"),
        (("by_torch", "--device", "cuda"), 2, "holds no case 'by_torch' on cuda"),
        ((), 2, "name one of them: bisect-torch attribute results.parquet by_torch"),
        (("--before", "2.2.0"), 2, "nothing changes there"),
    ):
        answer = attribute(ran, *words)
        assert (answer.code, answer.stdout) == (code, "")
        assert said in answer.stderr


def test_a_case_file_that_changed_since_is_refused(ran: Tool) -> None:
    path = ran.folder / "cases.py"
    path.write_text(f"{CASES}\n# changed\n")
    try:
        answer = attribute(ran, "by_torch")
    finally:
        path.write_text(CASES)

    assert answer.code == 2
    assert "cases.py is not found here as it was when it ran" in answer.stderr


def test_a_hybrid_that_torch_does_not_allow_is_neither_good_nor_bad(tmp_path: Path) -> None:
    """The old torch wants an old numpy and setuptools, the new one new ones: uv finds no hybrid at all."""
    old, new = ["numpy<2.2", "setuptools<75"], ["numpy>=2.2", "setuptools>=75"]
    with tool_on(tmp_path, wheels(old_requires=old, new_requires=new)) as tool:
        assert tool.run("cases.py", "-k", "by_numpy", "--from", "2.1.0").code == 1

        answer = attribute(tool, "by_numpy", "--json")

    assert answer.code == 3, answer.stderr
    data = answer.data
    assert (data["cause"], data["hybrids"]) == ("inseparable", [])
    assert "cannot be separated: torch or what comes with it" in data["text"]
    held: dict[str, Any] = {each["name"]: each["inseparable"] for each in data["differ"]}
    assert held["numpy"] == {"new": "torch requires numpy>=2.2", "old": "torch requires numpy<2.2"}


def test_todays_dependencies_beside_those_of_the_day_name_what_drifts(tmp_path: Path) -> None:
    case = "import numpy, torch\nassert numpy.__version__ < '2.3'\n"
    with tool_on(tmp_path, wheels()) as tool:
        tool.write("repro.py", case)

        ran = tool.run("repro.py", "--from", "2.1.0", "--locks", "release,today", "--json")
        judged = tool.call(tool.words("judge", "results.parquet", "--json"))
        text = tool.call(tool.words("judge", "results.parquet")).stdout
        cause = attribute(tool, "repro", "--before", "2.2.0", "--after", "2.2.0+today", "--json")

    assert ran.code == 1, ran.stderr
    assert ran.data["series"][0]["cells"].keys() == {"2.1.0", "2.2.0"}
    assert ran.verdicts("repro") == ["ok", "ok"]
    assert ran.data["findings"] == []
    (drift,) = ran.data["dependency_drift"]
    assert (drift["instances"], drift["builds"]) == (["repro"], ["2.1.0", "2.2.0"])
    assert (drift["before"], drift["after"], drift["confirmed"]) == ("ok", "wrong", True)
    assert drift["packages"] == ["numpy 2.2.0 → 2.3.0"]
    assert judged.data["dependency_drift"] == ran.data["dependency_drift"]
    assert (
        "Drift of dependencies: repro fails an assertion with today's dependencies, instead of being ok, on "
        "2.1.0 and 2.2.0 (there differ: numpy 2.2.0 → 2.3.0)." in " ".join(text.split())
    )
    assert (cause.data["cause"], cause.data["packages"]) == ("dependency", ["numpy"])


def test_release_and_today_are_taken_together_only_where_cells_run(tmp_path: Path) -> None:
    with tool_on(tmp_path, wheels()) as tool:
        both = tool.call(tool.words("envs", "build", "--locks", "release,today"))
        neither = tool.run("cases.py", "--locks", "tomorrow")

    assert (both.code, neither.code) == (2, 2)
    assert "--locks takes one of release and today here" in both.stderr
    assert "'tomorrow' is not one of release, today and release,today" in neither.stderr


def test_files_added_to_a_release_later_are_another_torch_and_are_not_taken(tmp_path: Path) -> None:
    """A wheel with a build number comes before the one without, for the same version: 2.10.0 got some after weeks."""
    later = fake_torch("2.1.0", "rebuilt = True", requires=["triton==3.1.0"], upload_time=LATER)
    later = dataclasses.replace(later, filename="torch-2.1.0-3-py3-none-any.whl")
    case = "import numpy, torch\nassert not hasattr(torch, 'rebuilt')\nassert numpy.__version__ < '2.2'\n"
    with tool_on(tmp_path, [*wheels(), later]) as tool:
        tool.write("repro.py", case)

        ran = tool.run("repro.py", "--from", "2.1.0", "--locks", "release,today", "--json")
        cause = attribute(tool, "repro", "--before", "2.1.0", "--after", "2.2.0", "--json")
        alone = tool.run("repro.py", "--from", "2.1.0", "--locks", "today", "--json", "-o", "today.parquet")

    assert ran.verdicts("repro") == ["ok", "wrong"]
    assert (cause.data["cause"], cause.data["packages"]) == ("dependency", ["numpy"])
    assert alone.verdicts("repro") == ["wrong", "wrong"]
    (note,) = alone.data["notes"]
    assert note.startswith("all builds have today's dependencies, not those of their day")
    assert not [path for path in tool.index.begun if path.endswith(later.filename)]
