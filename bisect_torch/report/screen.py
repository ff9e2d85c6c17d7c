"""What stands on the live screen at one moment, as lines for a given width and height. Pure; :mod:`live` draws it."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_torch.model import Verdict
from bisect_torch.report.heads import heads
from bisect_torch.report.heartbeat import then_confirming
from bisect_torch.report.marks import MARK_OK, MARK_PENDING, MARK_RUNNING, Mark
from bisect_torch.report.matrix import Labelled, Row, blocks, draw_block, key_lines, label_rows, legend_lines
from bisect_torch.report.progress import ACTIVE_PHASES, WHAT_CONFIRMING_IS, BuildState, RunProgress
from bisect_torch.report.text import (
    Line,
    bytes_words,
    clean,
    fit,
    plural,
    seconds_words,
    shorten,
    shorten_middle,
    width_of,
)

_MOST_BUILD_LINES = 4
_LONGEST_NAME = 30
"""Columns of a build's name: that of a hybrid has all its packages."""

_CALM = frozenset({MARK_OK.letter, MARK_PENDING.letter, MARK_RUNNING.letter})


def screen(progress: RunProgress, width: int, height: int, *, now: float) -> list[Line]:
    """The lines of one moment, at most ``height`` of at most ``width`` columns.

    Args:
        now: Monotonic seconds, by the clock that ``progress`` uses.
    """
    top = [*_status(progress, width), *_now(progress, width, now), *_build_lines(progress, width, now)]
    rows = progress.matrix_rows()
    if not rows or height - len(top) < 6:
        return top[:height]
    return [*top, *_matrix(rows, progress, width, height - len(top))]


