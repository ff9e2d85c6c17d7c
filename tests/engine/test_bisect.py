"""``bisect`` end to end: real uv, a real index on loopback, real processes, small fake torch wheels."""

from __future__ import annotations

import math
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from bisect_torch.cli.main import main
from bisect_torch.engine.search.bisection import Bisection
from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool
from tests.engine.test_scenarios import (
    ABSENT,
    CANNOT_BE_IMPORTED,
    CASES,
    OK,
    RAISES,
    RAISES_OTHER,
    WRONG,
)
from tests.support.tool import Answer, Tool


def bisect(tool: Tool, *words: str) -> Answer:
    """A ``bisect`` on the loopback index."""
    run = tool.run_words(*words)
    run[run.index("run")] = "bisect"
    return tool.call(run)


def pairs(answer: Answer, row: int = 0) -> list[tuple[str, str]]:
    boundaries: list[dict[str, Any]] = answer.data["search"]["rows"][row]["boundaries"]
    return [(each["last_good"], each["first_bad"]) for each in boundaries]


@dataclass(frozen=True)
class Scenario:
    bodies: list[str]
    boundaries: list[tuple[int, int]]
    sentences: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    code: int = 1


GOOD_IS_NOT, BAD_IS_NOT = "the end named good is not", "the end named bad is not"
SCENARIOS = {
    "broke once": Scenario([OK, OK, OK, OK, WRONG, WRONG], [(3, 4)], ["fails an assertion from 2.5.0 on"]),
    "swapped ends": Scenario(
        [WRONG, WRONG, OK, OK], [(1, 2)], ["fixed in 2.3.0"], [GOOD_IS_NOT, BAD_IS_NOT], code=0,
    ),
    "both good": Scenario([OK, OK, OK], [], [], [BAD_IS_NOT, "both ends are alike"], code=0),
    "both bad": Scenario([WRONG, WRONG, WRONG], [], ["in every judged build"], [GOOD_IS_NOT, "both ends are alike"]),
    "unjudgeable builds beside the boundary": Scenario(
        [OK, OK, CANNOT_BE_IMPORTED, CANNOT_BE_IMPORTED, WRONG], [(1, 4)],
        ["fails an assertion from 2.5.0 or an earlier build that could not be judged"],
    ),
    "an end cannot be judged": Scenario(
        [CANNOT_BE_IMPORTED, OK, OK, WRONG], [(2, 3)], ["fails an assertion"], ["an end cannot be judged"],
    ),
    "the newest cannot be judged": Scenario(
        [WRONG, OK, CANNOT_BE_IMPORTED], [(0, 1)], ["fixed in 2.2.0"],
        ["an end cannot be judged", GOOD_IS_NOT, BAD_IS_NOT], code=3,
    ),
    "nothing can be judged": Scenario(
        [CANNOT_BE_IMPORTED] * 3, [], [], ["an end cannot be judged"] * 2 + ["fewer than two builds can be judged"],
        code=3,
    ),
    "another signature inside": Scenario(
        [OK, OK, RAISES, RAISES, RAISES_OTHER, RAISES_OTHER], [(1, 2), (3, 4)],
        ["raises RuntimeError from 2.3.0 on", "raises NotImplementedError from 2.5.0 on"],
    ),
    "first available, then broken": Scenario(
        [ABSENT, ABSENT, OK, OK, WRONG], [(3, 4)], ["first available in 2.3.0", "fails an assertion"],
        ["an end cannot be judged"],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_history_gives_its_boundaries_and_its_sentences(make_tool: MakeTool, name: str) -> None:
    scenario = SCENARIOS[name]
    builds = [f"2.{minor}.0" for minor in range(1, len(scenario.bodies) + 1)]
    tool = make_tool(dict(zip(builds, scenario.bodies, strict=True)))
    tool.write("cases.py", CASES)

    answer = bisect(tool, "cases.py", "--good", builds[0], "--bad", builds[-1], "--json")

    assert "Traceback" not in answer.stderr, answer.stderr
    assert pairs(answer) == [(builds[older], builds[newer]) for older, newer in scenario.boundaries]
    assert [each["kind"] for each in answer.data["search"]["rows"][0]["remarks"]] == scenario.remarks
    for sentence, expected in zip(answer.sentences(), scenario.sentences, strict=True):
        assert expected in sentence
    assert answer.code == scenario.code
    for boundary, (older, newer) in zip(
        answer.data["search"]["rows"][0]["boundaries"], scenario.boundaries, strict=True
    ):
        assert list(boundary["between"]) == builds[older + 1 : newer]


def test_ends_that_are_not_as_they_were_said_to_be_run_in_three_processes_and_no_more(make_tool: MakeTool) -> None:
    """One of the three is an interpreter of its own, so that nothing is left to confirm."""
    tool = make_tool({"2.1.0": OK, "2.2.0": OK})
    tool.write("cases.py", CASES)

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.2.0", "-o", "kept.parquet")

    assert "not as it was said to be: 2.1.0 and 2.2.0 again in further processes" in answer.stderr
    seen = ResultsFile.open(tool.folder / "kept.parquet", must_exist=True).observations()
    for name in ("2.1.0", "2.2.0"):
        assert sorted(str(each.isolation) for each in seen if each.build_name == name) == ["fork", "fork", "process"]


def test_few_environments_are_made_and_a_second_time_none(make_tool: MakeTool) -> None:
    builds = {f"2.{minor}.0": OK if minor < 4 else WRONG for minor in range(1, 9)}
    tool = make_tool(builds)
    tool.write("cases.py", CASES)

    first = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.8.0", "--json")

    assert pairs(first) == [("2.3.0", "2.4.0")]
    most = math.ceil(math.log2(len(builds))) + 2
    assert len(first.data["search"]["made"]) <= most
    assert len(list((tool.folder / "store" / "envs").glob("2.*"))) <= most
    requests = len(tool.index.requested("/files/torch-*"))

    second = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.8.0", "--json")

    assert pairs(second) == [("2.3.0", "2.4.0")]
    assert second.data["search"]["judged"] == []
    assert second.data["search"]["made"] == []
    assert len(tool.index.requested("/files/torch-*")) == requests
    assert second.data["findings"] == first.data["findings"]


def test_environments_that_are_there_are_not_said_to_be_made(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": OK, "2.4.0": WRONG})
    tool.write("cases.py", CASES)
    assert tool.run("cases.py", "--versions", "2.2.0,2.4.0", "-o", "other.parquet").code == 1

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.4.0")

    told = [line for line in answer.stderr.splitlines() if line.startswith("judging ")]
    assert [line.partition("at most ")[2].partition(", about")[0] for line in told] == [
        "4 builds to go, 2 environments to make",
        "2 builds to go, 1 environment to make",
    ]
    assert ["about" in line for line in told] == [False, True], "nothing had been measured before"


@pytest.mark.slow
@pytest.mark.parametrize(("builds", "first_bad"), [(9, 1), (9, 4), (9, 8), (16, 7), (17, 9)])
def test_no_more_environments_are_built_than_is_stated(make_tool: MakeTool, builds: int, first_bad: int) -> None:
    """Counted where they are built, confirmations included, and not in the search: ceil(log2 n) + 2."""
    versions = [f"2.{minor}.0" for minor in range(1, builds + 1)]
    tool = make_tool({name: OK if place < first_bad else WRONG for place, name in enumerate(versions)})
    tool.write("cases.py", CASES)

    answer = bisect(tool, "cases.py", "--good", versions[0], "--bad", versions[-1], "--json")

    assert pairs(answer) == [(versions[first_bad - 1], versions[first_bad])]
    built = [path.name for path in (tool.folder / "store" / "envs").iterdir() if path.name[:1].isdigit()]
    assert len(built) == len(answer.data["search"]["made"]) <= math.ceil(math.log2(builds)) + 2
    downloaded = {request.path for request in tool.index.requested("/files/torch-*.whl")}
    assert len(downloaded) == len(built)
    assert not any("not confirmed" in sentence for sentence in answer.sentences())


@pytest.mark.slow
def test_a_matrix_that_was_run_before_makes_it_free(make_tool: MakeTool) -> None:
    """And complete: a change that came and went is in the results, so it is found."""
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG, "2.3.0": OK, "2.4.0": OK, "2.5.0": WRONG})
    tool.write("cases.py", CASES)
    matrix = tool.run("cases.py", "--from", "2.1.0", "--json")

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.5.0", "--json")

    assert pairs(answer) == [("2.1.0", "2.2.0"), ("2.2.0", "2.3.0"), ("2.4.0", "2.5.0")]
    assert answer.data["search"]["judged"] == []
    assert answer.sentences() == matrix.sentences()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "boundary"),
    [
        (["--bad", "2.5.0"], ("2.3.0", "2.4.0")),
        (["--bad", "2.5.0", "--find-fix"], ("2.6.0", "2.7.0")),
        (["--good", "2.2.0"], ("2.3.0", "2.4.0")),
        (["--good", "2.8.0", "--find-fix"], ("2.6.0", "2.7.0")),
        (["--good", "2.8.0", "--bad", "2.5.0"], ("2.6.0", "2.7.0")),
    ],
)
def test_one_end_is_enough_and_either_way_round(
    make_tool: MakeTool, words: list[str], boundary: tuple[str, str]
) -> None:
    bodies = [OK, OK, OK, WRONG, WRONG, WRONG, OK, OK]
    tool = make_tool({f"2.{minor}.0": body for minor, body in enumerate(bodies, start=1)})
    tool.write("cases.py", CASES)

    limits = [] if len(words) == 4 else ["--from", "2.1.0"] if "2.8.0" in words or words == ["--bad", "2.5.0"] else []
    answer = bisect(tool, "cases.py", *words, *limits, "--json")

    assert boundary in pairs(answer)
    assert answer.data["search"]["rows"][0]["remarks"] == []


