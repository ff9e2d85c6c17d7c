"""A search in words: while it goes on, on stderr; what it found, beside the sentences of a run."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from packaging.version import Version

from bisect_torch.analysis.question import Remark, RemarkKind
from bisect_torch.analysis.transitions import API_ABSENT
from bisect_torch.engine import events
from bisect_torch.engine.search.request import (
    BisectEvent,
    BisectResult,
    Judged,
    Judging,
    Repeating,
    Row,
    Weighed,
    Weighs,
)
from bisect_torch.model import Boundary, Build, BuildKind, Point
from bisect_torch.report.phrases import does
from bisect_torch.report.plain import LineReport
from bisect_torch.report.seen import absent_words
from bisect_torch.report.sentence import key_of
from bisect_torch.report.text import Line, bytes_words, clean, listed, plural, seconds_words, wrap


class BisectionReport(LineReport):
    """An observer that writes one line for each step of a search.

    Args:
        stream: Where to, usually stderr.
        quiet: Only notes and failures.
        clock: Monotonic seconds.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, quiet=quiet, clock=clock)
        self._phases: dict[str, str] = {}
        self._confirming = self._confirmed = 0

    def __call__(self, event: BisectEvent) -> None:
        """Say what an event tells."""
        with self._lock:
            self._take(event)

    def _take(self, event: BisectEvent) -> None:
        if isinstance(event, events.RunPlanned):  # a search is many runs
            self._progress = self._new_progress()
        if not isinstance(event, Judging | Judged | Repeating | Weighs):
            self._progress.apply(event)
        if isinstance(event, events.Confirming):
            self._confirming, self._confirmed = event.repeats, 0
        if isinstance(event, events.Note):
            self._note(event)
        elif isinstance(event, events.CellFinished):
            self._finished(event)
        elif isinstance(event, events.BuildProgress):
            self._making(event)
        elif isinstance(event, events.EnvironmentReady):
            if not event.reused:
                self._write(f"{clean(event.build.name)}: environment made in {seconds_words(event.seconds)}")
        else:
            words = _event_words(event)
            if words:
                self._write(words)

    def _finished(self, event: events.CellFinished) -> None:
        """At each tenth of what confirms, so that it is seen to go on."""
        before, wanted = self._confirmed, self._confirming
        if event.kept or before >= wanted:
            return
        self._confirmed += 1
        if 10 * self._confirmed // wanted > 10 * before // wanted:
            self._write(f"confirmed {self._confirmed:,} of {wanted:,}")

    def _making(self, event: events.BuildProgress) -> None:
        name = event.build.name
        if event.phase == "failed":
            self._failed(event)
        elif event.phase in ("downloading", "installing") and self._phases.get(name) != event.phase:
            self._phases[name] = event.phase
            size = f" {bytes_words(event.total_bytes)}" if event.total_bytes else ""
            self._write(f"{clean(name)}: {event.phase}{size}")


def _event_words(event: BisectEvent) -> str:
    if isinstance(event, Judging):
        return _judging(event)
    if isinstance(event, Judged):
        words = [
            f"{clean(what)}{f' ({number})' if len(event.counts) > 1 else ''}" for what, number in event.counts.items()
        ]
        return f"{clean(event.build)}: {', '.join(words) or 'not judged'}"
    if isinstance(event, Repeating):
        return f"not as it was said to be: {_names(event.builds)} again in further processes"
    if isinstance(event, events.Confirming):
        return f"confirming, {plural(event.repeats, 'more run')}: {clean(event.reason)}"
    if isinstance(event, Weighs):
        top = event.weighed.boundaries[0] if event.weighed.boundaries and event.weighed.processes else None
        so_far = f"likeliest so far {_pair(top)} with {top.confidence:.2f}; " if top else ""
        further = plural(event.processes, "further process", "further processes")
        repeats = f" of {event.each} repeats" if event.each > 1 else ""
        return f"{so_far}{clean(event.build)} next, in {further}{repeats}"
    return ""


