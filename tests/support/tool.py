"""The tool as a user starts it: a process of its own, with a store, a working directory and a loopback index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.index import FakeIndex


@dataclass(frozen=True)
class Answer:
    """How one call of the tool ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """stdout of a call with ``--json``."""
        return json.loads(self.stdout)

    def verdicts(self, instance: str) -> list[str]:
        """Signatures of one instance over the builds; ``flaky`` for flaky cells, ``not run`` for absent ones."""
        row = next(series for series in self.data["series"] if series["instance"] == instance)
        cells = row["cells"].values()
        return ["not run" if cell is None else "flaky" if cell["flaky"] else cell["signature"] for cell in cells]

    def sentences(self) -> list[str]:
        return [sentence["text"] for sentence in self.data["findings"]]


@dataclass(frozen=True)
class Tool:
    """Runs ``bisect-torch`` in ``folder`` against ``index``; the store lies in it, unless ``store`` says where."""

    folder: Path
    index: FakeIndex
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    store: Path | None = None

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "bisect_torch", *words]

    def run_words(self, *words: str) -> list[str]:
        """The words of a ``run`` on the loopback index; options stand before ``--`` and ``--pytest``."""
        place = next((place for place, word in enumerate(words) if word in ("--", "--pytest")), len(words))
        own = [
            "--index-url",
            self.index.url,
            "--python",
            self.python,
            "--store",
            str(self.store or self.folder / "store"),
        ]
        return self.words("run", *words[:place], *own, *words[place:])

    def variables(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "BISECT_TORCH_"))}
        root = str(Path(__file__).resolve().parents[2])
        return {**kept, "PYTHONPATH": root, "HOME": str(self.folder), **more}

    def call(self, words: Sequence[str], **variables: str) -> Answer:
        done = subprocess.run(
            words, cwd=self.folder, env=self.variables(**variables), capture_output=True, text=True, timeout=300
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, **variables: str) -> Answer:
        return self.call(self.run_words(*words), **variables)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """A run that goes on; the caller ends it."""
        return subprocess.Popen(
            self.run_words(*words),
            cwd=self.folder,
            env=self.variables(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path
