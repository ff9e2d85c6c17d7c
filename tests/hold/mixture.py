"""Many cells of every kind, good and hostile, on one environment, and what each must be judged.

    python -m tests.hold.mixture PYTHON COUNT SEED FOLDER

It is a process of its own, so that its memory, its descriptors and its temporary folder are those of the orchestrator.
It prints one JSON object: :class:`Counted`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch import analysis, cases
from bisect_torch.engine.conditions import Conditions
from bisect_torch.engine.executor import LocalExecutor
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.engine.slot_messages import CellDone, Message, SlotFailed
from bisect_torch.environments.variables import clean_environment_variables
from bisect_torch.model import Instance, Isolation, Observation
from bisect_torch.worker import system
from tests.worker.support import REPOSITORY, environment_of, eventually, open_descriptors

KINDS = Path(__file__).with_name("mixed_cases.py")

EXPECTED: dict[str, tuple[str, float]] = {
    "adds": ("ok", 20),
    "multiplies": ("ok", 8),
    "goes_backward": ("ok", 4),
    "returns_false": ("wrong", 4),
    "asserts": ("wrong", 4),
    "checks_a_wrong_value": ("wrong", 4),
    "raises": ("error:ValueError", 4),
    "misuses_torch": ("error:RuntimeError", 4),
    "segfaults": ("crash:SIGSEGV", 2),
    "reads_address_zero": ("crash:SIGSEGV", 2),
    "aborts": ("crash:SIGABRT", 2),
    "aborts_after_its_answer": ("crash:SIGABRT", 2),
    "divides_by_zero": ("crash:SIGFPE", 2),
    "meets_an_illegal_instruction": ("crash:SIGILL", 2),
    "meets_a_bus_error": ("crash:SIGBUS", 2),
    "traps": ("crash:SIGTRAP", 2),
    "leaves_without_a_result": ("crash:exit 0", 2),
    "leaves_with_a_status": ("crash:exit 7", 2),
    "exits_well": ("ok", 2),
    "exits_with_a_status": ("error:exit 3", 2),
    "skips": ("skip", 2),
    "hangs": ("timeout", 0.15),
    "hangs_in_native_code": ("timeout", 0.15),
    "hangs_with_children_on_the_pipe": ("timeout", 0.15),
    "floods_stdout": ("ok", 2),
    "floods_stderr_and_asserts": ("wrong", 1),
    "leaks": ("ok", 2),
    "leaves_a_child_on_the_pipe": ("ok", 2),
    "leaves_children_in_sessions_of_their_own": ("ok", 2),
    "leaves_a_fork_of_itself": ("ok", 2),
    "leaves_a_pool": ("ok", 1),
    "crashes_with_children": ("crash:SIGSEGV", 2),
    "forges_messages": ("ok", 2),
    "prints_what_looks_like_a_message": ("wrong", 2),
    "leaves_threads": ("ok", 2),
    "leaves_threads_of_torch": ("ok", 2),
    "leaves_temporary_files": ("ok", 2),
    "leaves_temporary_files_and_crashes": ("crash:SIGABRT", 2),
    "leaves_shared_memory": ("ok", 2),
    "leaves_shared_memory_and_crashes": ("crash:SIGSEGV", 2),
    "shares_tensors_by_name": ("ok", 1),
    "shares_tensors_by_name_and_crashes": ("crash:SIGSEGV", 1),
    "leaves_a_system_v_segment": ("ok", 2),
    "leaves_a_system_v_segment_and_crashes": ("crash:SIGFPE", 2),
    "a_child_with_a_system_v_segment_stays": ("ok", 1),
    "asks_torch_for_too_much": ("oom", 2),
    "is_refused_memory": ("oom", 2),
    "is_refused_memory_by_a_limit": ("oom", 2),
    "is_killed": ("infra", 0.1),
    "kills_its_worker": ("infra", 0.1),
}
"""Kind to its signature and its weight."""

_SLICE = 250
_OWN_INTERPRETER = 200
"""One cell in so many has an interpreter of its own."""

_SHARED_SIZE = 40961
"""Of System V segments that the cells make: nobody else's have it."""


@dataclass
class Counted:
    """What was counted.

    Args:
        misjudged: Kind, what it must be, what it was judged; a few of them.
        kinds: How many cells of each kind were run.
        left: What is left of the cells, in words.
        resident_kib: The orchestrator's memory after a tenth of the cells, and after all.
    """

    cells: int = 0
    survived: int = 0
    lost: int = 0
    misjudged: list[tuple[str, str, str]] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    resident_kib: tuple[int, int] = (0, 0)


def chosen(count: int, dice: random.Random) -> list[str]:
    """Kinds of ``count`` cells: each of them once where there is room, the others by weight."""
    names = list(EXPECTED)
    weights = [weight for _, weight in EXPECTED.values()]
    kinds = names[:count] + dice.choices(names, weights, k=max(0, count - len(names)))
    dice.shuffle(kinds)
    return kinds


