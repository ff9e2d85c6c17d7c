"""A line that is run again finds every cell known, and loads no more than it takes to find and to show them."""

from __future__ import annotations

import importlib.util
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.environments import EnvironmentOptions, Store, pythons, stamp
from bisect_torch.environments.wanted import wanted
from bisect_torch.model import Build, Environment
from bisect_torch.releases.index import IndexOptions, list_builds
from bisect_torch.releases.platforms import Target, this_python
from bisect_torch.releases.sizes import known_wheels
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import Wheel, fake_numpy, fake_setuptools, fake_torch

RUNNING_CELLS = (
    *("engine.cell_request", "engine.conditions", "engine.executor", "engine.sessions", "engine.worker_process"),
    *("numerics.guard.settings", "worker.protocol"),
)
MAKING_ENVIRONMENTS = (
    "child_processes",
    "environments.backends",
    "environments.control",
    "environments.install",
    "environments.progress",
    "environments.resolving",
    "environments.sealing",
    "environments.short_disk",
    "environments.sizing",
    "environments.uv",
    "environments.uv_said",
    "releases.nightly_ledger",
    "releases.served",
    "releases.sizes",
    "uv_program",
)
TELLING_OF_WHAT_IS_NOT_THERE = ("analysis.decoding", "report.decoding", "report.dependencies", "report.predictions")
LIBRARIES = (
    *("asyncio", "filelock", "packaging.requirements", "platformdirs", "pyarrow.compute"),
    *("pypi_simple", "requests", "rich", "statistics"),
)
"""rich is for a terminal, which the output of the tests is none of."""

NOT_LOADED = {
    *(f"bisect_torch.{name}" for name in (*RUNNING_CELLS, *MAKING_ENVIRONMENTS, *TELLING_OF_WHAT_IS_NOT_THERE)),
    *LIBRARIES,
}

CASES = """\
import torch
from bisect_torch import case

@case(n=list(range({count})))
def adds(n):
    assert torch.equal(torch.tensor([n]) + torch.tensor([1]), torch.tensor([n + 1]))
"""


def committed(number: int) -> list[Wheel]:
    """As an index shows the newest releases whose locks are committed, by the hashes of their real wheels."""
    target = Target(this_python())
    torch = [each for each in known_wheels().values() if each.project == "torch" and target.fits(each.filename)]
    newest = sorted(torch, key=lambda each: tuple(map(int, each.version.split("."))))[-number:]
    return [
        Wheel(each.filename, b"", "torch", each.version, b"", upload_time=None, claimed_sha256=each.sha256)
        for each in newest
    ]


def make_environment(build: Build, options: EnvironmentOptions) -> Path:
    """The environment of a release as if it had been installed from its committed lock, with a fake torch in it."""
    want = wanted(build, options, this_python())
    assert want.lock.committed
    site = want.root / f"lib/python{this_python()}/site-packages"
    site.mkdir(parents=True)
    for wheel in (fake_torch(build.version, git_commit=build.git_commit), fake_numpy(), fake_setuptools()):
        zipfile.ZipFile(io.BytesIO(wheel.content)).extractall(site)
    (want.root / "bin").mkdir()
    (want.root / "bin" / "python").symlink_to(want.interpreter.base)
    (want.root / "pyvenv.cfg").write_text(f"home = {want.interpreter.base.parent}\n")
    environment = Environment(
        build=build,
        root=want.root,
        python=want.root / "bin" / "python",
        python_version=want.interpreter.version,
        lock_hash=want.lock.hash,
        packages={pin.project: pin.version for pin in want.lock.pins},
        torch_version=build.version,
        git_commit=build.git_commit,
        cuda=None,
        backend="pypi",
    )
    stamp.write(environment, "0")
    return site


class Ready:
    """A tool whose store has the environments of two releases."""

    def __init__(self, folder: Path, index: FakeIndex) -> None:
        self.tool = Tool(folder, index, this_python())
        options = EnvironmentOptions(Store.open(folder / "store"), index=IndexOptions(index_url=index.url))
        builds = list_builds(options.index, python=this_python())
        self.sites = [make_environment(build, options) for build in builds]
        self.words = ["cases.py", "--versions", ",".join(build.name for build in builds)]

    def write_cases(self, count: int) -> None:
        self.tool.write("cases.py", CASES.format(count=count))

    def run(self) -> tuple[Answer, set[str]]:
        """The answer of a run, and what it loaded."""
        python, *words = self.tool.run_words(*self.words)
        answer = self.tool.call([python, "-X", "importtime", *words])
        loaded = re.findall(r"^import time: .* (\S+)$", answer.stderr, re.MULTILINE)
        return answer, set(loaded)


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[Ready]:
    if pythons.own_interpreter() is None:
        pytest.skip("no torch is made for this Python")
    with FakeIndex(committed(2), upload_times=False) as index:
        made = Ready(tmp_path, index)
        made.write_cases(2)
        yield made


def test_a_run_that_knows_every_cell_loads_what_shows_them_and_nothing_that_runs_one(ready: Ready) -> None:
    ready.write_cases(10)  # with 20 cells they are looked up as columns
    first, loaded = ready.run()
    assert first.code == 0, first.stderr
    assert "bisect_torch.engine.executor" in loaded
    again, loaded = ready.run()
    assert again.code == 0, again.stderr
    assert "20 cells, 20 known from before" in again.stderr
    assert again.stdout.partition("20 cells, all known from before: ")[0] == first.stdout.partition("20 cells in")[0]
    assert sorted(NOT_LOADED & loaded) == []
    assert {"bisect_torch.engine.run", "bisect_torch.results.parquet"} <= loaded


def test_what_is_new_runs_all_the_same(ready: Ready) -> None:
    ready.run()
    ready.write_cases(3)
    again, loaded = ready.run()
    assert again.code == 0, again.stderr
    assert "6 cells" in again.stderr
    assert "known from before" not in again.stderr, "the case file is another one"
    assert "bisect_torch.engine.executor" in loaded


def test_an_environment_that_changed_is_found_when_it_is_used_and_not_before(ready: Ready) -> None:
    ready.run()
    torch = ready.sites[0] / "torch" / "__init__.py"
    torch.write_text(torch.read_text() + "\nequal = lambda a, b: False\n")
    known, _ = ready.run()
    assert known.code == 0
    assert "4 known from before" in known.stderr
    assert "quarantined" not in known.stderr
    ready.write_cases(1)
    used, _ = ready.run()
    assert "quarantined: changed since it was made: " in used.stderr
    assert "torch/__init__.py is changed" in used.stderr
    assert "wrong" not in used.stdout


def test_what_is_not_to_be_loaded_is_there() -> None:
    own = {name for name in NOT_LOADED if name.startswith("bisect_torch.")}
    assert [name for name in sorted(own) if importlib.util.find_spec(name) is None] == []
