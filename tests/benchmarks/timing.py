"""What the benchmarks share: real environments, whole-process wall times, medians, one table."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RELEASES = (
    *("2.4.1", "2.5.0", "2.5.1", "2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0"),
    *("2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0"),
)
"""The releases of the whole matrix."""

TOOL = [sys.executable, "-m", "bisect_torch"]
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def spread(number: int) -> tuple[str, ...]:
    """So many of the releases, the first and the newest among them."""
    if number == 1:
        return RELEASES[-1:]
    last = len(RELEASES) - 1
    return tuple(RELEASES[round(place * last / (number - 1))] for place in range(number))


def seconds(words: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> float:
    """Wall time of a program from start to exit; what it prints is thrown away.

    Raises:
        RuntimeError: It failed. An exit status of 1 is the tool's "something is bad at the newest build".
    """
    begin = time.perf_counter()
    done = subprocess.run(
        [os.fspath(word) for word in words], cwd=cwd, env=env and dict(env), capture_output=True, text=True, check=False
    )
    elapsed = time.perf_counter() - begin
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr[-2000:]}")
    return elapsed


def interpreter(version: str, *options: str) -> Path:
    """The interpreter of a release's environment in the user's store; it is built when it is not there.

    Args:
        options: Such as ``--python 3.11``.
    """
    subprocess.run([*TOOL, "envs", "build", "--versions", version, *options], check=True, stdout=sys.stderr)
    done = subprocess.run([*TOOL, "envs", "path", version, *options], check=True, capture_output=True, text=True)
    return Path(done.stdout.split()[-1])


def quiet_python(python: Path) -> dict[str, str]:
    """Variables under which ``python`` reads bytecode that exists and writes none."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{python.parent}{os.pathsep}{kept['PATH']}"}


def built() -> tuple[str, ...]:
    """Those of :data:`RELEASES` whose environment is in the user's store, in release order.

    Raises:
        SystemExit: There are fewer than two.
    """
    done = subprocess.run([*TOOL, "envs", "list", "--json"], check=True, capture_output=True, text=True)
    there = {
        each["name"]
        for each in json.loads(done.stdout)
        if each["backend"] == "pypi" and each["python_version"].startswith(f"{MINOR}.")
    }
    found = tuple(version for version in RELEASES if version in there)
    if len(found) < 2:
        raise SystemExit(f"build them first: bisect-torch envs build --versions {','.join(RELEASES)}")
    print(f"{len(found)} releases in the store: {', '.join(found)}", file=sys.stderr)
    return found


def empty(folder: Path) -> None:
    """Remove a folder whose folders may be read-only."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)


def side_by_side(rounds: int, *, digits: int = 2, **measured: Callable[[], float]) -> dict[str, float]:
    """Median seconds of each, measured in turn so that a drift of the machine's speed meets all alike."""
    found: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(rounds):
        for name, measure in measured.items():
            found[name].append(measure())
            load = os.getloadavg()[0]
            print(f"round {number + 1}: {name} {found[name][-1]:.{digits}f} s, load {load:.1f}", file=sys.stderr)
    return {name: statistics.median(times) for name, times in found.items()}


def report(title: str, ours: float, theirs: float, limit: float, *, digits: int = 2) -> int:
    """Print one line of the table. Returns 0 when the ratio is within the limit, else 1."""
    ratio = ours / theirs
    verdict = "within" if ratio <= limit else "BEYOND"
    figures = f"{ours:.{digits}f} s against {theirs:.{digits}f} s"
    print(f"{title}: {figures}: ratio {ratio:.4f}, {verdict} the limit {limit:.4f}")
    return int(ratio > limit)
