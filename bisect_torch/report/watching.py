"""What ``watch`` shows: on a terminal always the present state, in a pipe a matrix for every save."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TextIO

from bisect_torch.analysis import transitions
from bisect_torch.engine.watch import WatchState
from bisect_torch.model import Point, Series, Transition
from bisect_torch.report.findings import Findings
from bisect_torch.report.marks import marks_of
from bisect_torch.report.matrix import Row, draw
from bisect_torch.report.phrases import does
from bisect_torch.report.seen import seen
from bisect_torch.report.text import Line, clean, for_encoding, listed, plain, plural, seconds_words, wrap
from bisect_torch.report.unjudged import hint, with_hint

_MOST = 6


def watch_lines(state: WatchState, width: int) -> list[Line]:
    """The present state in lines of at most ``width`` columns, unless one word is longer. Pure."""
    lines = list(_wrapped([(_head(state), "bold")], width))
    if state.problem:
        lines += _wrapped([(clean(state.problem), "red")], width)
    if state.series:
        lines += [(), *draw(_rows(state), state.builds, width), ()]
    lines += _wrapped(_findings(state), width)
    return lines


def _wrapped(texts: Iterable[tuple[str, str]], width: int) -> Iterable[Line]:
    for text, style in texts:
        yield from (((line, style),) for line in wrap(text.split(" "), width, indent="  "))


def _head(state: WatchState) -> str:
    words = [clean(state.path.name), f"save {state.number}"]
    done = sum(point is not None for each in state.series for point in each.points)
    cells = len(state.series) * len(state.builds)
    if state.problem:
        words.append("not run; this is the last matrix" if state.series else "not run")
    elif state.ended and state.seconds is not None:
        words.append(f"{plural(cells, 'cell')} in {seconds_words(state.seconds)}")
        if state.confirming:
            words.append(f"confirming, {state.confirming} more")
        elif state.confirming == 0:
            words.append("confirmed")
    else:
        words.append(f"running, {done}/{cells}" if cells else "running")
    return " · ".join(words)


def _rows(state: WatchState) -> list[Row]:
    several = len({each.device for each in state.series}) > 1
    return [Row(each.case_file, each.instance, each.device if several else "", marks_of(each)) for each in state.series]


def _findings(state: WatchState) -> Iterable[tuple[str, str]]:
    """Where each row changes, what this save has changed, and what was said by what fails."""
    found = [each for series in state.series for each in transitions(series)]
    for each in found[:_MOST]:
        yield transition_words(each), "yellow" if each.confirmed else "cyan"
    if len(found) > _MOST:
        yield f"and {plural(len(found) - _MOST, 'transition')} more", "dim"
    if state.ended and state.series:
        yield from _separates(state, found)
    yield from _details(state)
    for build, reason in state.unready.items():
        yield f"{clean(build)}: no environment: {clean(reason)}", "cyan"
    if state.is_script and state.series:
        yield (
            "a script runs in an interpreter of its own, which imports torch each time; a case (@case) does not",
            "dim",
        )
    if state.dropped:
        yield f"memory: {plural(state.dropped, 'worker')} had to be dropped; --memory allows more", "dim"


def transition_words(found: Transition) -> str:
    """``bmm: ok up to 2.6.0, wrong from 2.7.0 on``, and a mark as long as it is not confirmed."""
    before, after = found.before, found.after
    doubt = "" if found.confirmed else " (? not confirmed yet)"
    name = clean(found.series.instance)
    return f"{name}: {_short(before)} up to {clean(before.build)}, {_short(after)} from {clean(after.build)} on{doubt}"


def _short(point: Point) -> str:
    return clean("API absent" if point.judgement.api_absent else point.judgement.signature)


def _separates(state: WatchState, found: list[Transition]) -> Iterable[tuple[str, str]]:
    if state.before is None:
        if not found and len(state.builds) > 1:
            yield "it does not separate these builds: all answer alike", "dim"
        return
    old = {(each.instance, each.device): _answers(each) for each in state.before}
    new = {(each.instance, each.device): _answers(each) for each in state.series}
    several = len({device for _, device in new}) > 1
    changed = [
        f"{clean(row[0] + (f' on {row[1]}' if several else ''))} in {clean(build)} "
        f"{clean(was or 'not run')} → {clean(now or 'not run')}"
        for row in new
        if row in old
        for build, was, now in zip(state.builds, old[row], new[row], strict=True)
        if was != now
    ]
    if new.keys() != old.keys():
        yield "other rows than before this save", "dim"
    if changed:
        yield f"changed by this save: {listed(changed, most=_MOST)}", "bold yellow"
    elif new.keys() == old.keys():
        yield "as before this save", "green"


def _answers(series: Series) -> tuple[str | None, ...]:
    return tuple(None if point is None else point.judgement.signature for point in series.points)


def _details(state: WatchState) -> Iterable[tuple[str, str]]:
    """What was seen on the newest build with each signature that is not ok: the message as it was raised."""
    findings = Findings((), {}, state.series, (), state.observations)
    told: dict[str, str] = {}
    for series in state.series:
        for point in series.points:
            if point is not None and point.judgement.signature != "ok":
                judgement = point.judgement
                what = does(judgement) if judgement.verdict.judged else judgement.verdict.value
                why = with_hint(clean(judgement.reason), hint(judgement.verdict, judgement.reason))
                why = seen([(series, point)], findings) if judgement.verdict.judged else why
                told[judgement.signature] = f"{clean(point.build)} {clean(what)}" + (f": {why}" if why else "")
    for text in list(told.values())[:_MOST]:
        yield text, "dim"


class PipeReport:
    """Writes a matrix for every save, and a line when its transitions are confirmed.

    Args:
        stream: Where to.
        width: In columns.
    """

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = width
        self._matrix = 0
        self._confirmed = 0
        self._problem = ""

    def __call__(self, state: WatchState) -> None:
        """Print what a state adds: a problem, a whole matrix, that it is confirmed."""
        if state.problem:
            if state.problem != self._problem:
                self._write([((clean(state.problem), ""),)])
        elif state.ended and state.number > self._matrix:
            self._matrix = state.number
            self._write([*watch_lines(state, self._width), ()])
        elif state.confirming == 0 and state.number > self._confirmed:
            self._confirmed = state.number
            found = [each for series in state.series for each in transitions(series)]
            flaky = [
                series.instance for series in state.series if any(point and point.flaky for point in series.points)
            ]
            lines: list[Line] = [((transition_words(each), ""),) for each in found]
            lines += [((f"{clean(name)}: flaky", ""),) for name in flaky]
            self._write([((f"save {state.number}: confirmed", ""),), *lines, ()])
        self._problem = state.problem

    def _write(self, lines: Iterable[Line]) -> None:
        self._stream.write(for_encoding(plain(lines), getattr(self._stream, "encoding", None)))
        self._stream.flush()


class ScreenReport:
    """Keeps the present state on a terminal; what was there last stays when it ends."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live = Live(Text(""), console=self._console, auto_refresh=False, redirect_stdout=False)

    def __enter__(self) -> ScreenReport:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal is gone
            self._live.stop()

    def __call__(self, state: WatchState) -> None:
        """Show a state."""
        from bisect_torch.report.live import rich_lines

        size = self._console.size
        lines = watch_lines(state, size.width)
        if len(lines) >= size.height:
            lines = [*lines[: size.height - 2], (("… the terminal is too low for the rest", "dim"),)]
        with suppress(OSError):
            self._live.update(rich_lines(lines, self._console.encoding), refresh=True)


def open_watch_report(stream: TextIO) -> AbstractContextManager[ScreenReport | PipeReport]:
    """The report that fits the stream."""
    import os

    from bisect_torch.report.terminal import decorated, width_for

    if decorated(stream, os.environ):
        return ScreenReport(stream)
    return nullcontext(PipeReport(stream, width_for(stream)))
