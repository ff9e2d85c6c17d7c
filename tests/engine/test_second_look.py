"""Which repeats are still wanted, and how many were left out for want of time."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from bisect_torch.engine.second_look import CONFIRMING_S, SecondLook


class Ledger:
    """Wants these repeats of builds, of which so many fit the time that there is."""

    def __init__(self, builds: str, fitting: int) -> None:
        self.asked: list[float | None] = []
        self._runs = [SimpleNamespace(build=SimpleNamespace(name=name)) for name in builds]
        self._fitting = fitting

    def confirmations(self, budget_s: float | None, *, more_builds: bool) -> list[Any]:
        self.asked.append(budget_s)
        return self._runs if budget_s is None else self._runs[: self._fitting]


def look(ledger: Ledger, *, failed: str = "", confirm: bool = True) -> SecondLook:
    failures = [SimpleNamespace(build=SimpleNamespace(name=name)) for name in failed]
    making: Any = SimpleNamespace(waiting=False, failures=failures)
    tell: Any = SimpleNamespace(step=lambda what: contextlib.nullcontext())
    rows: Any = None
    site: Any = None
    known: Any = ledger
    return SecondLook(known, rows, making, site, tell, confirm=confirm)


def test_where_nothing_is_wanted_every_cell_is_looked_at_once() -> None:
    """A second run of a line does nothing else."""
    ledger = Ledger("", 0)
    second = look(ledger)
    assert second.at_cells() == []
    assert second.left_out() is None
    assert ledger.asked == [None]


def test_what_does_not_fit_the_time_is_counted() -> None:
    ledger = Ledger("abc", 2)
    second = look(ledger)
    assert [run.build.name for run in second.at_cells()] == ["a", "b"]
    assert ledger.asked == [None, CONFIRMING_S]
    nothing_fits = look(Ledger("abc", 0))
    assert nothing_fits.at_cells() == []
    assert nothing_fits.left_out() == "3 confirming repeats were left out, beyond 30 min"


def test_builds_that_can_have_no_environment_are_not_waited_for() -> None:
    second = look(Ledger("aab", 0), failed="a")
    assert second.at_cells() == []
    assert second.left_out() == "1 confirming repeat was left out, beyond 30 min"


def test_a_first_look_confirms_nothing_and_says_what_it_leaves_out() -> None:
    second = look(Ledger("abc", 3), confirm=False)
    assert second.at_cells() == []
    left = (
        "3 runs that would confirm it were left out (--no-confirm): the same line without that word goes on with them"
    )
    assert second.left_out() == left
    assert look(Ledger("", 0), confirm=False).left_out() is None
