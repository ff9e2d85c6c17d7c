"""``bisect --fresh`` runs again what the results file holds; what it saw itself counts from then on."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import MakeTool
from tests.engine.test_bisect import bisect, pairs
from tests.engine.test_scenarios import OK
from tests.support.tool import Tool

BUILDS = [f"2.{minor}.0" for minor in range(1, 6)]
BAD_FROM = ".unseen/bad_from.txt"
ENDS = ["--good", BUILDS[0], "--bad", BUILDS[-1]]


def searching(make_tool: MakeTool, *, sleeps: float = 0.0) -> Tool:
    """A case whose answer stands in a file that the tool does not look at: ``bad from`` a minor version on."""
    tool = make_tool(dict.fromkeys(BUILDS, OK))
    (tool.folder / ".unseen").mkdir()
    tool.write(BAD_FROM, "4")
    tool.write("log.txt", "")
    tool.write(
        "repro.py",
        "import time, torch\n"
        f"minor = int(torch.__version__.split('.')[1])\n"
        f"open({str(tool.folder / 'log.txt')!r}, 'a').write(torch.__version__ + ' ')\n"
        f"time.sleep({sleeps})\n"
        f"assert minor < int(open({str(tool.folder / BAD_FROM)!r}).read())\n",
    )
    return tool


def ran(tool: Tool) -> list[str]:
    return (tool.folder / "log.txt").read_text().split()


def observations(folder: Path) -> int:
    return int(pq.read_metadata(folder / "results.parquet").num_rows)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--flaky"]])
def test_everything_is_run_again_and_nothing_is_lost(make_tool: MakeTool, more: list[str]) -> None:
    tool = searching(make_tool)
    first = bisect(tool, "repro.py", *ENDS, *more, "--json")
    named = first.data["search"]["rows"][0]
    assert (pairs(first)[0] if not more else tuple(named["flaky"]["named"].values())[:2]) == ("2.3.0", "2.4.0")
    before, rows = len(ran(tool)), observations(tool.folder)
    tool.write(BAD_FROM, "3")

    known = bisect(tool, "repro.py", *ENDS, *more, "--json")
    assert len(ran(tool)) == before
    assert pairs(known)[0] == ("2.3.0", "2.4.0")

    answer = bisect(tool, "repro.py", *ENDS, *more, "--fresh", "--json")

    assert pairs(answer)[0] == ("2.2.0", "2.3.0")
    assert answer.data["search"]["known"] == []
    assert answer.data["search"]["made"] == ([] if "2.2.0" in first.data["search"]["made"] else ["2.2.0"])
    assert len(ran(tool)) > before
    assert observations(tool.folder) > rows
    # From now on the new answers count, also those of builds that the first search had seen.
    after = len(ran(tool))
    later = bisect(tool, "repro.py", *ENDS, *more, "--json")
    assert pairs(later)[0] == ("2.2.0", "2.3.0")
    assert len(ran(tool)) == after


@pytest.mark.slow
def test_one_that_was_cut_off_goes_on_with_what_it_saw_itself_and_without_the_old(make_tool: MakeTool) -> None:
    tool = searching(make_tool, sleeps=1.0)
    bisect(tool, "repro.py", *ENDS, "--json")
    tool.write(BAD_FROM, "2")
    tool.write("log.txt", "")
    words = tool.run_words("repro.py", *ENDS, "--fresh")
    words[words.index("run")] = "bisect"
    process = subprocess.Popen(
        words, cwd=tool.folder, env=tool.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while len(ran(tool)) < 3:  # both ends are done, the middle has begun
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--fresh" not in out.partition("continue with: ")[2].splitlines()[0]

    answer = bisect(tool, "repro.py", *ENDS, "--json")

    assert pairs(answer) == [("2.1.0", "2.2.0")]
    assert set(answer.data["search"]["known"]) == {"2.1.0", "2.5.0"}
