"""A run on a real Ray cluster of several node processes is a run of one machine, whatever happens to its nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from bisect_torch import analysis
from bisect_torch.results import ResultsFile
from tests.engine.disturbed import eventually
from tests.engine.test_interrupt import time_limit
from tests.engine.test_shard_run import BODIES, EXPANDED, LITERAL, cells, meaning
from tests.support.index import FakeIndex, Fault
from tests.support.tool import Answer, Tool
from tests.support.wheels import releases

# Looked for, not imported: Ray changes the variables of the process that imports it.
pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason='needs the extra: pip install "bisect-torch[ray]"')

LITERAL_WITH_HELPER = LITERAL.replace("import torch", "import torch, helper").replace("== n", "== helper.same(n)")
HELPER = "def same(n):\n    return n\n"

HOLDS = """
import os, pathlib, time
import torch
from bisect_torch import case

@case(n=[0, 1, 2, 3, 4, 5])
def holds(n):
    here = pathlib.Path({folder!r})
    (here / f"{{torch.__version__}}-{{n}}-{{os.getpid()}}").touch()
    while n and not (here / "go").exists():
        time.sleep(0.02)
    assert torch.answer(n) == n
"""
"""Each cell tells that it has begun, and all but the first wait until they may end. Every node sees the folder."""

SHOWN = """
import json, os
import torch
from bisect_torch import case

@case
def shown():
    mine = ("TOKEN", "AWS_", "RAY_", "OMP_", "TORCH_X")
    seen = {name: value for name, value in sorted(os.environ.items()) if any(word in name for word in mine)}
    print(json.dumps(seen))
"""

DIFFERS = {"key", "run_id", "worker", "started_at", "elapsed_s", "peak_rss_bytes"}
"""Of any two runs of a cell. ``key`` is not looked at here since it is compared by itself."""


@dataclass(frozen=True)
class Cluster:
    """Nodes of which each has a store of its own.

    Args:
        nodes: Process of each node's raylet, which has started all others there.
        temporary: Where the nodes' processes make their folders.
    """

    address: str
    nodes: tuple[int, ...]
    stores: tuple[Path, ...]
    temporary: Path


def started(folder: Path, count: int, stack: ExitStack) -> Cluster:
    short = stack.enter_context(tempfile.TemporaryDirectory(prefix="r-"))  # sockets lie in it
    stores = [folder / f"store-{place}" for place in range(count)]
    program = [sys.executable, "-m", "tests.support.ray_cluster", short, *map(str, stores)]
    root = Path(__file__).parents[2]
    variables = {**os.environ, "PYTHONPATH": str(root), "NODE_TOKEN": "node-s3cr3t-1", "OMP_NUM_THREADS": "1"}
    variables["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    process = stack.enter_context(
        subprocess.Popen(program, cwd=root, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    stack.callback(process.stdin.close)
    told = json.loads(process.stdout.readline())
    return Cluster(told["address"], tuple(told["raylets"]), tuple(stores), folder / "tmp")


@pytest.fixture
def cluster_of(tmp_path: Path) -> Iterator[Callable[[int], Cluster]]:
    with ExitStack() as stack:
        yield lambda count: started(tmp_path, count, stack)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    """A user whose files lie where no node looks; the store of their own machine lies elsewhere."""
    (tmp_path / "user").mkdir()
    with FakeIndex(releases(BODIES)) as index:
        yield Tool(tmp_path / "user", index, store=tmp_path / "store-of-user")


def on_ray(tool: Tool, cluster: Cluster, *words: str, **variables: str) -> Answer:
    return tool.run(*words, "--executor", "ray", RAY_ADDRESS=cluster.address, **variables)


def facts(path: Path) -> Mapping[tuple[str, str, str, int], Mapping[str, object]]:
    """All that was recorded of every repeat, but for what differs between any two runs."""
    return {
        (each.case_file, each.instance, each.build_name, each.repeat): {
            name: value for name, value in dataclasses.asdict(each).items() if name not in DIFFERS
        }
        for each in ResultsFile.open(path, must_exist=True).observations()
    }


def keys(path: Path) -> set[str]:
    return {each.key for each in ResultsFile.open(path, must_exist=True).observations()}


def test_a_cluster_gives_what_one_machine_gives(
    tool: Tool, cluster_of: Callable[[int], Cluster], tmp_path: Path
) -> None:
    """Every fact of every repeat, with files that the nodes do not see, in their user's words."""
    cluster = cluster_of(2)
    tool.write("literal.py", LITERAL_WITH_HELPER)
    tool.write("helper.py", HELPER)
    tool.write("expanded.py", EXPANDED)
    words = ("literal.py", "expanded.py", "--from", "2.4.0", "-k", "n=1 or n=2", "--quiet")

    answer = on_ray(tool, cluster, *words, "-o", "ray.parquet", USER_TOKEN="user-s3cr3t-1")

    assert (answer.code, answer.stderr) == (1, "")
    environments = list((tmp_path / "store-of-user" / "envs").iterdir())
    assert environments == [], "this machine made none"
    assert tool.run(*words, "-o", "local.parquet").code == 1
    ours, theirs = tool.folder / "ray.parquet", tool.folder / "local.parquet"
    assert cells(ours) == cells(theirs)
    assert meaning(ours) == meaning(theirs)
    assert keys(ours) == keys(theirs)
    local = facts(theirs)
    for cell, seen in facts(ours).items():
        # A crash tells the address of its thread.
        names = [name for name in seen if seen["signal"] is None or name not in ("stderr_tail", "output_bytes")]
        assert {name: seen[name] for name in names} == {name: local[cell][name] for name in names}
    assert '"<cwd>/literal.py", line' in str([seen["traceback"] for seen in facts(ours).values()])
    assert all(any((store / "envs").iterdir()) for store in cluster.stores), "each node made environments"


