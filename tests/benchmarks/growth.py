"""What a results file costs as it grows: from 1,000 to 1,000,000 cells, step by step, in CPU seconds and memory.

    python -m tests.benchmarks.growth --cells 1000 10000 100000 1000000
    python -m tests.benchmarks.growth --cells 1000 10000 100000 --formats

Each size runs in a process of its own, its limits in another, and what a killed run left in a third. Seconds are CPU
time (user and system) of the process, since wall time on a shared machine tells of its neighbours; memory is the
largest resident set so far. Observations are made in blocks, and making them is not counted. The limits are what the
same facts cost with nothing of ours: each line through ``orjson``, BLAKE2b and one ``os.write`` under a lock, and back;
the same columns through ``pyarrow.parquet`` and nothing else. Prints tables for the README. Exit status 1 when the
largest size is beyond ``--limit`` or ``--memory``.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from bisect_torch.model import Observation
    from bisect_torch.report.findings import Findings
    from bisect_torch.results import ResultsFile

_BLOCK = 10_000
_TOTAL = ("append", "compact", "load", "judge again", "transitions", "summary", "markdown")
"""What counts as the whole way of a cell: batches, a journal that a killed run left and other formats come besides."""

_TOGETHER = 100
_KILLED = "killed.parquet"

_MEANING = {
    "append": "each cell by itself into the journal, as it ends",
    "append, as a batch": "the same into another journal, 100 cells at a time, as where they are there together",
    "compact": "the journal into Parquet, at the end of the run",
    "recover": "the journal of a killed run read and made into Parquet",
    "load": "the results file opened",
    "judge again": "every cell under other tolerances, all series and transitions",
    "transitions": "which ends of transitions still lack repeats",
    "summary": "what a terminal shows",
    "markdown": "the report for GitHub",
    "lines written": "limit of append: orjson.dumps, BLAKE2b, flock, os.write",
    "lines written, as a batch": "the same, 100 lines at a time",
    "lines read": "limit of recover: BLAKE2b, orjson.loads, with nothing kept",
    "pyarrow write": "limit of compact: the same columns, the same encoding",
    "pyarrow read": "limit of load and judge again: every column decoded",
}
_LIMITS = {
    "append": "lines written",
    "append, as a batch": "lines written, as a batch",
    "recover": "lines read",
    "compact": "pyarrow write",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--formats", action="store_true", help="also CSV, JSON, JUnit, HTML, merge and compare")
    parser.add_argument("--folder", type=Path, help="where the files are written meanwhile")
    parser.add_argument("--limit", type=float, default=10.0, help="CPU seconds of all steps at the largest size")
    parser.add_argument("--memory", type=float, default=1024.0, help="MiB at the largest size")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=["floor", "recover"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        ours = functools.partial(_measure, formats=options.formats)
        work = {"floor": _floor, "recover": _recover, None: ours}[options.part]
        print(json.dumps(work(options.one, options.folder)))
        return 0
    found = {cells: _both(cells, options) for cells in sorted(options.cells)}
    print(_table(found))
    largest = found[max(found)]
    total, memory = sum(largest["cpu"][step] for step in _TOTAL), largest["memory"]["markdown"]
    within = total <= options.limit and memory <= options.memory
    print(f"\nlargest: {total:.1f} s CPU, {memory:.0f} MiB: {'within' if within else 'BEYOND'} the limits")
    return int(not within)


def _both(cells: int, options: argparse.Namespace) -> dict[str, Any]:
    """Ours and the limits, which leave no memory behind for each other."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        words = [sys.executable, "-m", "tests.benchmarks.growth", "--one", str(cells), "--folder", folder]
        words += ["--formats"] if options.formats else []
        ours, *others = (
            json.loads(subprocess.run([*words, *more], check=True, stdout=subprocess.PIPE).stdout)
            for more in ([], ["--part", "recover"], ["--part", "floor"])
        )
    for of in ("cpu", "wall", "memory"):
        for each in others:
            ours[of] |= each[of]
    return dict(ours)