def test_the_text_says_what_lies_untested_and_what_was_taken_instead(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": CANNOT_BE_IMPORTED, "2.2.0": OK, "2.3.0": CANNOT_BE_IMPORTED, "2.4.0": WRONG})
    tool.write("cases.py", CASES)

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.4.0")

    text = " ".join(answer.stdout.split())
    assert "2.1.0 cannot be judged" in text
    assert "2.2.0 was taken instead" in text
    assert "boundary: 2.2.0 | 2.4.0, not tight; untested between: 2.3.0 (broken: " in text
    assert "judged 4 of 4 builds; made 2 environments" in text
    assert "at most" in answer.stderr


@pytest.mark.slow
def test_one_instance_of_a_file_is_searched(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG, "2.3.0": RAISES})
    tool.write(
        "cases.py",
        "import torch\nfrom bisect_torch import case\n"
        "@case(n=[41, 42])\ndef gives(n):\n    assert torch.answer() == n\n"
        "@case\ndef other():\n    pass\n",
    )

    answer = bisect(tool, "cases.py::gives[n=41]", "--good", "2.2.0", "--bad", "2.3.0", "--json")

    assert [series["instance"] for series in answer.data["series"]] == ["gives[n=41]"]
    assert pairs(answer) == [("2.2.0", "2.3.0")]


