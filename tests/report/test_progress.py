"""Live and plain progress: from the same events, cheap, and honest about what has not run."""

from __future__ import annotations

import dataclasses
import io
import re
import threading
import time

import pytest
from rich.console import Console

from bisect_torch.engine.events import (
    LOADING_COMPILER,
    LOADING_TORCH,
    BuildProgress,
    CellFinished,
    CellStarted,
    Confirming,
    EnvironmentReady,
    Loading,
    Note,
    RowsAdded,
    RunFinished,
    RunPlanned,
)
from bisect_torch.model import Judgement, Verdict
from bisect_torch.report.live import LiveReport
from bisect_torch.report.plain import PlainReport
from bisect_torch.report.progress import RunProgress
from bisect_torch.report.screen import screen
from bisect_torch.report.terminal import decorated, open_report
from bisect_torch.report.text import plain, width_of
from tests.report.histories import RELEASES, build, cell, environment, instance, observation

BUILDS = tuple(build(name) for name in RELEASES)


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def planned(instances, builds=BUILDS, kept=0, devices=("cpu",), to_make=0, make_s=0.0):
    cells = len(builds) * len(instances) * len(devices)
    return RunPlanned(builds, tuple(instances), devices, cells, kept, 2, to_make, make_s)


def feed(observer, *events):
    for event in events:
        observer(event)


def a_run_under_way(rows=3, builds=5):
    clock = Clock()
    progress = RunProgress(clock)
    instances = [instance("bmm", batch=number) for number in range(rows)]
    progress.apply(planned(instances, to_make=10, make_s=600.0))
    for name in RELEASES[:builds]:
        progress.apply(EnvironmentReady(build(name), environment(name), 1.0, True))
        for number, each in enumerate(instances):
            started, finished = cell(each, name, "wrong" if number == 1 else "ok")
            progress.apply(started)
            clock.now += 1
            progress.apply(finished)
    progress.apply(BuildProgress(build("2.7.1"), "downloading", 0, 880_000_000))
    clock.now += 10
    progress.apply(BuildProgress(build("2.7.1"), "downloading", 220_000_000, 880_000_000))
    progress.apply(BuildProgress(build("2.8.0"), "installing"))
    clock.now += 3
    return progress, clock


def shown(progress, clock, width, height=40):
    lines = screen(progress, width, height, now=clock.now)
    assert len(lines) <= height
    assert all(width_of("".join(text for text, _ in line)) <= width for line in lines)
    return plain(lines)


def test_the_live_screen_at_80_columns():
    assert shown(*a_run_under_way(), 80) == (
        "████░░░░░░░░░  cells 15/45 · 5 not ok · 5/15 builds ready · about 10 min left\n"
        "\n"
        "  2.7.1  downloading  220 MB of 880 MB  25 %  17 MB/s\n"
        "  2.8.0  installing  3.0 s\n"
        "  8 waiting\n"
        "     2.\n"
        "     4  5  5  6  7  7  8  9  9  10 11 12 12 13 14\n"
        "     .1 .0 .1 .0 .0 .1 .0 .0 .1 .0 .0 .0 .1 .0 .0\n"
        "bmm [batch]\n"
        "  0  ·  ·  ·  ·  ·\n"
        "  1  W  W  W  W  W\n"
        "  2  ·  ·  ·  ·  ·\n"
        "· ok  W wrong (silent)\n"
    )


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("height", [5, 12, 24, 50])
@pytest.mark.parametrize("rows", [1, 30, 300])
def test_the_screen_fits_every_terminal(width, height, rows):
    shown(*a_run_under_way(rows), width, height)


@pytest.mark.parametrize("width", [60, 100])
def test_the_name_of_a_hybrid_is_cut_where_it_is_made_and_whole_below_the_matrix(width):
    clock = Clock()
    progress = RunProgress(clock)
    packages = ", ".join(f"package-{number}==1.{number}.0" for number in range(9))
    hybrid = dataclasses.replace(build("2.14.0"), name=f"2.14.0+{packages.replace(', ', ',')}")
    one = instance("bmm")
    progress.apply(planned([one], builds=(build("2.4.1"), hybrid)))
    progress.apply(BuildProgress(hybrid, "installing"))
    clock.now += 3

    text = shown(progress, clock, width)

    assert "  2.14.0+package-…ckage-8==1.8.0  installing  3.0 s\n" in text
    assert f"#1 2.14.0+{packages}" in " ".join(text.split())


