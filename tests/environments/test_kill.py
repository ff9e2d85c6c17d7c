"""``kill -9`` at any moment leaves nothing that a later run would use, and two runs do not build one thing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.environments.conftest import Workshop
from tests.support.index import Fault
from tests.support.wheels import fake_torch

ROOT = Path(__file__).resolve().parents[2]

_RUN = """
import os, sys, time
from pathlib import Path
from bisect_torch.environments import EnvironmentOptions, Store, ensure, install
from bisect_torch.environments import stamp
from bisect_torch.releases.index import IndexOptions, list_builds

store, index, version, moment = sys.argv[1:]
options = EnvironmentOptions(Store.open(Path(store)), python=sys.executable, index=IndexOptions(index))
build = next(build for build in list_builds(options.index) if build.version == version)

def stop_at(owner, name):
    def stop(*arguments, **named):
        print("here", flush=True)
        time.sleep(60)
    setattr(owner, name, stop)

if moment == "before the stamp":
    stop_at(stamp, "write")
elif moment == "before the rename":
    class Os:
        def __getattr__(self, name):
            return getattr(os, name)
    install.os = Os()
    stop_at(install.os, "rename")
elif moment == "before the control case":
    stop_at(install.control, "base")

def progress(event):
    if moment == "while downloading" and event.phase == "downloading":
        print("here", flush=True)

environment, reused = ensure(build, options, progress=progress)
print(environment.root, reused)
"""


def _start(workshop: Workshop, version: str, moment: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _RUN, str(workshop.store.root), workshop.index.url, version, moment]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def _alive(store: Path) -> list[str]:
    """Command lines of processes that work in a store."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(os.fsencode(store) in word for word in words):
            found.append(b" ".join(words).decode())
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children die with the orchestrator on Linux only")
@pytest.mark.parametrize(
    "moment", ["while downloading", "before the control case", "before the stamp", "before the rename"]
)
def test_a_killed_run_leaves_nothing_that_is_used(workshop: Workshop, moment: str) -> None:
    workshop.serve(fake_torch("2.7.0", padding=2_000_000, upload_time="2025-01-01"))
    if moment == "while downloading":
        workshop.index.fault("*/torch-2.7.0-*.whl", Fault(bytes_per_second=200_000, times=1))
    child = _start(workshop, "2.7.0", moment)
    assert child.stdout is not None
    with child.stdout as stdout:
        assert stdout.readline() == "here\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert list(workshop.store.envs.iterdir()) == []
    assert workshop.left_behind() != []
    deadline = time.monotonic() + 5
    while _alive(workshop.store.root) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _alive(workshop.store.root) == []
    workshop.store.sweep_leftovers()
    assert workshop.left_behind() == []
    environment, reused = workshop.ensure("2.7.0")
    assert reused is False
    assert (environment.root / "lib").is_dir()
    assert workshop.ensure("2.7.0")[1] is True


def test_what_another_run_is_making_is_not_swept_away(workshop: Workshop) -> None:
    child = _start(workshop, "2.4.1", "before the stamp")
    assert child.stdout is not None
    with child.stdout as stdout:
        assert stdout.readline() == "here\n"
        making = workshop.left_behind()
        workshop.store.sweep_leftovers()
        assert workshop.left_behind() == making
        assert len(making) == 1
        child.kill()
        child.wait()


def test_two_runs_at_once_build_an_environment_once(workshop: Workshop) -> None:
    workshop.serve(fake_torch("2.7.0", padding=500_000, upload_time="2025-01-01"))
    workshop.index.fault("*/torch-2.7.0-*.whl", Fault(bytes_per_second=500_000))
    children = [_start(workshop, "2.7.0", "") for _ in range(3)]
    answers = [child.communicate()[0].split() for child in children]
    assert sorted(answer[1] for answer in answers) == ["False", "True", "True"]
    assert len({answer[0] for answer in answers}) == 1
    assert len(workshop.index.requested("/files/torch-2.7.0-*.whl")) == 1
    assert workshop.left_behind() == []