def _table(found: Mapping[int, Mapping[str, Any]]) -> str:
    """CPU seconds of each step and size; what a row costs at the largest, against the smallest where it can be told."""
    sizes = list(found)
    most = found[sizes[-1]]
    heads = ["step", *(f"{size:,}" for size in sizes), "µs a row", "for ×10", "× its limit", "peak MiB"]
    lines = [heads, ["---", *["--:"] * (len(heads) - 1)]]
    for step in most["cpu"]:
        limit = _LIMITS.get(step)
        lines.append(
            [
                step,
                *(f"{each['cpu'][step]:.2f} s" for each in found.values()),
                f"{most['cpu'][step] / most['rows'] * 1e6:.2f}",
                _growth([(each["rows"], each["cpu"][step]) for each in found.values()]),
                f"{most['cpu'][step] / most['cpu'][limit]:.1f}" if limit else "",
                f"{most['memory'][step]:.0f}",
            ]
        )
    totals = [sum(each["cpu"][step] for step in _TOTAL) for each in found.values()]
    growth = _growth([(each["rows"], total) for each, total in zip(found.values(), totals, strict=True)])
    per_row = f"{totals[-1] / most['rows'] * 1e6:.2f}"
    peak = f"{most['memory'][_TOTAL[-1]]:.0f}"
    lines.append(["**whole way**", *(f"**{total:.2f} s**" for total in totals), per_row, growth, "", peak])
    sized = [f"{each['bytes'] / each['rows']:.0f} B" for each in found.values()]
    lines.append(["Parquet, a row", *sized, "", "", "", ""])
    sized = [f"{each['journal'] / each['rows']:.0f} B" for each in found.values()]
    lines.append(["journal, a row", *sized, "", "", "", ""])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    told = "; ".join(f"{step}: {words}" for step, words in _MEANING.items() if step in most["cpu"])
    return f"{text}\n\n{told}. CPU seconds; wall {sum(most['wall'][step] for step in _TOTAL):.1f} s at {sizes[-1]:,}."


_NOISE_S = 0.05


def _growth(points: Sequence[tuple[int, float]]) -> str:
    """How many times longer ten times as many rows take, over the sizes that took long enough to be told from noise."""
    told = [(rows, seconds) for rows, seconds in points if seconds >= _NOISE_S]
    if len(told) < 2:
        return ""
    (few, quick), (many, slow) = told[0], told[-1]
    decades = (len(str(many)) - len(str(few))) or 1
    return f"×{(slow / quick / (many / few)) ** (1 / decades) * 10:.1f}"


class _Clock:
    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self.wall: dict[str, float] = {}
        self.memory: dict[str, float] = {}

    def __call__(self, step: str, work: Callable[[], Any]) -> Any:
        begin, wall = time.process_time(), time.perf_counter()
        result = work()
        self.cpu[step] = self.cpu.get(step, 0.0) + time.process_time() - begin
        self.wall[step] = self.wall.get(step, 0.0) + time.perf_counter() - wall
        self.memory[step] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return result

    def told(self) -> dict[str, Any]:
        return {"cpu": self.cpu, "wall": self.wall, "memory": self.memory}


def _measure(cells: int, folder: Path, *, formats: bool) -> dict[str, Any]:
    from bisect_torch import analysis
    from bisect_torch.analysis import Tolerances
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.report.markdown import markdown
    from bisect_torch.report.summary import summary
    from bisect_torch.results import ResultsFile
    from tests.support.many_results import builds_for, many_results

    clock = _Clock()
    path = folder / "results.parquet"
    results = ResultsFile.open(path)
    results.begin({"run_id": "2026-11-30T03:00:00Z-4711", "started_at": "2026-11-30T03:00:00Z"})
    rows = 0
    made = many_results(cells)
    while block := list(itertools.islice(made, _BLOCK)):
        rows += len(block)
        clock("append", functools.partial(_append, results, block))
        with ResultsFile.open(folder / "together.parquet") as together:
            clock("append, as a batch", functools.partial(_extend, together, block))
        (folder / "together.parquet.journal").unlink()
    journal = path.with_name(path.name + ".journal")
    size = journal.stat().st_size
    os.link(journal, folder / f"{_KILLED}.journal")
    clock("compact", results.finish)
    results.close()
    del results, block

    def load() -> ResultsFile:
        opened = ResultsFile.open(path, must_exist=True)
        assert len(opened.observations()) == rows
        return opened

    again = clock("load", load)
    findings = clock("judge again", lambda: judged_again(again, Tolerances(rtol=1e-3)))
    builds = builds_for(cells)
    clock("transitions", lambda: analysis.wanted_repeats(again.observations(), builds))
    clock("summary", lambda: summary(findings, 120))
    clock("markdown", lambda: markdown(findings))
    if formats:
        _other_formats(clock, findings, path)
    return {"rows": rows, "bytes": path.stat().st_size, "journal": size, **clock.told()}