def _status(progress: RunProgress, width: int) -> list[Line]:
    left = progress.seconds_left()
    words = [f"cells {progress.cells_done:,}/{progress.cells:,}"]
    done, wanted = progress.cells_done, progress.cells
    bad = sum(number for verdict, number in progress.counts.items() if verdict.bad)
    if progress.confirming:
        done, wanted = progress.repeats_done, progress.repeats_wanted
        words = [f"confirming {done:,}/{wanted:,}"]
    elif progress.cells_kept:
        words.append(f"{progress.cells_kept:,} known from before")
    words.append(f"{bad:,} not ok" if bad else "")
    if progress.ready < len(progress.builds):
        words.append(f"{progress.ready}/{len(progress.builds)} builds ready")
    if left:
        words.append(f"about {_rounded(left)} left{then_confirming(progress)}")
    elif progress.confirms and not progress.confirming and progress.cells_done < progress.cells:
        words.append(WHAT_CONFIRMING_IS)
    room = min(30, width // 6)
    text = " · ".join(word for word in words if word)
    if room + 2 + width_of(text) > width:
        text = text.removesuffix(then_confirming(progress)).removesuffix(f" · {WHAT_CONFIRMING_IS}")
    lines: list[Line] = [((shorten(text, width), "bold"),)]
    if room + 2 + width_of(text) <= width and wanted:
        full = min(room, done * room // wanted)
        lines = [(("█" * full, "green"), ("░" * (room - full), "dim"), ("  ", ""), (text, "bold"))]
    if progress.confirming:
        lines.append(((shorten(f"running {clean(progress.confirming)}", width), "cyan"),))
        if hint := progress.confirming_hint:
            lines.append(((shorten(hint, width), "dim"),))
    return lines


def _now(progress: RunProgress, width: int, now: float) -> list[Line]:
    """One line, always there while a run goes on: what is being run, the longest first."""
    words: list[str] = []
    used = 0
    activities = progress.activities
    for number, each in enumerate(activities):
        for_s = f" {int(now - each.began)} s" if now - each.began >= 2 else ""
        build, what = shorten_middle(clean(each.build), _LONGEST_NAME), clean(each.what)
        text = f"{build} {shorten(what, max(12, width // 2 - 10))}{for_s}"
        rest = 10 if number + 1 < len(activities) else 0  # room for how many more there are
        if words and 2 + used + width_of(text) + rest > width:
            words.append(f"{len(activities) - number} more")
            break
        words.append(text)
        used += width_of(text) + 2
    return [((shorten(f"  {', '.join(words)}", width), "cyan"),)] if words or progress.cells else []


def _rounded(seconds: float) -> str:
    """A guess is not told to the second, so that it does not change on every frame."""
    if seconds < 60:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return seconds_words(round(seconds / 60) * 60)


def _build_lines(progress: RunProgress, width: int, now: float) -> list[Line]:
    states = list(progress.builds.values())
    active = sorted(
        (each for each in states if each.phase in ACTIVE_PHASES), key=lambda each: ACTIVE_PHASES.index(each.phase)
    )
    name_width = min(_LONGEST_NAME, max((width_of(clean(each.build.name)) for each in active), default=0))
    lines: list[Line] = []
    for state in active[:_MOST_BUILD_LINES]:
        text = f"  {fit(clean(state.build.name), name_width)}  {_doing(state, now)}"
        lines.append(((shorten(text, width), "cyan"),))
    waiting = sum(each.phase == "waiting" for each in states)
    more = [f"{len(active) - _MOST_BUILD_LINES} more at work"] if len(active) > _MOST_BUILD_LINES else []
    if waiting and active:
        more.append(f"{waiting} waiting")
    rate = progress.download_rate()
    if rate and sum(each.phase == "downloading" for each in active) > 1:
        more.append(f"{bytes_words(rate)}/s in all")
    if more:
        lines.append((("  " + ", ".join(more), "dim"),))
    return lines


def _doing(state: BuildState, now: float) -> str:
    words = [state.phase]
    if state.done_bytes is not None and state.phase in ("downloading", "installing"):
        of = f" of {bytes_words(state.total_bytes)}" if state.total_bytes else ""
        words.append(bytes_words(state.done_bytes) + of)
        if state.total_bytes:
            words.append(f"{min(100, state.done_bytes * 100 // state.total_bytes)} %")
        if state.phase == "downloading" and now - state.phase_began > 1:
            words.append(f"{bytes_words(state.done_bytes / (now - state.phase_began))}/s")
    elif now - state.phase_began >= 2:
        words.append(seconds_words(int(now - state.phase_began)))
    if state.message:
        words.append(clean(state.message))
    return "  ".join(words)


def _matrix(rows: Sequence[Row], progress: RunProgress, width: int, height: int) -> list[Line]:
    names = list(progress.builds)
    legend = legend_lines((mark for row in rows for mark in row.marks), width)
    heads_and_notes = 3 + 2 + len(key_lines(heads(names, 0).key, width))
    room = max(1, height - heads_and_notes - len(legend))
    shown, hidden, fold = _window(rows, room)
    labelled = label_rows(shown, fold=fold)
    part = _part(labelled, rows, names, width)
    lines = draw_block(labelled, names, part, width)
    notes = []
    if hidden:
        good = sum(all(mark == MARK_OK for mark in row.marks) for row in hidden)
        bad = sum(any(mark.letter not in _CALM for mark in row.marks) for row in hidden)
        kinds = [f"{good} ok" if good else "", f"{bad} not all ok" if bad else ""]
        idle = sum(all(mark == MARK_PENDING for mark in row.marks) for row in hidden)
        rest = len(hidden) - good - bad - idle
        kinds += [f"{rest} ok so far" if rest else "", f"{idle} not begun" if idle else ""]
        notes.append(f"… {plural(len(hidden), 'more row')}: {', '.join(kind for kind in kinds if kind)}")
    if len(part) < len(names):
        notes.append(f"builds {part.start + 1} to {part.stop} of {len(names)}: the terminal is narrow")
    lines += [((shorten(note, width), "dim"),) for note in notes]
    return [*lines, *legend][:height]


def _part(labelled: Sequence[Labelled], rows: Sequence[Row], names: Sequence[str], width: int) -> range:
    """The builds to show where not all fit: the first block in which something is missing."""
    parts = blocks(labelled, names, width)
    waiting = (MARK_PENDING, MARK_RUNNING)
    for part in parts:
        if any(row.marks[place] in waiting for row in rows for place in part):
            return part
    return parts[-1]


def _window(rows: Sequence[Row], room: int) -> tuple[list[Row], list[Row], bool]:
    """The rows to show, the others, and whether identical ones must be folded.

    First comes what is not ok, then what runs, then what has not come to its end; all stay in their order. Where not
    all rows fit, a case in which nothing is wrong so far takes one row.
    """
    if len(label_rows(rows, fold=False)) <= room:
        return list(rows), [], False
    rows = _calm_cases_as_one(rows)
    if len(label_rows(rows, fold=False)) <= room:
        return list(rows), [], False
    ranks = [_rank(row.marks) for row in rows]
    ranked = sorted(range(len(rows)), key=lambda place: (ranks[place], place))
    bad = [row for row, rank in zip(rows, ranks, strict=True) if rank == 0]
    fold = len(label_rows(bad, fold=False)) > room
    most = len(bad) if fold else room
    while True:
        chosen = set(ranked[:most])
        shown = [row for place, row in enumerate(rows) if place in chosen]
        over = len(label_rows(shown, fold=fold)) - room
        if over <= 0 or most <= 1:
            break
        most -= max(1, over // 2)
    return shown, [row for place, row in enumerate(rows) if place not in chosen], fold


def _calm_cases_as_one(rows: Sequence[Row]) -> list[Row]:
    cases: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cases.setdefault((row.file, row.case), []).append(row)
    merged = []
    for (file, case), group in cases.items():
        if len(group) == 1 or any(mark.letter not in _CALM for row in group for mark in row.marks):
            merged += group
            continue
        marks = tuple(_together(column) for column in zip(*(row.marks for row in group), strict=True))
        merged.append(Row(file, f"{case} ({len(group)}×)", "", marks))
    return merged


def _together(marks: Sequence[Mark]) -> Mark:
    return marks[0] if len(set(marks)) == 1 else MARK_RUNNING


def _rank(marks: Sequence[Mark]) -> int:
    letters = {mark.letter for mark in marks}
    if letters - _CALM:
        return 0
    if MARK_RUNNING.letter in letters:
        return 1
    return 3 if letters == {MARK_OK.letter} else 2


def counts_line(progress: RunProgress) -> str:
    """``120 of 450 cells: 110 ok, 10 wrong``: what stays on the screen after the run."""
    words = ", ".join(f"{progress.counts[each]:,} {each.value}" for each in Verdict if progress.counts[each])
    done = f"{progress.cells_done:,} of {plural(progress.cells, 'cell')}"
    return f"{done}: {words}" if words else done
