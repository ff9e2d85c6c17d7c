"""A run on a real Ray cluster of several node processes, one of which is killed, is a run of one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_shard_run import BODIES, EXPANDED, LITERAL, cells, meaning
from tests.support.index import FakeIndex
from tests.support.tool import Tool
from tests.support.wheels import releases

pytest.importorskip("ray", reason='needs the extra: pip install "bisect-torch[ray]"')
pytestmark = pytest.mark.slow

WORDS = ("literal.py", "expanded.py", "--from", "2.1.0", "--jobs", "2")
SLOW = LITERAL.replace("    assert", "    import time; time.sleep(1.0)\n    assert")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mapping[str, Any]]:
    """Three nodes, each with a store of its own."""
    with tempfile.TemporaryDirectory(prefix="r-") as short:  # sockets lie in it
        stores = [str(tmp_path / f"store-{place}") for place in range(3)]
        program = [sys.executable, "-m", "tests.support.ray_cluster", short, *stores]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield {**json.loads(process.stdout.readline()), "stores": stores}
            process.stdin.close()


def test_a_node_that_dies_loses_nothing(cluster: Mapping[str, Any], tmp_path: Path) -> None:
    with FakeIndex(releases(BODIES)) as index:
        tool = Tool(tmp_path, index)
        tool.write("literal.py", SLOW)
        tool.write("expanded.py", EXPANDED)
        words = tool.run_words(*WORDS, "-o", "ray.parquet", "--executor", "ray")
        variables = tool.variables(RAY_ADDRESS=cluster["address"])
        with subprocess.Popen(words, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as run:  # fmt: skip
            assert run.stderr is not None
            said = []
            for line in run.stderr:
                said.append(line)
                if "environment ready" in line and sum("environment ready" in each for each in said) == 1:
                    os.kill(cluster["raylets"][1], signal.SIGKILL)
        assert run.returncode == 1, "".join(said)
        assert any("node of the Ray cluster was lost" in line for line in said)
        assert tool.run(*WORDS, "-o", "local.parquet", "--quiet").code == 1

    assert cells(tmp_path / "ray.parquet") == cells(tmp_path / "local.parquet")
    assert meaning(tmp_path / "ray.parquet") == meaning(tmp_path / "local.parquet")
    assert all(any(Path(store, "envs").iterdir()) for store in cluster["stores"]), "each node made environments"
