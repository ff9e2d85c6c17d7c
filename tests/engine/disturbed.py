"""Runs that are disturbed, and what must hold of the run that goes on after them."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from bisect_torch.results import ResultsFile
from bisect_torch.worker import system
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import releases

BODIES = {
    "2.1.0": "import time\ntime.sleep(0.05)\ndef answer(): return 42",
    "2.2.0": "import time\ntime.sleep(0.05)\ndef answer(): return 41",
}

CASES = """
import os, subprocess, time
import torch
from bisect_torch import case

NAMES = [str(number) for number in range(len(torch.__version__.split(".")) - 1)]

@case(name=NAMES)
def answers(name):
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open(os.environ["TEST" + "_LOG"], "a") as log:
        log.write(f"{torch.__version__} answers[name={name}]\\n")
    assert torch.answer() == 42
"""
"""Its parameters need torch; each of its cells leaves a process in a session of its own. A variable whose whole name
stood there would be part of what its results are kept under, and each place has a log of its own."""

RESULTS = "results.parquet"

Cell = tuple[str, int]
"""Key and repeat."""


@dataclass(frozen=True)
class Row:
    verdict: str
    signature: str
    run_id: str
    build: str
    instance: str

    @property
    def judged(self) -> tuple[str, str]:
        return self.verdict, self.signature


def eventually(condition: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return condition()
        time.sleep(0.01)
    return True


@dataclass
class Place:
    """A folder with cases, a store of its own and a temporary folder of its own."""

    tool: Tool
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def make(cls, folder: Path, index: FakeIndex, *, store: Path | None = None) -> Place:
        """
        Args:
            store: To be copied, with hard links: environments that are there already.
        """
        folder.mkdir(parents=True)
        place = cls(Tool(folder, index))
        place.tool.write("cases.py", CASES)
        place.temporary.mkdir()
        if store is not None:
            shutil.copytree(store, place.store, symlinks=True, copy_function=os.link)
        return place

    @property
    def folder(self) -> Path:
        return self.tool.folder

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def temporary(self) -> Path:
        return self.folder / "t"

    def words(self, *more: str) -> list[str]:
        return self.tool.run_words("cases.py", "--from", "2.1.0", "--jobs", "2", "-o", RESULTS, *more)

    @property
    def variables(self) -> dict[str, str]:
        return self.tool.variables(TEST_MARK=self.mark, TEST_LOG=str(self.folder / "log"), TMPDIR=str(self.temporary))

    def start(self, words: list[str] | None = None, **variables: str) -> subprocess.Popen[str]:
        """A run that goes on; the caller ends it."""
        return subprocess.Popen(
            words or self.words(),
            cwd=self.folder,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> Answer:
        with self.start() as process:
            stdout, stderr = process.communicate(timeout=300)
        return Answer(process.returncode, stdout, stderr)

    def alive(self) -> set[int]:
        """Every process that descends from a run here."""
        return system.marked_processes(f"TEST_MARK={self.mark}")

    def logged(self) -> Counter[str]:
        """How often each cell has really run."""
        log = self.folder / "log"
        return Counter(log.read_text().splitlines() if log.exists() else ())

    def recorded(self) -> dict[Cell, str]:
        """Cells that the results and the journal hold, and by which run."""
        if not any((self.folder / name).exists() for name in (RESULTS, RESULTS + ".journal")):
            return {}
        with ResultsFile.open(self.folder / RESULTS) as results:
            return {(each.key, each.repeat): each.run_id for each in results.observations()}

    def observed(self) -> list[tuple[str, int, str]]:
        """Key, repeat and run of everything in the Parquet file."""
        table = pq.read_table(self.folder / RESULTS, columns=["key", "repeat", "run_id"]).to_pylist()
        return [(row["key"], row["repeat"], row["run_id"]) for row in table]

    def all_rows(self) -> list[tuple[Cell, Row]]:
        """What stands in the Parquet file: of a cell and repeat, one row for each run that ran it."""
        columns = ["key", "repeat", "verdict", "signature", "run_id", "build", "instance"]
        table = pq.read_table(self.folder / RESULTS, columns=columns).to_pylist()
        return [((row.pop("key"), row.pop("repeat")), Row(**row)) for row in table]

    def rows(self) -> dict[Cell, Row]:
        """The same; every cell and repeat once."""
        every = self.all_rows()
        rows = dict(every)
        assert len(rows) == len(every), "a cell stands there twice"
        return rows

    def left_over(self) -> list[str]:
        """Everything of which nothing may remain after a run."""
        found = [*(self.store / "tmp").iterdir(), *(self.store / "quarantine").iterdir(), *self.temporary.iterdir()]
        found += [*self.folder.glob(".*.part"), *self.folder.glob("*.journal")]
        kept = {"index-cache": ".json", "expansions": ".json", "locks": ".lock"}
        found += [each for name in kept for each in (self.store / name).iterdir() if each.suffix != kept[name]]
        found += (self.store / "uv-cache").glob(".tmp*")
        found += sorted((self.store / "staged").iterdir())[1:]
        return [str(path.relative_to(self.folder)) for path in found]


@dataclass(frozen=True)
class Undisturbed:
    """The run that nobody disturbed.

    Args:
        rows: Cell to what was found.
        environments: Names of the folders.
        seconds: How long it took, from nothing.
    """

    place: Place
    rows: Mapping[Cell, Row]
    environments: set[str]
    seconds: float

    @property
    def store(self) -> Path:
        """Its store without what only the run itself needs: expansions and staged package."""
        return self.place.store


def undisturbed(folder: Path, index: FakeIndex) -> Undisturbed:
    place = Place.make(folder, index)
    begin = time.monotonic()
    answer = place.run()
    seconds = time.monotonic() - begin
    assert answer.code == 1, answer.stderr
    assert place.left_over() == []
    rows = place.rows()
    assert {row.verdict for row in rows.values()} == {"ok", "wrong"}, answer.stdout
    assert sum(place.logged().values()) == len(rows)
    for name in ("expansions", "staged"):
        for path in (place.store / name).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Undisturbed(place, rows, {path.name for path in (place.store / "envs").iterdir()}, seconds)


def check_goes_on(place: Place, whole: Undisturbed, before: Mapping[Cell, str]) -> None:
    """Resume, and compare with the undisturbed run.

    Args:
        before: What :meth:`Place.recorded` gave after the disturbance.
    """
    logged = place.logged()
    answer = place.run()
    assert answer.code == 1, answer.stderr
    assert "Traceback" not in answer.stderr, answer.stderr
    rows = place.rows()
    assert {cell: row.judged for cell, row in rows.items()} == {cell: row.judged for cell, row in whole.rows.items()}
    assert {cell: rows[cell].run_id for cell in before} == dict(before), "what was recorded ran again or was lost"
    earlier = set(before.values())
    new = Counter(f"{row.build} {row.instance}" for row in rows.values() if row.run_id not in earlier)
    assert place.logged() - logged == new, "more ran than what was missing"
    assert place.left_over() == []
    assert {path.name for path in (place.store / "envs").iterdir()} == whole.environments
    assert eventually(lambda: place.alive() == set(), 3.0), place.alive()


def index_of_two() -> FakeIndex:
    return FakeIndex(releases(BODIES))
