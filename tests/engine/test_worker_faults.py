"""Whatever a cell does to itself, to its worker or to the machine, the tool gives the right verdict and goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.engine.conftest import MakeTool
from tests.support.tool import Answer, Tool
from tests.worker.support import FAULTS, eventually

EXPECTED = {
    "right": "ok",
    "returns_false": "wrong",
    "returns_skip_uncalled": "broken",
    "returns_a_lambda": "broken",
    "returns_a_partial": "broken",
    "returns_a_map": "broken",
    "returns_a_generator": "broken",
    "returns_a_coroutine_in_a_list": "broken",
    "returns_a_value_and_a_function": "ok",
    "returns_an_answer_with_its_reason": "broken",
    "returns_what_can_be_called": "ok",
    "raises": "error:ValueError",
    "asserts": "wrong",
    "skips": "skip",
    "segfaults": "crash:SIGSEGV",
    "reads_address_zero": "crash:SIGSEGV",
    "aborts": "crash:SIGABRT",
    "divides_by_zero": "crash:SIGFPE",
    "leaves_without_a_result": "crash:exit 0",
    "leaves_with_a_status[status=7]": "crash:exit 7",
    "leaves_with_a_status[status=125]": "crash:exit 125",
    "exits[status=0]": "ok",
    "exits[status=3]": "error:exit 3",
    "exits[status=125]": "skip",
    "hangs_in_native_code": "timeout",
    "ignores_sigterm": "timeout",
    "leaves_a_child_on_the_pipe": "ok",
    "leaves_a_child_in_a_session_of_its_own": "ok",
    "floods_stdout[mebibytes=4]": "ok",
    "floods_stdout[mebibytes=1024]": "ok",
    "forges_messages": "ok",
    "takes_much_memory": "oom",
    "raises_memory_error": "oom",
    "leaves_threads": "ok",
    "crashes_when_its_objects_go": "crash:SIGABRT",
    "is_killed": "infra",
    "kills_its_worker": "infra",
    "takes_a_while[seconds=1.0]": "ok",
    "works_a_while[seconds=1.0]": "ok",
    "leaves_files": "ok",
    "warns": "ok",
    "wants_a_module": "broken",
    "wants_a_name_of_torch": "error:AttributeError",
    "reads_stdin": "ok",
    "leaves_a_child_then_hangs": "timeout",
}
"""Instance to signature. ``crashes_at_exit`` depends on whether there is an exit."""


def processes_with(text: str) -> list[int]:
    """Processes whose command line or environment holds a text, this one left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in held and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def run_faults(tool: Tool, *words: str) -> Answer:
    """Run the faults; after that nothing of them may be left: no process, no temporary file."""
    temporary = tool.folder / "tmp"
    temporary.mkdir()
    # Every "sleep 1000" of theirs can be told from everybody else's.
    text = FAULTS.read_text().replace("sleep 1000", f"sleep {os.getpid()}123").replace('"1000"', f'"{os.getpid()}123"')
    tool.write("faults.py", text)
    answer = tool.run("faults.py", *words, "--json", "--timeout", "3", "--max-memory", "600MiB", TMPDIR=str(temporary))
    assert "Traceback" not in answer.stderr
    assert eventually(lambda: processes_with(f"{os.getpid()}123") == [])
    assert list(temporary.iterdir()) == []
    return answer


def found(answer: Answer) -> dict[str, str]:
    names = [series["instance"] for series in answer.data["series"]]
    return {name: ",".join(dict.fromkeys(answer.verdicts(name))) for name in names}


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_every_fault_gets_its_verdict_and_leaves_nothing(make_tool: MakeTool, isolation: str) -> None:
    tool = make_tool({"2.1.0": ""})

    answer = run_faults(tool, "--from", "2.1.0", "--isolation", isolation)

    expected = {**EXPECTED, "crashes_at_exit": "ok" if isolation == "fork" else "crash:SIGABRT"}
    assert found(answer) == expected
    assert answer.stderr.count("running it again") == 2  # the one that was killed, and the one that killed its worker
    assert answer.data["findings"] == [] or all(each["kind"] == "always" for each in answer.data["findings"])