def test_with_more_rows_than_lines_those_that_are_not_ok_stay_and_the_rest_is_counted():
    text = shown(*a_run_under_way(300), 80, 24)
    assert re.search(r"^  1 +W  W  W  W  W$", text, re.M)
    counted = re.search(r"… (\d+) more rows: (\d+) ok so far", text)
    assert counted is not None
    assert counted[1] == counted[2]
    assert len(re.findall(r"^  \d+ +[W·]", text, re.M)) + int(counted[1]) == 300


def test_more_bad_rows_than_lines_are_folded():
    progress = RunProgress(Clock())
    instances = [instance("bmm", batch=number) for number in range(100)]
    progress.apply(planned(instances, BUILDS[:1]))
    for each in instances:
        feed(progress.apply, *cell(each, "2.4.1", "wrong"))
    text = shown(progress, Clock(), 80, 24)
    assert "bmm (100×)" in text
    assert "more row" not in text


def test_repeats_that_differ_turn_a_cell_flaky_and_count_it_once():
    progress = RunProgress(Clock())
    one = instance("f")
    progress.apply(planned([one], BUILDS[:1]))
    for repeat, signature in enumerate(("ok", "wrong", "ok")):
        feed(progress.apply, *cell(one, "2.4.1", signature, repeat=repeat))
    assert progress.cells_done == 1
    assert +progress.counts == {Verdict.WRONG: 1}
    assert [(mark.letter, mark.small) for mark in progress.matrix_rows()[0].marks] == [("W", "~")]
    assert progress.running == 0


def test_a_lost_repeat_does_not_hide_what_another_found():
    progress = RunProgress(Clock())
    one = instance("f")
    progress.apply(planned([one], BUILDS[:1]))
    feed(progress.apply, *cell(one, "2.4.1", "infra"), *cell(one, "2.4.1", "wrong", repeat=1))
    feed(progress.apply, *cell(one, "2.4.1", "infra", repeat=2))
    assert progress.matrix_rows()[0].marks[0].letter == "W"
    assert +progress.counts == {Verdict.WRONG: 1}


def test_cells_kept_from_before_do_not_make_the_time_left_look_short():
    clock = Clock()
    progress = RunProgress(clock)
    instances = [instance("f", n=number) for number in range(20)]
    progress.apply(planned(instances, BUILDS[:2], kept=20))
    for each in instances:
        feed(progress.apply, *cell(each, "2.4.1", "ok", kept=True))
    assert progress.seconds_left() is None
    for each in instances[:10]:
        started, finished = cell(each, "2.5.0", "ok")
        progress.apply(started)
        clock.now += 2
        progress.apply(finished)
        clock.now += 7  # nothing runs: not the pace of cells
    assert progress.seconds_left() == pytest.approx(20, rel=0.15)


def test_environments_that_must_still_be_made_count_in_the_time_left():
    clock = Clock()
    progress = RunProgress(clock)
    progress.apply(planned([instance("f")], BUILDS[:4], to_make=3, make_s=90.0))
    assert progress.seconds_left() == pytest.approx(90)
    progress.apply(EnvironmentReady(BUILDS[0], environment("2.4.1"), 0.1, True))
    progress.apply(BuildProgress(BUILDS[1], "installing"))
    clock.now += 10
    assert progress.seconds_left() == pytest.approx(80)
    progress.apply(EnvironmentReady(BUILDS[1], environment("2.5.0"), 50.0, False))
    assert progress.seconds_left() == pytest.approx(100)
    progress.apply(BuildProgress(BUILDS[2], "failed", message="no wheel"))
    progress.apply(EnvironmentReady(BUILDS[3], environment("2.6.0"), 50.0, False))
    assert progress.seconds_left() is None


