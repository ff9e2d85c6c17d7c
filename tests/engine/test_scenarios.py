"""Named histories, end to end: real uv, a real index on loopback, real processes, small fake torch wheels."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field

import pytest

from tests.engine.conftest import MakeTool

OK = "def answer(): return 42"
WRONG = "def answer(): return 41"
RAISES = "def answer(): raise RuntimeError('no kernel')"
RAISES_OTHER = "def answer(): raise NotImplementedError('no kernel')"
DIES = "import os, signal\ndef answer(): os.kill(os.getpid(), signal.SIGSEGV)"
ABSENT = ""
CANNOT_BE_IMPORTED = "raise ImportError('libcudart.so.99: cannot open shared object file')"
# Wrong and right by turns, as hash seeds and address layouts make real cases, but not by chance: a build that happens
# to give one answer often enough is told as wrong, and rightly.
FLAKY = """
import os

def answer():
    with open(f"{__file__}.runs", "a") as runs:
        runs.write("x")
    return 41 if os.path.getsize(f"{__file__}.runs") % 2 else 42
"""

CASES = """
import torch
from bisect_torch import case, check

@case
def answers():
    assert torch.answer() == 42
"""


@dataclass(frozen=True)
class Scenario:
    bodies: list[str]
    series: list[str]
    sentences: list[str] = field(default_factory=list)
    code: int = 0


SCENARIOS = {
    "broke once": Scenario([OK, OK, WRONG], ["ok", "ok", "wrong"], ["fails an assertion from 2.3.0 on"], 1),
    "fixed once": Scenario([WRONG, OK, OK], ["wrong", "ok", "ok"], ["fixed in 2.2.0"], 0),
    "broken again": Scenario(
        [OK, WRONG, OK, RAISES],
        ["ok", "wrong", "ok", "error:RuntimeError"],
        ["fails an assertion from 2.2.0", "fixed in 2.3.0", "raises RuntimeError again from 2.4.0 on"],
        1,
    ),
    "fails differently": Scenario(
        [RAISES, RAISES_OTHER],
        ["error:RuntimeError", "error:NotImplementedError"],
        ["raises NotImplementedError from 2.2.0 on, instead of RuntimeError"],
        1,
    ),
    "an explicit error became silent": Scenario(
        [DIES, WRONG], ["crash:SIGSEGV", "wrong"], ["silent"], 1,
    ),
    "never worked": Scenario([WRONG, WRONG], ["wrong", "wrong"], ["in every build"], 1),
    "always worked": Scenario([OK, OK], ["ok", "ok"]),
    "a new name": Scenario([ABSENT, OK], ["error:AttributeError", "ok"], ["first available in 2.2.0"]),
    "a name that went": Scenario([OK, ABSENT], ["ok", "error:AttributeError"], ["gone from 2.2.0"], 1),
    "first release cannot be imported": Scenario(
        [CANNOT_BE_IMPORTED, OK, WRONG], ["broken", "ok", "wrong"], ["fails an assertion from 2.3.0 on"], 1
    ),
    "three releases beside the boundary cannot be judged": Scenario(
        [OK, CANNOT_BE_IMPORTED, CANNOT_BE_IMPORTED, CANNOT_BE_IMPORTED, WRONG],
        ["ok", "broken", "broken", "broken", "wrong"],
        ["fails an assertion"],
        1,
    ),
    "newest cannot be judged": Scenario([OK, CANNOT_BE_IMPORTED], ["ok", "broken"], [], 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_history_gives_its_series_and_its_sentences_and_no_other(make_tool: MakeTool, name: str) -> None:
    scenario = SCENARIOS[name]
    tool = make_tool({f"2.{minor}.0": body for minor, body in enumerate(scenario.bodies, start=1)})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.stderr.count("Traceback") == 0, answer.stderr
    assert answer.verdicts("answers") == scenario.series
    found = answer.sentences()
    assert len(found) == len(scenario.sentences), found
    for sentence, expected in zip(found, scenario.sentences, strict=True):
        assert expected in sentence
    assert answer.code == scenario.code


def test_a_folder_with_a_file_that_cannot_be_read_runs_the_others_and_is_not_all_good(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    (tool.folder / "x").mkdir()
    tool.write("x/good.py", "import torch\nassert torch.answer() == 42\n")
    tool.write("x/bad.py", "import torch\nif True\n")
    line = ("--from", "2.1.0", "--json")

    answer = tool.run("x", *line)
    assert (answer.code, answer.verdicts("good")) == (3, ["ok"])
    said = answer.data["notes"][0]
    assert said.startswith(
        "left out: x/bad.py:2: expected ':' (the line is `if True`; if it is right in a newer Python: "
    )
    assert answer.stderr.splitlines()[0] == f"note: {said}"
    dry = tool.run("x", *line, "--dry-run")
    assert (dry.code, dry.stderr.splitlines()[:2]) == (
        3,
        [f"note: {said}", "error: not all that was named can be read, and a run would not end with 0"],
    )

    by_name = tool.run("x/good.py", "x/bad.py", *line)
    assert (by_name.code, by_name.stdout) == (2, "")
    assert by_name.stderr.startswith(f"error: {tool.folder}/x/bad.py:2: expected ':'\nhint: ")
    assert tool.run("x/good.py", *line).code == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="it may have MPS")
def test_a_dry_run_on_a_device_that_is_not_here_ends_as_the_run_does(make_tool: MakeTool) -> None:
    """No Linux has MPS."""
    tool = make_tool({"2.1.0": OK})
    tool.write("cases.py", CASES + "\n@case(device=['cpu'])\ndef elsewhere(): pass\n")
    line = ("cases.py", "--from", "2.1.0", "--device", "mps")

    dry = tool.run(*line, "--dry-run")
    run = tool.run(*line, "--json", "-k", "answers")
    assert (dry.code, run.code) == (3, 3)
    assert "note: there is no mps device on this machine: its cells will be broken" in dry.stdout
    assert dry.stderr.splitlines() == [
        "error: there is no mps device on this machine, and a run would end with 3: all cells would be broken",
        "hint: --device cpu is the default; `bisect-torch doctor` says what it sees of a GPU",
    ]
    assert run.verdicts("answers") == ["broken"]

    assert tool.run(*line[:3], "--device", "mps,cpu", "--dry-run").code == 0, "the CPU decides"
    assert [tool.run(*line, "-k", "elsewhere", *more).code for more in (("--dry-run",), ())] == [0, 0]


def test_a_first_look_tells_everything_as_not_confirmed_and_the_same_line_goes_on(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG})
    tool.write("cases.py", CASES)
    line = ("cases.py", "--from", "2.1.0", "--json")

    first = tool.run(*line, "--no-confirm")

    assert first.code == 1
    assert first.verdicts("answers") == ["ok", "ok", "wrong"]
    (sentence,) = first.sentences()
    assert sentence.endswith("not confirmed.")
    assert first.stderr.count("left out (--no-confirm): the same line without that word goes on with them\n") == 1
    assert "confirming," not in first.stderr
    report = tool.call(tool.words("report", "results.parquet"))
    assert "not confirmed" in report.stdout

    then = tool.run(*line)
    assert (then.code, then.verdicts("answers")) == (1, ["ok", "ok", "wrong"])
    assert "not confirmed" not in then.sentences()[0]
    assert "3 cells, 3 known from before" in then.stderr


def test_untested_builds_inside_a_boundary_are_named(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": CANNOT_BE_IMPORTED, "2.3.0": WRONG})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0")

    assert "untested between" in " ".join(answer.stdout.split())
    assert "libcudart.so.99" in answer.stdout


def test_a_flaky_case_makes_no_transition(make_tool: MakeTool) -> None:
    tool = make_tool({f"2.{minor}.0": FLAKY for minor in range(1, 6)})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("answers").count("flaky") >= 4
    assert [sentence["kind"] for sentence in answer.data["findings"]] == ["flaky"]


def test_what_is_known_is_neither_run_nor_built_again(make_tool: MakeTool) -> None:
    """The second run reads the results; it does so even when the environments are gone and the index is down."""
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", CASES + "\n    open('runs.txt', 'a')\n")
    first = tool.run("cases.py", "--from", "2.1.0", "--json")
    rows = len(first.data["series"][0]["cells"])
    requests = len(tool.index.requested("torch-"))

    second = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert rows == 2
    assert second.data["series"] == first.data["series"]
    assert len(tool.index.requested("torch-")) == requests
    assert "environment ready" not in second.stderr


def test_fresh_runs_again(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    log = tool.folder / "log.txt"
    tool.write("script.py", f"import torch\nopen({str(log)!r}, 'a').write('ran ')\n")
    tool.run("script.py", "--from", "2.1.0")
    tool.run("script.py", "--from", "2.1.0")
    assert log.read_text() == "ran "

    tool.run("script.py", "--from", "2.1.0", "--fresh")

    assert log.read_text() == "ran ran "


def test_a_command_is_judged_by_its_exit_status(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG, "2.3.0": RAISES})

    answer = tool.run(
        "--from", "2.1.0", "--json", "--", "python", "-c", "import torch, sys; sys.exit(torch.answer() != 42)"
    )

    assert answer.verdicts(answer.data["series"][0]["instance"]) == ["ok", "error:exit 1", "error:exit 1"]


def test_output_can_say_that_a_run_is_wrong(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})

    answer = tool.run(
        "--from", "2.1.0", "--json", "--bad-if-output", "answer is 41",
        "--", "python", "-c", "import torch; print('answer is', torch.answer())",
    )  # fmt: skip

    assert answer.verdicts(answer.data["series"][0]["instance"]) == ["ok", "wrong"]


def test_what_a_script_does_not_see_is_told_with_the_builds(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write(
        "repro.py",
        "import threading, torch\n\ndef check():\n    assert torch.answer() == 42, 'not 42'\n\n"
        "threading.Thread(target=check).start()\nprint('right:', torch.answer() == 42)\n",
    )

    answer = tool.run("repro.py", "--from", "2.1.0")

    assert answer.code == 0, "as Python ends"
    said = " ".join(answer.stdout.split())
    assert (
        "repro: an exception in a thread was printed and ignored on 2.2.0, not on 2.1.0: AssertionError: not 42; let "
        "the main thread raise it."
    ) in said
    assert 'but what it prints differs: "right: True", then "right: False"' in said


def test_a_local_interpreter_is_a_build(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", CASES)
    tool.run("cases.py", "--versions", "2.2.0")
    path = next((tool.folder / "store" / "envs").glob("2.2.0*/bin/python"))

    answer = tool.run("cases.py", "--versions", f"2.1.0,{path}", "--json")

    assert answer.verdicts("answers") == ["ok", "wrong"]
    in_store = path.relative_to(tool.folder / "store")
    assert list(answer.data["series"][0]["cells"]) == ["2.1.0", f"<store>/{in_store}"]


def test_parameters_that_need_torch_are_expanded_in_a_worker(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK})
    tool.write(
        "cases.py",
        "import torch\nfrom bisect_torch import case\nNAMES = [str(n) for n in range(torch.answer() - 39)]\n"
        "@case(name=NAMES)\ndef named(name):\n    assert name in '012'\n",
    )

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert [series["instance"] for series in answer.data["series"]] == [f"named[name={n}]" for n in range(3)]
    assert answer.code == 0


def test_a_command_whose_import_fails_says_nothing_about_the_build(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    missing = tool.write("m.py", "import module_that_is_not_there\n")

    answer = tool.run("--versions", "2.1.0", "--json", "--", "python", str(missing))

    assert answer.verdicts(answer.data["series"][0]["instance"]) == ["broken"]


def test_a_full_disk_is_never_the_build(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write("full.py", "import torch\nwith open('/dev/full', 'w') as file:\n    file.write('x')\n")

    answer = tool.run("full.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("full") == ["infra"]
    assert answer.code == 3


def test_what_goes_on_after_an_interrupted_fresh_run_does_not_fill_in_old_results(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    log = tool.folder / "log.txt"
    tool.write("script.py", f"import time, torch\nopen({str(log)!r}, 'a').write('ran ')\ntime.sleep(2)\n")
    assert tool.run("script.py", "--from", "2.1.0").code == 0
    again = tool.start("script.py", "--from", "2.1.0", "--fresh")
    while log.read_text() == "ran ":
        time.sleep(0.05)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=30)

    tool.run("script.py", "--from", "2.1.0")

    assert log.read_text() == "ran ran ran "


def test_what_is_told_of_a_single_build_is_confirmed_and_what_is_ok_costs_nothing_more(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": WRONG})
    tool.write("cases.py", CASES + "\n@case\ndef adds():\n    assert 1 + 1 == 2\n")

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    seen = [series["cells"]["2.1.0"] for series in answer.data["series"]]
    assert [(each["verdict"], each["processes"], each["own_process"]) for each in seen] == [
        ("wrong", 3, True), ("ok", 1, False),
    ]  # fmt: skip
    (found,) = answer.data["findings"]
    assert found["text"] == "answers fails an assertion in 2.1.0, the only build judged."
    assert found["evidence"]["confidence"] == "seen in 3 processes, one of them its own interpreter"


def test_a_failed_assertion_is_told_by_its_line_and_what_only_ran_by_what_it_raises_no_more(
    make_tool: MakeTool,
) -> None:
    tool = make_tool({"2.1.0": RAISES, "2.2.0": WRONG})
    tool.write("asserts.py", "import torch\nassert torch.answer() == 42\n")
    tool.write("runs.py", "import torch\ntorch.answer()\n")
    line = ("asserts.py", "runs.py", "--from", "2.1.0")

    first = tool.run(*line, "--json")
    again = tool.run(*line)
    judged = tool.call(tool.words("judge", "results.parquet", "--json"))

    asserts, runs = first.data["findings"]
    assert asserts["text"] == (
        "asserts fails an assertion from 2.2.0 on, instead of raising RuntimeError up to 2.1.0: an explicit error "
        "became silent."
    )
    assert asserts["evidence"]["after"] == "assert torch.answer() == 42"
    assert runs["text"] == "runs no longer raises RuntimeError from 2.2.0 on (last bad 2.1.0)."
    assert (judged.data["findings"], judged.data["ran"]) == (first.data["findings"], None)
    assert first.data["ran"] == 4
    assert "\n4 cells, all known from before: 1 ok, 1 wrong, 2 error\n" in again.stdout


def test_a_case_that_returns_check_instead_of_calling_it_was_not_judged(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", "from bisect_torch import case, check\n\n@case\ndef answers():\n    return check\n")

    answer = tool.run("cases.py", "--from", "2.1.0")

    assert answer.code == 3
    assert (
        "2 cells broken in 2.1.0 and 2.2.0: the case's own mistake: it returned the function check, not what that "
        "gives: write return check(…)"
    ) in " ".join(answer.stdout.split())