@pytest.mark.slow
def test_several_instances_share_the_builds_that_are_judged(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG, "2.4.0": RAISES})
    tool.write(
        "cases.py",
        "import torch\nfrom bisect_torch import case\nNUMBERS = [n for n in (41, 42)]\n"
        "@case(n=NUMBERS)\ndef gives(n):\n    assert torch.answer() == n\n",
    )

    answer = bisect(tool, "cases.py", "-k", "gives", "--good", "2.1.0", "--bad", "2.4.0", "--json")

    assert [series["instance"] for series in answer.data["series"]] == ["gives[n=41]", "gives[n=42]"]
    assert pairs(answer, 1) == [("2.2.0", "2.3.0"), ("2.3.0", "2.4.0")]
    assert pairs(answer, 0) == [("2.2.0", "2.3.0"), ("2.3.0", "2.4.0")]


@pytest.mark.slow
def test_a_script_and_a_command_are_searched_too(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG})
    tool.write("repro.py", "import torch\nassert torch.answer() == 42\n")

    script = bisect(tool, "repro.py", "--good", "2.1.0", "--bad", "2.3.0", "--json")
    command = bisect(
        tool, "--good", "2.1.0", "--bad", "2.3.0", "--json",
        "--", "python", "-c", "import torch, sys; sys.exit(torch.answer() != 42)",
    )  # fmt: skip

    assert pairs(script) == pairs(command) == [("2.2.0", "2.3.0")]


