"""``recheck --nightly latest`` from end to end over HTTP: every outcome, a state, a comment, a build that is broken."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator

import pytest

from tests.support import nightlies
from tests.support.tool import Answer, Tool
from tests.support.wheels import fake_commit, fake_torch

CASES = """
import torch
from bisect_torch import case

@case(issue="https://github.com/pytorch/pytorch/issues/7")
def gets_fixed():
    assert torch.version.git_version != torch.old_commit

@case
def stays():
    assert torch.answer() == 40

@case
def changes():
    if torch.answer() == 42:
        raise RuntimeError("as it was")
    raise NotImplementedError("as it is")

@case
def breaks():
    assert torch.answer() == 42
"""

DAY_AFTER = nightlies.LAST + datetime.timedelta(days=1)
LATEST, BROKEN = nightlies.version(nightlies.LAST), f"2.16.0.dev{DAY_AFTER:%Y%m%d}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """Results on release 2.15.0, and the index of nightlies, the latest of which differs from it."""
    with nightlies.nightly_index() as index:
        tool = Tool(tmp_path_factory.mktemp("recheck"), index)
        tool.write("cases.py", CASES.replace("torch.old_commit", repr(fake_commit("2.15.0+cpu"))))
        answer = tool.run("cases.py", "--versions", "2.15.0", "--torch-backend", "cpu", **variables(tool))
        assert answer.code == 1, answer.stderr
        yield tool


def variables(tool: Tool) -> dict[str, str]:
    return {"BISECT_TORCH_BACKEND_INDEX": tool.index.base, "UV_HTTP_RETRIES": "0"}


def recheck(tool: Tool, *words: str, results: str = "results.parquet") -> Answer:
    own = ["--index-url", tool.index.url, "--store", str(tool.folder / "store")]
    return tool.call(tool.words("recheck", results, *words, *own), **variables(tool))


def changes(answer: Answer) -> dict[str, str]:
    return {row["instance"]: row["change"] for row in answer.data["rows"]}


def test_the_latest_nightly_is_compared_row_by_row(ran: Tool) -> None:
    """It is what is taken where no build is named; the backend is that of the earlier run."""
    answer = recheck(ran, "--all", "--json")

    assert answer.code == 1, answer.stderr
    assert changes(answer) == {
        "gets_fixed": "fixed",
        "stays": "still bad",
        "changes": "fails differently",
        "breaks": "newly bad",
    }
    build = answer.data["build"]
    assert (build["name"], build["kind"], build["day"]) == (LATEST, "nightly", nightlies.LAST.isoformat())
    assert build["git_commit"] == nightlies.commit(nightlies.LAST)
    assert build["torch_version"] == f"{LATEST}+cpu"
    assert all(row["after"]["processes"] >= 3 for row in answer.data["rows"])


def test_only_what_is_fixed_gives_0_and_the_comment_names_build_and_commit(ran: Tool) -> None:
    answer = recheck(ran, "--nightly", "latest", "--comment", "-")
    only = ran.run(
        "cases.py", "-k", "gets_fixed", "--versions", "2.15.0", "--torch-backend", "cpu", "-o", "fixed.parquet",
        **variables(ran),
    )  # fmt: skip
    good = recheck(ran, results="fixed.parquet")

    assert (answer.code, only.code, good.code) == (1, 1, 0)
    assert "1 fixed" in good.stdout
    assert "<!-- https://github.com/pytorch/pytorch/issues/7 -->" in answer.stdout
    assert f"Checked again with **torch {LATEST}+cpu" in answer.stdout
    assert nightlies.commit(nightlies.LAST)[:12] in answer.stdout
    assert "| `gets_fixed` | fails an assertion | ok, **fixed** |" in answer.stdout


def test_a_daily_job_says_a_thing_once_and_a_broken_night_is_exit_3(ran: Tool) -> None:
    """The night after brings a build that cannot be imported; the one after that is as the first was."""
    words = ("--nightly", "latest", "-q", "--state", "said.json")
    first = recheck(ran, *words)
    again = recheck(ran, *words)
    broken = fake_torch(f"{BROKEN}+cpu", "raise ImportError('undefined symbol')", requires=["triton"])
    ran.index.add(broken, shelf="nightly/cpu")
    shutil.rmtree(ran.folder / "store" / "index-cache")  # ten minutes pass
    night = recheck(ran, *words)
    night_again = recheck(ran, *words, "--json")
    back = recheck(ran, "--nightly", nightlies.LAST.isoformat(), *words[2:])

    assert (first.code, again.code, night.code, night_again.code, back.code) == (1, 1, 3, 3, 1)
    assert "1 fixed, 1 still bad, 1 fails differently" in first.stdout
    assert again.stdout == ""
    assert "3 not judged" in night.stdout
    assert "undefined symbol" in night.stdout
    assert changes(night_again) == dict.fromkeys(("gets_fixed", "stays", "changes"), "not judged")
    assert not any(row["news"] for row in night_again.data["rows"])
    assert back.stdout == ""


def test_where_the_index_of_the_nightly_that_nobody_named_is_not_reached_a_build_can_be_named(ran: Tool) -> None:
    own = ["--index-url", ran.index.url, "--store", str(ran.folder / "store")]
    gone = {**variables(ran), "BISECT_TORCH_BACKEND_INDEX": "http://127.0.0.1:9"}
    hints = []
    for words in ((), ("--nightly", "latest")):
        answer = ran.call(ran.words("recheck", "results.parquet", *words, *own), **gone)
        assert answer.code == 3
        hints.append(answer.stderr.splitlines()[-1])
    instead = "hint: name a build with --versions; without one it is the latest nightly: check the network and"
    assert [hint.startswith(instead) for hint in hints] == [True, False]


def test_a_comment_that_was_edited_by_hand_is_kept_beside_the_new_one(ran: Tool) -> None:
    written = ran.folder / "comment.md"
    written.write_text("by hand")
    answer = recheck(ran, "--nightly", "latest", "--comment", str(written))
    assert f"; what was there is now {written}~\n" in answer.stderr
    assert (ran.folder / "comment.md~").read_text() == "by hand"
    assert "Checked again with" in written.read_text()