def main(python: Path, count: int, seed: int, folder: Path) -> Counted:
    dice = random.Random(seed)
    mark = f"bt{os.getpid()}x"
    environment = environment_of(python)
    instances = {each.case.name: each for item in cases.discover([KINDS]) for each in item.instances or ()}
    assert instances.keys() == EXPECTED.keys()
    runs = [_run(instances[kind], number, dice) for number, kind in enumerate(chosen(count, dice))]
    counted = Counted(kinds=dict(Counter(run.instance.case.name for run in runs)))
    before = (open_descriptors(), shared_memory(mark))
    ended = threading.Event()
    resident = []

    def deliver(message: Message) -> None:
        if isinstance(message, SlotFailed):
            raise message.error
        if not isinstance(message, CellDone):
            return
        counted.cells += 1
        _judge(message, counted)
        if counted.cells == count // 10:
            resident.append(_resident_kib())
        if counted.cells == count:
            ended.set()

    lock = threading.Lock()

    def delivered(message: Message) -> None:
        with lock:
            deliver(message)

    conditions = Conditions(
        staged=REPOSITORY,
        environment_variables=lambda made: clean_environment_variables(made.python) | {"TEST_MARK": mark},
        capability=lambda made, name: None,
        timeout_s=60.0,
        threads=1,
        memory_bytes=2**32,
        seed=seed,
        working_directory=folder,
    )
    executor = LocalExecutor(2, conditions, delivered)
    forked = [run for run in runs if run.isolation is Isolation.FORK]
    for start in range(0, len(forked), _SLICE):
        executor.submit(Task(environment, tuple(forked[start : start + _SLICE]), forked=True))
    for run in runs:
        if run.isolation is Isolation.PROCESS:
            executor.submit(Task(environment, (run,), forked=False))
    executor.close()
    counted.lost = count - counted.cells
    counted.resident_kib = (resident[0], _resident_kib())
    counted.left += [f"process {each}" for each in sorted(processes_of(mark))]
    counted.left += [f"descriptor {each}" for each in sorted(open_descriptors() - before[0])]
    # Another run of this on the machine has segments in use at every moment, but none of them for long.
    eventually(lambda: shared_memory(mark) <= before[1], 10.0)
    counted.left += [f"shared memory {each}" for each in sorted(shared_memory(mark) - before[1])]
    counted.left += [f"file {each}" for each in sorted(Path(os.environ["TMPDIR"]).rglob("*"))]
    return counted


def _run(instance: Instance, number: int, dice: random.Random) -> CellRun:
    own = dice.randrange(_OWN_INTERPRETER) == 0
    build = environment_of(Path("python")).build
    return CellRun(instance, build, "cpu", number, Isolation.PROCESS if own else Isolation.FORK)


def _judge(done: CellDone, counted: Counted) -> None:
    kind = done.run.instance.case.name
    known = {name: "" for name in ("key", "run_id", "build", "build_name", "build_kind", "case_file_hash")}
    facts = {"case_file": KINDS.name, "case": kind, "instance": kind, "device": "cpu", "repeat": 0, **known}
    signature = analysis.judge(Observation(**{**done.facts, **facts})).signature  # type: ignore[arg-type]
    if signature == EXPECTED[kind][0]:
        counted.survived += 1
    else:
        said = done.facts.get("message") or done.facts.get("reason") or done.facts.get("stderr_tail")
        counted.misjudged.append((kind, EXPECTED[kind][0], f"{signature}: {said!s:.200}"))


def _resident_kib() -> int:
    return system.resident_bytes(os.getpid()) // 1024


def processes_of(mark: str) -> set[int]:
    """Processes with the mark in their environment or command line."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:  # it has gone
            continue
        if mark.encode() in held and int(folder.name) != os.getpid():
            found.add(int(folder.name))
    return found


def shared_memory(mark: str) -> set[str]:
    """Segments that cells like these make: by their mark, by the number of a process that has gone, by their size."""
    found = set()
    for path in Path("/dev/shm").glob("*"):
        owner = path.name.split("_")[1] if path.name.startswith("torch_") else ""
        dead = owner.isdigit() and not Path("/proc", owner).exists()
        if mark in path.name or path.name.startswith(("psm_", "sem.mp-")) or dead:
            found.add(path.name)
    for line in system.read_file("/proc/sysvipc/shm").splitlines()[1:]:
        words = line.split()
        if words[3] == str(_SHARED_SIZE):
            found.add(f"System V {words[1]}")
    return found


if __name__ == "__main__":
    python, count, seed, folder = sys.argv[1:]
    print(json.dumps(dataclasses.asdict(main(Path(python), int(count), int(seed), Path(folder)))))