@pytest.mark.slow
def test_environments_made_ahead_are_counted_apart(make_tool: MakeTool) -> None:
    builds = {f"2.{minor}.0": OK if minor < 6 else WRONG for minor in range(1, 10)}
    tool = make_tool(builds)
    tool.write("cases.py", CASES + "\n    import time; time.sleep(2)\n")

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.9.0", "--speculate", "2", "--json")

    search = answer.data["search"]
    assert pairs(answer) == [("2.5.0", "2.6.0")]
    assert search["ahead"]
    assert not set(search["ahead"]) & set(search["made"])
    assert len(search["made"]) + len(search["ahead"]) == len(list((tool.folder / "store" / "envs").glob("2.*")))


ENDS = ["--good", "2.1.0", "--bad", "2.3.0"]
REFUSALS = {
    "no end": (["cases.py"], "needs an end"),
    "the same end": (["cases.py", "--good", "2.1.0", "--bad", "2.1"], "name the same build"),
    "an end that is not there": (["cases.py", "--good", "2.1.0", "--bad", "2.7.0"], "torch 2.7.0 does not exist here"),
    "an end that is no version": (["cases.py", "--good", "2.1.0", "--bad", "newest"], "is not a version of torch"),
    "an end that is excluded": (["cases.py", *ENDS, "--exclude", "2.3.0"], "does not take part"),
    "a limit besides both ends": (["cases.py", *ENDS, "--from", "2.1.0"], "both are named"),
    "a floor above the end": (["cases.py", "--bad", "2.1.0", "--from", "2.2.0"], "the range is reversed"),
    "no case": (ENDS, "what to search for is missing"),
    "an unknown case": (["cases.py::answer", *ENDS], "there is no case 'answer'"),
    "an unknown file": (["nothing.py", *ENDS], "no such file"),
    "nothing selected": (["cases.py", "-k", "bmm", *ENDS], "-k 'bmm' does not fit the only instance"),
    "a case and a command": (
        ["cases.py", *ENDS, "--", "true"],
        "bisect takes one of these: a case, a command after --",
    ),
    "no confidence": (["cases.py", *ENDS, "--confidence", "1"], "between 0 and 1"),
}


def test_what_cannot_be_searched_is_refused_before_anything_is_made(
    make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG})
    tool.write("cases.py", CASES)
    monkeypatch.chdir(tool.folder)
    for name, (words, expected) in REFUSALS.items():
        code = main(["bisect", *tool.run_words(*words)[4:]])
        said = capsys.readouterr().err
        assert code == 2, name
        assert expected in said, (name, said)
        assert said.startswith("error: "), name
    assert not list((tool.folder / "store").glob("envs/2.*"))


