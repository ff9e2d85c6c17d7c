"""A run: environments are made ready on one side, cells run on the other, and this loop joins them.

All state lives in the thread that calls :meth:`Run.execute`; what makes environments and what runs cells only put
messages into its inbox. Nothing here judges or draws: verdicts come from ``analysis``, the observer draws.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import queue
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from bisect_torch import cases, environments, own_files, temporary
from bisect_torch.engine import events, other_state, plan, record
from bisect_torch.engine.ledger import Ledger
from bisect_torch.engine.making import Made, Making
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.engine.rotation import Rotation
from bisect_torch.engine.rows import Rows
from bisect_torch.engine.second_look import SecondLook
from bisect_torch.engine.site import Failed, LocalSite, Ready, Site, Told, Unproven
from bisect_torch.engine.slot_messages import CellBegan, CellDone, Expanded
from bisect_torch.engine.telling import Telling
from bisect_torch.engine.under_way import UnderWay
from bisect_torch.engine.variables import set_otherwise
from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.interruption import Interruption
from bisect_torch.model import Build, CaseKind, Environment, Instance, Judgement, Observation, Outcome

_STOP_GRACE_S = 1.0

_Inbox = Told | Ready | Failed | Made
_Cell = tuple[plan.CellRun, Environment | None, Mapping[str, object]]
_OF_CELLS = (CellBegan, CellDone, events.Loading, events.Working, events.Note)
"""Messages that change nothing for those behind them."""


@dataclass(frozen=True)
class _Recorded:
    """A cell that ended, and that stands in the journal."""

    done: CellDone
    observation: Observation
    judgement: Judgement


def _has_facts(message: object) -> TypeGuard[CellDone]:
    """Whether a cell ended, and was not lost."""
    return isinstance(message, CellDone) and message.facts["outcome"] != Outcome.LOST.value


class Run:
    """One run from plan to results file. Call :meth:`execute` once.

    Args:
        request: What is to be run.
        observer: Told what happens, always from the thread that calls ``execute``.
        interruption: Watches the signals that end a run.
        site: Where it takes place; this machine when None.
        wanted: Whether an instance is one of the rows; all of the request's when None.
    """

    def __init__(
        self,
        request: RunRequest,
        observer: events.Observer,
        interruption: Interruption,
        *,
        site: Site | None = None,
        wanted: Callable[[Instance], bool] | None = None,
    ) -> None:
        self._request = request
        self._interruption = interruption
        self._tell = Telling(observer, request.file.private)
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._run_id = f"{self._started:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}"
        self._inbox: queue.Queue[_Inbox] = queue.Queue()
        self._came: deque[_Inbox | _Recorded] = deque()
        rotation = Rotation(request.plan, request.environment_options, request.standing)
        self._site: Site = LocalSite(request, rotation) if site is None else site
        # Forking a process that has used the system libraries of macOS is not safe.
        can_fork = sys.platform.startswith("linux")
        self._ledger = Ledger(request, self._run_id, can_fork=can_fork, devices=self._site.devices)
        self._making = Making(request, rotation, self._site, self._inbox.put)
        self._rows = Rows(request, environments.staged_name(), wanted)
        self._second_look = SecondLook(
            self._ledger, self._rows, self._making, self._site, self._tell, confirm=request.confirm
        )
        self._under_way = UnderWay(self._site, self._making.ready, self._tell)
        self._parked: list[Environment] = []
        self._begun = False

    # --- the loop ---------------------------------------------------------------------------------------------

    def execute(self) -> RunResult:
        """Run everything, write the results file, and return what was found.

        Ctrl-C ends it within about two seconds with everything that finished kept; a second one ends it at once, with
        KeyboardInterrupt.

        Raises:
            BisectTorchError: The results file cannot be written, or a case file cannot be expanded.
        """
        begin = time.monotonic()
        self._interruption.began = True
        with self._tell.step("starting"):
            temporary.sweep()
            self._rows.read_known(self._ledger.environments.values())
            self._rows.refuse_empty_choice()
            rows = self._rows.all()
            cells = self._ledger.cells(self._request.builds, rows)
            kept = self._ledger.recall(cells)
        environment_plan = self._request.plan
        self._tell(
            events.RunPlanned(
                builds=self._request.builds,
                instances=rows,
                devices=self._request.devices,
                cells=len(cells),
                kept=len({run.place for run, _ in kept}),
                jobs=self._site.slots,
                to_make=len(environment_plan.missing),
                make_s=60 * environment_plan.minutes / self._site.makers if environment_plan.missing else 0.0,
                repeats=self._request.repeats,
                confirm=self._request.confirm,
            )
        )
        self._tell.known(kept)
        for problem in self._ledger.file.problems:
            self._tell(events.Note(problem))
        if not self._request.fresh:
            self._tell_what_runs_again(bool(kept))
        other_state.keep_files(self._request)
        own_files.remember(self._request.own, self._request.environment_options.store.own_files)
        finished = interrupted = False
        try:
            self._want([build for build in self._request.builds if self._has_work(build)])
            while not self._settled():
                self._handle_what_came()
            if self._begun:
                self._site.close()
                self._tell_last_words()
            self._making.clear()
            finished = True
        except KeyboardInterrupt:
            interrupted = True
        finally:
            with self._interruption.held():
                self._finish(finished)
        interrupted = interrupted or self._interruption.came
        seconds = time.monotonic() - begin
        self._tell(events.RunFinished(interrupted, seconds))
        return record.result(self._request, self._ledger, self._rows, interrupted=interrupted, seconds=seconds)

    def _tell_what_runs_again(self, some_are_known: bool) -> None:
        """Why results of earlier runs are not taken over, where somebody may expect that they are."""
        if edited := self._ledger.edited:
            self._tell(events.Note(f"what has read {first_of(edited, 1)} runs again: not the same as then"))
        if outlived := self._ledger.outlived:
            these = "1 cell runs" if outlived == 1 else f"{outlived} cells run"
            since = "what was seen since then, of another text or machine, other data or variables, is newer"
            self._tell(events.Note(f"{these} again: {since}"))
        elif not some_are_known and (unlike := set_otherwise(self._request, self._ledger.variables)):
            self._tell(
                events.Note(f"the cells run again: {first_of(unlike, 1)} had another value in the run before, or none")
            )
        if not some_are_known and (why := other_state.why_again(self._request)):
            self._tell(events.Note(why))

    def _finish(self, finished: bool) -> None:
        """Stop what still runs, and write the results file."""
        self._making.cancel()
        deadline = time.monotonic() + _STOP_GRACE_S
        try:
            if self._begun and not finished:
                self._site.stop(_STOP_GRACE_S)
                self._keep_what_ended()
        finally:
            # Also where the journal takes no more: what this run holds may fit the Parquet file, which is smaller.
            if self._begun or not self._ledger.file.settled:
                with self._tell.step("results file"):
                    self._ledger.file.finish(self._manifest(ended=finished))
        self._making.end(max(0.0, deadline - time.monotonic()))

    def _manifest(self, *, ended: bool) -> dict[str, object]:
        known = self._request, self._ledger, self._rows, self._site
        return record.manifest(*known, run_id=self._run_id, started=self._started, ended=ended)

    def _keep_what_ended(self) -> None:
        """Record the cells that had ended before the stop, and that the loop had not come to yet."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._came.append(self._inbox.get_nowait())
        self._record_ended()
        for message in self._came:
            if isinstance(message, _Recorded):
                self._tell_recorded(message)

    def _tell_last_words(self) -> None:
        """Handle what the slots said while they ended: that their last workers have gone."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._handle(self._inbox.get_nowait())

    def _busy(self) -> bool:
        """Whether something will come into the inbox by itself."""
        return self._making.busy or self._under_way.any or self._rows.asking or not self._inbox.empty()

    def _settled(self) -> bool:
        """Whether nothing is left to do. Orders the confirmations that are still wanted."""
        if self._busy():
            return False
        self._second_look.at_environments()
        wanted = self._second_look.at_cells()
        here = [run for run in wanted if run.build.name in self._making.ready]
        if here:
            loads, cells_s = self._ledger.effort(here)
            self._tell(events.Confirming(len(here), self._second_look.reason(), loads, cells_s))
            self._under_way.submit(here)
            return False
        if self._making.waiting:
            self._install()
            return False
        if not wanted:
            if not self._inbox.empty():  # then it is looked at again
                return False
            if left := self._second_look.left_out():
                self._tell(events.Note(left))
            return True
        # Every cell of theirs was kept from earlier runs, or they had to make room for others.
        self._want(list({run.build.name: run.build for run in wanted}.values()))
        return False

    def _handle_what_came(self) -> None:
        """Wait for a message and handle it, with those behind it that are here by now.

        Cells that have ended by then are written together, before one of them is told.
        """
        self._came.append(self._inbox.get())
        with contextlib.suppress(queue.Empty):
            while isinstance(self._came[-1], _OF_CELLS):
                self._came.append(self._inbox.get_nowait())
        self._record_ended()
        while self._came:
            self._handle(self._came.popleft())

    def _record_ended(self) -> None:
        """Write the cells that have ended, of what came: a Ctrl-C meanwhile must find the others still there."""
        ended = [each for each in self._came if _has_facts(each)]
        if ended:
            seen = iter(self._record([(each.run, each.task.environment, each.facts) for each in ended]))
            self._came = deque(_Recorded(each, *next(seen)) if _has_facts(each) else each for each in self._came)

    def _handle(self, message: _Inbox | _Recorded) -> None:
        if isinstance(message, events.Loading | events.Working | events.Note):
            self._tell(message)
        elif isinstance(message, events.BuildProgress):
            self._tell(message)
            if message.phase == "waiting" and message.message:
                self._tell(events.Note(message.message, message.build))
        elif isinstance(message, Ready):
            self._on_ready(message)
        elif isinstance(message, Failed):
            self._on_failed(message)
        elif isinstance(message, CellBegan):
            run = message.run
            self._tell(events.CellStarted(run.build, run.instance, run.device, run.repeat, message.slot, message.at))
        elif isinstance(message, _Recorded):
            self._on_cell(message)
        elif isinstance(message, CellDone):
            self._on_lost(message)
        elif isinstance(message, Expanded):
            self._on_expanded(message)
        elif isinstance(message, Unproven):
            self._run_unproven(message)
        elif message.error is not None:
            raise message.error
        else:
            self._making.busy = False

    # --- environments -----------------------------------------------------------------------------------------

    def _want(self, builds: list[Build]) -> None:
        """Environments are needed; the first of their groups is made."""
        self._making.want(builds)
        if self._making.waiting:
            self._begin()
            self._install()

    def _begin(self) -> None:
        """Open the site, and record the run before the first thing that it adds. One that finds everything known is no
        part of results, and needs nothing that cells run in."""
        if self._begun:
            return
        self._site.open(self._inbox.put)
        self._begun = True
        with self._tell.step("journal"):
            self._ledger.file.begin(self._manifest(ended=False))
            for item in self._request.discovered:
                self._ledger.file.add_sources(cases.sources(item.file))

    def _install(self) -> None:
        """Make the next group of environments ready.

        On a short disk the group before it is removed first, once all that it said is sound.
        """
        if self._making.in_turns:
            self._second_look.at_all_environments()
            self._making.clear()
        self._making.next()

    def _has_work(self, build: Build) -> bool:
        if not self._rows.whole:
            return True
        if self._rows.suites.item is None and not self._rows.all():
            return False  # an empty shard
        if not self._ledger.knows(build) or not self._rows.suites.collected(build.name):
            return True
        return bool(self._ledger.first_pass(self._ledger.cells([build], self._rows.all())))

    def _on_ready(self, message: Ready) -> None:
        environment = message.environment
        self._making.ready[message.build.name] = environment
        self._tell(message)
        self._ledger.file.add_lock(environment.lock_hash, self._making.lock_text(environment))
        if self._ledger.know(environment):
            self._tell.known(self._ledger.recall(self._ledger.cells([message.build], self._rows.all())))
        self._rows.suites.recall(environment)
        self._parked.append(environment)
        for item in self._rows.to_ask(message.build.name):
            words = item.cases[0].argv if item.file.kind is CaseKind.PYTEST else ()
            self._site.expand(item.file, environment, words)
        self._start_parked()

    def _start_parked(self) -> None:
        """Start the environments whose rows are all known."""
        for environment in [] if self._rows.unread else list(self._parked):
            if self._rows.suites.collected(environment.build.name):
                self._parked.remove(environment)
                self._start(environment, self._rows.all())

    def _on_failed(self, message: Failed) -> None:
        self._making.failures.append(message)
        self._tell(events.BuildProgress(message.build, "failed", message=message.reason, at=message.at))
        self._record_failure(message, self._rows.all())

    def _record_failure(self, failure: Failed, rows: tuple[Instance, ...]) -> None:
        facts = {"outcome": failure.outcome.value, "reason": failure.reason, "stderr_tail": failure.detail}
        runs = self._ledger.first_pass(self._ledger.cells([failure.build], rows))
        self._record_not_run([(run, None, facts) for run in runs])

    # --- rows -------------------------------------------------------------------------------------------------

    def _on_expanded(self, message: Expanded) -> None:
        if message.error is not None:
            more = "; the same line with --debug shows its traceback" if message.traceback else ""
            raise UsageError(
                f"{message.error} (with torch {message.environment.build.name})",
                hint=f"what stands outside of cases runs when the file is read, before any case{more}",
                detail=message.traceback,
            )
        if message.file.kind is CaseKind.PYTEST:
            self._on_collected(message)
            return
        added, unkept = self._rows.expanded(message.file, message.rows)
        self._tell.unkept(f"the instances of {message.file.path.name} are", unkept)
        self._on_added(added)
        self._rows.refuse_empty_choice()
        self._start_parked()

    def _on_collected(self, message: Expanded) -> None:
        """pytest has told what it collects on a build."""
        added = self._rows.collected(message.file, message.environment, message.rows)
        self._tell.unkept("what pytest collects is", self._rows.suites.unkept)
        self._on_added(added)
        parked = {environment.build.name for environment in self._parked}
        # Those that run already, or have had their turn, and do not have these tests: that is said.
        for other in [*self._making.ready.values(), *self._making.gone]:
            if added and other.build.name not in parked:
                self._start(other, added)
        self._start_parked()

    def _on_added(self, added: tuple[Instance, ...]) -> None:
        kept = self._ledger.recall(self._ledger.cells(self._request.builds, added))
        cells = len(self._rows.all()) * len(self._request.builds) * len(self._request.devices)
        self._tell(events.RowsAdded(added, cells, len({run.place for run, _ in kept})))
        self._tell.known(kept)
        for failure in self._making.failures:
            self._record_failure(failure, added)

    # --- cells ------------------------------------------------------------------------------------------------

    def _start(self, environment: Environment, rows: tuple[Instance, ...]) -> None:
        """Run what is not known yet of an environment's cells."""
        wanted: list[plan.CellRun] = []
        others: list[_Cell] = []
        for run in self._ledger.first_pass(self._ledger.cells([environment.build], rows)):
            reason = self._ledger.inapplicable(run)
            facts = self._rows.suites.why_not(environment.build.name, run.instance) if reason is None else None
            if reason is not None:
                facts = {"outcome": Outcome.SKIPPED.value, "reason": reason}
            if facts is None:
                wanted.append(run)
            else:
                others.append((run, environment, facts))
        self._record_not_run(others)
        self._under_way.submit(wanted)

    def _on_lost(self, message: CellDone) -> None:
        if self._under_way.answered(message):
            (seen,) = self._record([(message.run, message.task.environment, message.facts)])
            self._after(_Recorded(message, *seen))

    def _on_cell(self, message: _Recorded) -> None:
        self._under_way.answered(message.done)
        self._after(message)

    def _after(self, message: _Recorded) -> None:
        self._tell_recorded(message)
        self._second_look.ran(message.done.run)

    def _tell_recorded(self, message: _Recorded) -> None:
        self._tell.observed(message.done.run, message.observation, message.judgement, message.done)

    def _run_unproven(self, message: Unproven) -> None:
        """What is bad may be so because the environment was, and that can't be seen any more: run it again."""
        bad = [run for run in message.runs if self._ledger.is_bad(run) and run.build.name in self._making.ready]
        if bad:
            self._tell(events.Note(f"{len(bad)} bad cells run again: their environments were lost before a last look"))
            self._under_way.submit(bad)

    def _record(self, cells: Sequence[_Cell]) -> list[tuple[Observation, Judgement]]:
        """Take in what was seen of cells."""
        with self._tell.step("journal"):
            return self._ledger.record(cells)

    def _record_not_run(self, cells: Sequence[_Cell]) -> None:
        """Take in what is known of cells without running them."""
        if cells:
            for (run, _, _), (observation, judgement) in zip(cells, self._record(cells), strict=True):
                self._tell.observed(run, observation, judgement, None)
