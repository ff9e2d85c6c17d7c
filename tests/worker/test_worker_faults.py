"""Whatever a cell does, its facts say what happened, the next cell is untouched and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import FACT_FIELDS, Isolation
from bisect_torch.worker import system
from tests.worker.support import StartWorker, eventually, fault


def check_untouched(worker: WorkerProcess) -> None:
    """The next cell on the same worker is right, and the worker has no child left."""
    facts = worker.run(fault("right"))
    assert facts["outcome"] == "returned"
    assert facts["stdout_tail"] == "fine\n"
    assert facts["worker"] == worker.worker_id, "the worker no longer forks"
    assert system.descendants(worker._process.pid) == []
    assert [entry for entry in os.listdir(worker._base) if entry != "log"] == []


@pytest.mark.parametrize("first", ["right", "segfaults", "leaves_a_child_in_a_session_of_its_own", "is_killed"])
def test_a_cell_that_is_asked_for_early_begins_when_the_one_before_has_ended(start: StartWorker, first: str) -> None:
    with start() as worker:
        alone = worker.run(fault(first))
        before, after = worker.ask(fault(first)), worker.ask(fault("right"))
        early = worker.ask(fault("raises"))
        assert (before()["outcome"], after()["stdout_tail"]) == (alone["outcome"], "fine\n")
        assert early()["error_type"] == "ValueError"
        check_untouched(worker)


def test_cells_of_a_worker_that_dies_are_lost_also_those_that_wait(start: StartWorker) -> None:
    with start() as worker:
        answers = [worker.ask(fault("hangs_in_native_code", timeout_s=100.0)), worker.ask(fault("right"))]
        os.kill(worker.process_id, signal.SIGKILL)
        answers.append(worker.ask(fault("right")))
        assert [answer()["outcome"] for answer in answers] == ["lost"] * 3


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("right", {"outcome": "returned", "stdout_tail": "fine\n"}),
        ("returns_false", {"outcome": "returned", "returned_false": True}),
        ("returns_what_can_be_called", {"outcome": "returned", "reason": None}),
        ("raises", {"outcome": "raised", "error_type": "ValueError", "message": "a wrong number: 17", "phase": "run"}),
        ("asserts", {"outcome": "raised", "error_type": "AssertionError", "frame_origin": "case"}),
        ("skips", {"outcome": "skipped", "reason": "no such device"}),
        ("segfaults", {"outcome": "signalled", "signal": "SIGSEGV", "phase": "run"}),
        ("reads_address_zero", {"outcome": "signalled", "signal": "SIGSEGV", "phase": "run"}),
        ("aborts", {"outcome": "signalled", "signal": "SIGABRT", "phase": "run"}),
        ("divides_by_zero", {"outcome": "signalled", "signal": "SIGFPE", "phase": "run"}),
        ("leaves_without_a_result", {"outcome": "exited", "exit_code": 0, "phase": "run"}),
        ("leaves_a_child_on_the_pipe", {"outcome": "returned"}),
        ("leaves_a_child_in_a_session_of_its_own", {"outcome": "returned"}),
        ("forges_messages", {"outcome": "returned"}),
        ("raises_memory_error", {"outcome": "out_of_memory", "error_type": "MemoryError"}),
        ("leaves_threads", {"outcome": "returned"}),
        ("crashes_when_its_objects_go", {"outcome": "signalled", "signal": "SIGABRT"}),
        ("is_killed", {"outcome": "lost", "signal": "SIGKILL"}),
        ("leaves_files", {"outcome": "returned"}),
        ("warns", {"outcome": "returned", "warnings": '["UserWarning: careful"]'}),
        ("wants_a_module", {"outcome": "raised", "missing_module": "no_such_module_here"}),
        ("wants_a_name_of_torch", {"outcome": "raised", "absent_name": "torch.no_such_function_ever"}),
        ("reads_stdin", {"outcome": "returned"}),
    ],
)
def test_what_happens_is_what_is_said(
    start: StartWorker, isolation: Isolation, case: str, expected: dict[str, object]
) -> None:
    worker = start()
    facts = worker.run(fault(case, isolation, timeout_s=20.0))
    assert {name: facts.get(name) for name in expected} == expected
    assert facts["isolation"] == isolation.value
    assert set(facts) <= FACT_FIELDS
    check_untouched(worker)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("returns_skip_uncalled", "it returned the function skip, not what that gives: write return skip(…)"),
        ("returns_a_lambda", "it returned a lambda, not what that gives: call it"),
        ("returns_a_partial", "it returned a function, not what that gives: call it"),
        ("returns_a_generator", "it returned a generator, not what that gives: make a list of it"),
        ("returns_a_map", "it returned a map, not what that gives: make a list of it"),
        ("returns_a_coroutine_in_a_list", "it returned a coroutine, not what that gives: asyncio.run(…) runs it"),
    ],
)
def test_what_a_case_returns_that_has_still_to_run_is_said(start: StartWorker, case: str, reason: str) -> None:
    facts = start().run(fault(case))
    assert (facts["outcome"], facts["reason"]) == ("returned", f"the case's own mistake: {reason}")


def test_a_function_beside_a_value_is_a_value(start: StartWorker) -> None:
    facts = start().run(fault("returns_a_value_and_a_function"))
    assert (facts["outcome"], facts.get("reason")) == ("returned", None)


def test_more_answers_than_one_are_no_answer(start: StartWorker) -> None:
    facts = start().run(fault("returns_an_answer_with_its_reason"))
    assert (facts["outcome"], facts["returned_false"]) == ("returned", False)
    assert str(facts["reason"]).startswith("the case's own mistake: it returned several truth values")


@pytest.mark.parametrize(("status", "outcome"), [(0, "returned"), (3, "exited"), (125, "skipped")])
def test_system_exit(start: StartWorker, isolation: Isolation, status: int, outcome: str) -> None:
    facts = start().run(fault("exits", isolation, parameters={"status": status}))
    assert facts["outcome"] == outcome
    if status:
        assert facts["exit_code"] == status


@pytest.mark.parametrize("case", ["hangs_in_native_code", "ignores_sigterm"])
def test_a_hang_is_a_timeout_with_its_stack(start: StartWorker, isolation: Isolation, case: str) -> None:
    worker = start()
    began = time.monotonic()
    facts = worker.run(fault(case, isolation, timeout_s=0.5))
    assert time.monotonic() - began < 6
    assert facts["outcome"] == "timed_out"
    assert facts["phase"] == "run"
    assert f"in {case}" in str(facts["stack"])
    check_untouched(worker)


def test_a_crash_at_interpreter_exit_is_seen_where_there_is_one(start: StartWorker) -> None:
    worker = start()
    facts = worker.run(fault("crashes_at_exit", Isolation.PROCESS))
    assert (facts["outcome"], facts["signal"], facts["phase"]) == ("signalled", "SIGABRT", "exit")
    facts = worker.run(fault("crashes_at_exit", Isolation.FORK, full_teardown=True))
    assert (facts["outcome"], facts["signal"], facts["phase"]) == ("signalled", "SIGABRT", "exit")
    check_untouched(worker)


def test_a_gigabyte_on_stdout_is_read_and_not_kept(start: StartWorker) -> None:
    worker = start()
    facts = worker.run(fault("floods_stdout", parameters={"mebibytes": 1024}, timeout_s=60.0))
    assert facts["outcome"] == "returned"
    assert facts["output_bytes"] == 2**30 + len("the end\n")
    assert str(facts["stdout_tail"]).endswith("xxx" + "the end\n")
    assert len(str(facts["stdout_tail"])) < 100_000
    assert system.resident_bytes(worker._process.pid) < 100 * 2**20
    check_untouched(worker)


def test_more_memory_than_allowed(start: StartWorker, isolation: Isolation) -> None:
    worker = start()
    facts = worker.run(fault("takes_much_memory", isolation, memory_bytes=200 * 2**20, timeout_s=20.0))
    assert facts["outcome"] == "out_of_memory"
    assert 200 * 2**20 < int(str(facts["peak_rss_bytes"])) < 800 * 2**20
    check_untouched(worker)


def test_peak_memory_is_the_cells_own(start: StartWorker) -> None:
    facts = start().run(fault("right"))
    assert int(str(facts["peak_rss_bytes"])) < 5 * 2**20


def test_a_killed_worker_loses_its_cell_and_leaves_nothing(start: StartWorker) -> None:
    worker = start()
    killer = threading.Timer(0.5, os.kill, (worker._process.pid, signal.SIGKILL))
    killer.start()
    facts = worker.run(fault("leaves_a_child_then_hangs", timeout_s=30.0))
    killer.join()
    assert facts["outcome"] == "lost"
    assert "SIGKILL" in str(facts["reason"])
    assert worker.run(fault("right"))["outcome"] == "lost"


def test_kill_from_another_thread_ends_a_run_at_once(start: StartWorker) -> None:
    worker = start()
    killer = threading.Timer(0.5, worker.kill)
    began = time.monotonic()
    killer.start()
    facts = worker.run(fault("leaves_a_child_then_hangs", timeout_s=30.0))
    killer.join()
    assert facts["outcome"] == "lost"
    assert time.monotonic() - began < 2.5


def test_the_end_of_the_socket_ends_the_cell(start: StartWorker) -> None:
    """kill -9 of the orchestrator closes its socket."""
    worker = start()
    runner = threading.Thread(target=worker.run, args=(fault("ignores_sigterm", timeout_s=60.0),))
    runner.start()
    assert eventually(lambda: len(system.descendants(worker._process.pid)) == 1)
    below = system.descendants(worker._process.pid)
    worker._connection.shutdown(2)
    runner.join()
    assert eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in below))
    assert eventually(lambda: worker._process.poll() is not None)
    assert not worker._base.exists()


def test_a_machine_that_slept_is_no_timeout(start: StartWorker) -> None:
    worker = start()
    results: list[dict[str, object]] = []
    request = fault("takes_a_while", parameters={"seconds": 1.0}, timeout_s=3.0)
    runner = threading.Thread(target=lambda: results.append(worker.run(request)))
    runner.start()
    assert eventually(lambda: len(system.descendants(worker._process.pid)) == 1)
    everything = [worker._process.pid, *system.descendants(worker._process.pid)]
    time.sleep(0.3)
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4.0)
    for pid in reversed(everything):
        os.kill(pid, signal.SIGCONT)
    runner.join()
    assert results[0]["outcome"] == "returned"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux to put everything on one core")
@pytest.mark.parametrize(("seconds", "outcome"), [(0.6, "returned"), (1e6, "timed_out")])
def test_waiting_for_a_core_is_no_timeout_and_never_ending_is(start: StartWorker, seconds: float, outcome: str) -> None:
    worker = start()
    one_core = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(worker._process.pid, one_core)
    # In sessions of their own, as the cell is: the scheduler shares a core between sessions.
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(4)]
    try:
        for each in others:
            os.sched_setaffinity(each.pid, one_core)
        facts = worker.run(fault("works_a_while", parameters={"seconds": seconds}, timeout_s=1.2))
    finally:
        for each in others:
            each.kill()
            each.wait()
    assert facts["outcome"] == outcome


def test_a_hundred_cells_leak_nothing(start: StartWorker) -> None:
    worker = start()
    folder = f"/proc/{worker._process.pid}/fd"
    worker.run(fault("right"))
    before = len(os.listdir(folder))
    for _ in range(100):
        worker.run(fault("right"))
    assert len(os.listdir(folder)) == before
    check_untouched(worker)
