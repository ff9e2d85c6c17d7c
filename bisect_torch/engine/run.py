"""A run: environments are made ready on one side, cells run on the other, and this loop joins them.

All state lives in the thread that calls :meth:`Run.execute`; the installer and the executor's slots only put messages
into its inbox. Nothing here judges or draws: verdicts come from ``analysis``, the observer draws.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import queue
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from bisect_torch import analysis, cases, environments, own_digest, temporary
from bisect_torch.cases import Discovered
from bisect_torch.engine import events, host, plan
from bisect_torch.engine.executor import CellBegan, CellDone, Expanded, LocalExecutor, Message, SlotFailed
from bisect_torch.engine.ledger import Ledger
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.engine.resweep import Resweep
from bisect_torch.engine.rotation import Rotation
from bisect_torch.engine.shard import starts
from bisect_torch.engine.suites import Suites
from bisect_torch.errors import BisectTorchError, UsageError
from bisect_torch.interruption import Interruption
from bisect_torch.model import (
    Build,
    BuildKind,
    CaseFile,
    CaseKind,
    Environment,
    Instance,
    Observation,
    Outcome,
    Series,
    Verdict,
)
from bisect_torch.shipped import tool_version

CONFIRMING_S = 1800.0
"""Cell seconds that confirming may take before what is left is named instead of run."""

_STOP_GRACE_S = 1.0
_KEPT_FORMAT = 2


class _Ready(events.EnvironmentReady):
    """Sent by the installer."""


class _Failed:
    """Sent by the installer: a build has no usable environment, and why."""

    def __init__(self, build: Build, outcome: Outcome, reason: str) -> None:
        self.build = build
        self.outcome = outcome
        self.reason = reason
        self.at = time.monotonic()


class _InstallerDone:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


_Inbox = Message | _Ready | _Failed | _InstallerDone | events.BuildProgress


class Run:
    """One run from plan to results file. Call :meth:`execute` once.

    Args:
        request: What is to be run.
        observer: Told what happens, always from the thread that calls ``execute``.
        interruption: Watches the signals that end a run.
    """

    def __init__(self, request: RunRequest, observer: events.Observer, interruption: Interruption) -> None:
        self._request = request
        self._interruption = interruption
        self._observer = observer
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._run_id = f"{self._started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        # Forking a process that has used the system libraries of macOS is not safe.
        self._ledger = Ledger(request, self._run_id, can_fork=sys.platform.startswith("linux"))
        self._inbox: queue.Queue[_Inbox] = queue.Queue()
        self._cancel = threading.Event()
        self._staged = environments.staged_package(request.environment_options.store)
        self._planned = {planned.build.name: planned for planned in request.plan.environments}
        self._instances: dict[Path, tuple[Instance, ...]] = {}
        self._starts = starts(request.discovered, request.select)
        self._any_fits = False
        self._environments: dict[str, Environment] = {}
        self._gone: list[Environment] = []
        self._failures: list[_Failed] = []
        self._resweep = Resweep()
        self._rotation = Rotation(request.plan, request.environment_options)
        self._pending = 0
        self._retried: set[tuple[plan.Place, int]] = set()
        self._expanding: set[tuple[Path, str]] = set()
        options = request.environment_options
        circumstances = (self._staged.parent.name, request.projects, options.extras, options.locks, options.backend)
        self._suites = Suites(request.discovered, options.store.expansions, circumstances)
        self._parked: list[Environment] = []
        self._begun = False
        self._installing = False
        self._installer: threading.Thread
        self._executor: LocalExecutor

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
            self._read_known_instances()
            self._refuse_empty_choice()
            rows = self._rows()
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
                jobs=self._request.jobs,
                to_make=len(environment_plan.missing),
                make_s=60 * environment_plan.minutes if environment_plan.missing else 0.0,
                repeats=self._request.repeats,
            )
        )
        self._tell_kept(kept)
        for problem in self._ledger.file.problems:
            self._tell(events.Note(problem))
        self._executor = LocalExecutor(self._request.jobs, self._request.conditions(self._staged), self._inbox.put)
        finished = interrupted = False
        try:
            self._want([build for build in self._request.builds if self._has_work(build)])
            while not self._settled():
                self._handle(self._inbox.get())
            self._executor.close()
            self._rotation.clear()
            finished = True
        except KeyboardInterrupt:
            interrupted = True
        finally:
            with self._interruption.held():
                self._finish(finished)
        interrupted = interrupted or self._interruption.came
        seconds = time.monotonic() - begin
        self._tell(events.RunFinished(interrupted, seconds))
        return self._result(interrupted, seconds)

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
        self._cancel.set()
        deadline = time.monotonic() + _STOP_GRACE_S
        try:
            if not finished:
                self._executor.stop(_STOP_GRACE_S)
                self._keep_what_ended()
        finally:
            # Also where the journal takes no more: what this run holds may fit the Parquet file, which is smaller.
            if self._begun or not self._ledger.file.settled:
                with self._step("results file"):
                    self._ledger.file.finish(self._manifest(ended=finished))
        if self._installing:
            self._installer.join(timeout=max(0.0, deadline - time.monotonic()))
        self._rotation.uses.close()

    def _keep_what_ended(self) -> None:
        """Record the cells that had ended before the stop, and that the loop had not come to yet."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._inbox.get_nowait()
                if isinstance(message, CellDone) and message.facts["outcome"] != Outcome.LOST.value:
                    self._record(message.run, message.task.environment, message.facts, message)

    def _settled(self) -> bool:
        """Whether nothing is left to do. Orders the confirmations that are still wanted."""
        if self._installing or self._pending or self._expanding:
            return False
        self._distrust_changed_environments()
        failed = {failure.build.name for failure in self._failures}
        more = self._rotation.waiting
        with self._step("choosing confirmations"):
            confirmations = self._ledger.confirmations(CONFIRMING_S, more_builds=more)
        wanted = [run for run in confirmations if run.build.name not in failed]
        here = [run for run in wanted if run.build.name in self._environments]
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
            return True
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
            build = self._environments.pop(name).build
            reason = f"the environment changed during the run: {what}"
            self._tell(events.BuildProgress(build, "failed", message=reason))
            for run in runs:
                self._ledger.distrust(run, reason)

    def _why_confirm(self) -> str:
        found = sum(len(analysis.transitions(each)) for each in self._all_series())
        if not found:
            return "the first and last build of every row, again in new processes"
        ends = "both ends of 1 transition" if found == 1 else f"the ends of {found} transitions"
        return f"{ends} and of every row, again in new processes"

    def _all_series(self) -> tuple[Series, ...]:
        return self._ledger.series(self._rows()) + self._ledger.beside(self._rows())

    def _handle(self, message: _Inbox) -> None:
        if isinstance(message, events.Loading | events.Working):
            self._tell(message)
        elif isinstance(message, events.BuildProgress):
            self._tell(message)
            if message.phase == "waiting" and message.message:
                self._tell(events.Note(message.message, message.build))
        elif isinstance(message, _Ready):
            self._on_ready(message)
        elif isinstance(message, _Failed):
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
        elif isinstance(message, SlotFailed):
            raise message.error
        else:
            self._installing = False
            if message.error is not None:
                raise message.error

    # --- environments -----------------------------------------------------------------------------------------

    def _want(self, builds: list[Build]) -> None:
        """Environments are needed; the first of their groups is made."""
        self._rotation.add(builds)
        if self._rotation.waiting:
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
        """Make the next group of environments ready in a thread of its own, those that exist already first."""
        planned = self._planned
        self._make_room()
        ordered = sorted(
            self._rotation.next(),
            key=lambda build: build.kind is not BuildKind.LOCAL and planned[build.name].present is None,
        )

        def work() -> None:
            error: BaseException | None = None
            try:
                for build in ordered:
                    if self._cancel.is_set():
                        break
                    self._inbox.put(self._make_environment(build))
            except BaseException as unforeseen:  # noqa: BLE001
                # Not handled here but handed over: an exception must not vanish with this thread.
                error = unforeseen
            self._inbox.put(_InstallerDone(error))

        self._installing = True
        self._installer = threading.Thread(target=work, name="installer", daemon=True)
        self._installer.start()

    def _make_room(self) -> None:
        """On a short disk: remove the group of environments that has had its turn, once all that it said is sound."""
        if self._request.plan.budget is not None:
            self._distrust(self._resweep.changed_of_all())
            for name in self._rotation.clear():
                gone = self._environments.pop(name, None)
                if gone is not None:
                    self._gone.append(gone)

    def _has_work(self, build: Build) -> bool:
        if len(self._instances) < len(self._request.discovered):
            return True
        if self._suites.item is None and not self._rows():
            return False  # an empty shard
        if not self._ledger.knows(build):
            return True
        if not self._suites.collected(build.name):
            return True
        return bool(self._ledger.first_pass(self._ledger.cells([build], self._rows())))

    def _make_environment(self, build: Build) -> _Ready | _Failed:
        begin = time.monotonic()
        if self._planned[build.name].reason:
            return _Failed(build, Outcome.NOT_INSTALLED, self._planned[build.name].reason)
        refusal = self._rotation.refusal(build)
        if refusal is not None:
            return _Failed(build, Outcome.LOST, refusal)
        try:
            environment, reused = environments.ensure(
                build,
                self._rotation.options,
                progress=self._inbox.put,
                cancel=self._cancel,
                python=self._planned[build.name].request,
                uses=self._rotation.uses,
            )
        except BisectTorchError as error:
            return _Failed(build, environments.outcome_of(error), error.message)
        self._rotation.made(environment)
        return _Ready(build, environment, time.monotonic() - begin, reused)

    def _on_ready(self, message: _Ready) -> None:
        environment = message.environment
        self._environments[message.build.name] = environment
        with self._step("sweeping environments", message.build):
            self._resweep.watch(environment)
        self._tell(message)
        lock = self._planned[message.build.name].lock
        packages = "".join(f"{name}=={version}\n" for name, version in sorted(environment.packages.items()))
        self._ledger.file.add_lock(environment.lock_hash, lock.read_text() if lock is not None else packages)
        if self._ledger.know(environment):
            self._tell_kept(self._ledger.recall(self._ledger.cells([message.build], self._rows())))
        self._suites.recall(environment)
        self._parked.append(environment)
        for item in self._request.discovered:
            of_suite = item.file.kind is CaseKind.PYTEST
            known = self._suites.collected(message.build.name) if of_suite else item.file.path in self._instances
            expanding = (item.file.path, message.build.name if of_suite else "")
            if not known and expanding not in self._expanding:
                self._expanding.add(expanding)
                self._executor.expand(item.file, environment, item.cases[0].argv if of_suite else ())
        self._start_parked()

    def _start_parked(self) -> None:
        """Start the environments whose rows are all known."""
        unread = any(
            item.file.path not in self._instances
            for item in self._request.discovered
            if item.file.kind is not CaseKind.PYTEST
        )
        for environment in [] if unread else list(self._parked):
            if self._suites.collected(environment.build.name):
                self._parked.remove(environment)
                self._start(environment, self._rows())

    def _on_failed(self, message: _Failed) -> None:
        self._failures.append(message)
        self._tell(events.BuildProgress(message.build, "failed", message=message.reason, at=message.at))
        self._record_failure(message, self._rows())

    def _record_failure(self, failure: _Failed, rows: tuple[Instance, ...]) -> None:
        facts = {"outcome": failure.outcome.value, "reason": failure.reason}
        for run in self._ledger.first_pass(self._ledger.cells([failure.build], rows)):
            self._record(run, None, facts)

    # --- rows -------------------------------------------------------------------------------------------------

    def _read_known_instances(self) -> None:
        """Instances that need no worker: literal parameters, and expansions of the same bytes kept from before."""
        for item in self._request.discovered:
            instances = item.instances
            if instances is None and item.file.kind is not CaseKind.PYTEST:
                kept = own_digest.read_kept(self._expansion_path(item))
                if kept is not None:
                    instances = cases.from_expansion(item, kept["rows"])
            if instances is not None:
                self._instances[item.file.path] = self._selected(item.file, instances)
        if self._suites.item is not None:
            for environment in self._ledger.environments.values():
                self._suites.recall(environment)
            suite = self._suites.item.file
            self._instances[suite.path] = self._selected(suite, self._suites.instances)

    def _expansion_path(self, item: Discovered) -> Path:
        # The staged code counts: parameters and sizes may come from its numerics.
        known_by = [
            _KEPT_FORMAT,
            item.file.sha256,
            dict(item.file.local_modules),
            self._staged.parent.name,
            self._request.thorough,
        ]
        parts = json.dumps(known_by, sort_keys=True)
        digest = hashlib.sha256(parts.encode()).hexdigest()
        return self._request.environment_options.store.expansions / f"{digest}.json"

    def _selected(self, file: CaseFile, instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """Those of a file's instances that this run is about."""
        only = self._request.only
        if only is not None:
            instances = tuple(each for each in instances if self._is_among(each, only))
        self._any_fits |= bool(self._request.fitting(instances))
        return self._request.chosen(instances, self._starts[file.path])

    def _is_among(self, instance: Instance, only: frozenset[tuple[Path, str]]) -> bool:
        """Whether it is named, as it is called or as a results file calls it."""
        names = instance.name, self._request.file.private.instance(instance.name)
        return any((instance.case.file.path, name) in only for name in names)

    def _rows(self) -> tuple[Instance, ...]:
        files = (item.file.path for item in self._request.discovered)
        return tuple(instance for file in files for instance in self._instances.get(file, ()))

    def _on_expanded(self, message: Expanded) -> None:
        if message.error is not None:
            raise UsageError(message.error)
        item = next(item for item in self._request.discovered if item.file.path == message.file.path)
        if item.file.kind is CaseKind.PYTEST:
            self._on_collected(message)
            return
        try:
            own_digest.write_json(self._expansion_path(item), {"rows": message.rows})
        except OSError as error:  # it would have saved time, no more
            self._tell(events.Note(f"the instances of {item.file.path.name} are not kept: {error.strerror}"))
        added = self._selected(item.file, cases.from_expansion(item, message.rows))
        self._instances[item.file.path] = added
        self._expanding.discard((item.file.path, ""))
        self._on_added(added)
        self._refuse_empty_choice()
        self._start_parked()

    def _refuse_empty_choice(self) -> None:
        """Once all files have been read. That a shard has none of what fits is no fault."""
        read = all(item.file.path in self._instances for item in self._request.discovered)
        if read and self._suites.item is None and self._request.select and not self._any_fits:
            raise UsageError(f"-k {self._request.select!r} fits no instance")

    def _on_collected(self, message: Expanded) -> None:
        """pytest has told what it collects on a build."""
        name = message.environment.build.name
        added = self._selected(message.file, self._suites.add(message.environment, message.rows))
        self._expanding.discard((message.file.path, name))
        self._instances[message.file.path] = self._selected(message.file, self._suites.instances)
        self._on_added(added)
        parked = {environment.build.name for environment in self._parked}
        # Those that run already, or have had their turn, and do not have these tests: that is said.
        for other in [*self._environments.values(), *self._gone]:
            if added and other.build.name not in parked:
                self._start(other, added)
        self._start_parked()

    def _on_added(self, added: tuple[Instance, ...]) -> None:
        kept = self._ledger.recall(self._ledger.cells(self._request.builds, added))
        cells = len(self._rows()) * len(self._request.builds) * len(self._request.devices)
        self._tell(events.RowsAdded(added, cells, len({run.place for run, _ in kept})))
        self._tell_kept(kept)
        for failure in self._failures:
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
            facts = self._suites.why_not(environment.build.name, run.instance) if reason is None else None
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
        workers = max(1, self._request.jobs // max(1, len(by_build)))
        for name, group in by_build.items():
            for task in plan.tasks(self._environments[name], group, workers=workers):
                self._executor.submit(task)

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
        request = self._request
        known = self._ledger.environments
        return {
            "run_id": self._run_id,
            "tool_version": tool_version(),
            "started_at": self._started.isoformat(timespec="seconds"),
            "ended_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds") if ended else None,
            "arguments": list(request.command_line),
            "builds": [build.name for build in request.builds],
            "devices": list(request.devices),
            "timeout_s": request.timeout_s,
            "threads": request.threads,
            "seed": request.seed,
            "fresh": request.fresh,
            "thorough": request.thorough,
            "pass_env": sorted(set(request.environment_options.pass_env)),
            "case_files": sorted(
                {item.file.sha256 for item in request.discovered}
                | {instance.case.file.sha256 for instance in self._suites.instances}
            ),
            "projects": [project.describe() for project in request.projects],
            "host": host.host_facts(),
            "environments": [known[build.name].describe() for build in request.builds if build.name in known],
        }

    def _result(self, interrupted: bool, seconds: float) -> RunResult:
        builds = [build.name for build in self._request.builds]
        # Tests that only builds outside of this run have; where one could not be collected here, that is said.
        elsewhere = set() if interrupted else self._suites.elsewhere(builds)
        rows = self._rows()
        foreign = [row for row in rows if (row.case.file.path, row.name) in elsewhere]
        hidden = {
            (each.case_file, each.instance)
            for each in self._ledger.series(foreign)
            if all(point is None or point.judgement.verdict is Verdict.SKIP for point in each.points)
        }
        series = tuple(each for each in self._ledger.series(rows) if (each.case_file, each.instance) not in hidden)
        return RunResult(
            builds=tuple(build for build in self._request.builds if build.name in self._request.matrix),
            environments=dict(self._ledger.environments),
            series=series,
            transitions=tuple(found for each in series for found in analysis.transitions(each)),
            observations=self._ledger.observations,
            interrupted=interrupted,
            seconds=seconds,
            beside=self._ledger.beside(self._rows()),
        )
