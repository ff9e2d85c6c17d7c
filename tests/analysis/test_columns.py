"""Observations in columns mean what the same observations mean one by one."""

from __future__ import annotations

import dataclasses
import types
import typing

from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch import analysis
from bisect_torch.analysis.columns import telling
from bisect_torch.analysis.judge import FACTS_TO_JUDGE, Tolerances, judge
from bisect_torch.model import Observation, Outcome, Series
from bisect_torch.results.recorded import Recorded, identity
from bisect_torch.results.rows import Rows
from bisect_torch.results.values import in_columns
from tests.report.histories import RELEASES
from tests.support.many_results import many_results

PATIENT = settings(deadline=None, max_examples=30)  # the first use of Arrow loads much
MANY = settings(deadline=None, max_examples=60)
BUILDS = ("2.4.1", "2.5.0", "2.6.0", "2.7.0")
_BINS = "[[0, 10, 1e-3], [1, 2, 1.0]]"
_VALUES: dict[str, list[object]] = {
    "case_file": ["c.py", "."],
    "outcome": [*(each.value for each in Outcome), *["returned", "raised"] * 5],
    "phase": [None, "run", "exit"],
    "reason": [None, "", "no such device"],
    "exit_code": [None, 0, 1, 125, 127],
    "signal": [None, "SIGSEGV"],
    "error_type": [None, "SystemExit", "AssertionError", "Failed", "RuntimeError"],
    "message": [None, "expected 3 at 0x7f", "expected 4 at 0x8f"],
    "root_type": [None, "ValueError"],
    "root_message": [None, "no 5"],
    "frame": [None, "torch.testing:assert_close", "cases:f"],
    "frame_origin": [None, "case", "torch", "pytest"],
    "missing_module": [None, "scipy", "torch", "torch.new"],
    "absent_name": [None, "torch.new"],
    "failed_capability": [None, "compile: no C++ compiler"],
    "returned_false": [None, False, True],
    "checks": [0, 1],
    "criterion": [None, "normwise", "elementwise"],
    "check_path": [None, "[0]"],
    "mismatch": [None, "output matches x", "shape 3 and 4"],
    "tolerance": [None, 1e-3],
    "rtol": [None, 0.0, 1e-3, 1.0],
    "atol": [None, 0.0, 0.5],
    "rel_error": [None, 0.0, 0.5, float("nan"), float("inf")],
    "wrong_elements": [None, 0, 3],
    "nan_mismatches": [None, 0, 1],
    "inf_mismatches": [None, 0, 1],
    "error_bins": [None, _BINS, "[]"],
    "explained_by": [None, "index wraps"],
    "elements": [None, 0, 12],
    "isolation": [None, "fork", "process", "session"],
    "worker": [None, "w0", "w1", "w2"],
    "elapsed_s": [None, 0.5, 2.0],
    "digest": [None, "aa", "bb"],
    "started_at": [None, "", "2026-11-30T03:00:00+00:00", "2026-11-30T04:00:00+00:00"],
    "case_file_hash": ["one", "one", "other"],
    "machine": [None, "Linux"],
    "driver": [None, None, None, "550"],
    "key": ["a", "a", "b"],
    "run_id": ["run", "later run"],
    "repeat": [0, 1, 2],
    "instance": ["case", "case[n=1]"],
    "device": ["cpu", "cpu", "cuda"],
    "build_name": [*BUILDS, "2.7.0+today"],
    "parameters": ["{}", '{"n": 1}'],
    "git_commit": [None, "abc"],
}


def observations(*fixed: tuple[str, object]) -> st.SearchStrategy[Observation]:
    """Any facts together, whether or not a worker would ever send them; a few values each, so that many are alike."""
    named = {name: st.sampled_from(values) for name, values in _VALUES.items()} | {
        name: st.just(value) for name, value in fixed
    }

    def made(values: dict[str, object]) -> Observation:
        return Observation(build="2.4.1", build_kind="release", case="case", **values)  # type: ignore[arg-type]

    return st.fixed_dictionaries(named).map(made)


SEVERAL = st.lists(observations(), max_size=30) | st.lists(
    observations(("case_file_hash", "one"), ("machine", "Linux"), ("driver", None), ("instance", "case"), ("key", "a")),
    max_size=30,
)
TOLERANCES = st.sampled_from([None, Tolerances(rtol=1e-2), Tolerances(atol=10.0)])


def rows(these: list[Observation]) -> Rows:
    return Recorded(in_columns(these) if these else None).rows()


def once(these: list[Observation]) -> list[Observation]:
    return list({identity(each): each for each in these}.values())


def same(one: object, other: object) -> bool:
    """Equal, where NaN is NaN."""
    return repr(one) == repr(other)