@pytest.mark.slow
def test_cells_get_neither_secrets_nor_what_ray_sets(tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    cluster = cluster_of(1)
    tool.write("shown.py", SHOWN)

    secrets = {"USER_TOKEN": "user-s3cr3t-1", "AWS_PROFILE": "user-s3cr3t-2"}
    words = ("shown.py", "--from", "2.5.0", "--quiet", "--pass-env", "NODE_TOKEN")
    answer = on_ray(tool, cluster, *words, OMP_NUM_THREADS="7", TORCH_X="1", **secrets)

    assert answer.code == 0, answer.stderr
    (seen,) = {each.stdout_tail for each in ResultsFile.open(tool.folder / "results.parquet").observations()}
    assert json.loads(str(seen)) == {"NODE_TOKEN": "<redacted>", "OMP_NUM_THREADS": "7", "TORCH_X": "1"}
    assert "s3cr3t" not in (tool.folder / "results.parquet").read_bytes().decode("latin1")


def held(tool: Tool, cluster: Cluster, *words: str, jobs: int = 1) -> tuple[subprocess.Popen[str], Path]:
    """A run whose cells wait until the file ``go`` is there."""
    folder = tool.folder.parent / "holds"
    folder.mkdir()
    tool.write("holds.py", HOLDS.format(folder=str(folder)))
    own = ("holds.py", "--from", "2.1.0", "--jobs", str(jobs), "--executor", "ray", *words)
    return tool.start(*own, RAY_ADDRESS=cluster.address), folder


def die(node: int) -> None:
    """Kill a node as a power cut does: Ray's process and all that it has started, cells too."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = [node]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    for member in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def lost_once(process: subprocess.Popen[str], folder: Path, node: int) -> None:
    """Kill a node while cells run; they then run on another one."""
    before = len(list(folder.iterdir()))
    die(node)
    assert eventually(lambda: len(list(folder.iterdir())) > before or process.poll() is not None, 60.0)
    assert process.poll() is None, process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [1, 2])
def test_nodes_that_die_lose_nothing(killed: int, tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    """Of three nodes one, or a second one that runs what the first gave back."""
    cluster = cluster_of(3)
    process, folder = held(tool, cluster, "-o", "ray.parquet", jobs=len(BODIES))
    waiting = [f"{version}-1-*" for version in BODIES]
    assert eventually(lambda: all(list(folder.glob(each)) for each in waiting), 90.0), "each node runs some"

    # One comes first on which cells have ended that are bad.
    there = dict(zip(cluster.nodes, cluster.stores, strict=True))
    for node in sorted(there, key=lambda node: not any(there[node].glob("envs/2.[234].0-*")))[:killed]:
        lost_once(process, folder, node)
    (folder / "go").touch()
    stdout, stderr = process.communicate(timeout=200)

    assert process.returncode == 1, stdout + stderr
    assert stderr.count("of the Ray cluster was lost") == killed
    assert "bad cells run again: their environments were lost before a last look" in stderr
    assert tool.run("holds.py", "--from", "2.1.0", "-o", "local.parquet", "--quiet").code == 1
    assert cells(tool.folder / "ray.parquet") == cells(tool.folder / "local.parquet")
    assert meaning(tool.folder / "ray.parquet") == meaning(tool.folder / "local.parquet")


@pytest.mark.slow
def test_with_no_node_left_nothing_is_judged(tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    """What had ended is kept, the rest is the machine's fault, and the next run does the rest."""
    cluster = cluster_of(2)
    process, folder = held(tool, cluster, "-k", "n=3")
    assert eventually(lambda: len(list(folder.iterdir())) == 2, 90.0)

    for node in cluster.nodes:
        die(node)
    stdout, stderr = process.communicate(timeout=120)

    assert process.returncode == 3, stdout + stderr
    seen = ResultsFile.open(tool.folder / "results.parquet", must_exist=True).observations()
    assert {analysis.judge(each).verdict.value for each in seen} == {"infra"}
    assert len(seen) == len(BODIES)
    (folder / "go").touch()
    assert tool.run("holds.py", "--from", "2.1.0", "-k", "n=3", "--quiet").code == 0


@pytest.mark.slow
def test_a_killed_run_leaves_no_process_and_the_next_goes_on(tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    cluster = cluster_of(2)
    process, folder = held(tool, cluster, "-k", "n=1 or n=3")
    assert eventually(lambda: len(list(folder.iterdir())) == 2, 90.0)
    process.kill()
    process.communicate()

    marks = [str(store) for store in cluster.stores]
    assert eventually(lambda: not any(running_below(mark) for mark in marks), 20.0)
    (folder / "go").touch()
    again = on_ray(tool, cluster, "holds.py", "--from", "2.1.0", "-k", "n=1 or n=3", "--quiet")
    assert again.code == 1, again.stderr
    assert eventually(lambda: not left_of(cluster), 3.0), "the killed run's folders are swept"


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["cells run", "an environment is made"])
def test_ctrl_c_leaves_nothing_on_the_nodes(phase: str, tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    cluster = cluster_of(2)
    if phase == "an environment is made":
        tool.index.fault("/files/torch-*.whl", Fault(bytes_per_second=100))
    process, folder = held(tool, cluster)

    def there() -> bool:
        asked = tool.index.asked("/files/torch-*.whl") if phase == "an environment is made" else []
        return bool(asked) or len(list(folder.iterdir())) == 2

    assert eventually(lambda: there() or process.poll() is not None, 90.0)
    assert process.poll() is None, process.communicate()
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 130, stdout + stderr
    assert time.monotonic() - sent < time_limit()
    assert "Traceback" not in stdout + stderr
    marks = [str(store) for store in cluster.stores]
    assert eventually(lambda: not any(running_below(mark) for mark in marks), 3.0)
    assert eventually(lambda: not left_of(cluster), 3.0), left_of(cluster)


def running_below(store: str) -> set[str]:
    """Command lines of processes that a store's interpreters or its uv run."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if store in line and "ray_cluster" not in line:
                found.add(line)
    return found


def left_of(cluster: Cluster) -> list[Path]:
    """Folders of the nodes' processes."""
    return list(cluster.temporary.glob("bt-*"))


@pytest.mark.slow
def test_an_environment_that_changes_on_a_node_says_nothing(tool: Tool, cluster_of: Callable[[int], Cluster]) -> None:
    cluster = cluster_of(1)
    process, folder = held(tool, cluster, "-k", "n=3")
    assert eventually(lambda: len(list(folder.iterdir())) == 1, 90.0)
    (first,) = (path.name.partition("-")[0] for path in folder.iterdir())
    (there,) = cluster.stores[0].glob(f"envs/{first}-*/lib/python*/site-packages/torch/__init__.py")
    there.chmod(0o644)
    there.write_text("raise ImportError('broken meanwhile')\n")
    (folder / "go").touch()
    stdout, stderr = process.communicate(timeout=200)

    assert "the environment changed during the run" in stderr, stdout + stderr
    seen = ResultsFile.open(tool.folder / "results.parquet", must_exist=True).observations()
    broken = [each for each in seen if each.reason and "changed during the run" in each.reason]
    assert {each.build_name for each in broken} == {first}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:9", "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:9"),
        ("somewhere", "RAY_ADDRESS=somewhere is no HOST:PORT"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused_in_a_line(address: str, said: str, tool: Tool) -> None:
    tool.write("literal.py", LITERAL)

    answer = tool.run("literal.py", "--from", "2.5.0", "--quiet", "--executor", "ray", RAY_ADDRESS=address)

    assert answer.code == 2
    assert answer.stderr.splitlines()[0].startswith(f"error: {said}")
    assert answer.stderr.splitlines()[1].startswith("hint: ray start --head")
    assert len(answer.stderr.splitlines()) == 2
