"""What is removed when a store has grown, and what stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_torch import environments
from bisect_torch.cli.main import main
from bisect_torch.environments.pruning import DAY_S, aged, files_of, to_fit
from tests.environments.conftest import Workshop


@pytest.fixture
def three(workshop: Workshop) -> Workshop:
    """Three environments, unused for 30, 20 and 10 days."""
    for version, days in (("2.4.1", 30), ("2.5.0", 20), ("2.6.0", 10)):
        environment, _ = workshop.ensure(version)
        then = time.time() - days * DAY_S
        (workshop.store.uses / f"{environment.root.name}.use").touch()
        os.utime(workshop.store.uses / f"{environment.root.name}.use", (then, then))
    return workshop


def versions(store: environments.Store) -> list[str]:
    return [each.build.version for each in environments.list_environments(store)]


def prune(workshop: Workshop, *words: str) -> int:
    return main(["envs", "prune", *words, "--store", str(workshop.store.root)])


def test_what_no_run_has_used_for_so_long(three: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    assert prune(three, "--unused", "15", "--dry-run") == 0
    said = capsys.readouterr().out
    assert versions(three.store) == ["2.4.1", "2.5.0", "2.6.0"]
    assert prune(three, "--unused", "15") == 0
    assert versions(three.store) == ["2.6.0"]
    assert capsys.readouterr().out == said
    assert [Path(line).name.partition("-")[0] for line in said.splitlines()] == ["2.4.1", "2.5.0"]


def test_none_was_made_so_long_ago(three: Workshop) -> None:
    assert prune(three, "--older", "1") == 0
    assert len(versions(three.store)) == 3


def test_the_longest_unused_goes_first_until_the_store_is_small_enough(three: Workshop) -> None:
    found = aged(three.store)
    files, rest = files_of(three.store, found)
    everything = rest + sum({inode: size for some in files.values() for inode, size in some.items()}.values())
    assert to_fit(found, files, rest, everything) == ()
    assert [each.build.version for each in to_fit(found, files, rest, everything - 1)] == ["2.4.1"]
    assert [each.build.version for each in to_fit(found, files, rest, 0)] == ["2.4.1", "2.5.0", "2.6.0"]


def test_what_is_left_is_whole_and_what_was_removed_can_be_made_again(three: Workshop) -> None:
    assert prune(three, "--unused", "25") == 0
    assert three.ensure("2.6.0")[1]
    assert not three.ensure("2.4.1")[1]


def test_the_cache_is_emptied_since_it_would_hold_what_was_removed(three: Workshop) -> None:
    before = three.store.used_bytes()
    assert prune(three, "--unused", "1") == 0
    assert three.store.used_bytes() < before / 2


def test_what_a_run_uses_stays_and_the_exit_code_says_so(three: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(each.root.name for each in environments.list_environments(three.store) if each.build.version == "2.4.1")
    program = (
        "import sys; from bisect_torch.environments import Store, Uses; from pathlib import Path;"
        "uses = Uses(Store.open(Path(sys.argv[1]))); uses.take(sys.argv[2]); print(flush=True); sys.stdin.read()"
    )
    using = subprocess.Popen(
        [sys.executable, "-c", program, str(three.store.root), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert using.stdout is not None
    using.stdout.readline()
    then = time.time() - 30 * DAY_S
    os.utime(three.store.uses / f"{name}.use", (then, then))
    assert prune(three, "--unused", "15") == 3
    assert versions(three.store) == ["2.4.1", "2.6.0"]
    assert "is used by a run at this moment" in capsys.readouterr().err
    using.kill()  # however it ends
    using.communicate()
    assert prune(three, "--unused", "15") == 0
    assert versions(three.store) == ["2.6.0"]


def test_nothing_without_a_stamp_and_nothing_outside_the_store_is_removed(three: Workshop, tmp_path: Path) -> None:
    foreign = three.store.envs / "mine"
    foreign.mkdir()
    outside = tmp_path / "outside"
    shutil.copytree(next(three.store.envs.glob("2.4.1-*")), outside, symlinks=True)
    (three.store.envs / "2.3.0-py3.11-pypi-000000000000").symlink_to(outside)
    prune(three, "--unused", "0.001")
    assert foreign.is_dir()
    assert (outside / "bin" / "python").exists()


def test_it_must_be_said_what_to_prune(workshop: Workshop) -> None:
    assert prune(workshop) == 2