def test_confirming_has_a_bar_a_count_and_a_time_of_its_own():
    clock = Clock()
    progress = RunProgress(clock)
    instances = [instance("f", n=number) for number in range(8)]
    progress.apply(planned(instances, BUILDS[:1]))
    progress.apply(EnvironmentReady(BUILDS[0], environment("2.4.1"), 1.0, True))
    for each in instances:
        feed(progress.apply, *cell(each, "2.4.1", "ok"))
    progress.apply(Confirming(8, "the first and last build of each row, again in new processes"))
    for each in instances[:6]:
        clock.now += 10
        feed(progress.apply, *cell(each, "2.4.1", "ok", repeat=1))
    text = shown(progress, clock, 100)
    assert text.startswith("████████████░░░░  confirming 6/8 · about 20 s left\n")
    assert "running the first and last build of each row, again in new processes\n" in text


def test_the_screen_says_what_runs_and_for_how_long():
    clock = Clock()
    progress = RunProgress(clock)
    slow, quick = instance("slow"), instance("quick")
    progress.apply(planned([slow, quick], BUILDS[:2]))
    progress.apply(Loading(BUILDS[0], "loading torch", 1))
    clock.now += 3
    assert "  2.4.1 loading torch 3 s\n" in shown(progress, clock, 80)
    progress.apply(Loading(BUILDS[0], "loading torch", 1, ended=True))
    progress.apply(CellStarted(BUILDS[0], slow, "cpu", 0))
    clock.now += 40
    progress.apply(CellStarted(BUILDS[1], quick, "cpu", 0))
    assert "  2.4.1 slow 40 s, 2.5.0 quick\n" in shown(progress, clock, 80)
    feed(progress.apply, *list(cell(slow, "2.4.1", "ok"))[1:])
    assert "  2.5.0 quick\n" in shown(progress, clock, 80)


def test_what_does_not_fit_on_the_line_of_what_runs_is_counted():
    progress = RunProgress(clock := Clock())
    progress.apply(planned([instance("f")], BUILDS[:4]))
    for number, each in enumerate(BUILDS[:2]):
        progress.apply(Loading(each, "loading the compiler stack", number))
    assert "  2.4.1 loading the compiler stack, 2.5.0 loading the compiler stack\n" in shown(progress, clock, 80)
    for number, each in enumerate(BUILDS[2:4], start=2):
        progress.apply(Loading(each, "loading the compiler stack", number))
    assert "  2.4.1 loading the compiler stack, 2.5.0 loading the compiler stack, 2 more\n" in shown(
        progress, clock, 80
    )


def test_with_more_rows_than_lines_a_calm_case_takes_one():
    progress = RunProgress(Clock())
    instances = [instance(name, n=number) for name in ("f", "g", "h") for number in range(20)]
    progress.apply(planned(instances, BUILDS[:2]))
    for each in instances[:25]:
        feed(progress.apply, *cell(each, "2.4.1", "wrong" if each.name == "f[n=3]" else "ok"))
    text = shown(progress, Clock(), 80, 40)
    assert "h (20×)" in text
    assert re.search(r"^g \(20×\) +…$", text, re.M)
    assert re.search(r"^  3 +W$", text, re.M)


def test_ten_thousand_cells_cost_less_than_half_a_second():
    progress = RunProgress()
    instances = [instance("f", n=number) for number in range(1000)]
    progress.apply(planned(instances, BUILDS[:10]))
    judged = Judgement(Verdict.OK, "ok")
    events = [CellFinished(each, observation(each, one.name), judged) for one in BUILDS[:10] for each in instances]
    began = time.process_time()
    for event in events:
        progress.apply(event)
    assert time.process_time() - began < 0.5
    assert progress.cells_done == 10_000


def events_of_a_small_run():
    f, g = instance("f"), instance("g")
    yield planned([f], BUILDS[:2])
    yield BuildProgress(BUILDS[0], "downloading", 0, 880_000_000)
    yield BuildProgress(BUILDS[0], "downloading", 440_000_000, 880_000_000)
    yield EnvironmentReady(BUILDS[0], environment("2.4.1"), 41.0, False)
    yield RowsAdded((g,), 4, 0)
    yield from cell(f, "2.4.1", "ok")
    yield from cell(g, "2.4.1", "wrong")
    yield Note("a worker was lost\x1b[2J", BUILDS[0])
    yield BuildProgress(BUILDS[1], "failed", message="no wheel for Python 3.14")
    yield CellFinished(f, observation(f, "2.5.0"), Judgement(Verdict.UNINSTALLABLE, "uninstallable"))
    yield Confirming(2, "ends of transitions")
    yield from cell(f, "2.4.1", "ok", repeat=1)
    yield RunFinished(False, 65.0)


