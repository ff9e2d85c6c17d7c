"""Nightly builds from end to end: an index of sixty over HTTP, HTML alone, with gaps and all that goes wrong there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import nightlies
from tests.support.index import FakeIndex, Fault
from tests.support.nightlies import name, nightly_index, november
from tests.support.tool import Answer, Tool

CASE = """
import torch

assert torch.answer() == 42
"""


@dataclass(frozen=True)
class Nightly:
    """The tool on the index of nightlies, with the backend ``cpu``."""

    tool: Tool

    @property
    def index(self) -> FakeIndex:
        return self.tool.index

    def run(self, *words: str) -> Answer:
        more = {"BISECT_TORCH_BACKEND_INDEX": self.index.base, "UV_HTTP_RETRIES": "0"}
        return self.tool.run("case.py", *words, "--torch-backend", "cpu", **more)

    def forget_answers(self) -> None:
        """Ten minutes pass."""
        shutil.rmtree(self.tool.folder / "store" / "index-cache", ignore_errors=True)


@pytest.fixture
def nightly(tmp_path: Path) -> Iterator[Nightly]:
    with nightly_index() as index:
        tool = Tool(tmp_path, index)
        tool.write("case.py", CASE)
        yield Nightly(tool)


def test_a_bug_is_found_between_two_nightlies_and_handed_on_to_a_checkout(nightly: Nightly, tmp_path: Path) -> None:
    """A release, five nightlies of a range with one that cannot be imported and one withdrawn, two of one commit."""
    checkout = nightlies.write_checkout(tmp_path / "pytorch", map(november, (10, 12, 14, 18)))

    answer = nightly.run(
        "--from", "2.15.0", "--nightly", "2026-11-10..2026-11-12,2026-11-15", "--nightly", "2026-11-18,2026-11-19",
        "--with", "torchvision", "--source", str(checkout), "--json",
    )  # fmt: skip

    assert answer.code == 1, answer.stderr
    data = answer.data
    # In release order, each recorded as what it is, with its day and the commit that stands in its wheel.
    days = [10, 11, 12, 14, 18, 19]
    assert [build["name"] for build in data["builds"]] == ["2.15.0", *map(name, days)]
    assert [(build["kind"], build["day"]) for build in data["builds"][1:]] == [
        ("nightly", november(day).isoformat()) for day in days
    ]
    assert [build["git_commit"] for build in data["builds"][1:]] == [nightlies.commit(november(day)) for day in days]
    assert "no nightly of 2026-11-15 (withdrawn); the nearest, of 2026-11-14, is used" in answer.stderr
    # One that cannot be imported says nothing about torch.
    assert answer.verdicts("case") == ["ok", "ok", "broken", "wrong", "wrong", "wrong", "wrong"]
    # The commits of main, from the messages in the checkout; the number of days; the line for git.
    (finding,) = data["findings"]
    unknown = "or an earlier build that could not be judged"
    assert finding["text"] == f"case fails an assertion from {name(12)} {unknown} (last good {name(10)})."
    good, bad = (nightlies.main_commit(november(day))[:12] for day in (10, 12))
    assert finding["compare"].endswith(f"/pytorch/compare/{good}...{bad}")
    assert finding["bisect"] == f"git bisect start {bad} {good}"
    assert finding["evidence"]["days"] == "2 days, 2026-11-10 to 2026-11-12"
    assert finding["evidence"]["untested between"].startswith(f"{name(11)} (broken: import torch: ImportError")
    assert "commits of main" not in finding["evidence"]
    # torch and its company are of one resolution: triton and torchvision of that night, numpy of the default index.
    assert "triton 3.7.0+git1110 → 3.7.0+git1112" in finding["evidence"]["also differ"]
    vision = "torchvision 0.31.0.dev20261110+cpu → 0.31.0.dev20261112+cpu"
    assert vision in finding["evidence"]["also differ"]
    assert "numpy" not in finding["evidence"]["also differ"]
    # The same as text, from the stored results, where no checkout is at hand.
    text = nightly.tool.call(nightly.tool.words("judge", "results.parquet")).stdout
    unwrapped = " ".join(text.split())
    same = f"{name(18)} and {name(19)} were built from one commit, {nightlies.commit(november(18))[:12]}"
    assert same in unwrapped
    ends = (nightlies.commit(november(day))[:12] for day in (12, 10))
    assert f"\n  git bisect start {' '.join(ends)}\n" in text
    assert "--source CHECKOUT reads them" in unwrapped


@pytest.mark.slow
def test_a_download_that_breaks_says_nothing_about_the_build_and_is_taken_up(nightly: Nightly) -> None:
    """And what is installed goes on to work when the nightly has left the index, or nobody can ask it."""
    wheel = nightlies.torch_of(november(28))
    half = len(wheel.content) // 2
    nightly.index.fault("/files/torch-2.16.0.dev20261128*.whl", Fault(truncate_to=half))

    broken = nightly.run("--nightly", "2026-11-27,latest", "--json")

    assert (broken.code, broken.verdicts("case")) == (3, ["wrong", "infra"])
    nightly.index.clear_faults()
    whole = nightly.run("--nightly", "2026-11-27,latest", "--json")
    assert (whole.code, whole.verdicts("case")) == (1, ["wrong", "wrong"])
    assert "2 builds: 1 environment is there, 1 to be made" in whole.stderr

    nightly.index.remove(wheel, nightlies.torch_of(november(27)), shelf="nightly/cpu")
    nightly.forget_answers()
    gone = nightly.run("--nightly", "2026-11-27,2026-11-28", "--fresh", "--json")
    assert (gone.code, gone.verdicts("case")) == (1, ["wrong", "wrong"])
    offline = nightly.run("--nightly", "2026-11-28", "--offline", "--json")
    assert (offline.code, offline.verdicts("case")) == (1, ["wrong"])

    # One that is not installed says that it is gone, and nothing about torch.
    shutil.rmtree(nightly.tool.folder / "store" / "locks")
    shutil.rmtree(nightly.tool.folder / "store" / "envs")
    lost = nightly.run("--versions", f"{name(27)},{name(26)}", "--json")
    assert lost.verdicts("case") == ["wrong", "uninstallable"]
    assert "has left the index nightly/cpu" in lost.data["unjudged"][0]["reason"]


def test_a_release_candidate_is_run_beside_the_release(nightly: Nightly) -> None:
    answer = nightly.run("--versions", "2.15.0,test", "--json")
    assert answer.code == 1, answer.stderr
    assert [(build["name"], build["kind"]) for build in answer.data["builds"]] == [
        ("2.15.0", "release"),
        ("2.16.0 (test)", "candidate"),
    ]
    assert answer.verdicts("case") == ["ok", "wrong"]
    assert answer.data["builds"][1]["torch_version"] == "2.16.0+cpu"
    (finding,) = answer.data["findings"]
    assert finding["bisect"].startswith("git bisect start ")


def test_company_of_the_stable_index_is_never_fallen_back_to(nightly: Nightly) -> None:
    """torchao is on the default index alone, and would fit."""
    answer = nightly.run("--nightly", "latest", "--with", "torchao", "--json")
    assert (answer.code, answer.verdicts("case")) == (3, ["uninstallable"])
    assert "no torchao on nightly/cpu fits" in answer.data["unjudged"][0]["reason"]


def test_a_nightly_that_cannot_be_known_is_named_and_the_release_goes_on(nightly: Nightly) -> None:
    """Not with 0: a build that was asked for was not judged. With the index back, only that one runs."""
    nightly.index.fault("/nightly/*", Fault(status=503))

    answer = nightly.run("--versions", "2.15.0,nightly", "--json")

    assert (answer.code, answer.verdicts("case")) == (3, ["ok"])
    (unjudged,) = answer.data["unjudged"]
    assert (unjudged["builds"], unjudged["cells"], unjudged["verdict"]) == (["nightly"], 0, "infra")
    assert unjudged["reason"].endswith("/nightly/cpu answers status 503 for torch")
    assert answer.stderr.splitlines()[0].startswith("note: nightly is not known, and left out: ")
    nightly.index.clear_faults()
    whole = nightly.run("--versions", "2.15.0,nightly", "--json")
    assert (whole.code, whole.verdicts("case")) == (1, ["ok", "wrong"])
    assert len(nightly.index.requested("/files/torch-2.15.0*.whl")) == 1

    offline = nightly.run("--versions", "2.15.0,nightly", "--offline")

    assert offline.code == 3
    said = " ".join(offline.stdout.split())
    assert "nightly is not known, and was not run: offline: the index nightly/cpu is not asked" in said


def test_an_index_that_is_down_or_a_wrong_word_ends_the_run_before_it_begins(nightly: Nightly, tmp_path: Path) -> None:
    nightly.run("--versions", "2.15.0")
    kept = (tmp_path / "results.parquet").read_bytes()
    nightly.index.fault("/nightly/*", Fault(status=503))
    for words, code, said in (
        (("--nightly", "latest"), 3, "/nightly/cpu answers status 503 for torch"),
        (("--nightly", "yesterday"), 2, "'yesterday' does not name a nightly build"),
        (("--nightly", "test", "--source", str(tmp_path)), 2, "no git checkout there"),
    ):
        answer = nightly.run(*words)
        assert (answer.code, said in answer.stderr) == (code, True), answer.stderr
        assert answer.stdout == ""
    assert (tmp_path / "results.parquet").read_bytes() == kept


def test_the_nightlies_of_a_span_are_listed_with_their_commits(nightly: Nightly) -> None:
    words = nightly.tool.words("releases", "--torch-backend", "cpu", "--nightly", "2026-11-18..2026-11-22", "--json")
    store = {"BISECT_TORCH_STORE": str(nightly.tool.folder / "store")}
    answer = nightly.tool.call(words, BISECT_TORCH_BACKEND_INDEX=nightly.index.base, **store)
    rows = json.loads(answer.stdout)
    assert [row["version"] for row in rows] == [name(day) for day in (18, 19, 20, 22)]
    assert [row["git_commit"] for row in rows] == [nightlies.commit(november(day)) for day in (18, 19, 20, 22)]
    assert "nightly/cpu has no nightly of 2026-11-21" in answer.stderr


@pytest.mark.slow
def test_a_search_goes_on_from_a_release_into_the_nightlies_after_it(nightly: Nightly) -> None:
    """The ends either way round; 45 nightlies lie between them, and few are made."""
    more = {"BISECT_TORCH_BACKEND_INDEX": nightly.index.base, "UV_HTTP_RETRIES": "0"}
    own = ["--index-url", nightly.index.url, "--python", nightly.tool.python]
    store = ["--store", str(nightly.tool.folder / "store"), "--torch-backend", "cpu", "--json"]
    words = nightly.tool.words("bisect", "case.py", "--good", "nightly", "--bad", "2.15.0", *own, *store)

    answer = nightly.tool.call(words, **more)

    assert answer.code == 1, answer.stderr
    (row,) = answer.data["search"]["rows"]
    (boundary,) = row["boundaries"]
    assert (boundary["last_good"], boundary["first_bad"]) == (name(10), name(12))
    assert list(boundary["between"]) == [name(11)]
    assert len(answer.data["search"]["made"]) <= 9