def test_faults_are_the_same_on_every_build_and_make_no_transition(make_tool: MakeTool) -> None:
    """With confirmations, which find the crash at exit that forks hide."""
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    quick = "not (hangs or ignores or then_hangs or floods or memory)"

    answer = run_faults(tool, "--from", "2.1.0", "-k", quick)

    left_out = ("hangs", "ignores", "floods", "memory")
    expected = {name: word for name, word in EXPECTED.items() if not any(part in name for part in left_out)}
    assert found(answer) == {**expected, "crashes_at_exit": "crash:SIGABRT"}
    assert {each["kind"] for each in answer.data["findings"]} == {"always"}


@pytest.mark.real_torch
@pytest.mark.slow
def test_every_fault_gets_its_verdict_on_real_torch(make_tool: MakeTool, real_torch: Mapping[str, Path]) -> None:
    tool = make_tool({"2.1.0": ""})

    answer = run_faults(tool, "--versions", str(real_torch["2.14.0"]))

    assert found(answer) == {**EXPECTED, "crashes_at_exit": "ok"}


@pytest.mark.parametrize(
    ("words", "signature"),
    [(["script.py"], "crash:exit 7"), (["--", "sh", "-c", "exit 7"], "error:exit 7")],
    ids=["script", "command"],
)
def test_a_status_without_a_word_is_a_crash_except_of_a_command(
    make_tool: MakeTool, words: list[str], signature: str
) -> None:
    """In what is kept, too: read again from the file, it is judged the same."""
    tool = make_tool({"2.1.0": ""})
    tool.write("script.py", "import os, torch\nos._exit(7)\n")

    answer = tool.run("--from", "2.1.0", "--json", *words)

    assert list(found(answer).values()) == [signature]
    again = tool.call(tool.words("judge", "results.parquet", "--json"))
    assert list(found(again).values()) == [signature]


def test_a_script_whose_worker_is_killed_is_run_once_more(make_tool: MakeTool) -> None:
    """Whoever kills a worker may have meant it only once: the second time tells."""
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    tool.write(
        "script.py",
        "import os, pathlib, torch\n"
        "mark = pathlib.Path('killed-' + torch.__version__)\n"
        "if not mark.exists():\n    mark.touch()\n    os.kill(os.getppid(), 9)\n    import time; time.sleep(100)\n",
    )

    answer = tool.run("script.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("script") == ["ok", "ok"]
    assert answer.stderr.count("running it again") == 2


def test_a_case_that_only_some_builds_declare_is_skipped_on_the_others(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "", "2.2.0": "def new(): return 1", "2.3.0": "def new(): return 2"})
    tool.write(
        "cases.py",
        "import torch\nfrom bisect_torch import case\n"
        "if hasattr(torch, 'new'):\n    @case\n    def uses_new(): assert torch.new() == 1\n",
    )

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("uses_new") == ["skip", "ok", "wrong"]
    assert [sentence["kind"] for sentence in answer.data["findings"]] == ["broke"]


def test_a_script_can_skip(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "value = None", "2.2.0": "value = 1"})
    tool.write("script.py", "import torch\nfrom bisect_torch import skip\nif torch.value is None: skip('no value')\n")

    answer = tool.run("script.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("script") == ["skip", "ok"]
    assert [each["reason"] for each in answer.data["unjudged"]] == ["no value"]


@pytest.mark.real_torch
@pytest.mark.slow
def test_the_checks_of_a_script_count(make_tool: MakeTool, real_torch: Mapping[str, Path]) -> None:
    tool = make_tool({"2.1.0": ""})
    text = "import torch\nfrom bisect_torch import check\nx = torch.ones(3)\ncheck(x + {}, reference=x.double())\n"
    for name, more in (("right", "0"), ("off", "0.1")):
        tool.write(f"{name}.py", text.format(more))

    answer = tool.run("right.py", "off.py", "--versions", str(real_torch["2.14.0"]), "--json")

    assert (answer.verdicts("right"), answer.verdicts("off")) == (["ok"], ["wrong"])
