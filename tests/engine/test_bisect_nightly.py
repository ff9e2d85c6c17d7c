"""``bisect --nightly`` end to end: the releases first, then the nightly builds in the gap, over HTTP on loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.test_bisect import pairs
from tests.support import nightlies
from tests.support.index import FakeIndex, Fault
from tests.support.nightlies import BAD, name, nightly_index, november
from tests.support.tool import Answer, Tool
from tests.support.wheels import fake_torch

ENDS = ["--good", "2.14.0", "--bad", "2.16.0"]
CASE = "import torch\n\nassert torch.answer() == 42\n"


@dataclass(frozen=True)
class Nightly:
    tool: Tool

    @property
    def index(self) -> FakeIndex:
        return self.tool.index

    @property
    def store(self) -> Path:
        return self.tool.folder / "store"

    def bisect(self, *words: str) -> Answer:
        more = {"BISECT_TORCH_BACKEND_INDEX": self.index.base, "UV_HTTP_RETRIES": "0"}
        own = ["--index-url", self.index.url, "--python", self.tool.python, "--store", str(self.store)]
        return self.tool.call(self.tool.words("bisect", *words, *own, "--torch-backend", "cpu"), **more)


@pytest.fixture
def nightly(tmp_path: Path) -> Iterator[Nightly]:
    """Releases 2.14.0 and 2.15.0 are good, 2.16.0 is bad; the nightlies are bad from :data:`nightlies.BROKE` on."""
    index = nightly_index()
    index.add(fake_torch("2.16.0", BAD, upload_time="2026-12-02"))
    index.add(fake_torch("2.16.0+cpu", BAD), shelf="cpu")
    with index:
        tool = Tool(tmp_path, index)
        tool.write("case.py", CASE)
        yield Nightly(tool)


def test_from_the_release_that_broke_it_to_the_nightly_that_broke_it(nightly: Nightly, tmp_path: Path) -> None:
    """One of the nightlies that are asked for cannot be imported, one's download breaks, one was withdrawn."""
    checkout = nightlies.write_checkout(tmp_path / "pytorch", map(november, (10, 12)))
    nightly.index.fault("/files/torch-2.16.0.dev20261113*.whl", Fault(truncate_to=2000))
    words = ("case.py", "--good", "2.14.0", "--bad", "2.16.0", "--nightly", "--source", str(checkout), "--json")

    answer = nightly.bisect(*words)

    assert answer.code == 1, answer.stderr
    assert pairs(answer) == [(name(10), name(12))]
    search = answer.data["search"]
    assert search["judged"][:3] == ["2.14.0", "2.16.0", "2.15.0"]
    assert name(13) in search["judged"]
    # 3 of 3 releases, 45 nightlies in the gap: 3 + ceil(log2(46)), and one more for each that cannot be judged.
    assert len(search["judged"]) <= 3 + 6 + 2
    assert len(search["made"]) == len(search["judged"]) - 2
    (row,) = search["rows"]
    assert list(row["boundaries"][0]["between"]) == [name(11)]
    assert row["boundaries"][0]["between"][name(11)].startswith("broken: import torch: ImportError")
    # The release boundary is told by what was judged; the nightly boundary with days, commits and the line for git.
    cells = answer.data["series"][0]["cells"]
    assert [cells[each]["signature"] for each in ("2.14.0", "2.15.0", "2.16.0")] == ["ok", "ok", "wrong"]
    (finding,) = answer.data["findings"]
    good, bad = (nightlies.main_commit(november(day))[:12] for day in (10, 12))
    unknown = "or an earlier build that could not be judged"
    assert finding["text"] == f"case fails an assertion from {name(12)} {unknown} (last good {name(10)})."
    assert finding["compare"].endswith(f"/pytorch/compare/{good}...{bad}")
    assert finding["bisect"] == f"git bisect start {bad} {good}"
    assert finding["evidence"]["days"] == "2 days, 2026-11-10 to 2026-11-12"
    # No column for a nightly that nobody has run.
    assert set(cells) == {*search["judged"]}

    nightly.index.clear_faults()
    wheels = {request.path for request in nightly.index.requested("/files/torch-*.whl")}
    again = nightly.bisect(*words)

    assert pairs(again) == pairs(answer)
    assert again.data["search"]["judged"] == [name(11)], "what could not be judged is tried again by a later search"
    assert again.data["search"]["made"] == []
    assert {request.path for request in nightly.index.requested("/files/torch-*.whl")} == wheels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected", "said"),
    [
        # A walk from a release goes on to the newest nightly, or to the one of the day.
        (["--good", "2.15.0", "--nightly"], (10, 12), ""),
        (["--bad", "2.16.0", "--nightly", "2026-11-20"], (10, 12), ""),
        ([*ENDS, "--nightly", "2026-11-01..2026-11-07"], ("7", "2.16.0"), "last nightly"),
        ([*ENDS, "--nightly", "2026-11-12..2026-11-14"], ("2.15.0", 12), "first nightly"),
    ],
)  # fmt: skip
def test_the_days_that_take_part(
    nightly: Nightly, words: list[str], expected: tuple[int | str, int | str], said: str
) -> None:
    answer = nightly.bisect("case.py", *words, "--json")

    def build(end: int | str) -> str:
        return name(int(end)) if isinstance(end, int) or end.isdigit() else end

    assert pairs(answer) == [(build(expected[0]), build(expected[1]))], answer.stderr
    assert said in " ".join(answer.data["search"]["rows"][0]["text"])