@pytest.mark.slow
def test_results_of_a_newer_schema_are_refused_and_left_alone(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", CASES)
    other = tool.write("results.parquet", "this is no Parquet file")

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.2.0")

    assert answer.code == 2
    assert "results.parquet" in answer.stderr
    assert other.read_text() == "this is no Parquet file"


@pytest.mark.slow
def test_an_interrupted_search_keeps_what_it_has_and_goes_on_from_there(make_tool: MakeTool) -> None:
    tool = make_tool({f"2.{minor}.0": OK if minor < 5 else WRONG for minor in range(1, 9)})
    log = tool.folder / "log.txt"
    tool.write(
        "repro.py",
        f"import time, torch\nopen({str(log)!r}, 'a').write(torch.__version__ + ' ')\ntime.sleep(1)\n"
        "assert torch.answer() == 42\n",
    )
    words = tool.run_words("repro.py", "--good", "2.1.0", "--bad", "2.8.0")
    words[words.index("run")] = "bisect"
    process = subprocess.Popen(
        words, cwd=tool.folder, env=tool.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not log.exists() or len(log.read_text().split()) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continue with: bisect-torch bisect repro.py" in out
    before = log.read_text().split()

    answer = bisect(tool, "repro.py", "--good", "2.1.0", "--bad", "2.8.0", "--json")

    assert pairs(answer) == [("2.4.0", "2.5.0")]
    assert set(before[:2]) <= set(answer.data["search"]["known"])


def test_what_was_recorded_before_ctrl_c_came_is_told(
    make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C comes between the end of a run and the look at what it has recorded."""
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG, "2.3.0": WRONG})
    tool.write("repro.py", "import torch\nassert torch.answer() == 42\n")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Bisection, "_take_in", interrupted)
    monkeypatch.chdir(tool.folder)
    words = tool.run_words("repro.py", "--good", "2.1.0", "--bad", "2.3.0")
    assert main(["bisect", *words[words.index("run") + 1 :]]) == 130
    matrix = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("repro "))
    assert matrix.split() == ["repro", "·", "?", "W"]


HANGS_ON = """
import os, time, torch
here = {here!r}
if torch.__version__ in {builds!r}:
    open(here, "w").close()
    time.sleep(300)
assert torch.answer() == 42
"""


@pytest.mark.parametrize(
    ("hanging", "judged"),
    [(["2.1.0", "2.3.0"], []), (["2.3.0"], ["2.1.0"]), (["2.2.0"], ["2.1.0", "2.3.0"])],
    ids=["in both ends", "in the second end", "in the middle"],
)
def test_after_ctrl_c_what_had_no_answer_is_not_said_to_be_judged(
    make_tool: MakeTool, hanging: list[str], judged: list[str]
) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG, "2.3.0": WRONG})
    here = tool.folder / "here"
    tool.write("repro.py", HANGS_ON.format(here=str(here), builds=hanging))
    words = tool.run_words("repro.py", "--good", "2.1.0", "--bad", "2.3.0", "--jobs", "1")
    words[words.index("run")] = "bisect"
    process = subprocess.Popen(
        words, cwd=tool.folder, env=tool.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not here.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.2)

    process.send_signal(signal.SIGINT)

    out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    if judged:
        assert f"judged {len(judged)} of 3 builds; made " in out
    else:
        again = next(
            line for line in out.splitlines() if line.startswith("continue with: bisect-torch bisect repro.py")
        )
        assert out == f"interrupted before anything was judged\n{again}\n"
    assert "Traceback" not in said
    assert ": not judged" not in said
    results = ResultsFile.open(tool.folder / "results.parquet")
    assert [each.build for each in results.observations()] == judged


# Right or wrong by chance in each process: 3 of 8 values.
FLAKY = "import os\ndef answer(): return 41 if os.urandom(1)[0] % 8 < 5 else 42"


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--flaky"]])
def test_a_flaky_case_gets_a_boundary_with_its_probability(make_tool: MakeTool, words: list[str]) -> None:
    tool = make_tool({f"2.{minor}.0": OK if minor < 4 else FLAKY for minor in range(1, 7)})
    tool.write("cases.py", CASES)
    sure = ["--confidence", "0.999"]  # wrong once in a thousand runs of this test

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.6.0", *words, *sure, "--json")

    (row,) = answer.data["search"]["rows"]
    # Chance may make all that was run look steady; it may not make a wrong boundary sure.
    if row["flaky"] is None:
        assert words == []
        return
    assert answer.code in (1, 3)
    total = sum(each["confidence"] for each in row["boundaries"])
    assert 0.9 <= total + row["flaky"]["everywhere"] + row["flaky"]["nowhere"] <= 1.001
    if row["flaky"]["named"] is not None:
        assert (row["flaky"]["named"]["last_good"], row["flaky"]["named"]["first_bad"]) == ("2.3.0", "2.4.0")


@pytest.mark.slow
def test_what_is_flaky_in_every_build_gets_no_boundary(make_tool: MakeTool) -> None:
    tool = make_tool({f"2.{minor}.0": FLAKY for minor in range(1, 6)})
    tool.write("cases.py", CASES)

    answer = bisect(tool, "cases.py", "--good", "2.1.0", "--bad", "2.5.0", "--flaky", "--json")

    (row,) = answer.data["search"]["rows"]
    assert row["flaky"]["named"] is None
    assert row["flaky"]["everywhere"] > 0.95
    assert answer.code == 1
