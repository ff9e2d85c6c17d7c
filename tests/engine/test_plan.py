"""What runs where, and in what groups."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.engine.memory_budget import MemoryBudget
from bisect_torch.engine.plan import CellRun, needs_compile, tasks, why_not
from bisect_torch.model import Build, BuildKind, Case, CaseFile, CaseKind, Environment, Instance, Isolation, Limits

BUILD = Build(BuildKind.RELEASE, "2.9.1", "2.9.1")
ENVIRONMENT = Environment(BUILD, Path(), Path(), "3.11.7", "hash", {}, "2.9.1", None, None, "pypi")
FILE = CaseFile(Path("cases.py"), "hash", CaseKind.CASE)
ANY, GPU = Case(FILE, "any"), Case(FILE, "gpu", devices=("cuda",))
GIB = 2**30


def a_run(name: str, *, repeat: int = 0, isolation: Isolation = Isolation.FORK, compiles: bool = False) -> CellRun:
    case = Case(FILE, name, needs=("compile",) if compiles else ())
    return CellRun(Instance(case), BUILD, "cpu", repeat, isolation)


RUNS = st.lists(
    st.builds(
        lambda number, repeat, isolation, compiles: a_run(
            f"case{number}", repeat=repeat, isolation=isolation, compiles=compiles
        ),
        st.integers(0, 500),
        st.integers(0, 3),
        st.sampled_from(Isolation),
        st.booleans(),
    ),
    max_size=300,
)


@given(RUNS, st.integers(1, 8))
def test_tasks_hold_every_run_once_and_never_two_repeats_of_a_cell(runs: list[CellRun], workers: int) -> None:
    made = tasks(ENVIRONMENT, runs, workers=workers)

    assert sorted(run.instance.name for task in made for run in task.runs) == sorted(run.instance.name for run in runs)
    for task in made:
        assert len({run.repeat for run in task.runs}) == 1
        assert task.forked == (task.runs[0].isolation is Isolation.FORK)
        assert len({run.isolation for run in task.runs}) == 1
        assert len(task.runs) == 1 or task.runs[0].isolation is not Isolation.PROCESS
        stages = [needs_compile(run.instance.case) for run in task.runs]
        assert not task.forked or stages == sorted(stages), "the compiler stack is loaded last"


def test_a_single_environment_keeps_all_workers_busy() -> None:
    runs = [a_run(f"case{number}") for number in range(1000)]

    assert [len(task.runs) for task in tasks(ENVIRONMENT, runs, workers=2)] == [500, 500]


def test_few_cells_share_one_import() -> None:
    assert len(tasks(ENVIRONMENT, [a_run(f"case{number}") for number in range(20)], workers=8)) == 1


@pytest.mark.parametrize(
    ("instance", "device", "reason"),
    [
        (Instance(ANY), "cpu", None),
        (Instance(GPU), "cpu", "made for cuda, not for cpu"),
        (Instance(GPU), "cuda:1", None),
        (Instance(ANY, (), Limits({"cpu": 9 * GIB})), "cpu", "needs 9.0 GiB of cpu memory, 8.0 GiB may be used here"),
        (Instance(ANY, (), Limits({"cpu": GIB, "cuda": 50 * GIB})), "cuda", "needs 50.0 GiB of cuda memory"),
        (Instance(ANY, (), Limits({"cuda": 30 * GIB})), "cuda", None),
        (Instance(ANY, (), Limits(), {"cuda": Limits({"cpu": GIB, "cuda": 50 * GIB})}), "cuda:0", "needs 50.0 GiB of"),
        (Instance(ANY, (), Limits(), {"cuda": Limits({"cpu": 9 * GIB})}), "cuda:0", "needs 9.0 GiB of cpu memory"),
        (Instance(ANY, (), Limits(), {"cuda": Limits({"cpu": 9 * GIB})}), "cpu", None),
    ],
)
def test_an_instance_that_does_not_apply_says_why_with_numbers(
    instance: Instance, device: str, reason: str | None
) -> None:
    found = why_not(instance, device, 8 * GIB, None if device == "cpu" else 40 * GIB, None)

    assert found == reason or (found is not None and reason is not None and found.startswith(reason))


def test_declared_sizes_are_admitted_only_while_they_fit_together() -> None:
    budget = MemoryBudget(10)
    inside = threading.Event()

    def take() -> None:
        with budget.reserve(6):
            inside.set()

    with budget.reserve(5):
        waiting = threading.Thread(target=take)
        waiting.start()
        assert not inside.wait(0.1)
    assert inside.wait(5)
    waiting.join()


def test_a_cell_larger_than_everything_runs_alone() -> None:
    budget = MemoryBudget(10)

    with budget.reserve(50):
        pass