@pytest.mark.slow
def test_where_no_nightly_is_left_that_is_said_and_the_release_boundary_stands(nightly: Nightly) -> None:
    left = [nightlies.torch_of(day) for day in nightlies.days() if day >= nightlies.CUT]
    nightly.index.remove(*left, shelf="nightly/cpu")

    answer = nightly.bisect("--good", "2.14.0", "--bad", "2.16.0", "--nightly", "case.py")

    text = " ".join(answer.stdout.split())
    assert answer.code == 1, answer.stderr
    assert "boundary: 2.15.0 | 2.16.0, tight" in text
    assert "no nightly build between 2.15.0 and 2.16.0 is left, they leave their index after about two months" in text
    assert "fails an assertion from 2.16.0 on (last good 2.15.0)" in text


@pytest.mark.slow
def test_what_is_installed_goes_on_to_take_part_when_the_index_is_down(nightly: Nightly) -> None:
    words = ("case.py", "--good", "2.15.0", "--bad", "2.16.0", "--nightly", "2026-11-10..2026-11-12", "--json")
    first = nightly.bisect(*words)
    assert pairs(first) == [(name(10), name(12))]
    nightly.index.fault("/nightly/*", Fault(status=503))
    shutil.rmtree(nightly.store / "index-cache")

    answer = nightly.bisect(*words)

    assert pairs(answer) == [(name(10), name(12))]
    assert "using the environments of nightly builds that are there" in answer.stderr
    assert answer.data["search"]["made"] == []


def test_the_start_of_a_search_does_not_grow_with_its_range(nightly: Nightly) -> None:
    """Locks are made, and wheels asked for their commits, for the builds that the search begins with alone."""
    answer = nightly.bisect("case.py", "--good", "2.14.0", "--bad", "nightly", "--dry-run")

    assert answer.code == 0, answer.stderr
    assert answer.stdout.startswith("62 builds from 2.14.0 to") or answer.stdout.startswith("61 builds from 2.14.0 to")
    assert "at most 8 to judge for one change" in answer.stdout
    assert len(list((nightly.store / "locks").glob("*.lock"))) == 3
    asked = {request.path for request in nightly.index.requested("/files/torch-*.dev*.whl")}
    assert len(asked) == 2
    # What it costs is that of eight environments, though three are known: 0.06 GB each, besides the fake wheels.
    assert "on disk 480 MB" in answer.stdout


def test_without_the_index_of_nightlies_the_releases_are_searched_and_that_is_said(nightly: Nightly) -> None:
    nightly.index.fault("/nightly/*", Fault(status=503))
    answer = nightly.bisect("case.py", "--good", "2.14.0", "--bad", "2.16.0", "--nightly")
    assert answer.code == 1, answer.stderr
    assert "boundary: 2.15.0 | 2.16.0, tight" in answer.stdout
    said = "nightly builds between are not searched: the package index"
    assert said in " ".join(answer.stdout.split())
    assert said in answer.stderr, "not before the search begins"
    assert "they leave their index" not in answer.stdout, "nobody knows whether any is left"


def test_an_index_that_is_down_ends_it_with_nothing_lost(nightly: Nightly) -> None:
    """Where it was to tell what an end is."""
    kept = nightly.tool.folder / "results.parquet"
    nightly.index.fault("/nightly/*", Fault(status=503))
    answer = nightly.bisect("case.py", "--good", "2.14.0", "--bad", "nightly")
    assert answer.code == 3
    assert "/nightly/cpu answers status 503 for torch" in answer.stderr
    assert answer.stdout == ""
    assert not kept.exists()