def _append(results: ResultsFile, block: list[Observation]) -> None:
    for each in block:
        results.append(each)


def _extend(results: ResultsFile, block: list[Observation]) -> None:
    for start in range(0, len(block), _TOGETHER):
        results.extend(block[start : start + _TOGETHER])


def _recover(cells: int, folder: Path) -> dict[str, Any]:
    """What the journal of a run that was killed costs the one that finds it."""
    from bisect_torch.results import ResultsFile

    clock = _Clock()
    clock("recover", lambda: ResultsFile.open(folder / _KILLED, must_exist=True).finish())
    return clock.told()


def _other_formats(clock: _Clock, findings: Findings, path: Path) -> None:
    from bisect_torch.cli.main import main as command
    from bisect_torch.report.csv_table import csv_table
    from bisect_torch.report.data import json_text
    from bisect_torch.report.html import html
    from bisect_torch.report.junit import junit

    other = path.with_name("other.parquet")
    os.link(path, other)
    clock("csv", lambda: csv_table(findings))
    clock("json", lambda: json_text(findings))
    clock("junit", lambda: junit(findings))
    clock("html", lambda: html(findings))
    with open(os.devnull, "w") as nowhere:
        shown, sys.stdout = sys.stdout, nowhere
        try:
            clock("merge", lambda: command(["merge", str(path), str(other), "-o", str(path.with_name("merged"))]))
            clock("compare", lambda: command(["compare", str(path), str(other)]))
        finally:
            sys.stdout = shown


def _floor(cells: int, folder: Path) -> dict[str, Any]:
    """The same facts, with nothing of ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from bisect_torch.results.parquet import ENCODING, complete
    from bisect_torch.results.recorded import ROWS_IN_A_BLOCK, Recorded
    from tests.support.many_results import many_results

    clock = _Clock()
    recorded = Recorded()
    path = folder / "lines"
    each_alone, together = (os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for name in (path, folder / "beside"))
    made = many_results(cells)
    while block := list(itertools.islice(made, _BLOCK)):
        values = [list(vars(each).values()) for each in block]
        clock("lines written", functools.partial(_write, each_alone, values, 1))
        clock("lines written, as a batch", functools.partial(_write, together, values, _TOGETHER))
        os.truncate(together, 0)
        for each in block:
            recorded.add(each)
    os.close(each_alone)
    os.close(together)
    clock("lines read", lambda: _read(path))
    path.unlink()
    table = pa.concat_tables(map(complete, recorded.blocks()))
    path = folder / "bare.parquet"
    clock("pyarrow write", lambda: pq.write_table(table, path, row_group_size=ROWS_IN_A_BLOCK, **ENCODING))
    clock("pyarrow read", lambda: pq.read_table(path))
    return clock.told()


def _write(fd: int, several: list[list[object]], at_once: int) -> None:
    for start in range(0, len(several), at_once):
        lines = b"".join(map(_line, several[start : start + at_once]))
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, lines)
        fcntl.flock(fd, fcntl.LOCK_UN)


def _line(values: list[object]) -> bytes:
    text = orjson.dumps(values)
    return b"%b %b\n" % (_digest(text), text)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=8).hexdigest().encode()


def _read(path: Path) -> None:
    with open(path, "rb") as file:
        for line in file:
            digest, _, text = line[:-1].partition(b" ")
            assert digest == _digest(text)
            orjson.loads(text)


if __name__ == "__main__":
    sys.exit(main())
