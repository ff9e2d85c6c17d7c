"""A test program in a target environment that answers questions: a line of JSON each way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]

Ask = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def asking(python: Path, program: Path) -> Iterator[Ask]:
    """Start the program once and give the function that asks it; it must leave with 0 when its input ends."""
    process = subprocess.Popen(
        [python, program, REPOSITORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        return dict(json.loads(stdout.readline()))

    yield answer
    stdin.close()
    stdout.close()
    assert process.wait(30) == 0