def test_on_a_pipe_progress_is_plain_lines():
    stream = io.StringIO()
    with PlainReport(stream) as report:
        feed(report, *events_of_a_small_run())
    assert stream.getvalue() == (
        "1 instance on 2 builds: 2 cells; then what is told of them runs again in more processes\n"
        "2.4.1: downloading 880 MB\n"
        "2.4.1: downloading 440 MB of 880 MB\n"
        "2.4.1: environment ready, Python 3.11.7 (built in 41 s)\n"
        "1 more instance after expansion: 4 cells\n"
        "2.4.1: 2 cells: 1 ok, 1 wrong\n"
        "2.4.1: a worker was lost\\x1b[2J\n"
        "2.5.0: no environment: no wheel for Python 3.14\n"
        "confirming, 2 more runs: ends of transitions\n"
        "confirmed 1 of 2\n"
        "2.5.0: 1 of 2 cells: 1 uninstallable\n"
        "finished after 1 min 5 s: 3 of 4 cells\n"
    )


def slow_plain(stream, **options):
    clock = Clock()
    report = PlainReport(stream, clock=clock, **options)
    stream.truncate(stream.seek(0))
    return report, clock


def beats(report, clock, stream, seconds):
    """What a look every second writes."""
    before = len(stream.getvalue())
    for _ in range(seconds):
        clock.now += 1
        report.beat()
    return stream.getvalue()[before:]


def test_what_takes_long_is_told_every_half_minute_with_what_is_being_done():
    stream = io.StringIO()
    report, clock = slow_plain(stream)
    one, other = instance("bmm", batch=2), instance("softmax")
    assert beats(report, clock, stream, 100) == "", "nothing is known before the plan"
    feed(report, planned([one, other], BUILDS[:2]), BuildProgress(BUILDS[1], "downloading", 0, 880_000_000))
    clock.now += 10
    report(CellStarted(BUILDS[0], one, "cpu", 0))
    report(BuildProgress(BUILDS[1], "downloading", 100_000_000, 880_000_000))
    assert beats(report, clock, stream, 19) == ""
    assert beats(report, clock, stream, 20) == (
        "0 of 4 cells; 2.5.0: downloading 100 MB of 880 MB for 30 s; 2.4.1: bmm[batch=2] for 20 s\n"
    )
    report(BuildProgress(BUILDS[1], "downloading", 200_000_000, 880_000_000))
    feed(report, *list(cell(one, "2.4.1", "ok"))[1:])
    report(Loading(BUILDS[0], "loading torch", 0))
    assert "1 of 4 cells; 2.5.0: downloading 200 MB of 880 MB" in beats(report, clock, stream, 30)


def test_where_nothing_moves_lines_become_few():
    """An hour in one cell is no hundred lines; and any other line begins the count anew."""
    stream = io.StringIO()
    report, clock = slow_plain(stream)
    feed(report, planned([instance("f")], BUILDS[:1]), CellStarted(BUILDS[0], instance("f"), "cpu", 0))
    hour = beats(report, clock, stream, 3600).splitlines()
    assert [line.split(" for ")[1] for line in hour[:5]] == ["30 s", "1 min", "2 min", "4 min", "8 min"]
    assert len(hour) == 18
    report(Note("something"))
    assert len(beats(report, clock, stream, 31).splitlines()) == 1


def test_a_quick_run_and_one_that_ended_have_no_such_line():
    stream = io.StringIO()
    report, clock = slow_plain(stream)
    for event in events_of_a_small_run():
        report(event)
        clock.now += 7
        report.beat()
    whole = stream.getvalue()
    plain_stream = io.StringIO()
    feed(PlainReport(plain_stream), *events_of_a_small_run())
    assert whole == plain_stream.getvalue()
    assert beats(report, clock, stream, 600) == ""


