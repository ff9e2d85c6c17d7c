"""The parts of a run on a cluster that need none: what goes where, what travels, and how it is told."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch import cases
from bisect_torch.engine.host import Device
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.engine.ray import dispatch, luggage, variables
from bisect_torch.engine.ray.devices import chosen_devices
from bisect_torch.engine.ray.dispatch import Assignment, Dispatch, Node
from bisect_torch.engine.ray.wording import Wording
from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind, Case, CaseFile, CaseKind, Environment, Instance, Isolation
from bisect_torch.numerics.guard import settings as guard
from bisect_torch.uv_program import install_line
from tests.support.index import FakeIndex
from tests.support.tool import Tool
from tests.support.wheels import releases

FILE = CaseFile(Path("/cases.py"), "0" * 64, CaseKind.CASE)


def task(build: str, cells: int = 3, device: str = "cpu") -> Task:
    what = Build(BuildKind.RELEASE, build, build)
    environment = Environment(what, Path(), Path(), "3.11.7", "", {}, build, None, None, "pypi")
    runs = [CellRun(Instance(Case(FILE, "a"), (("n", n),)), what, device, 0, Isolation.FORK) for n in range(cells)]
    return Task(environment, tuple(runs), forked=True)


def nodes(count: int = 3, devices: tuple[str, ...] = ("cpu",)) -> list[Node]:
    return [Node(f"n{number}", frozenset(devices), slots=2) for number in range(count)]


def numbers(task: Task) -> list[object]:
    return [dict(run.instance.parameters)["n"] for run in task.runs]


# --- which node runs what


def test_tasks_go_to_the_node_that_has_the_environment_and_builds_are_shared_out() -> None:
    places = nodes()
    whole = Dispatch(places)
    for build in ("1", "2", "3", "4", "5", "6"):
        assert whole.add(task(build), 0.0)

    assert [len(place.builds) for place in places] == [2, 2, 2]
    for place in places:
        assert {work.build for work in whole.for_node(place, 0.0)} <= place.builds


def test_a_node_holds_as_many_tasks_as_it_can_run() -> None:
    (place,) = nodes(1)
    whole = Dispatch([place])
    for _ in range(5):
        whole.add(task("1"), 0.0)

    given = whole.for_node(place, 0.0)
    assert len(given) == 2
    assert whole.for_node(place, 0.0) == []
    for number in range(3):
        whole.ended(place, given[0].number, number)
    assert len(whole.for_node(place, 0.0)) == 1


def test_what_waits_for_an_accelerator_does_not_keep_the_cpu_waiting() -> None:
    (place,) = nodes(1, ("cpu", "cuda:0"))
    whole = Dispatch([place])
    for device in ["cuda:0"] * 5 + ["cpu"] * 5:
        whole.add(task("1", device=device), 0.0)

    assert Counter(work.device for work in whole.for_node(place, 0.0)) == {"cuda:0": 1, "cpu": 2}


def test_a_device_is_only_used_where_it_is() -> None:
    plain, fast = Node("plain", frozenset({"cpu"}), 1), Node("fast", frozenset({"cpu", "cuda:0"}), 1)
    whole = Dispatch([plain, fast])
    plain.builds.add("1")
    whole.add(task("1", device="cuda:0"), 0.0)

    assert whole.for_node(plain, 99.0) == []
    assert len(whole.for_node(fast, 0.0)) == 1
    assert not whole.add(task("1", device="cuda:1"), 0.0)


def test_a_node_with_room_makes_the_environment_once_more_when_that_pays() -> None:
    first, second = nodes(2)
    whole = Dispatch([first, second])
    for _ in range(4):
        whole.add(task("1"), 0.0)
    whole.for_node(first, 0.0)
    second.making = 1
    assert whole.for_node(second, 99.0) == [], "it has something to do"
    second.making = 0

    assert whole.for_node(second, dispatch.SPREAD_AFTER_S - 1) == []
    assert len(whole.for_node(second, dispatch.SPREAD_AFTER_S)) == 2


def lost_mid_task(places: list[Node]) -> tuple[Dispatch, Assignment]:
    """The first cell of three has ended on the first node, the second runs there, when it is lost."""
    whole = Dispatch(places)
    whole.add(task("1"), 0.0)
    (work,) = whole.for_node(places[0], 0.0)
    work.began |= {0, 1}
    whole.ended(places[0], work.number, 0)
    return whole, work


def test_a_lost_node_gives_back_what_had_not_ended() -> None:
    places = nodes(2)
    whole, _ = lost_mid_task(places)

    assert whole.lose(places[0], 1.0) == ([], 2)
    assert [numbers(work.task) for work in whole.for_node(places[1], 1.0)] == [[1], [2]]


def test_a_cell_that_ran_on_two_lost_nodes_is_told_and_its_neighbours_go_on() -> None:
    places = nodes(3)
    whole, _ = lost_mid_task(places)
    whole.lose(places[0], 1.0)
    again = whole.for_node(places[1], 1.0)
    again[0].began.add(0)

    given_up, given_back = whole.lose(places[1], 2.0)
    assert [numbers(dataclasses.replace(of, runs=(run,))) for of, run in given_up] == [[1]]
    assert given_back == 1
    assert [numbers(work.task) for work in whole.for_node(places[2], 2.0)] == [[2]]


def test_with_no_node_left_every_cell_is_told() -> None:
    places = nodes(1)
    whole, _ = lost_mid_task(places)
    for _ in range(3):
        whole.add(task("2"), 0.0)

    given_up, given_back = whole.lose(places[0], 1.0)
    assert (len(given_up), given_back) == (2 + 9, 0)
    assert not whole.add(task("1"), 1.0)


def test_a_node_that_cannot_have_an_environment_is_not_given_its_tasks() -> None:
    places = nodes(2)
    whole = Dispatch(places)
    whole.add(task("1"), 0.0)
    (work,) = whole.for_node(places[0], 0.0)

    assert whole.refuse(places[0], work.number, 0.0) == ()
    assert whole.for_node(places[0], 99.0) == []
    (work,) = whole.for_node(places[1], 0.0)
    assert len(whole.refuse(places[1], work.number, 0.0)) == 3


# --- which nodes take part


def test_cells_run_where_most_nodes_are_alike() -> None:
    cpu, other = Device("Linux-x86_64-avx2", "A", "", None), Device("Linux-x86_64-avx512", "B", "", None)
    none, fast = Device("Linux-x86_64-avx2", "", "", None), Device("Linux-x86_64-avx2", "GPU", "550", 80)
    small = dataclasses.replace(fast, memory_bytes=40)
    there = [{"cpu": other, "cuda:0": none}, {"cpu": cpu, "cuda:0": fast}, {"cpu": cpu, "cuda:0": small}]

    assert chosen_devices(["cpu", "cuda:0"], there) == {"cpu": cpu, "cuda:0": small}
    assert chosen_devices(["xpu"], [{"xpu": none}]) == {"xpu": none}


# --- what travels


def test_files_keep_their_places_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here / "sub", elsewhere):
        folder.mkdir(parents=True)
        (folder / "helper.py").write_text("VALUE = 1\n")
        (folder / "repro.py").write_text("import helper\n")
    (here / "run.sh").write_text("#!/bin/sh\n")
    (here / "run.sh").chmod(0o755)
    monkeypatch.chdir(here)
    found = cases.discover(["sub/repro.py", elsewhere / "repro.py"], command=["./run.sh", "sub/helper.py"])

    there = luggage.packed(found, here).unpack(tmp_path / "node")

    root = tmp_path / "node"
    assert {path: place.relative_to(root).as_posix() for path, place in there.files.items()} == {
        here / "sub" / "repro.py": "cwd/sub/repro.py",
        elsewhere / "repro.py": "folder-1/repro.py",
        here: "cwd",
    }
    for place in ("cwd/sub/helper.py", "folder-1/helper.py"):
        assert (root / place).read_text() == "VALUE = 1\n"
    assert (root / "cwd" / "run.sh").stat().st_mode & 0o111
    assert there.folders == {root / "cwd": here, root / "folder-1": elsewhere}


def test_a_file_that_changed_since_it_was_read_does_not_travel(tmp_path: Path) -> None:
    path = tmp_path / "repro.py"
    path.write_text("pass\n")
    found = cases.discover([path])
    path.write_text("raise\n")

    with pytest.raises(UsageError, match="has changed since"):
        luggage.packed(found, tmp_path)


def test_a_commands_file_elsewhere_does_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "train.py").write_text("pass\n")
    monkeypatch.chdir(here)

    for word in ("../train.py", str(tmp_path / "train.py")):
        with pytest.raises(UsageError, match="is not below the working directory"):
            luggage.packed(cases.discover([], command=["python", word]), here)


# --- how it is told


def test_facts_are_told_in_the_users_words(tmp_path: Path) -> None:
    node, user, store = tmp_path / "bt-1" / "cwd", Path("/home/mü/x"), tmp_path / "store"
    wording = Wording({node: user}, store)

    told = wording.facts(
        {
            "outcome": "raised",
            "traceback": f'File "{node}/repro.py", line 3\nFile "{store}/envs/2.9.1/lib/torch/x.py"',
            "warnings": json.dumps([f"UserWarning: in {node}/repro.py"]),
            "elapsed_s": 1.5,
        }
    )

    assert told["traceback"] == 'File "/home/mü/x/repro.py", line 3\nFile "<environment>/lib/torch/x.py"'
    assert json.loads(str(told["warnings"])) == ["UserWarning: in /home/mü/x/repro.py"]
    assert (told["outcome"], told["elapsed_s"]) == ("raised", 1.5)


# --- variables


def test_variables_that_steer_torch_travel_and_secrets_and_paths_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "OMP_NUM_THREADS": "3",
        "TORCH_LOGS": "+dynamo",
        "TORCH_HOME": "/home/me/torch",
        "TORCH_API_TOKEN": "s3cr3t-value",
        "HF_TOKEN": "hf-value",
        "PATH": "/bin",
        guard.VARIABLE: "1",
    }
    sent = variables.steering(given)
    assert sent == {"OMP_NUM_THREADS": "3", "TORCH_LOGS": "+dynamo", guard.VARIABLE: "1"}

    monkeypatch.setattr("os.environ", {"OMP_NUM_THREADS": "1", "MKL_X": "1", "CUDA_VISIBLE_DEVICES": "", "RAY_X": "1",
                                       "LANG": "C"})  # fmt: skip
    variables.adopt(sent, {"CUDA_VISIBLE_DEVICES": "2", "OMP_NUM_THREADS": "9"})
    assert variables.for_cells() == {
        "OMP_NUM_THREADS": "3",
        "TORCH_LOGS": "+dynamo",
        "CUDA_VISIBLE_DEVICES": "2",
        "LANG": "C",
        guard.VARIABLE: "1",
    }


# --- what is refused


def refused(tool: Tool, *words: str, **variables: str) -> list[str]:
    answer = tool.run(*words, "--from", "2.1.0", "--quiet", "--executor", "ray", **variables)
    assert answer.code == 2, answer.stderr
    assert not list((tool.folder / "store").glob("envs/*"))
    return answer.stderr.splitlines()


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    with FakeIndex(releases({"2.1.0": ""})) as index:
        tool = Tool(tmp_path, index)
        tool.write("repro.py", "import torch\n")
        yield tool


def test_without_ray_a_line_says_how_to_get_it(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "ray.py").write_text("raise ModuleNotFoundError('No module named ray', name='ray')\n")
    root = str(Path(__file__).parents[2])

    assert refused(tool, "repro.py", PYTHONPATH=os.pathsep.join([str(tmp_path / "without"), root])) == [
        "error: --executor ray needs ray, which is not installed",
        f"hint: {install_line('ray')}",
    ]


@pytest.mark.parametrize(
    ("said", "line", "hint"),
    [
        (
            "Could not find any running Ray instance. Please specify the one to connect to by setting the `--address` "
            "flag or `RAY_ADDRESS` environment variable.",
            "error: there is no Ray cluster: this machine is a node of none that answers",
            "hint: ray start --head makes a cluster of this machine alone, and ray stop ends it; RAY_ADDRESS=HOST:6379 "
            "before the line names a cluster of which this machine is a node",
        ),
        (
            "Found multiple active Ray instances: {'10.0.0.2:6379', '127.0.0.1:6380'}. Please specify the one to "
            "connect to by setting the `--address` flag or `RAY_ADDRESS` environment variable.",
            "error: this machine is a node of several Ray clusters",
            "hint: RAY_ADDRESS=HOST:PORT before the line names one of them: 10.0.0.2:6379, 127.0.0.1:6380",
        ),
    ],
)
def test_without_a_cluster_it_is_said_how_to_get_one_and_no_option_of_rays_is_named(
    said: str, line: str, hint: str, tool: Tool, tmp_path: Path
) -> None:
    (tmp_path / "without").mkdir()
    program = f"def init(**_):\n    raise ConnectionError({said!r})\n\n\ndef shutdown():\n    pass\n"
    (tmp_path / "without" / "ray.py").write_text(program)
    root = str(Path(__file__).parents[2])

    with_fake = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "without"), root]), "RAY_ADDRESS": ""}
    assert refused(tool, "repro.py", **with_fake) == [line, hint]


def test_what_the_nodes_cannot_do_is_refused(tool: Tool) -> None:
    line, hint = refused(tool, "repro.py", "--max-disk", "16GB")
    assert line == "error: --max-disk is for the store of this machine, not for those of a cluster's nodes"
    assert hint.startswith("hint: ")


def test_the_plan_needs_no_cluster(tool: Tool) -> None:
    answer = tool.run("repro.py", "--from", "2.1.0", "--executor", "ray", "--dry-run")

    assert answer.code == 0, answer.stderr
    assert answer.stdout.startswith("1 build: environments are made on the nodes where they are not there;")
