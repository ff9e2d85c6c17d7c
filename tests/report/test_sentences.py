"""One sentence per transition, with its evidence; none for what is not one."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from bisect_torch.analysis import Tolerances, judge, transitions
from bisect_torch.model import ASSERTION
from bisect_torch.report.phrases import does
from bisect_torch.report.sentence import plural_verb
from bisect_torch.report.sentences import sentences
from tests.report.histories import environment, findings, instance, observation, point, series, transition


def only(*rows, transitions=(), **facts):
    found = sentences(findings(*rows, transitions=tuple(transitions), **facts))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("kind", "history", "ends", "text"),
    [
        ("broke", ("ok", "wrong"), "2.4.1 2.5.0", "f gives silently wrong values from 2.5.0 on (last good 2.4.1)."),
        ("broke", ("ok", "error:ValueError"), "2.4.1 2.5.0", "f raises ValueError from 2.5.0 on (last good 2.4.1)."),
        ("broke", ("ok", "crash:SIGFPE"), "2.4.1 2.5.0", "f crashes with SIGFPE from 2.5.0 on (last good 2.4.1)."),
        ("broke", ("ok", "timeout"), "2.4.1 2.5.0", "f times out from 2.5.0 on (last good 2.4.1)."),
        ("broke", ("ok", "oom"), "2.4.1 2.5.0", "f runs out of memory from 2.5.0 on (last good 2.4.1)."),
        ("broke", ("ok", "error:exit 3"), "2.4.1 2.5.0", "f exits with status 3 from 2.5.0 on (last good 2.4.1)."),
        (
            "broke",
            ("ok", "crash:exit 3"),
            "2.4.1 2.5.0",
            "f crashes with exit status 3 from 2.5.0 on (last good 2.4.1).",
        ),
        (
            "broke",
            ("ok", "wrong", "ok", "wrong"),
            "2.5.1 2.6.0",
            "f gives silently wrong values again from 2.6.0 on (last good 2.5.1).",
        ),
        (
            "broke",
            ("wrong", "ok", "wrong"),
            "2.5.0 2.5.1",
            "f gives silently wrong values again from 2.5.1 on (last good 2.5.0).",
        ),
        (
            "broke",
            ("ok", "wrong", "error:A", "ok"),
            "2.4.1 2.5.0",
            "f gives silently wrong values from 2.5.0 on (last good 2.4.1; ok again in 2.6.0).",
        ),
        (
            "became silent",
            ("error:RuntimeError", "wrong", "ok"),
            "2.4.1 2.5.0",
            "f gives silently wrong values from 2.5.0 on, instead of raising RuntimeError up to 2.4.1 "
            "(ok again in 2.5.1): an explicit error became silent.",
        ),
        ("fixed", ("wrong", "ok"), "2.4.1 2.5.0", "f is fixed in 2.5.0 (gave silently wrong values up to 2.4.1)."),
        (
            "fixed",
            ("ok", "crash:SIGABRT", "ok"),
            "2.5.0 2.5.1",
            "f is fixed in 2.5.1 (crashed with SIGABRT up to 2.5.0).",
        ),
        (
            "fixed",
            ("wrong", "ok", "wrong", "ok"),
            "2.5.1 2.6.0",
            "f is fixed again in 2.6.0 (gave silently wrong values up to 2.5.1).",
        ),
        (
            "became silent",
            ("error:RuntimeError", "wrong"),
            "2.4.1 2.5.0",
            "f gives silently wrong values from 2.5.0 on, instead of raising RuntimeError up to 2.4.1: "
            "an explicit error became silent.",
        ),
        (
            "became silent",
            ("crash:SIGSEGV", "wrong"),
            "2.4.1 2.5.0",
            "f gives silently wrong values from 2.5.0 on, instead of crashing with SIGSEGV up to 2.4.1: "
            "a crash became silent.",
        ),
        (
            "changed",
            ("error:RuntimeError", "error:NotImplementedError"),
            "2.4.1 2.5.0",
            "f raises NotImplementedError from 2.5.0 on, instead of RuntimeError up to 2.4.1.",
        ),
        (
            "changed",
            ("crash:SIGFPE", "error:RuntimeError"),
            "2.4.1 2.5.0",
            "f raises RuntimeError from 2.5.0 on, instead of crashing with SIGFPE up to 2.4.1.",
        ),
        (
            "changed",
            ("error:exit 3", "error:exit 4"),
            "2.4.1 2.5.0",
            "f exits with status 4 from 2.5.0 on, instead of exiting with status 3 up to 2.4.1.",
        ),
        (
            "appeared",
            ("absent", "ok"),
            "2.4.1 2.5.0",
            "f uses a name of torch that is first available in 2.5.0 (absent up to 2.4.1).",
        ),
        (
            "appeared",
            ("absent", "error:RuntimeError"),
            "2.4.1 2.5.0",
            "f uses a name of torch that is first available in 2.5.0, where the case raises RuntimeError (absent up to "
            "2.4.1).",
        ),
        (
            "disappeared",
            ("ok", "absent"),
            "2.4.1 2.5.0",
            "f uses a name of torch that is gone from 2.5.0 on (last available in 2.4.1).",
        ),
    ],
)
def test_each_kind_of_transition_has_its_sentence(kind, history, ends, text):
    row = series("f", *history)
    before, after = ends.split()
    assert only(row, transitions=[transition(kind, row, before, after)]).text == text


def lacking(name, *builds, **parameters):
    """What was seen on builds whose torch does not have this name."""
    return tuple(observation(instance("f", **parameters), build, absent_name=name) for build in builds)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch.nn.attention.flex_attention", "f uses torch.nn.attention.flex_attention, which is gone from 2.5.0 on"),
        ("verbose=", "f uses the keyword verbose, which is gone from 2.5.0 on"),
    ],
)
def test_what_is_gone_is_the_name_that_a_row_uses_not_the_row(name, told):
    row = series("f", "ok", "absent")
    moved = [transition("disappeared", row, "2.4.1", "2.5.0")]
    assert only(row, transitions=moved, observations=lacking(name, "2.5.0")).text.startswith(f"{told} (last")


def test_a_name_is_told_only_where_all_instances_lack_the_same():
    rows = [series(f"f[n={n}]", "absent", "ok") for n in (1, 2)]
    moved = [transition("appeared", row, "2.4.1", "2.5.0") for row in rows]
    one, other = lacking("torch.a", "2.4.1", n=1), lacking("torch.a", "2.4.1", n=2)
    told = only(*rows, transitions=moved, observations=(*one, *other)).text
    assert told == "both instances of f use torch.a, which is first available in 2.5.0 (absent up to 2.4.1)."
    other = lacking("torch.b", "2.4.1", n=2)
    told = only(*rows, transitions=moved, observations=(*one, *other)).text
    assert told == "both instances of f use a name of torch that is first available in 2.5.0 (absent up to 2.4.1)."


def test_a_name_that_no_build_has_is_told():
    seen = lacking("torch.summ", "2.4.1", "2.5.0")
    told = only(series("f", "absent", "absent"), observations=seen).text
    assert told == "f uses torch.summ, which is absent in every build, from 2.4.1 to 2.5.0."
    meant = {"measurements": '{"nearest_name": "torch.sum"}'}
    seen = tuple(dataclasses.replace(each, **meant) for each in seen)
    evidence = dict(only(series("f", "absent", "absent"), observations=seen).evidence)
    assert evidence["perhaps meant"] == "torch.sum"
    assert "perhaps meant" not in dict(only(series("f", "error:A", "error:A"), observations=seen).evidence)


@pytest.mark.parametrize("history", [("absent", "ok"), ("ok", "absent"), ("absent", "error:RuntimeError")])
def test_an_absent_api_is_never_called_broken_or_fixed(history):
    row = series("f", *history)
    kind = "appeared" if history[0] == "absent" else "disappeared"
    text = only(row, transitions=[transition(kind, row, "2.4.1", "2.5.0")]).text
    assert not any(word in text for word in ("broke", "fixed", "regression", "good", "bad"))


def test_an_api_that_was_absent_does_not_count_as_having_been_bad():
    row = series("f", "absent", "ok", "wrong")
    text = only(row, transitions=[transition("broke", row, "2.5.0", "2.5.1")]).text
    assert text == "f gives silently wrong values from 2.5.1 on (last good 2.5.0)."


def test_a_transition_carries_signature_commits_link_differences_and_confidence():
    row = series("f", "ok", "wrong")
    both = {
        "2.4.1": environment("2.4.1", cuda="12.4", sympy="1.12", nvidia_a="1", nvidia_b="1", jinja2="3"),
        "2.5.0": environment("2.5.0", cuda="12.4", sympy="1.13", nvidia_a="2", nvidia_b="2", triton="3.1"),
    }
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")], environments=both)
    assert dict(found.evidence) == {
        "signature": "ok → wrong",
        "commits": "241000000000 → 250000000000",
        "compare": "https://github.com/pytorch/pytorch/compare/241000000000...250000000000",
        "also differ": "jinja2 3 removed; sympy 1.12 → 1.13; triton 3.1 added; 2 nvidia packages",
        "confidence": "3 and 3 processes agree, each side once in its own interpreter",
    }


def test_python_and_cuda_that_differ_are_told_like_a_package():
    row = series("f", "ok", "wrong")
    both = {
        "2.4.1": environment("2.4.1", cuda="12.4", python="3.8.20"),
        "2.5.0": environment("2.5.0", cuda=None, python="3.9.1"),
    }
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")], environments=both)
    assert dict(found.evidence)["also differ"] == "Python 3.8.20 → 3.9.1; CUDA 12.4 removed"


def test_when_only_torch_differs_that_is_said():
    row = series("f", "ok", "wrong")
    both = {name: environment(name, numpy="1.26") for name in row.builds}
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")], environments=both)
    assert dict(found.evidence)["also differ"] == "nothing else: only torch"


def test_there_is_no_link_without_both_commits():
    row = series("f", "ok", "wrong")
    made = findings(row, transitions=(transition("broke", row, "2.4.1", "2.5.0"),))
    nameless = dataclasses.replace(made.builds[0], git_commit=None)
    found = sentences(dataclasses.replace(made, builds=(nameless, made.builds[1])))
    assert found[0].compare is None
    assert dict(found[0].evidence)["commits"] == "unknown → 250000000000"


def test_builds_between_the_ends_that_say_nothing_are_named_with_the_reason():
    row = series("f", "ok", "uninstallable", None, "wrong")
    between = (("2.5.0", "uninstallable: no wheel"), ("2.5.1", "not run"))
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.6.0", between=between)])
    assert dict(found.evidence)["untested between"] == "2.5.0 (uninstallable: no wheel) and 2.5.1 (not run)"


@pytest.mark.parametrize(
    ("between", "text"),
    [
        ((), "2.6.0"),
        ((("2.5.0", "skip: no such device"),), "2.6.0 or an earlier build that could not be judged"),
        ((("2.5.0", "not run"),), "2.6.0 or an earlier build that was not run"),
        ((("2.5.0", "API absent"),), "2.6.0"),
        (
            (("2.5.0", "not run"), ("2.5.1", "flaky: ok 1, wrong 2")),
            "2.6.0 or an earlier build that was not run or could not be judged",
        ),
    ],
)
def test_no_build_is_named_alone_where_an_earlier_one_is_unknown(between, text):
    row = series("f", "wrong", None, None, "ok")
    found = only(row, transitions=[transition("fixed", row, "2.4.1", "2.6.0", between=between)])
    assert found.text == f"f is fixed in {text} (gave silently wrong values up to 2.4.1)."


def test_a_verdict_that_forks_do_not_share_says_what_they_gave_and_counts_only_who_agrees():
    row = series("f", "ok", "crash:SIGSEGV")
    counts = {"ok": 2, "crash:SIGSEGV": 3}
    row = replace(row, points=(row.points[0], replace(row.points[1], in_forks="ok", counts=counts, processes=5)))
    evidence = dict(only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")]).evidence)
    assert evidence["in a shared process"] == "ok on 2.5.0; an interpreter of its own is what counts"
    assert evidence["confidence"].startswith("3 and 3 processes agree")


def test_an_unconfirmed_transition_says_so():
    row = series("f", "ok", "wrong")
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0", confirmed=False)])
    assert found.text.endswith("(last good 2.4.1), not confirmed.")
    assert dict(found.evidence)["confidence"].startswith("not confirmed: ")


def test_instances_of_a_case_with_the_same_history_share_one_sentence():
    rows = [series(f"bmm[dtype={d},batch={n}]", "ok", "wrong" if n > 1 else "ok") for d in "ab" for n in (1, 2)]
    moved = [transition("broke", row, "2.4.1", "2.5.0") for row in rows if "batch=2" in row.instance]
    found = only(*rows, transitions=moved)
    assert found.text == "2 of 4 instances of bmm (batch=2) give silently wrong values from 2.5.0 on (last good 2.4.1)."
    assert found.instances == ("bmm[dtype=a,batch=2]", "bmm[dtype=b,batch=2]")


def test_of_instances_that_share_a_sentence_it_is_told_how_many_are_ok_again():
    rows = [
        series("f[n=1]", "ok", "wrong", "wrong"),
        series("f[n=2]", "ok", "wrong", "ok"),
        series("f[n=3]", "ok", "wrong", None),
    ]
    found = only(*rows, transitions=[transition("broke", row, "2.4.1", "2.5.0") for row in rows])
    said = "give silently wrong values from 2.5.0 on (last good 2.4.1; 1 of 3 instances ok again in 2.5.1)."
    assert found.text.endswith(said)


def test_instances_that_changed_elsewhere_or_otherwise_keep_their_own_sentence():
    rows = [
        series("f[n=1]", "ok", "wrong", "wrong"),
        series("f[n=2]", "ok", "ok", "wrong"),
        series("f[n=3]", "ok", "crash:SIGSEGV", "crash:SIGSEGV"),
    ]
    moved = [
        transition("broke", rows[0], "2.4.1", "2.5.0"),
        transition("broke", rows[1], "2.5.0", "2.5.1"),
        transition("broke", rows[2], "2.4.1", "2.5.0"),
    ]
    assert len(sentences(findings(*rows, transitions=tuple(moved)))) == 3


def test_a_flaky_series_gets_a_sentence_with_its_numbers_and_no_transition():
    found = only(series("f", "ok|wrong", "ok|wrong", "ok"))
    assert found.kind == "flaky"
    assert found.text == (
        "f is flaky in 2 of 3 builds (2.4.1 to 2.5.0): wrong in 6 of 12 runs; no transition is claimed there, "
        "and the other build ran only 3 times: too few to tell."
    )
    assert dict(found.evidence)["runs"] == "2.4.1: wrong 3 of 6 and 2.5.0: wrong 3 of 6"


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ((1, 1, 1), ", and the other 3 builds ran only once each: too few to tell."),
        ((1, 3, 1), ", and the other 3 builds ran only once to 3 times: too few to tell."),
        ((1, 20, 20), ", and 1 of the other 3 builds ran only once: too few to tell."),
        ((20, 20, 20), " is claimed there."),
    ],
)
def test_builds_that_ran_too_few_times_to_be_flaky_are_not_told_as_fixed(runs: tuple[int, ...], told: str) -> None:
    """After an interruption, "flaky in 2 of 5 builds (2.4.1 to 2.5.0)" would else read as fixed after 2.5.0."""
    row = series("f", "ok|wrong", "ok|wrong", "ok", "ok", "ok")
    rest = (dataclasses.replace(each, counts={"ok": number}) for each, number in zip(row.points[2:], runs, strict=True))
    found = only(dataclasses.replace(row, points=(*row.points[:2], *rest)))
    assert found.text.endswith(told)


def test_what_lacks_to_be_confirmed_is_named_where_enough_processes_agree() -> None:
    row = series("f", "wrong", "wrong")
    points = tuple(dataclasses.replace(each, own_process=False) for each in row.points)
    found = only(dataclasses.replace(row, points=points))
    assert dict(found.evidence)["confidence"] == (
        "not confirmed: 3 and 3 processes agree at the first and the last build, but not each once in its own "
        "interpreter"
    )
    row = series("f", "ok", "wrong")
    points = tuple(dataclasses.replace(each, own_process=False) for each in row.points)
    row = dataclasses.replace(row, points=points)
    moved = transition("broke", row, "2.4.1", "2.5.0", confirmed=False)
    (found,) = sentences(findings(row, transitions=(moved,)))
    assert dict(found.evidence)["confidence"] == (
        "not confirmed: 3 and 3 processes agree, but not each side in its own interpreter"
    )


@pytest.mark.parametrize(
    ("history", "text"),
    [
        (("wrong",) * 3, "f gives silently wrong values in every build, from 2.4.1 to 2.5.1."),
        (("timeout",) * 3, "f times out in every build, from 2.4.1 to 2.5.1."),
        (("absent",) * 3, "f uses a name of torch that is absent in every build, from 2.4.1 to 2.5.1."),
        (("crash:SIGSEGV", None, "broken"), "f crashes with SIGSEGV in 2.4.1, the only build judged."),
        (
            ("error:KeyError", "skip", "error:KeyError"),
            "f raises KeyError in every judged build (1 not judged), from 2.4.1 to 2.5.1.",
        ),
    ],
)
def test_what_is_bad_everywhere_is_said_once(history, text):
    assert only(series("f", *history)).text == text


def test_what_was_seen_of_a_row_that_is_bad_everywhere_names_its_build():
    found = only(series("f", "error:E", "error:E", "skip"), observations=failures("2.4.1", "2.5.0"))
    assert dict(found.evidence) == {
        "seen": "on 2.5.0: no 2.5.0",
        "confidence": "3 and 3 processes agree at the first and the last build, each once in its own interpreter",
    }


def test_what_was_seen_on_the_only_build_need_not_name_it():
    found = only(series("f", "error:E"), observations=failures("2.4.1"))
    assert dict(found.evidence) == {
        "seen": "no 2.4.1", "confidence": "seen in 3 processes, one of them its own interpreter",
    }  # fmt: skip


def failures(*builds):
    return tuple(
        observation(instance("f"), build, outcome="raised", error_type="E", message=f"no {build}") for build in builds
    )


def test_how_many_processes_are_needed_is_said_where_there_are_fewer() -> None:
    """After an interruption "2 and 1 process agree" would not say what is missing."""
    row = series("f", "ok", "wrong")
    points = tuple(replace(each, processes=few) for each, few in zip(row.points, (2, 1), strict=True))
    row = replace(row, points=points)
    moved = transition("broke", row, "2.4.1", "2.5.0", confirmed=False)
    (found,) = sentences(findings(row, transitions=(moved,)))
    assert dict(found.evidence)["confidence"] == (
        "not confirmed: 2 and 1 processes agree (3 and 3 are needed), each side once in its own interpreter"
    )
    alone = series("f", "wrong")
    alone = replace(alone, points=(replace(alone.points[0], processes=1, own_process=False),))
    assert dict(only(alone).evidence)["confidence"] == "not confirmed: seen in 1 process (3 are needed)"


_ASSERTED = """\
Traceback (most recent call last):
  File "<cases>/f.py", line 9, in f
    same(a, b)
  File "<cases>/f.py", line 4, in same
{source}
AssertionError
"""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("    assert torch.equal(a, b)", "assert torch.equal(a, b)"),
        ("    assert torch.equal(a, b)\n           ~~~~~^^^^^^^^^^^^", "assert torch.equal(a, b)"),
        ("    assert torch.equal(\n        a, b\n    )\n    ^", "assert torch.equal(a, b)"),
        ("    assert torch.equal(", "assert torch.equal( …"),
    ],
)
def test_an_assertion_without_a_message_is_told_by_its_line(source: str, told: str) -> None:
    """The line is in the stored traceback; it is no part of what tells transitions apart."""
    facts = {"outcome": "raised", "error_type": "AssertionError", "frame": "f:same", "frame_origin": "case"}
    seen = observation(instance("f"), "2.5.0", **facts, traceback=_ASSERTED.format(source=source))
    row = series("f", "ok", "wrong")
    row = replace(row, points=(row.points[0], replace(row.points[1], judgement=judge(seen))))
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")], observations=(seen,))
    assert found.text == "f fails an assertion from 2.5.0 on (last good 2.4.1)."
    assert dict(found.evidence)["after"] == told
    assert judge(seen) == judge(replace(seen, traceback=None))


def test_an_error_that_turns_into_a_failed_assertion_became_silent() -> None:
    row = series("f", "error:RuntimeError", "wrong")
    asserted = replace(row.points[1], judgement=replace(row.points[1].judgement, failure=ASSERTION))
    row = replace(row, points=(row.points[0], asserted))
    assert only(row, transitions=[transition("became silent", row, "2.4.1", "2.5.0")]).text == (
        "f fails an assertion from 2.5.0 on, instead of raising RuntimeError up to 2.4.1: an explicit error became "
        "silent."
    )


@pytest.mark.parametrize(
    ("source", "before", "told"),
    [
        ("torch.f()", "error:E", "no longer raises E from 2.5.0 on (last bad 2.4.1)."),
        ("torch.f()", "crash:SIGSEGV", "no longer crashes with SIGSEGV from 2.5.0 on (last bad 2.4.1)."),
        ("torch.f()", "timeout", "no longer times out from 2.5.0 on (last bad 2.4.1)."),
        ("assert torch.f()", "error:E", "is fixed in 2.5.0 (raised E up to 2.4.1)."),
        (None, "error:E", "is fixed in 2.5.0 (raised E up to 2.4.1)."),
    ],
)
def test_what_checks_nothing_is_not_told_as_fixed(source: str | None, before: str, told: str) -> None:
    row = series("f", before, "ok")
    known = {} if source is None else {"00": f"import torch\n{source}\n"}
    seen = observation(instance("f"), "2.5.0")
    found = only(row, transitions=[transition("fixed", row, "2.4.1", "2.5.0")], observations=(seen,), sources=known)
    assert found.text == f"f {told}"


def test_what_fails_no_more_for_the_second_time_or_in_several_instances_says_so() -> None:
    rows = [series(f"f[n={n}]", "error:E", "ok", "error:E", "ok") for n in (1, 2)]
    moved = tuple(transition("fixed", row, "2.5.1", "2.6.0") for row in rows)
    seen = tuple(observation(instance("f", n=n), "2.6.0") for n in (1, 2))
    (found,) = sentences(findings(*rows, transitions=moved, observations=seen, sources={"00": "import torch\n"}))
    assert found.text == "both instances of f again no longer raise E from 2.6.0 on (last bad 2.5.1)."


@pytest.mark.parametrize(
    ("processes", "own", "word", "doubt"),
    [
        (1, False, "wrong", True), (1, True, "wrong", True), (3, False, "wrong", True), (3, True, "wrong", False),
        (1, False, "timeout", True), (1, True, "timeout", True), (3, True, "timeout", False),
    ],
)  # fmt: skip
def test_what_is_bad_everywhere_and_not_confirmed_says_so(processes, own, word, doubt):
    row = series("f", word, word)
    ends = tuple(dataclasses.replace(each, processes=processes, own_process=own) for each in row.points)
    found = only(dataclasses.replace(row, points=(ends[0], ends[1])))
    assert found.text.endswith(", not confirmed.") == doubt
    assert dict(found.evidence)["confidence"].startswith("not confirmed: ") == doubt


def test_a_test_of_a_suite_that_is_bad_everywhere_is_not_confirmed_and_says_why():
    row = series("f", "wrong", "wrong")
    ends = tuple(dataclasses.replace(each, processes=1, own_process=False) for each in row.points)
    seen = observation(instance("f"), "2.5.0", isolation="session")
    found = only(dataclasses.replace(row, points=ends), observations=(seen,))
    assert found.text.endswith(", not confirmed.")
    assert dict(found.evidence)["confidence"] == (
        "not confirmed: 1 and 1 processes agree at the first and the last build (3 and 3 are needed); a test of a "
        "suite runs again only where it changes"
    )


def test_a_hang_everywhere_says_that_it_is_waited_for_no_more():
    row = series("f", "timeout", "timeout")
    ends = tuple(dataclasses.replace(each, processes=2, own_process=True) for each in row.points)
    words = dict(only(dataclasses.replace(row, points=ends)).evidence)["confidence"]
    assert words.endswith("; what times out in every build is waited for no more than that")


@pytest.mark.parametrize(
    "history", [("ok", "ok"), ("skip", "skip"), (None, None), ("broken", "ok"), ("infra", "infra")]
)
def test_what_is_right_or_says_nothing_about_torch_makes_no_sentence(history):
    assert sentences(findings(series("f", *history))) == []


def test_a_change_of_detail_alone_makes_no_transition_sentence():
    row = series("f", "error:E", "error:E")
    points = (point("2.4.1", "error:E", detail="old"), point("2.5.0", "error:E", detail="new"))
    found = only(dataclasses.replace(row, points=points))
    assert found.kind == "always"


def test_what_a_case_printed_cannot_reach_the_terminal_as_a_command():
    row = series("f\x1b[2J", "ok", "error:E\u202e")
    points = (row.points[0], point("2.5.0", "error:E\u202e", detail="\x1b]0;owned\x07 line\nbreak"))
    row = dataclasses.replace(row, points=points)
    found = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")])
    text = found.text + "".join(value for _, value in found.evidence)
    assert not any(char in text for char in "\x1b\x07\n\u202e")
    assert r"\x1b]0;owned\x07 line\nbreak" in text


def test_with_two_devices_the_sentence_names_its_own():
    rows = [series("f", "ok", "ok"), series("f", "ok", "wrong", device="cuda")]
    found = only(*rows, transitions=[transition("broke", rows[1], "2.4.1", "2.5.0")])
    assert found.text.startswith("f on cuda gives")


def evidence_of(signature, **facts):
    row = series("f", "ok", signature)
    seen = observation(instance("f"), "2.5.0", **facts)
    moved = [transition("broke", row, "2.4.1", "2.5.0")]
    return dict(only(row, transitions=moved, observations=(seen,)).evidence).get("after")


def test_wrong_values_are_told_in_numbers():
    text = evidence_of(
        "wrong",
        elements=4096,
        wrong_elements=16,
        first_wrong_index="[0, 15]",
        actual_value="0.0",
        expected_value="1.5",
        explained_by="index wraps at 2**32",
    )
    assert text == (
        "16 of 4,096 elements wrong; first at [0, 15]: 0.0 instead of 1.5; "
        "exactly what this would give: index wraps at 2**32"
    )


@pytest.mark.parametrize(
    ("signature", "facts", "text"),
    [
        ("wrong", {"outcome": "raised", "message": "rows differ"}, "rows differ"),
        ("error:E", {"outcome": "raised", "message": "outer", "root_message": "  inner\nmore"}, "inner"),
        ("error:E", {"outcome": "raised", "message": "\x1b[2J" + "x" * 300}, "\\x1b[2J" + "x" * 232 + "…"),
        (
            "error:E",
            {
                "outcome": "raised",
                "message": "Failed running call_function f(x):\nOutput 0 is a view\n\nfrom user code:",
            },
            "Failed running call_function f(x): Output 0 is a view",
        ),
        (
            "error:E",
            {"outcome": "raised", "message": f"Failed running {'x' * 300}:\nthe cause"},
            f"Failed running {'x' * 104}… the cause",
        ),
        (
            "error:E",
            {
                "outcome": "raised",
                "message": "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n"
                '  File "x.py", line 3, in f\n    assert x\nAssertionError: 0\n',
            },
            "-- Process 1 terminated with the following error: AssertionError: 0",
        ),
        (
            "error:E",
            {
                "outcome": "raised",
                "message": "Caught KeyError in DataLoader worker process 0.\n"
                'Original Traceback (most recent call last):\n  File "x.py", line 3, in f\nKeyError: 7\n',
            },
            "Caught KeyError in DataLoader worker process 0. KeyError: 7",
        ),
        (
            "error:exit 1",
            {"outcome": "exited", "error_type": "SystemExit", "exit_code": 1, "stdout_tail": "begin\nFAIL\n\n"},
            'its last line was "FAIL"',
        ),
        (
            "wrong",
            {
                "outcome": "raised",
                "error_type": "AssertionError",
                "message": "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n",
            },
            "Tensor-likes are not close! Mismatched elements: 1 / 4 (25.0%)",
        ),
        (
            "crash:exit 0",
            {"outcome": "exited", "exit_code": 0},
            "the process ended without a word before the case had come to its end, as by os._exit",
        ),
        ("timeout", {"outcome": "timed_out", "timeout_s": 90.0}, "no end within 1 min 30 s"),
        (
            "crash:SIGSEGV",
            {"outcome": "returned", "signal": "SIGSEGV", "phase": "exit"},
            "at the exit of the process, after the case had come to its end",
        ),
        ("crash:SIGSEGV", {"outcome": "signalled", "signal": "SIGSEGV", "phase": "run"}, None),
    ],
)
def test_failures_are_told_by_their_message_or_place(signature, facts, text):
    assert evidence_of(signature, **facts) == text


def test_the_time_of_a_command_is_told_to_be_that_of_loading_torch_too():
    row = series("train", "ok", "timeout", file=".")
    late = observation(instance("train", file="."), "2.5.0", outcome="timed_out", timeout_s=2.0)
    moved = [transition("broke", row, "2.4.1", "2.5.0")]
    after = dict(only(row, transitions=moved, observations=(late,)).evidence)["after"]
    assert after == "no end within 2.0 s, loading torch included"


def test_releases_that_did_not_take_part_are_named_and_no_release_is_blamed_for_them():
    row = series("f", "ok", "wrong")
    moved = transition("broke", row, "2.4.1", "2.5.0")
    found = only(row, transitions=[moved], known_releases=("2.4.1", "2.4.2", "2.4.3", "2.5.0", "2.10.0"))

    assert "from 2.5.0 or an earlier release that was not run (last good 2.4.1)" in found.text
    assert dict(found.evidence)["not run between"] == "2.4.2 and 2.4.3; narrow it with --from 2.4.1 --to 2.5.0"


@pytest.mark.parametrize(
    ("old", "new", "between"),
    [("2.4.0", "2.6.0", "2.4.1 and 2.5.0"), ("2.5.0", "2.15.0", "2.6.0"), ("2.4.1", "2.6.0.dev20250101", None)],
)
def test_a_release_that_the_catalogue_does_not_have_lies_where_its_version_says(old, new, between):
    row = dataclasses.replace(series("f", "ok", "wrong"), builds=(old, new))
    points = tuple(dataclasses.replace(each, build=name) for each, name in zip(row.points, (old, new), strict=True))
    row = dataclasses.replace(row, points=points)
    found = only(row, transitions=[transition("broke", row, old, new)], known_releases=("2.4.1", "2.5.0", "2.6.0"))
    assert ("or an earlier release that was not run" in found.text) is (between is not None)
    assert dict(found.evidence).get("not run between", "None;").partition(";")[0] == str(between)


def test_what_may_not_have_run_is_not_said_to_be_fixed():
    row = series("f", "wrong", "ok")
    before = observation(instance("f"), "2.4.1")
    after = observation(instance("f"), "2.5.0", stdout_tail="SKIPPED: no f in 2.5.0\n")
    found = only(row, transitions=[transition("fixed", row, "2.4.1", "2.5.0")], observations=(before, after))
    assert found.text == "f no longer gives silently wrong values from 2.5.0 on (last bad 2.4.1)."
    why = 'ok, but what failed may not have run: it prints "SKIPPED: no f in 2.5.0"'
    assert dict(found.evidence)["after"] == why


def test_beside_flaky_builds_it_is_said_how_many_processes_are_needed():
    row = series("f", "ok", "wrong", "ok|wrong")
    found = [each for each in sentences(findings(row, transitions=tuple(transitions(row)))) if each.kind == "broke"]
    assert found[0].text.endswith(", not confirmed.")
    words = "not confirmed: 3 and 3 processes agree (8 and 8 are needed, since other builds are flaky)"
    assert dict(found[0].evidence)["confidence"].startswith(words)


def test_releases_that_did_not_take_part_come_with_the_line_that_runs_them():
    row = series("f", "ok", "wrong")
    seen = observation(instance("f"), "2.5.0")
    found = only(
        row,
        transitions=[transition("broke", row, "2.4.1", "2.5.0")],
        known_releases=("2.4.1", "2.4.2", "2.5.0"),
        observations=(seen,),
        runs=(
            {
                "run_id": seen.run_id,
                "arguments": ["run", "cases.py", "--versions", "2.4.1,2.5.0", "--with", "numpy"],
            },
        ),
    )
    line = "bisect-torch run cases.py --with numpy --from 2.4.1 --to 2.5.0"
    assert dict(found.evidence)["not run between"] == f"2.4.2; narrow it with `{line}`"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("assertion", "f fails an assertion in every build"),
        ("bad output", "f prints what --bad-if-output names in every build"),
        ("strict xfail", "f passes although marked as failing (strict xfail) in every build"),
        ("unexpected success", "f has an unexpected success (a test that is expected to fail passes) in every build"),
    ],
)
def test_a_test_that_fails_is_not_said_to_give_wrong_values(failure, words):
    row = series("f", "wrong", "wrong")
    points = tuple(
        dataclasses.replace(each, judgement=dataclasses.replace(each.judgement, failure=failure)) for each in row.points
    )
    assert only(dataclasses.replace(row, points=points)).text.startswith(words)


def test_a_script_that_ends_with_a_status_for_a_test_that_passes_says_so():
    row = series("f", "ok", "error:exit 1")
    points = [
        dataclasses.replace(each, judgement=dataclasses.replace(each.judgement, failure=failure))
        for each, failure in zip(row.points, ("", "unexpected success"), strict=True)
    ]
    row = dataclasses.replace(row, points=tuple(points))
    told = only(row, transitions=[transition("broke", row, "2.4.1", "2.5.0")]).text
    words = "an unexpected success (a test that is expected to fail passes)"
    assert told == f"f has {words} from 2.5.0 on (last good 2.4.1)."
    assert plural_verb(does(points[1].judgement), 2) == f"have {words}"


def test_an_assertion_is_shown_without_addresses_and_escaped_line_ends():
    row = series("f", "wrong", "wrong")
    message = r"assert [<warnings.WarningMessage object at 0x7f64aa>] == 'a\nb'"
    raised = observation(
        instance("f"), "2.5.0", outcome="raised", error_type="AssertionError", root_type="AssertionError",
        message=message,
    )  # fmt: skip
    assert dict(only(row, observations=(raised,)).evidence)["seen"].endswith(
        "assert [<warnings.WarningMessage>] == 'a b'"
    )


@pytest.mark.parametrize("tolerances", [None, Tolerances(rtol=1e-2)])
def test_what_elements_were_judged_by_stands_beside_the_error(tolerances):
    row = series("f", "wrong", "wrong")
    seen = observation(
        instance("f"), "2.5.0", criterion="elementwise", rtol=1e-3, atol=0.0, rel_error=1.4e-7, wrong_elements=3,
        elements=64, error_bins="[]",
    )  # fmt: skip
    found = only(row, observations=(seen,), tolerances=tolerances)
    words = dict(found.evidence)["seen"]
    then = "" if tolerances is None else " when it ran"
    assert f"3 of 64 elements wrong{then} (elementwise: rtol 0.001, atol 0)" in words
    assert ("; now judged element by element: rtol 0.01, atol 0" in words) == (tolerances is not None)


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        (("old words", "new words"), "on 2.4.1: old words; on 2.5.0: new words"),
        (("same words", "same words"), "on 2.5.0: same words"),
    ],
)
def test_of_an_error_in_every_build_the_oldest_reason_is_told_too_where_it_is_another(messages, told):
    row = series("f", "error:RuntimeError", "error:RuntimeError")
    points = [point(name, "error:RuntimeError", detail=each) for name, each in zip(row.builds, messages, strict=True)]
    found = only(dataclasses.replace(row, points=tuple(points)))
    assert dict(found.evidence)["seen"] == told