def test_quiet_starts_no_thread_and_others_end_theirs():
    threads = set(threading.enumerate())
    with PlainReport(io.StringIO(), quiet=True):
        assert set(threading.enumerate()) == threads
    with PlainReport(io.StringIO()):
        assert {each.name for each in set(threading.enumerate()) - threads} == {"heartbeat"}
    assert set(threading.enumerate()) == threads


def test_confirming_ends_with_its_last_state_and_says_once_how_to_do_without():
    stream = io.StringIO()
    report, clock = slow_plain(stream, confirming_hint="--no-confirm leaves this out")
    one = instance("f")
    report(planned([one], BUILDS[:1]))
    feed(report, *cell(one, "2.4.1", "ok"), Confirming(6, "ends"))
    for number in range(1, 7):
        clock.now += 25
        feed(report, *cell(one, "2.4.1", "ok", repeat=number))
    report(Confirming(2, "more"))
    feed(report, *cell(one, "2.4.1", "ok", repeat=7))
    feed(report, RunFinished(True, 65.0))
    confirmed = [line for line in stream.getvalue().splitlines() if line.startswith("confirmed")]
    assert confirmed == [
        "confirmed 1 of 6",
        "confirmed 2 of 6",
        "confirmed 3 of 6",
        "confirmed 4 of 6",
        "confirmed 5 of 6, about 25 s left",
        "confirmed 6 of 6",
        "confirmed 7 of 8, about 21 s left",
    ]
    long = io.StringIO()
    report, clock = slow_plain(long, confirming_hint="--no-confirm leaves this out")
    report(planned([one], BUILDS[:1]))
    feed(report, *cell(one, "2.4.1", "ok"), Confirming(40, "ends"))
    for number in range(1, 13):
        clock.now += 25
        feed(report, *cell(one, "2.4.1", "ok", repeat=number))
    assert long.getvalue().splitlines()[2:] == [
        "confirming, 40 more runs: ends",
        "confirmed 4 of 40",
        "confirmed 8 of 40, about 13 min 20 s left; --no-confirm leaves this out",
        "confirmed 12 of 40, about 11 min 40 s left",
    ]


def test_how_long_confirming_will_take_is_told_when_it_begins_by_what_loading_torch_and_the_cells_took():
    stream = io.StringIO()
    report, clock = slow_plain(stream)
    one = instance("f")
    report(planned([one], BUILDS[:1]))
    for what, seconds in ((LOADING_TORCH, 20), (LOADING_COMPILER, 40), ("ending the worker", 300)):
        report(Loading(BUILDS[0], what, 0))
        clock.now += seconds
        report(Loading(BUILDS[0], what, 0, ended=True))
    feed(report, *cell(one, "2.4.1", "ok"), Confirming(8, "ends", loads=4, cells_s=10.0))
    assert stream.getvalue().splitlines()[-1] == "confirming, 8 more runs, about 2 min 5 s: ends"  # on two cores
    clock.now += 64
    assert "confirmed 0 of 8; about 1 min left" in beats(report, clock, stream, 1)


def test_where_nothing_was_loaded_nothing_is_guessed():
    stream = io.StringIO()
    report, _ = slow_plain(stream)
    one = instance("f")
    feed(report, planned([one], BUILDS[:1]), *cell(one, "2.4.1", "ok"), Confirming(8, "ends", loads=4, cells_s=10.0))
    assert stream.getvalue().splitlines()[-1] == "confirming, 8 more runs: ends"


@pytest.mark.parametrize(("confirm", "kept", "told"), [(True, 0, True), (False, 0, False), (True, 1, False)])
def test_that_confirming_comes_is_told_from_the_start_where_it_comes(confirm, kept, told):
    stream = io.StringIO()
    begun = dataclasses.replace(planned([instance("f")], BUILDS[:1], kept=kept), confirm=confirm)
    feed(PlainReport(stream), begun)
    assert ("again in more processes" in stream.getvalue()) is told
    clock = Clock()
    progress = RunProgress(clock)
    feed(progress.apply, begun, *(cell(instance("f"), "2.4.1", "ok", kept=True) if kept else ()))
    assert ("again in more processes" in shown(progress, clock, 120)) is told
    assert ("again in more processes" in shown(progress, clock, 60)) is False, "there is no room for it"