def _judging(event: Judging) -> str:
    if event.older is not None and event.newer is not None:
        older, newer = (f"{clean(name)} ({clean(signature)})" for name, signature in (event.older, event.newer))
        where = f"{_names(event.builds)}, between {older} and {newer}"
    else:
        where = ("both ends, " if len(event.builds) == 2 else "") + _names(event.builds)
    installs = f", {plural(event.installs, 'environment')} to make" if event.installs else ""
    time_left = "" if event.seconds is None else f", about {_about(event.seconds)} with confirming"
    return f"judging {where}: at most {plural(event.at_most, 'build')} to go{installs}{time_left}"


def _about(seconds: float) -> str:
    """Rounded up: a search is seldom quicker than its builds were."""
    return f"{max(1, math.ceil(seconds / 5)) * 5} s" if seconds <= 90 else f"{math.ceil(seconds / 60)} min"


def _names(names: Sequence[str]) -> str:
    return listed([clean(name) for name in names], most=6)


def _pair(boundary: Boundary) -> str:
    return f"{clean(boundary.last_good)} | {clean(boundary.first_bad)}"


# --- what was found


def search_lines(result: BisectResult, width: int) -> list[Line]:
    """What the search itself has to say, in lines of at most ``width`` columns: above the matrix and the sentences."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in result.rows:
        alike.setdefault((*row_words(row, result), *finer_words(row, result)), []).append(row)
    texts = []
    for said, rows in alike.items():
        if len(rows) == 1:
            texts += [_name(rows[0], len(result.rows) > 1) + text for text in said]
        elif said:
            names = listed([clean(row.series.instance) for row in rows], most=3)
            who = f"all {len(rows)} instances" if len(alike) == 1 else f"{len(rows)} instances ({names})"
            texts.append(f"{who}: {'; '.join(said)}")
    texts += effort_words(result)
    return [((line, ""),) for text in texts for line in wrap(text.split(" "), width, indent="  ")]


def row_words(row: Row, result: BisectResult) -> list[str]:
    """One line for each remark and each boundary of a row."""
    if row.weighed is not None:
        return weighed_words(row.weighed)
    finished = row.finished
    texts = [_remark(remark, row, result) for remark in finished.remarks]
    texts += [_boundary(boundary) for boundary in finished.boundaries]
    if finished.boundaries and finished.not_run:
        texts.append(
            f"not run, since the builds on both sides of them are alike: {_names(finished.not_run)};"
            " `run` over all of them would show a change that came and went"
        )
    return texts


def _name(row: Row, several: bool) -> str:
    return f"{clean(row.series.instance)}: " if several else ""


def finer_words(row: Row, result: BisectResult) -> list[str]:
    """Of each boundary that does not lie between two nightly builds, although these were to be searched: why.

    And of one that does, the days between that have no build.
    """
    boundaries = row.finished.boundaries if row.weighed is None else (row.weighed.named,)
    builds = {build.name: build for build in result.builds}
    texts = []
    for boundary in boundaries:
        if boundary is not None and boundary.last_good in builds and boundary.first_bad in builds:
            older, newer = builds[boundary.last_good], builds[boundary.first_bad]
            inside = result.builds[result.builds.index(older) + 1 : result.builds.index(newer)]
            texts += _days_without(older, newer, inside)
            texts += _why_no_finer(older, newer, inside) if result.finer else []
    return texts


def _days_without(older: Build, newer: Build, inside: Sequence[Build]) -> list[str]:
    """The days between two nightly builds that have none."""
    if {older.kind, newer.kind} != {BuildKind.NIGHTLY} or older.day is None or newer.day is None:
        return []
    every = (older.day + datetime.timedelta(days=number) for number in range(1, (newer.day - older.day).days))
    there = {build.day for build in inside}
    missing = [day.isoformat() for day in every if day not in there]
    return [f"of {listed(missing, most=6)} there is no nightly build that can take part"] if missing else []


def _why_no_finer(older: Build, newer: Build, inside: Sequence[Build]) -> list[str]:
    names, kinds = f"{clean(older.name)} and {clean(newer.name)}", (older.kind, newer.kind)
    if BuildKind.LOCAL in kinds or kinds == (BuildKind.NIGHTLY, BuildKind.NIGHTLY):
        return []
    stands = "the boundary of releases stands"
    if kinds == (BuildKind.RELEASE, BuildKind.RELEASE):
        if Version(older.version).release[:2] == Version(newer.version).release[:2]:
            return [f"{names} were both made on one release branch, where no nightly build comes from: {stands}"]
        if any(build.kind is BuildKind.NIGHTLY for build in inside):
            return [f"none of the nightly builds between {names} that are left can be judged: {stands}"]
        return [f"no nightly build between {names} is left, they leave their index after about two months: {stands}"]
    if newer.kind is BuildKind.RELEASE:
        return [
            f"{clean(older.name)} is the last nightly build before the branch of {clean(newer.name)} was cut that was "
            "judged: the change came after it, on that branch or by how the release was built"
        ]
    return [
        f"{clean(newer.name)} is the first nightly build after {clean(older.name)} that was judged: the change came "
        "before it, since the branch of that release was cut"
    ]


def _boundary(boundary: Boundary) -> str:
    if boundary.tight:
        return f"boundary: {_pair(boundary)}, tight"
    between = listed([f"{clean(name)} ({clean(reason)})" for name, reason in boundary.between], most=6)
    return f"boundary: {_pair(boundary)}, not tight; untested between: {between}"


def _remark(remark: Remark, row: Row, result: BisectResult) -> str:
    finished = row.finished
    build, other = clean(remark.build), clean(remark.other or "")
    if remark.kind is RemarkKind.END_NOT_JUDGED:
        absent = remark.reason == API_ABSENT
        why = f"it {_lacks(remark.build, row, result)}" if absent else clean(remark.reason)
        instead = f"; {other} was taken instead, the nearest that can be" if remark.other else ""
        how = "; --absent judge searches for where the API came or went" if absent else ""
        return f"{build} cannot be judged ({why}){instead}{how}"
    if remark.kind is RemarkKind.NOTHING_JUDGED:
        return f"nothing was searched: fewer than two builds from {build} to {other} can be judged"
    if remark.kind is RemarkKind.NO_OPPOSITE:
        if remark.build == remark.other:
            return f"there is no build to go on to from {build}"
        return (
            f"no opposite was found from {build} as far as {other}, where the search ends (--from and --to move that)"
        )
    point = row.series.points[row.series.builds.index(remark.build)]
    what = "was not judged" if point is None else _does(point, row, result)
    if remark.kind is RemarkKind.ALIKE:
        searched = "" if finished.boundaries else ": there is nothing to search between them"
        return f"{build} and {other} are alike, each {what}{searched}; should it show only sometimes: --flaky"
    said = "good" if remark.kind is RemarkKind.GOOD_IS_NOT else "bad"
    goes_on = "; a change of verdict was searched for all the same" if finished.boundaries else ""
    if remark.other is not None:
        return f"{build}, which stands in for {other}, named as {said}, {what}{goes_on}"
    there = "" if point is not None and point.judgement.api_absent else " there"
    return f"{build} was named as {said}, but {what}{there}{goes_on}"


def _does(point: Point, row: Row, result: BisectResult) -> str:
    """What the case does on a build, or what that build lacks."""
    return _lacks(point.build, row, result) if point.judgement.api_absent else does(point.judgement)


def _lacks(build: str, row: Row, result: BisectResult) -> str:
    names = result.absent_names.get((key_of(row.series), build), [])
    return f"lacks {absent_words(names) or 'a name of torch that the case uses'}"


def weighed_words(weighed: Weighed) -> list[str]:
    """The boundary of a flaky row, or why none is named, and what that rests on."""
    texts = [_weighed_statement(weighed)]
    if weighed.named is not None and not weighed.named.tight:
        texts.append(_boundary(weighed.named))
    others = [f"{_pair(each)} {each.confidence:.3f}" for each in weighed.boundaries[:6]]
    if weighed.everywhere >= 0.005:
        others.append(f"in every build {weighed.everywhere:.3f}")
    if weighed.nowhere >= 0.005:
        others.append(f"in none {weighed.nowhere:.3f}")
    texts.append(f"probabilities of the boundaries: {listed(others, most=8)}")
    runs = [f"{clean(name)} {bad} of {number}" for name, (bad, number) in weighed.counts.items()]
    texts.append(f"bad in these runs: {listed(runs, most=20)}")
    rests = f"this rests on {plural(weighed.processes, 'worker process', 'worker processes')}"
    texts.append(f"{rests}; where it has the bug, it shows in about {100 * weighed.shows:.0f} % of the runs")
    return texts


def _weighed_statement(weighed: Weighed) -> str:
    named = weighed.named
    if named is not None and not weighed.fixed:
        return (
            f"flaky: bad now and then from {clean(named.first_bad)} on (last without {clean(named.last_good)}), "
            f"with a probability of {named.confidence:.3f}"
        )
    if named is not None:
        return (
            f"flaky: bad now and then up to {clean(named.last_good)}, fixed in {clean(named.first_bad)}, "
            f"with a probability of {named.confidence:.3f}"
        )
    if weighed.everywhere >= weighed.confidence:
        return f"flaky: every build of the range is bad now and then, with a probability of {weighed.everywhere:.3f}"
    if weighed.nowhere >= weighed.confidence:
        return f"flaky: no build of the range has it, with a probability of {weighed.nowhere:.3f}"
    why = f": {weighed.stopped}" if weighed.stopped else ""
    return f"flaky: no boundary is named, since none is as likely as {weighed.confidence:g}{why}"


def effort_words(result: BisectResult) -> Iterable[str]:
    """What it took."""
    known = f", {len(result.known)} known from before" if result.known else ""
    made = plural(len(result.made), "environment")
    ahead = f", and {plural(len(result.ahead), 'environment')} ahead of the search" if result.ahead else ""
    builds = max((len(row.series.builds) for row in result.rows), default=len(result.builds))
    yield f"judged {len(result.judged)} of {plural(builds, 'build')}{known}; made {made}{ahead}"


def search_data(result: BisectResult) -> dict[str, object]:
    """The search as data, for ``--json``.

    Keys:
        rows: ``case_file``, ``instance``, ``device``, ``boundaries`` (``last_good``, ``first_bad``, ``tight``,
            ``confidence`` and ``between``: build to reason), ``remarks`` (``kind``, ``build``, ``other``, ``reason``),
            ``searched`` (oldest and newest build, or null), ``not_run``, ``text`` and ``flaky``: null, or
            ``named`` (a boundary or null), ``everywhere``, ``nowhere``, ``shows`` (probabilities), ``fixed``,
            ``counts`` (build to bad runs and all runs), ``processes``, ``stopped``.
        judged, known, made, ahead: Lists of builds.
    """
    return {
        "rows": [_row_data(row, result) for row in result.rows],
        "judged": list(result.judged),
        "known": list(result.known),
        "made": list(result.made),
        "ahead": list(result.ahead),
    }


def _row_data(row: Row, result: BisectResult) -> dict[str, object]:
    weighed = row.weighed
    boundaries = row.finished.boundaries if weighed is None else weighed.boundaries
    return {
        "case_file": row.series.case_file,
        "instance": row.series.instance,
        "device": row.series.device,
        "boundaries": [_boundary_data(each) for each in boundaries],
        "remarks": [
            {"kind": each.kind.value, "build": each.build, "other": each.other, "reason": each.reason}
            for each in row.finished.remarks
        ],
        "searched": None if row.finished.searched is None else list(row.finished.searched),
        "not_run": list(row.finished.not_run),
        "text": [*row_words(row, result), *finer_words(row, result)],
        "flaky": None
        if weighed is None
        else {
            "named": None if weighed.named is None else _boundary_data(weighed.named),
            "everywhere": weighed.everywhere,
            "nowhere": weighed.nowhere,
            "shows": weighed.shows,
            "fixed": weighed.fixed,
            "counts": {name: list(counts) for name, counts in weighed.counts.items()},
            "processes": weighed.processes,
            "stopped": weighed.stopped,
        },
    }


def _boundary_data(boundary: Boundary) -> dict[str, object]:
    return {
        "last_good": boundary.last_good,
        "first_bad": boundary.first_bad,
        "tight": boundary.tight,
        "confidence": boundary.confidence,
        "between": dict(boundary.between),
    }
