"""A store that takes no more: what would only have saved time another day is a note, and the run goes on.

A folder in the place of the file stands for the full disk: neither can be written over. ``tests/hold`` has real ones.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bisect_torch.engine.events import BuildProgress
from bisect_torch.environments import Uses, ensure
from bisect_torch.releases import IndexOptions, Selection, choose_builds
from bisect_torch.releases.nightly_ledger import NightlyLedger
from tests.engine.test_suites import cells, tool, write
from tests.environments.conftest import Workshop, workshop
from tests.support import nightlies
from tests.support.nightlies import nightly_index
from tests.support.tool import Tool

__all__ = ["tool", "workshop"]


def blocked(path: Path) -> None:
    """Nothing can be written there any more."""
    path.unlink(missing_ok=True)
    (path / "in the way").mkdir(parents=True)


def test_what_pytest_collects_is_not_kept_and_the_run_goes_on(tool: Tool) -> None:
    write(tool, "tests/test_it.py", "import torch\n\ndef test_answer():\n    assert torch.answer() == 42\n")
    words = ("--from", "2.1.0", "--json", "--pytest", "tests")
    first = tool.run(*words)
    assert tool.store is not None
    (kept,) = (tool.store / "expansions").glob("suite-*.json")
    blocked(kept)

    answer = tool.run("--fresh", *words)

    assert (answer.code, cells(answer)) == (1, cells(first)), answer.stderr
    notes = [line for line in answer.stderr.splitlines() if "not kept" in line]
    assert notes == [f"note: what pytest collects is not kept: {os.strerror(errno.EISDIR)}"]


def test_nightly_builds_are_known_though_they_cannot_be_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their commits, and not as if the index were down."""
    ledger = tmp_path / "ledger.json"
    blocked(tmp_path / "ledger.json.lock")
    notes: list[str] = []
    with nightly_index() as index:
        monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", index.base)
        builds = choose_builds(
            Selection(versions=("2026-11-27", "nightly")),
            IndexOptions(index.url),
            backend="cpu",
            ledger=ledger,
            note=notes.append,
        )
    assert [build.version for build in builds] == [nightlies.name(27), nightlies.name(28)]
    assert [build.git_commit for build in builds] == [nightlies.commit(nightlies.november(day)) for day in (27, 28)]
    assert notes == [f"what was learnt about nightly builds is not kept: {os.strerror(errno.EISDIR)}"]
    assert not ledger.exists()
    assert NightlyLedger(ledger).wheels() == ()


def test_an_environment_that_cannot_be_marked_as_used_is_used_all_the_same(workshop: Workshop) -> None:
    build = workshop.build("2.4.1")
    made, _ = workshop.ensure(build)
    blocked(workshop.store.uses / f"{made.root.name}.use")
    events: list[BuildProgress] = []

    environment, reused = ensure(build, workshop.options, progress=events.append, uses=Uses(workshop.store))

    assert (environment.root, reused) == (made.root, True)
    assert [event.message for event in events if event.message] == [
        f"not marked as used, so that envs prune may remove it meanwhile: {os.strerror(errno.EISDIR)}"
    ]
