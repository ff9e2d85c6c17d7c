"""Searches that a user of the public bugs would start, what each must find, and the table of what they did.

    python -m tests.matrix.searches searches.json

prints the table of the records that ``pytest -m matrix tests/matrix/test_real_searches.py`` keeps.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent.parent / "real_cases"
BUILDS: list[str] = json.loads((SCRIPTS.parent / "data" / "real_series.json").read_text())["builds"]
SPANS: dict[str, list[tuple[str, str, str]]] = json.loads((SCRIPTS / "expected.json").read_text())
SEARCHES: dict[str, list[list[str]]] = json.loads((SCRIPTS / "searches.json").read_text())
FLAKY = {name for name, spans in SPANS.items() if any(outcome == "flaky" for _, _, outcome in spans)}


@dataclass(frozen=True)
class Record:
    """What one search did.

    Args:
        builds: How many builds lie in the range that the words of the search give.
        judged: Those of them that were judged, in order.
        boundaries: Last build before and first build after each change that it names. (JSON makes lists of them.)
        flaky: For a case whose runs differ: what the search says of the whole range.
    """

    script: str
    words: list[str]
    builds: int
    judged: list[str]
    seconds: float
    boundaries: list[tuple[str, str]]
    flaky: str = ""


def search(script: Path, words: list[str], folder: Path) -> tuple[Record, dict[str, Any]]:
    """``bisect`` on real releases, as a user starts it, with a results file of its own. Gives the JSON answer too."""
    one_end = {"--good", "--bad"} - set(words)
    limits = ["--from", BUILDS[0], "--to", BUILDS[-1]] if one_end else []
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bisect_torch", "bisect", str(script), *words, *limits),
            *("--python", "3.11", "--json", "-o", str(folder / "results.parquet")),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), f"exit code {done.returncode}"
    answer: dict[str, Any] = json.loads(done.stdout)
    (row,) = answer["search"]["rows"]
    named = row["boundaries"]
    said = ""
    if row["flaky"] is not None:
        named = [] if row["flaky"]["named"] is None else [row["flaky"]["named"]]
        said = f"in every release with probability {row['flaky']['everywhere']:.3f}"
    record = Record(
        script=script.stem,
        words=words,
        builds=len(in_range(words)),
        judged=answer["search"]["judged"],
        seconds=round(answer["seconds"], 1),
        boundaries=[(each["last_good"], each["first_bad"]) for each in named],
        flaky=said,
    )
    return record, answer


def in_range(words: list[str]) -> list[str]:
    """The builds that a search may judge: between its ends, or from its one end in the direction of its walk."""
    ends = {word: BUILDS.index(words[words.index(word) + 1]) for word in ("--good", "--bad") if word in words}
    low, high = min(ends.values()), max(ends.values())
    if len(ends) == 1:
        newer = ("--bad" in ends) == ("--find-fix" in words)
        low, high = (low, len(BUILDS) - 1) if newer else (0, high)
    return BUILDS[low : high + 1]


def changes(spans: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """The boundaries of the full matrix."""
    return {(older[1], newer[0]) for older, newer in pairwise(spans)}


def most(builds: int, found: int) -> int:
    """How many builds a search may judge that finds so many boundaries."""
    return math.ceil(math.log2(builds)) * max(1, found) + 2


def table(records: list[Record]) -> str:
    """The records as Markdown."""
    lines = ["| case | search | builds | judged (allowed) | seconds | boundaries |", "|---|---|---|---|---|---|"]
    for each in records:
        found = ", ".join(f"{older} \\| {newer}" for older, newer in each.boundaries) or each.flaky or "none"
        allowed = "" if each.flaky else f" ({most(each.builds, len(each.boundaries))})"
        lines.append(
            f"| {each.script} | `{' '.join(each.words)}` | {each.builds} | {len(each.judged)}{allowed} "
            f"| {each.seconds:.0f} | {found} |"
        )
    return "\n".join(lines)


def keep(record: Record, path: Path) -> None:
    """Add a record to a file."""
    kept = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*kept, asdict(record)], indent=1) + "\n")


if __name__ == "__main__":
    print(table([Record(**each) for each in json.loads(Path(sys.argv[1]).read_text())]))
