"""A run: environments are made ready on one side, cells run on the other, and this loop joins them.

All state lives in the thread that calls :meth:`Run.execute`; what makes environments and what runs cells only put
messages into its inbox. Nothing here judges or draws: verdicts come from ``analysis``, the observer draws.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import queue
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

from bisect_torch import analysis, cases, environments, temporary
from bisect_torch.engine import events, plan, record
from bisect_torch.engine.executor import CellBegan, CellDone, Expanded
from bisect_torch.engine.ledger import Ledger
from bisect_torch.engine.making import Made, Making
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.engine.resweep import Resweep
from bisect_torch.engine.rotation import Rotation
from bisect_torch.engine.rows import Rows
from bisect_torch.engine.site import Failed, LocalSite, Ready, Site, Told, Unproven
from bisect_torch.errors import UsageError
from bisect_torch.interruption import Interruption
from bisect_torch.model import Build, CaseKind, Environment, Instance, Observation, Outcome, Series
from bisect_torch.shipped import tool_version

CONFIRMING_S = 1800.0
"""Cell seconds that confirming may take before what is left is named instead of run."""

_STOP_GRACE_S = 1.0

_Inbox = Told | Ready | Failed | Made


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
        self._observer = observer
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._run_id = f"{self._started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        self._inbox: queue.Queue[_Inbox] = queue.Queue()
        rotation = Rotation(request.plan, request.environment_options, request.standing)
        self._site: Site = LocalSite(request, rotation) if site is None else site
        # Forking a process that has used the system libraries of macOS is not safe.
        can_fork = sys.platform.startswith("linux")
        self._ledger = Ledger(request, self._run_id, can_fork=can_fork, devices=self._site.devices)
        self._making = Making(request, rotation, self._site, self._inbox.put)
        self._rows = Rows(request, environments.staged_package(request.environment_options.store), wanted)
        self._resweep = Resweep(self._site)
        self._pending = 0
        self._retried: set[tuple[plan.Place, int]] = set()
        self._parked: list[Environment] = []
        self._begun = False
        self._noted: set[events.Note] = set()

    # --- the loop ---------------------------------------------------------------------------------------------

    def execute(self) -> RunResult:
        """Run everything, write the results file, and return what was found.

        Ctrl-C ends it within about two seconds with everything that finished kept; a second one ends it at once, with
        KeyboardInterrupt.

        Raises:
            BisectTorchError: The results file cannot be written, or a case file cannot be expanded.
        """
        begin = time.monotonic()
        with self._step("starting"):
            temporary.sweep()
            self._rows.read_known(self._ledger.environments.values())
            self._rows.refuse_empty_choice()
            rows = self._rows.all()
            cells = self._ledger.cells(self._request.builds, rows)
            kept = self._ledger.recall(cells)
        known = len({run.place for run, _ in kept})
        environment_plan = self._request.plan
        self._tell(
            events.RunPlanned(
                builds=self._request.builds,
                instances=rows,
                devices=self._request.devices,
                cells=len(cells),
                kept=known,
                jobs=self._site.slots,
                to_make=len(environment_plan.missing),
                make_s=60 * environment_plan.minutes / self._site.makers if environment_plan.missing else 0.0,
                repeats=self._request.repeats,
            )
        )
        self._tell_kept(kept)
        for problem in self._ledger.file.problems:
            self._tell(events.Note(problem))
        self._site.open(self._inbox.put)
        finished = interrupted = False
        try:
            self._want([build for build in self._request.builds if self._has_work(build)])
            while not self._settled():
                self._handle(self._inbox.get())
            self._site.close()
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

    def _tell(self, event: events.Event) -> None:
        """Tell the observer. What others have written may quote credentials."""
        if isinstance(event, events.Note):
            event = dataclasses.replace(event, text=self._ledger.file.private.hide_secrets(event.text))
        elif isinstance(event, events.BuildProgress) and event.message:
            event = dataclasses.replace(event, message=self._ledger.file.private.hide_secrets(event.message))
        self._observer(event)

    @contextlib.contextmanager
    def _step(self, what: str, build: Build | None = None) -> Iterator[None]:
        """Tell how long work of this thread has taken."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._observer(events.Step(what, begin, time.monotonic(), build))

    def _finish(self, finished: bool) -> None:
        """Stop what still runs, and write the results file."""
        self._making.cancel()
        deadline = time.monotonic() + _STOP_GRACE_S
        try:
            if not finished:
                self._site.stop(_STOP_GRACE_S)
                self._keep_what_ended()
        finally:
            # Also where the journal takes no more: what this run holds may fit the Parquet file, which is smaller.
            if self._begun or not self._ledger.file.settled:
                with self._step("results file"):
                    self._ledger.file.finish(self._manifest(ended=finished))
        self._making.end(max(0.0, deadline - time.monotonic()))

    def _keep_what_ended(self) -> None:
        """Record the cells that had ended before the stop, and that the loop had not come to yet."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, CellDone) and message.facts["outcome"] != Outcome.LOST.value:
                    self._record(message.run, message.task.environment, message.facts, message)

    def _busy(self) -> bool:
        """Whether something will come into the inbox by itself."""
        return self._making.busy or self._pending > 0 or self._rows.asking or not self._inbox.empty()

    def _settled(self) -> bool:
        """Whether nothing is left to do. Orders the confirmations that are still wanted."""
        if self._busy():
            return False
        self._distrust_changed_environments()
        failed = {failure.build.name for failure in self._making.failures}
        more = self._making.waiting
        with self._step("choosing confirmations"):
            confirmations = self._ledger.confirmations(CONFIRMING_S, more_builds=more)
        wanted = [run for run in confirmations if run.build.name not in failed]
        here = [run for run in wanted if run.build.name in self._making.ready]
        if here:
            self._tell(events.Confirming(len(here), self._why_confirm()))
            self._submit(here)
            return False
        if more:
            self._install()
            return False
        if not wanted:
            left = len([run for run in self._ledger.confirmations(None) if run.build.name not in failed])
            if left:
                self._tell(events.Note(f"{left} confirming repeats were left out, beyond {CONFIRMING_S / 60:.0f} min"))
            return self._inbox.empty()
        # Every cell of theirs was kept from earlier runs, or they had to make room for others.
        self._want(list({run.build.name: run.build for run in wanted}.values()))
        return False

    def _distrust_changed_environments(self) -> None:
        """Take back what was seen in environments that have changed meanwhile, until those that decide are whole."""
        with self._step("sweeping environments"):
            while found := self._resweep.changed(self._all_series()):
                self._distrust(found)

    def _distrust(self, found: Mapping[str, tuple[str, list[plan.CellRun]]]) -> None:
        for name, (what, runs) in found.items():
            # Should more be wanted of this build, it is made anew.
            build = self._making.ready.pop(name).build
            reason = f"the environment changed during the run: {what}"
            self._tell(events.BuildProgress(build, "failed", message=reason))
            for run in runs:
                self._ledger.distrust(run, reason)

    def _why_confirm(self) -> str:
        if len(self._request.builds) == 1:
            return "what is to be told of this build, again in new processes"
        found = sum(len(analysis.transitions(each)) for each in self._all_series())
        if not found:
            return "the first and last build of every row, again in new processes"
        ends = "both ends of 1 transition" if found == 1 else f"the ends of {found} transitions"
        return f"{ends} and of every row, again in new processes"

    def _all_series(self) -> tuple[Series, ...]:
        rows = self._rows.all()
        return self._ledger.series(rows) + self._ledger.beside(rows)

    def _handle(self, message: _Inbox) -> None:
        if isinstance(message, events.Loading | events.Working):
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
        elif isinstance(message, CellDone):
            self._on_cell(message)
        elif isinstance(message, Expanded):
            self._on_expanded(message)
        elif isinstance(message, events.Note):
            self._tell(message)
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
        """Record the run before the first thing that it adds. One that finds everything known is no part of results."""
        if self._begun:
            return
        self._begun = True
        with self._step("journal"):
            self._ledger.file.begin(self._manifest(ended=False))
            for item in self._request.discovered:
                self._ledger.file.add_sources(cases.sources(item.file))

    def _install(self) -> None:
        """Make the next group of environments ready.

        On a short disk the group before it is removed first, once all that it said is sound.
        """
        if self._making.in_turns:
            self._distrust(self._resweep.changed_of_all())
            self._making.clear()
        self._making.next()

    def _has_work(self, build: Build) -> bool:
        if not self._rows.whole:
            return True
        if self._rows.suites.item is None and not self._rows.all():
            return False  # an empty shard
        if not self._ledger.knows(build):
            return True
        if not self._rows.suites.collected(build.name):
            return True
        return bool(self._ledger.first_pass(self._ledger.cells([build], self._rows.all())))

    def _on_ready(self, message: Ready) -> None:
        environment = message.environment
        self._making.ready[message.build.name] = environment
        self._tell(message)
        self._ledger.file.add_lock(environment.lock_hash, self._making.lock_text(environment))
        if self._ledger.know(environment):
            self._tell_kept(self._ledger.recall(self._ledger.cells([message.build], self._rows.all())))
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
        for run in self._ledger.first_pass(self._ledger.cells([failure.build], rows)):
            self._record(run, None, facts)

    # --- rows -------------------------------------------------------------------------------------------------

    def _on_expanded(self, message: Expanded) -> None:
        if message.error is not None:
            raise UsageError(
                message.error,
                hint="the case file failed while it was read; python FILE in an environment with torch shows where",
            )
        if message.file.kind is CaseKind.PYTEST:
            self._on_collected(message)
            return
        added, unkept = self._rows.expanded(message.file, message.rows)
        self._note_unkept(f"the instances of {message.file.path.name} are", unkept)
        self._on_added(added)
        self._rows.refuse_empty_choice()
        self._start_parked()

    def _note_unkept(self, what: str, why: str | None) -> None:
        """Say once that something is not kept that would have saved time another day."""
        note = events.Note(f"{what} not kept: {why}")
        if why is not None and note not in self._noted:
            self._noted.add(note)
            self._tell(note)

    def _on_collected(self, message: Expanded) -> None:
        """pytest has told what it collects on a build."""
        added = self._rows.collected(message.file, message.environment, message.rows)
        self._note_unkept("what pytest collects is", self._rows.suites.unkept)
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
        self._tell_kept(kept)
        for failure in self._making.failures:
            self._record_failure(failure, added)

    def _tell_kept(self, kept: list[tuple[plan.CellRun, Observation]]) -> None:
        for run, observation in kept:
            self._tell(events.CellFinished(run.instance, observation, analysis.judge(observation), kept=True))

    # --- cells ------------------------------------------------------------------------------------------------

    def _start(self, environment: Environment, rows: tuple[Instance, ...]) -> None:
        """Run what is not known yet of an environment's cells."""
        wanted = []
        for run in self._ledger.first_pass(self._ledger.cells([environment.build], rows)):
            reason = self._ledger.inapplicable(run)
            facts = self._rows.suites.why_not(environment.build.name, run.instance) if reason is None else None
            if reason is not None:
                facts = {"outcome": Outcome.SKIPPED.value, "reason": reason}
            if facts is None:
                wanted.append(run)
            else:
                self._record(run, environment, facts)
        self._submit(wanted)

    def _submit(self, runs: list[plan.CellRun]) -> None:
        self._pending += len(runs)
        by_build: dict[str, list[plan.CellRun]] = {}
        for run in runs:
            by_build.setdefault(run.build.name, []).append(run)
        workers = max(1, self._site.slots // max(1, len(by_build)))
        for name, group in by_build.items():
            for task in plan.tasks(self._making.ready[name], group, workers=workers):
                self._site.submit(task)

    def _on_cell(self, message: CellDone) -> None:
        run = message.run
        self._pending -= 1
        if message.facts["outcome"] == Outcome.LOST.value and (run.place, run.repeat) not in self._retried:
            self._retried.add((run.place, run.repeat))
            self._tell(events.CellLost(run.build, run.instance, run.device, run.repeat, message.slot, message.at))
            self._tell(events.Note(f"{run.instance.name}: {message.facts.get('reason')}; running it again", run.build))
            self._submit([run])
            return
        self._record(run, message.task.environment, message.facts, message)
        self._resweep.ran(run)

    def _run_unproven(self, message: Unproven) -> None:
        """What is bad may be so because the environment was, and that can't be seen any more: run it again."""
        bad = [run for run in message.runs if self._ledger.is_bad(run) and run.build.name in self._making.ready]
        if bad:
            self._tell(events.Note(f"{len(bad)} bad cells run again: their environments were lost before a last look"))
            self._submit(bad)

    def _record(
        self,
        run: plan.CellRun,
        environment: Environment | None,
        facts: Mapping[str, object],
        done: CellDone | None = None,
    ) -> None:
        """Take in an observation.

        Args:
            done: Where and when the cell ended; None for one that did not run.
        """
        with self._step("journal"):
            observation, judgement = self._ledger.record(run, environment, facts)
        if done is None:
            self._tell(events.CellFinished(run.instance, observation, judgement))
        else:
            self._tell(events.CellFinished(run.instance, observation, judgement, slot=done.slot, at=done.at))

    # --- the end ----------------------------------------------------------------------------------------------

    def _manifest(self, *, ended: bool) -> dict[str, object]:
        return {
            "run_id": self._run_id,
            "tool_version": tool_version(),
            "started_at": self._started.isoformat(timespec="seconds"),
            "ended_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds") if ended else None,
            **record.described(self._request, self._ledger, self._rows),
            **self._site.describe(),
        }