class Watched:
    """An observation that remembers which fields were looked at."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self.seen: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.seen.add(name)
        return getattr(self._observation, name)


@PATIENT
@given(observations(), TOLERANCES)
def test_a_judgement_depends_on_nothing_but_the_facts_that_are_listed(
    each: Observation, how: Tolerances | None
) -> None:
    watched = Watched(each)
    judge(typing.cast(Observation, watched), how)
    assert watched.seen - set(FACTS_TO_JUDGE) == set()


def test_every_listed_fact_is_tried_by_these_tests_and_has_values_of_its_type() -> None:
    hints = typing.get_type_hints(Observation)
    assert set(FACTS_TO_JUDGE) - set(_VALUES) == set()
    for name, values in _VALUES.items():
        kinds = typing.get_args(hints[name]) if isinstance(hints[name], types.UnionType) else (hints[name],)
        assert all(isinstance(value, kinds) for value in values), name


@PATIENT
@given(SEVERAL)
def test_what_is_put_into_columns_comes_out_as_it_was(these: list[Observation]) -> None:
    found = rows(these)
    assert same(list(found), once(these))
    assert same([found[place] for place in range(len(found))], once(these))
    assert same(list(found[1:3]), once(these)[1:3])


@MANY
@given(SEVERAL, TOLERANCES)
def test_series_of_columns_are_those_of_the_observations(these: list[Observation], how: Tolerances | None) -> None:
    plain: list[Series] = analysis.build_series(once(these), BUILDS, how)
    assert same(analysis.build_series(rows(these), BUILDS, how), plain)
    named = [("c.py", "other", "cpu"), *((each.case_file, each.instance, each.device) for each in reversed(plain))]
    assert same(
        analysis.build_series(rows(these), BUILDS, how, rows=named),
        analysis.build_series(once(these), BUILDS, how, rows=named),
    )


@PATIENT
@given(SEVERAL, TOLERANCES)
def test_cells_of_columns_are_those_of_the_observations(these: list[Observation], how: Tolerances | None) -> None:
    quick, plain = (analysis.series.collect(each, how) for each in (rows(these), once(these)))
    assert list(quick) == list(plain)
    assert all(same(sorted(quick[row].items(), key=_first), sorted(plain[row].items(), key=_first)) for row in plain)
    counted = [sorted(map(repr, analysis.counted(each))) for each in (rows(these), once(these))]
    assert counted[0] == counted[1]


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


@PATIENT
@given(SEVERAL, TOLERANCES)
def test_the_same_repeats_are_wanted(these: list[Observation], how: Tolerances | None) -> None:
    wanted = [analysis.wanted_repeats(each, BUILDS, tolerances=how) for each in (rows(these), once(these))]
    assert wanted[0] == wanted[1]


@PATIENT
@given(SEVERAL, st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=6, unique=True))
def test_rows_have_the_same_number_where_they_agree(these: list[Observation], names: list[str]) -> None:
    found = rows(these)
    combinations = [repr([getattr(each, name) for name in names]) for each in once(these)]
    number = {text: place for place, text in enumerate(dict.fromkeys(combinations))}
    assert list(found.codes(names).of) == [number[text] for text in combinations]
    assert [combinations[place] for place in found.codes(names).first] == list(number)
    shown = {repr([getattr(each, name) for name in names]) for each in telling(found, names)}
    assert shown == set(combinations)


@PATIENT
@given(SEVERAL, st.data())
def test_a_choice_of_rows_is_like_a_file_of_them(these: list[Observation], data: st.DataObject) -> None:
    found = rows(these)
    places = data.draw(st.lists(st.integers(0, len(found) - 1), unique=True) if len(found) else st.just([]))
    chosen, plain = found.take(places), [once(these)[place] for place in places]
    assert same(list(chosen), plain)
    assert same(analysis.build_series(chosen, BUILDS), analysis.build_series(plain, BUILDS))
    for field in dataclasses.fields(Observation):
        assert same(list(chosen.values(field.name)), [getattr(each, field.name) for each in plain])


def test_rows_that_went_alike_share_their_answers_and_what_was_measured_stays_their_own() -> None:
    made = list(many_results(6_000))
    quick, plain = (analysis.build_series(each, RELEASES) for each in (rows(made), made))
    different = analysis.alike(quick)
    assert sum(number for _, number in different) == len(quick) == 400
    assert len(different) < 60
    assert len(analysis.alike(plain)) == len(plain)
    assert quick == plain
    assert [list(each.points[3:5]) for each in quick] == [list(each.points[3:5]) for each in plain]
    assert [analysis.transitions(each) for each in quick] == [analysis.transitions(each) for each in plain]
    folded = [[[each.instance for each in group] for group in analysis.fold(series)] for series in (quick, plain)]
    assert folded[0] == folded[1]
    for each in quick:
        for answer, point in zip(each.answers, each.points, strict=True):
            assert answer is not None
            assert point is not None
            bare = dataclasses.replace(point, elapsed_s=None, rel_error=None, digests=())
            assert dataclasses.replace(answer, elapsed_s=None, rel_error=None, digests=()) == bare
