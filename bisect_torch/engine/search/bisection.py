"""A search over real environments: which builds to judge is decided by ``analysis``, judging them is a run of each.

The results file is the search's memory: every probe is an ordinary run of one build (at the beginning of both ends),
and kept there. So a matrix that was run before makes a search free, one that was cut off goes on where it stopped, and
a later ``run`` of the whole range has the builds of the search already.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Collection, Sequence

from bisect_torch import environments
from bisect_torch.analysis.question import Finished, Probe, Reading, Readings, RemarkKind, State, reading_of
from bisect_torch.analysis.search import ahead, step
from bisect_torch.analysis.transitions import CONFIRMING_PROCESSES
from bisect_torch.engine import events
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.search.ahead import InstallAhead
from bisect_torch.engine.search.pace import Pace
from bisect_torch.engine.search.probing import (
    Memory,
    Probing,
    Watch,
    looked_up,
    narrowed,
    remembered,
    with_environments,
    without_environments,
)
from bisect_torch.engine.search.request import (
    BisectObserver,
    BisectRequest,
    BisectResult,
    Judged,
    Judging,
    Repeating,
    Row,
    RowKey,
    Weighed,
    Weighs,
)
from bisect_torch.engine.search.standing import Standing, within
from bisect_torch.engine.search.weighing import Weighing
from bisect_torch.errors import UsageError
from bisect_torch.interruption import Interruption
from bisect_torch.model import CaseKind, Instance, Point, Series

INSTALL_S = 45.0
"""For one environment, where the plan does not tell: most of it the download of torch."""


class Bisection:
    """One search. Call :meth:`execute` once."""

    def __init__(self, request: BisectRequest, observer: BisectObserver, interruption: Interruption) -> None:
        self._request = request
        self._run = request.run
        self._question = request.question
        self._tell = observer
        self._interruption = interruption
        self._watch = Watch(observer)
        self._standing = Standing(request.run.environment_options, self._watch.ready)
        self._ahead = InstallAhead(request.run.plan.environments, request.run.environment_options)
        plan = request.run.plan
        guess_s = 60 * plan.minutes / plan.counted if plan.counted else INSTALL_S
        self._pace = Pace(guess_s, self._watch.made.values)
        self._interrupted = False
        self._unjudged: dict[tuple[RowKey, str], Point] = {}
        self._judged: dict[str, None] = {}
        self._repeated = False
        self._confirmed: object = None
        self._weighed: dict[RowKey, Weighed] = {}
        self._memory = Memory((), {}, ())
        self._known: set[str] = set()
        self._afresh: Probing | None = None

    def execute(self) -> BisectResult:
        """Search until nothing more can be learnt. Ctrl-C ends it with everything kept.

        Raises:
            BisectTorchError: The results file cannot be written, or the case file cannot be expanded.
        """
        begin = time.monotonic()
        try:
            self._begin()
            self._search()
            self._end()
        except KeyboardInterrupt:
            self._interrupted = True
            with self._interruption.held():  # what the run that was cut off has recorded counts as well
                self._memory = self._recall()
        finally:
            self._ahead.stop()
            for made in self._ahead.steps:
                self._tell(made)
        return BisectResult(
            rows=tuple(self._row(series) for series in self._memory.series),
            environments=self._memory.environments,
            observations=self._memory.observations,
            judged=tuple(self._judged),
            known=tuple(name for name in self._question.builds if name in self._known),
            made=tuple(self._watch.made),
            ahead=tuple(self._ahead.made),
            interrupted=self._stopped,
            seconds=time.monotonic() - begin,
            builds=self._run.builds,
            finer=self._request.finer,
            judge_absent=self._request.judge_absent,
        )

    def _begin(self) -> None:
        if self._request.run.fresh:
            self._afresh = Probing(self._request.run, self._watch, self._interruption)
            self._afresh.begin_afresh()
            self._run = dataclasses.replace(self._run, fresh=False)  # what this search sees counts from now on
        self._memory = self._recall()
        self._known = {point.build for series in self._memory.series for point in series.points if point is not None}

    def _end(self) -> None:
        if self._afresh is not None and not self._stopped:
            self._afresh.end_afresh()

    @property
    def _stopped(self) -> bool:
        return self._interrupted or self._interruption.came

    def _search(self) -> None:
        while not self._stopped:
            probe = self._next_probe()
            if probe is not None:
                self._probe(probe)
            elif not self._confirm():
                break
        for series in self._memory.series:
            if not self._stopped and self._is_flaky(series):
                self._weigh(key_of(series))

    def _recall(self) -> Memory:
        return remembered(self._run, self._interruption)

    # --- what is known ----------------------------------------------------------------------------------------

    def _readings(self, series: Series) -> Readings:
        found = {name: Reading(State.UNJUDGED, reason=reason) for name, reason in self._watch.failed.items()}
        key = key_of(series)
        for name, point in zip(series.builds, series.points, strict=True):
            point = point or self._unjudged.get((key, name))
            if point is not None:
                found[name] = reading_of(point, judge_absent=self._request.judge_absent)
        return found

    def _is_flaky(self, series: Series) -> bool:
        return self._request.flaky or any(point is not None and point.flaky for point in series.points)

    def _steady(self) -> list[Series]:
        return [series for series in self._memory.series if not self._is_flaky(series)]

    def _row(self, series: Series) -> Row:
        key = key_of(series)
        points = tuple(
            point or self._unjudged.get((key, name)) for name, point in zip(series.builds, series.points, strict=True)
        )
        end = step(self._question, self._readings(Series(*key, builds=series.builds, points=points)))
        finished = end if isinstance(end, Finished) else Finished(())
        return Row(Series(*key, builds=series.builds, points=points), finished, self._weighed.get(key))

    # --- probes -----------------------------------------------------------------------------------------------

    def _next_probe(self) -> Probe | None:
        if not self._memory.series:  # the rows are known only once an environment has expanded the case file
            failed = {name: Reading(State.UNJUDGED, reason=reason) for name, reason in self._watch.failed.items()}
            answer = step(self._question, failed)
            if isinstance(answer, Probe):
                self._announce(answer, failed, None)
                return answer
        for series in self._steady():
            readings = self._readings(series)
            answer = step(self._question, readings, present=self._present())
            if isinstance(answer, Probe):
                elapsed = [point.elapsed_s for point in series.points if point is not None and point.elapsed_s]
                self._announce(answer, readings, max(elapsed, default=None))
                return answer
        return None

    def _present(self) -> set[str]:
        planned = (each.build.name for each in self._run.plan.environments if each.present is not None)
        return {*planned, *self._ahead.made}

    def _announce(self, probe: Probe, readings: Readings, elapsed_s: float | None) -> None:
        present = self._present()
        if self._request.ahead:
            names = ahead(self._question, readings, probe, 2 * self._request.ahead, present=present)
            self._ahead.want([name for name in names if name not in present][: self._request.ahead])
        missing = [name for name in self._question.builds if name not in present and name not in readings]
        now = sum(name in missing for name in probe.builds)
        installs = now + min(max(0, probe.at_most - len(probe.builds)), len(missing) - now)
        ends = [None if name is None else (name, readings[name].signature) for name in (probe.older, probe.newer)]
        rows = max(1, len(self._steady()))
        seconds = self._pace.left_s(probe.at_most, installs, elapsed_s, rows=rows, jobs=self._run.jobs)
        self._tell(Judging(probe.builds, ends[0], ends[1], probe.at_most, installs, seconds))

    def _probe(self, probe: Probe) -> None:
        self._ahead.settle(probe.builds)
        wanted = {key_of(series) for series in self._steady()}
        ends = [end for end in (probe.older, probe.newer) if end is not None]

        def rows() -> int:
            nothing_ran = set(probe.builds) <= set(self._watch.failed)
            return 0 if nothing_ran else len(wanted or self._memory.series)

        with self._pace.measuring(len(probe.builds), rows, self._run.jobs):
            self._execute(probe.builds, wanted or None, keep=ends)
        if not self._memory.series and not set(probe.builds) <= set(self._watch.failed):
            files = ", ".join(each.file.path.name for each in self._run.discovered)
            raise UsageError(
                f"there is no instance of {files}", hint="a case with no choice of parameters is none: see its lists"
            )
        for name in probe.builds:
            counts: Counter[str] = Counter()
            for series in self._memory.series:
                reading = self._readings(series).get(name)
                if reading is not None and (not wanted or key_of(series) in wanted):
                    counts[reading.signature or reading.reason] += 1
            if counts or not self._stopped:
                self._tell(Judged(name, counts))

    def _execute(
        self,
        builds: Sequence[str],
        rows: set[RowKey] | None,
        *,
        repeats: int = 1,
        confirm: bool = False,
        each: int = 1,
        keep: Collection[str] = (),
        every_cell: bool = False,
    ) -> None:
        """Run builds and take in what came out.

        Args:
            rows: None for every row that the request wants.
            every_cell: With ``confirm``, every cell as often as the end of a transition.
            keep: Builds that the search comes back to: on a short disk, their environments go last.
        """
        self._run = looked_up(self._run, builds, lambda text: self._tell(events.Note(text)))
        names = None if rows is None else {name for _, name, _ in rows}

        def wanted(instance: Instance) -> bool:
            return names is None or instance.name in names

        request = narrowed(self._with_room(builds, keep), builds, repeats=repeats)
        request = dataclasses.replace(request, confirm_every_cell=every_cell)
        if rows is not None:
            named = {device for _, _, device in rows}
            request = dataclasses.replace(request, devices=tuple(each for each in request.devices if each in named))
        run = Probing(
            request,
            self._watch,
            self._interruption,
            wanted=wanted,
            confirm=confirm,
            each=each,
        )
        result = run.execute()
        self._interrupted = self._interrupted or result.interrupted
        with self._interruption.held():
            self._take_in(result.series, builds)

    def _take_in(self, seen: Sequence[Series], builds: Sequence[str]) -> None:
        """Note what a run of ``builds`` has told, which after Ctrl-C may be nothing, or less than was wanted."""
        answered = set(self._watch.failed)
        for series in seen:
            for point in series.points:
                if point is None:
                    continue
                answered.add(point.build)
                # What could not be judged is tried again by a later run, but not by this search.
                if not point.judgement.verdict.judged:
                    self._unjudged[key_of(series), point.build] = point
        self._judged.update(dict.fromkeys(name for name in builds if name in answered and name not in self._known))
        gone = self._standing.forget_gone()
        self._run = with_environments(without_environments(self._run, gone), self._watch.ready)
        self._memory = self._recall()

    def _with_room(self, builds: Sequence[str], keep: Collection[str]) -> RunRequest:
        """The request, on a short disk with room for the environments of these builds."""
        budget = self._run.plan.budget
        if budget is None:
            return self._run
        planned = [each for each in self._run.plan.environments if each.build.name in builds]
        options = self._run.environment_options
        known = environments.parts_of([each for each in planned if each.build.name not in budget.parts], options)
        budget = dataclasses.replace(budget, parts={**budget.parts, **known})
        order = {name: budget.parts[name] for name in self._question.builds if name in budget.parts}
        budget = dataclasses.replace(budget, parts=order)
        before = set(self._watch.ready)
        self._standing.make_room(budget, builds, keep)
        plan = dataclasses.replace(self._run.plan, budget=budget)
        run = dataclasses.replace(self._run, plan=plan)
        self._run = without_environments(run, before - set(self._watch.ready))
        return within(self._run, budget, self._standing.here())

    # --- confirming -------------------------------------------------------------------------------------------

    def _confirm(self) -> bool:
        """Run again what the conclusions rest on. Gives whether that may have changed them."""
        steady = self._steady()
        if not self._repeated and (ends := self._doubted(steady)):
            self._repeated = True
            self._tell(Repeating(tuple(ends)))
            rows = {key_of(series) for series in steady}
            if any(item.file.kind is CaseKind.PYTEST for item in self._run.discovered):
                self._execute(ends, rows, repeats=CONFIRMING_PROCESSES)  # a whole suite at a time, and not test by test
            else:  # one of them in an interpreter of its own: nothing is left to confirm where they agree
                self._execute(ends, rows, confirm=True, every_cell=True)
            return True
        known = [self._readings(series) for series in steady]
        judged = [  # and where the name is absent, which is told too
            name
            for name in self._question.builds
            if any(name in each and (each[name].judged or each[name].absent) for each in known)
        ]
        if len(judged) < 2 or known == self._confirmed:
            return False
        self._confirmed = known
        self._execute(judged, {key_of(series) for series in steady}, confirm=True)
        return [self._readings(series) for series in self._steady()] != known

    def _doubted(self, steady: Sequence[Series]) -> list[str]:
        """The ends, where a row is not what the user said: one answer of each is not enough to contradict."""
        doubted: set[str] = set()
        for series in steady:
            end = self._row(series).finished
            named = {remark.kind for remark in end.remarks}
            if end.searched and named & {RemarkKind.ALIKE, RemarkKind.GOOD_IS_NOT, RemarkKind.BAD_IS_NOT}:
                points = [series.points[series.builds.index(name)] for name in end.searched]
                doubted |= {each.build for each in points if each and each.processes < CONFIRMING_PROCESSES}
        return [name for name in self._question.builds if name in doubted]

    # --- flaky rows -------------------------------------------------------------------------------------------

    def _weigh(self, key: RowKey) -> None:
        spent = sum(each.seconds for each in self._weighed.values())
        weighing = Weighing(key, self._question, self._request, self._pace.install_s, spent_s=spent)
        while not self._stopped:
            weighed, wish = weighing.step(self._memory, self._unjudged, self._watch.failed, self._present())
            self._weighed[key] = weighed
            if wish is None:
                break
            self._tell(Weighs(key[1], weighed, wish.build, wish.processes, wish.each))
            self._execute((wish.build,), {key}, repeats=wish.repeats, each=wish.each)


def key_of(series: Series) -> RowKey:
    """What names a row."""
    return series.case_file, series.instance, series.device