@pytest.mark.parametrize(("seconds", "told"), [(1, False), (20, True)])
def test_the_live_screen_says_how_to_do_without_confirming_where_that_is_long(seconds, told):
    clock = Clock()
    progress = RunProgress(clock, confirming_hint="--no-confirm leaves this out")
    one = instance("f")
    feed(progress.apply, planned([one], BUILDS[:1]), *cell(one, "2.4.1", "ok"), Confirming(40, "both ends"))
    for number in range(1, 9):
        clock.now += seconds
        feed(progress.apply, *cell(one, "2.4.1", "ok", repeat=number))
    lines = shown(progress, clock, 80).splitlines()
    assert lines[1] == "running both ends"
    assert (lines[2] == "--no-confirm leaves this out") is told


def test_quiet_leaves_notes_and_failures():
    stream = io.StringIO()
    feed(PlainReport(stream, quiet=True), *events_of_a_small_run())
    assert stream.getvalue() == ("2.4.1: a worker was lost\\x1b[2J\n2.5.0: no environment: no wheel for Python 3.14\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class BrokenStream(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_gone_does_not_stop_the_run():
    with PlainReport(BrokenStream()) as report:
        feed(report, *events_of_a_small_run())


@pytest.mark.parametrize("width", [80, 160])
def test_the_live_report_draws_and_leaves_notes_above(width):
    console = Console(
        file=Terminal(), force_terminal=True, width=width, height=30, color_system=None, legacy_windows=False
    )
    with LiveReport(Terminal(), console=console) as report:
        for event in events_of_a_small_run():
            report(event)
            report.draw()
    text = console.file.getvalue()
    assert "2.4.1: a worker was lost\\x1b[2J" in text
    assert "2.5.0: no environment: no wheel for Python 3.14" in text
    assert "finished after 1 min 5 s: 3 of 4 cells: 1 ok, 1 wrong, 1 uninstallable" in text
    assert "\x1b[31m" not in text


def test_an_address_in_a_note_is_never_broken():
    address = f"https://index.example/{'a' * 60}/torch-2.9.1-cp311-cp311-manylinux_2_28_x86_64.whl"
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=50,
        height=12,
        color_system=None,
        highlight=False,
        legacy_windows=False,
    )
    with LiveReport(Terminal(), console=console) as report:
        report(Note(f"{address} cannot be read: it is not there any more, and so it does not take part"))
    text = console.file.getvalue()
    assert address in text
    assert "cannot be read: it is not there any more, and so\n" in text.replace("\r", "")


def test_what_has_not_changed_is_not_drawn_again():
    console = Console(
        file=Terminal(), force_terminal=True, width=80, height=30, color_system=None, legacy_windows=False
    )
    report = LiveReport(Terminal(), console=console)
    report(planned([instance("f")]))
    report.draw()
    length = len(console.file.getvalue())
    report.draw()
    assert len(console.file.getvalue()) == length


@pytest.mark.parametrize(
    ("stream", "environ", "quiet", "live"),
    [
        (Terminal(), {"TERM": "xterm"}, False, True),
        (Terminal(), {"TERM": "dumb"}, False, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, False, True),
        (Terminal(), {"TERM": "xterm"}, True, False),
        (io.StringIO(), {"TERM": "xterm"}, False, False),
    ],
)
def test_only_a_real_terminal_gets_the_live_screen(stream, environ, quiet, live):
    assert isinstance(open_report(quiet=quiet, stream=stream, environ=environ), LiveReport) is live
    assert decorated(stream, environ) is (live or quiet)


def test_repeats_known_from_before_are_not_counted_as_confirmations():
    progress = RunProgress(Clock())
    one = instance("f")
    progress.apply(planned([one], BUILDS[:1], kept=1))
    feed(progress.apply, *cell(one, "2.4.1", "ok", kept=True), *cell(one, "2.4.1", "ok", repeat=1, kept=True))
    progress.apply(Confirming(1, "ends"))
    feed(progress.apply, *cell(one, "2.4.1", "ok", repeat=2))
    assert (progress.repeats_done, progress.repeats_wanted) == (1, 1)
