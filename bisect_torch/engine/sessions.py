"""Runs the tests of a suite in as few processes as their crashes allow, and sees that each gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.conditions import Facts
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Outcome


def run_tests(
    runs: Sequence[CellRun],
    *,
    start: Callable[[], AbstractContextManager[WorkerProcess]],
    request: Callable[[Sequence[CellRun]], CellRequest],
    began: Callable[[CellRun], None],
    ended: Callable[[CellRun, Facts], None],
    note: Callable[[str], None],
    stopped: Callable[[], bool],
) -> None:
    """Run tests in one process after another: when one dies or hangs, its running test is blamed, and the rest goes on
    in the next.

    Args:
        start: Gives a worker.
        request: What to ask it for.
        began: Called when a test begins.
        ended: Called once for every test, unless the run is stopped.
        note: Called with what must be said and belongs to no test.
        stopped: Whether the run is to end.
    """
    waiting = list(runs)
    while waiting and not stopped():
        current, answered = waiting, set[int]()

        def tell(message: Mapping[str, Any], current: list[CellRun] = current, answered: set[int] = answered) -> None:
            if stopped():
                return  # killed on purpose: what it says is no observation
            if "began" in message:
                began(current[message["began"]])
            elif message["ended"] not in answered:
                answered.add(message["ended"])
                ended(current[message["ended"]], message["facts"])

        try:
            with start() as worker:
                end = worker.session(request(current), tell)
        except BisectTorchError as error:
            end = {"blamed": None, "reason": error.message, "lost": True, "at_exit": None}
        if end["blamed"] is not None:
            tell({"ended": end["blamed"], "facts": end["facts"]})
        if end["at_exit"] is not None:
            note(_at_exit(end["at_exit"], len(current)))
        waiting = [run for number, run in enumerate(current) if number not in answered]
        if not answered and not stopped():
            outcome = Outcome.LOST if end["lost"] else Outcome.ENVIRONMENT_BROKEN
            for run in waiting:
                ended(run, {"outcome": outcome.value, "reason": end["reason"], "phase": "load"})
            return


def _at_exit(facts: Mapping[str, Any], tests: int) -> str:
    how = facts.get("signal") or facts.get("reason") or facts.get("outcome")
    return f"the process of {tests} tests did not leave as it should, after all of them had ended: {how}"
