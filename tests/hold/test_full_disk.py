"""A real file system that becomes full: nothing is misjudged, nothing corrupt, and the next run has what was there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.environments import Store, list_environments
from bisect_torch.results import ResultsFile
from tests.engine.disturbed import BODIES, RESULTS, Place, Row, Undisturbed, eventually, undisturbed
from tests.hold.filling import MOMENTS, fill
from tests.support.index import FakeIndex
from tests.support.mounting import mounted
from tests.support.tally import Tally
from tests.support.tool import Answer
from tests.support.wheels import fake_numpy, fake_setuptools, fake_torch

MIB = 2**20
SIZE_MIB = 1500
"""A reserve of 1 GB is left free by the plan, and an environment is counted with 60 MB of bytecode. It is memory."""

WHEEL = 6 * MIB
SAID = ("no space left", "disk is full", "disk is too small")
DAYS = {"2.1.0": "2024-09-04", "2.2.0": "2024-10-14"}
OFTEN = {"download", "a record", "Parquet"}
"""The moments of which one stands for its neighbours in the fast set."""


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    torches = [fake_torch(name, body, padding=WHEEL, upload_time=DAYS[name]) for name, body in BODIES.items()]
    before = "2024-08-01"
    with FakeIndex([*torches, fake_numpy(upload_time=before), fake_setuptools(upload_time=before)]) as index:
        yield index


@pytest.fixture(scope="module")
def whole(index: FakeIndex, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("whole") / "w", index)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    with mounted(tmp_path / "disk", f"size={SIZE_MIB}m,nr_inodes=0") as folder:
        yield folder


def place_on(disk: Path, index: FakeIndex, *, cold: bool) -> Place:
    place = Place.make(disk / "p", index)
    if not cold:
        versions = ",".join(BODIES)
        words = ["envs", "build", "--versions", versions, "--index-url", index.url, "--python", place.tool.python]
        made = place.tool.call([*place.tool.words(*words), "--store", str(place.store)], TMPDIR=str(place.temporary))
        assert made.code == 0, made.stderr
    return place


def run_until_full(place: Place, moment: str, filler: Path) -> Answer:
    words = place.words()
    words[1:3] = ["-m", "tests.hold.filling", moment]
    with place.start(words, TEST_FILLER=str(filler)) as process:
        stdout, stderr = process.communicate(timeout=300)
    assert filler.exists(), f"the moment did not come: {stderr}"
    return Answer(process.returncode, stdout, stderr)


def judged(place: Place) -> dict[tuple[str, int], Row]:
    """What is known of cells; of which nothing is said about the build is left out."""
    if not any((place.folder / name).exists() for name in (RESULTS, RESULTS + ".journal")):
        return {}
    with ResultsFile.open(place.folder / RESULTS) as results:
        assert results.problems == (), "something is corrupt"
        rows = [(each.key, each.repeat, each) for each in results.observations()]
    return {(key, repeat): each for key, repeat, each in rows if each.outcome in ("returned", "raised")}  # type: ignore[misc]


def check_right(place: Place, whole: Undisturbed) -> tuple[int, int]:
    """Cells lost and misjudged in the Parquet file."""
    found: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for cell, row in place.all_rows():
        if row.verdict != "infra":
            found.setdefault(cell, set()).add(row.judged)
    lost = whole.rows.keys() - found.keys()
    wrong = [cell for cell, row in whole.rows.items() if found.get(cell, {row.judged}) != {row.judged}]
    return len(lost), len(wrong)


@pytest.mark.parametrize(
    "moment", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in MOMENTS]
)
def test_a_disk_that_becomes_full(moment: str, disk: Path, index: FakeIndex, whole: Undisturbed, tally: Tally) -> None:
    place = place_on(disk, index, cold=MOMENTS[moment].cold)
    filler = disk / "filler"

    answer = run_until_full(place, moment, filler)

    tally.row("full disk", (moment, f"exit {answer.code}", first_word_of(answer)))
    assert answer.code == 3, answer.stderr
    assert "Traceback" not in answer.stderr
    assert any(words in answer.stderr.lower() for words in SAID), answer.stderr
    before = judged(place)
    assert before.keys() <= whole.rows.keys()
    standing = {each.root.name for each in list_environments(Store(place.store))}
    ran = place.logged()
    filler.unlink()
    index.requests.clear()

    again = place.run()

    assert again.code == 1, again.stderr
    lost, misjudged = check_right(place, whole)
    tally.add("real full file system", tried=1, survived=1, lost=lost, misjudged=misjudged)
    assert (lost, misjudged) == (0, 0)
    with ResultsFile.open(place.folder / RESULTS) as results:
        kept = {(each.key, each.repeat, each.run_id) for each in results.observations()}
    assert {(*cell, row.run_id) for cell, row in before.items()} <= kept, "what was recorded was lost"
    assert sum((place.logged() - ran).values()) == len(whole.rows) - len(before), "more ran than what was missing"
    downloads = {each.path.split("-")[1] for each in index.requested("/files/torch-*.whl") if each.range is None}
    assert downloads.isdisjoint(name.partition("-")[0] for name in standing), "an environment was made twice"
    assert {path.name for path in (place.store / "envs").iterdir()} == whole.environments
    assert place.left_over() == []
    assert eventually(lambda: place.alive() == set(), 5.0)


def first_word_of(answer: Answer) -> str:
    """The line that says it."""
    lines = [line for line in answer.stderr.splitlines() if any(words in line.lower() for words in SAID)]
    return lines[0].strip()[:100] if lines else "nothing"


@pytest.mark.parametrize("name", ["report.md", "report.html", "report.json"])
def test_a_report_that_does_not_fit_is_not_there(
    name: str, disk: Path, whole: Undisturbed, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    source = whole.place.folder / RESULTS
    kind = {"md": "markdown"}.get(name.rpartition(".")[2], name.rpartition(".")[2])
    words = whole.place.tool.words("report", str(source), "--format", kind, "-o", str(disk / name))
    monkeypatch.setenv("TEST_FILLER", str(disk / "filler"))
    fill(0)

    answer = whole.place.tool.call(words)

    assert answer.code == 3, answer
    assert "no space left" in answer.stderr.lower()
    assert "Traceback" not in answer.stderr
    assert [path.name for path in disk.iterdir()] == ["filler"], "half a report is there"
    (disk / "filler").unlink()
    assert whole.place.tool.call(words).code == 0
    first = (disk / name).read_bytes()
    (disk / name).write_bytes(first + b"the report of before")
    fill(0)
    assert whole.place.tool.call(words).code == 3
    assert (disk / name).read_bytes() == first + b"the report of before"
    tally.add("report on a full file system", tried=1, survived=1)
    assert os.stat(disk / name).st_size > 0


def test_a_script_from_a_report_that_does_not_fit_is_not_there(
    disk: Path, whole: Undisturbed, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    report = whole.place.tool.write("report.md", "```python\nimport torch\nprint(torch.ones(3))\n```\n")
    words = whole.place.tool.words("new", str(report), "-o", str(disk / "repro.py"))
    monkeypatch.setenv("TEST_FILLER", str(disk / "filler"))
    fill(0)

    answer = whole.place.tool.call(words)

    assert answer.code == 3, answer
    assert "No space left on device" in answer.stderr
    assert [path.name for path in disk.iterdir()] == ["filler"]
    (disk / "filler").unlink()
    assert whole.place.tool.call(words).code == 0
    tally.add("report on a full file system", tried=1, survived=1)
