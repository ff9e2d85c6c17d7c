"""``bisect-torch recheck`` end to end: an earlier run, a new release on a loopback index, what is said about it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bisect_torch.engine.earlier import Conditions, Earlier
from bisect_torch.engine.recheck import plan_recheck
from tests.engine.conftest import MakeTool
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import releases

CASES = """
import torch
from bisect_torch import case

@case(issue="https://github.com/pytorch/pytorch/issues/1")
def gets_fixed():
    assert torch.fixed() == 42

@case(n=[1, 2])
def stays(n):
    assert torch.stays(n) == 42

@case
def changes():
    torch.changes()

@case
def breaks():
    assert torch.breaks() == 42

@case
def always():
    assert torch.always() == 42
"""

OLD = """
def fixed(): return 41
def stays(n): return 41 if n == 1 else 42
def changes(): raise RuntimeError("no kernel in /home/someone/torch")
def breaks(): return 42
def always(): return 42
"""

NEW = """
def fixed(): return 42
def stays(n): return 41 if n == 1 else 42
def changes(): raise NotImplementedError("no kernel")
def breaks(): return 41
def always(): return 42
"""

ALL_RIGHT = """
def fixed(): return 42
def stays(n): return 42
def changes(): pass
def breaks(): return 42
def always(): return 42
"""

CANNOT_BE_IMPORTED = "raise ImportError('libcudart.so.99: cannot open shared object file')"


def recheck(tool: Tool, *words: str, **variables: str) -> Answer:
    own = ["--index-url", tool.index.url, "--store", str(tool.folder / "store")]
    return tool.call(tool.words("recheck", "results.parquet", *words, *own), **variables)


def changes(answer: Answer) -> dict[str, str]:
    return {row["instance"]: row["change"] for row in answer.data["rows"]}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """A run on 2.1.0 and 2.2.0, and an index that has newer releases of several kinds."""
    folder = tmp_path_factory.mktemp("recheck")
    bodies = {"2.1.0": ALL_RIGHT, "2.2.0": OLD, "2.3.0": NEW, "2.4.0": ALL_RIGHT, "2.5.0": CANNOT_BE_IMPORTED}
    with FakeIndex(releases(bodies)) as index:
        tool = Tool(folder, index)
        tool.write("cases.py", CASES)
        answer = tool.run("cases.py", "--from", "2.1.0", "--to", "2.2.0")
        assert answer.code == 1, answer.stderr
        yield tool


@pytest.fixture
def tool(ran: Tool) -> Tool:
    (ran.folder / "said.json").unlink(missing_ok=True)
    ran.write("cases.py", CASES)
    return ran


def test_what_was_bad_runs_again_and_each_row_says_what_became_of_it(tool: Tool) -> None:
    answer = recheck(tool, "--versions", "2.3.0", "--json")

    assert answer.code == 1, answer.stderr
    assert changes(answer) == {
        "gets_fixed": "fixed",
        "stays[n=1]": "still bad",
        "changes": "fails differently",
    }
    fixed = next(row for row in answer.data["rows"] if row["change"] == "fixed")
    assert fixed["after"]["processes"] >= 3
    assert fixed["after"]["own_process"]
    assert fixed["before"]["build"] == "2.2.0"


@pytest.mark.parametrize(
    ("words", "instances"),
    [
        (["-k", "stays or gets"], ["gets_fixed", "stays[n=1]"]),
        (["-k", "cases.py and not stays"], ["gets_fixed", "changes"]),
        (["-k", "stays[n=1]"], ["stays[n=1]"]),
        (["-k", "stays", "--all"], ["stays[n=1]", "stays[n=2]"]),
    ],
)
def test_some_rows_are_chosen_as_everywhere(tool: Tool, words: list[str], instances: list[str]) -> None:
    answer = recheck(tool, "--versions", "2.3.0", "--dry-run", "--json", *words)

    assert answer.code == 0, answer.stderr
    assert answer.data["instances"] == instances


def test_rows_that_do_not_fit_take_no_part(tool: Tool) -> None:
    none = recheck(tool, "--versions", "2.3.0", "-k", "softmax")
    good = recheck(tool, "--versions", "2.3.0", "-k", "always")
    some = recheck(tool, "--versions", "2.3.0", "-k", "gets_fixed", "--json", "-o", "some.parquet")

    assert (none.code, none.stdout) == (2, "")
    assert none.stderr == (
        "error: -k 'softmax' fits none of 6 instances\nhint: it looks at file::instance, such as cases.py::gets_fixed\n"
    )
    assert (good.code, good.stderr) == (0, "nothing is bad at the newest build of the rows that fit -k 'always'\n")
    assert (some.code, changes(some)) == (0, {"gets_fixed": "fixed"})


def test_a_dry_run_says_what_would_be_made_and_run_and_changes_nothing(tool: Tool) -> None:
    before = {path: path.read_bytes() for path in tool.folder.glob("*") if path.is_file()}
    begun = len(tool.index.begun)

    answer = recheck(tool, "--versions", "2.4.0", "--dry-run", "--state", "said.json", "-o", "dry.parquet")
    data = recheck(tool, "--versions", "2.4.0", "--all", "--dry-run", "--json").data

    assert answer.code == 0, answer.stderr
    first, *_, rows, one, two, three = answer.stdout.splitlines()
    assert first == "1 build: 0 environments are there, 1 to be made"
    assert (rows, one, two, three) == (
        "would run 3 instances on each build",
        "  gets_fixed",
        "  stays[n=1]",
        "  changes",
    )
    assert len(data["instances"]) == 6
    assert {path: path.read_bytes() for path in tool.folder.glob("*") if path.is_file()} == before
    assert not [path for path in tool.index.begun[begun:] if path.endswith(".whl")]


def test_with_all_what_was_ok_runs_too(tool: Tool) -> None:
    answer = recheck(tool, "--versions", "2.3.0", "--all", "--json")

    assert answer.code == 1
    assert changes(answer)["breaks"] == "newly bad"
    assert changes(answer)["always"] == "still ok"


def test_a_build_that_cannot_be_judged_is_exit_3(tool: Tool) -> None:
    answer = recheck(tool, "--versions", "2.5.0", "--json")

    assert answer.code == 3
    assert set(changes(answer).values()) == {"not judged"}
    assert "libcudart.so.99" in answer.data["rows"][0]["reason"]


def test_the_comment_has_what_an_issue_needs_and_nothing_private(tool: Tool) -> None:
    answer = recheck(tool, "--versions", "2.3.0", "--comment", "-")

    text = answer.stdout
    assert "<!-- https://github.com/pytorch/pytorch/issues/1 -->" in text
    assert "Checked again with **torch 2.3.0" in text
    assert "| `gets_fixed` | fails an assertion | ok, **fixed** |" in text
    assert "| `changes` | raises RuntimeError | raises NotImplementedError, **fails differently** |" in text
    assert "Python 3." in text
    assert "Before: torch 2.2.0" in text
    for private in (str(tool.folder), tool.folder.name, "/home", "someone", str(Path.home())):
        assert private not in text
    assert len(text.splitlines()) < 40


def test_a_state_says_a_thing_once(tool: Tool) -> None:
    """Nothing on stdout where nothing is new; the exit code tells the truth every day."""
    state = ("--state", "said.json", "-q")
    first = recheck(tool, "--versions", "2.3.0", *state)
    again = recheck(tool, "--versions", "2.3.0", *state)
    broken = recheck(tool, "--versions", "2.5.0", *state)
    broken_again = recheck(tool, "--versions", "2.5.0", *state)
    back = recheck(tool, "--versions", "2.3.0", *state)
    better = recheck(tool, "--versions", "2.4.0", *state)

    assert (first.code, again.code, broken.code, back.code, better.code) == (1, 1, 3, 1, 0)
    assert "1 fixed, 1 still bad, 1 fails differently" in first.stdout
    assert again.stdout == ""
    assert "3 not judged" in broken.stdout
    assert broken_again.stdout == ""
    assert back.stdout == ""
    assert "stays[n=1]: is ok now" in better.stdout
    assert "gets_fixed" not in better.stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"recheck_state": 7, "rows": {}}', '{"recheck_state": 1, "rows": 3}']
)
def test_a_file_that_is_no_state_is_refused_and_left_alone(tool: Tool, text: str) -> None:
    path = tool.write("said.json", text)

    answer = recheck(tool, "--versions", "2.3.0", "--state", "said.json")

    assert answer.code == 2
    assert "--state said.json" in answer.stderr
    assert path.read_text() == text


def test_a_changed_case_file_is_refused_run_or_skipped(tool: Tool) -> None:
    """An instance that it has lost is not judged."""
    tool.write("cases.py", CASES.replace("n=[1, 2]", "n=[2]"))

    refused = recheck(tool, "--versions", "2.4.0")
    run = recheck(tool, "--versions", "2.4.0", "--changed", "run", "--json")
    skipped = recheck(tool, "--versions", "2.4.0", "--changed", "skip", "--json")

    assert refused.code == 2
    assert "the case file cases.py has changed" in refused.stderr
    assert "--changed run" in refused.stderr
    assert run.code == 3, run.stderr
    assert changes(run) == {"gets_fixed": "fixed", "stays[n=1]": "not judged", "changes": "no longer bad"}
    assert any("cases.py has changed" in note for note in run.data["notes"])
    assert skipped.code == 3
    assert set(changes(skipped).values()) == {"not judged"}


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, "1 row was never judged in the earlier results, and is not run"),
        (2, "2 rows were never judged in the earlier results, and are not run"),
    ],
)
def test_rows_that_were_never_judged_are_counted(number: int, told: str) -> None:
    never = tuple(("cases.py", f"f[n={n}]", "cpu") for n in range(number))
    earlier = Earlier((), {}, {}, {}, {}, Conditions(), never_judged=never)
    assert plan_recheck(earlier, everything=True, changed="refuse").notes == (told,)


def test_a_case_file_that_is_gone_can_be_named(tool: Tool) -> None:
    (tool.folder / "elsewhere").mkdir(exist_ok=True)
    os.replace(tool.folder / "cases.py", tool.folder / "elsewhere" / "cases.py")

    gone = recheck(tool, "--versions", "2.4.0", "--changed", "run")
    named = recheck(tool, "elsewhere/cases.py", "--versions", "2.4.0", "--json")

    assert gone.code == 2
    assert "the case file cases.py is gone" in gone.stderr
    assert named.code == 0, named.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--versions", "2.3.0,2.4.0"), "recheck takes one build, and 2 are chosen: 2.3.0, 2.4.0"),
        (("--versions", "2.3.0", "-o", "results.parquet"), "-o is RESULTS itself"),
        (("--versions", "2.3.0", "--json", "--comment", "-"), "both want stdout"),
        (("--versions", "7.0.0"), "7.0.0"),
        (("--versions", "2.1.0"), "2.1.0 is older than 2.2.0, where the results have it: it cannot show a fix"),
    ],
)
def test_what_cannot_be_done_is_said(tool: Tool, words: Sequence[str], said: str) -> None:
    answer = recheck(tool, *words)

    assert answer.code == 2
    assert said in answer.stderr


def test_scripts_and_commands_run_again_with_their_options(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OLD, "2.2.0": NEW})
    tool.write("script.py", "import torch\nprint('gave', torch.fixed())\n")
    command = ("--", "python", "-c", "import torch, sys; sys.exit(torch.fixed() != 42)")
    tool.run("script.py", "--versions", "2.1.0", "--bad-if-output", "gave 41", *command)

    answer = recheck(tool, "--versions", "2.2.0", "--json")

    assert answer.code == 0, answer.stderr
    assert list(changes(answer).values()) == ["fixed", "fixed"]


def test_what_checks_nothing_is_no_longer_bad_and_not_fixed(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "def f(): raise RuntimeError('x')", "2.2.0": "def f(): return 1"})
    tool.write("script.py", "import torch\ntorch.f()\n")
    tool.write("checks.py", "import torch\nassert torch.f() == 1\n")
    tool.run("script.py", "checks.py", "--versions", "2.1.0")

    answer = recheck(tool, "--versions", "2.2.0", "--json")
    assert (answer.code, changes(answer)) == (0, {"script": "no longer bad", "checks": "fixed"})
    text, _, comment = recheck(tool, "--versions", "2.2.0").stdout.partition("a comment for")
    assert "script: is ok now, and checks nothing; raises RuntimeError on 2.1.0" in text
    assert "| `script.py: script` | raises RuntimeError | ok, **no longer bad** |" in comment
    assert "What is no longer bad checks nothing: it ran to its end in at least 3 processes" in comment


def test_what_is_still_bad_for_another_package_says_so_in_text_and_comment(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    tool.write("script.py", "import numpy, torch\nnumpy.trapz\n")
    tool.run("script.py", "--versions", "2.1.0")

    answer = recheck(tool, "--versions", "2.2.0")

    assert answer.code == 1, answer.stderr
    text, _, comment = " ".join(answer.stdout.split()).partition("a comment for")
    said = "the error comes from numpy 2.1.1: a package beside torch, so this may not be torch's fault"
    assert f"still raises AttributeError, as on 2.1.0; {said}" in text
    assert f"`script`: {said}" in comment


def test_nothing_bad_is_nothing_to_do(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": ALL_RIGHT, "2.2.0": ALL_RIGHT})
    tool.write("cases.py", CASES)
    tool.run("cases.py", "--versions", "2.1.0")

    answer = recheck(tool, "--versions", "2.2.0")

    assert (answer.code, answer.stdout) == (0, "")
    assert "nothing is bad" in answer.stderr
    assert json.loads((recheck(tool, "--versions", "2.2.0", "--all", "--json")).stdout)["exit_code"] == 0
