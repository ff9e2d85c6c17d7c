"""Each sentence of the design on verdicts, as a test."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis import Tolerances, judge, normalise
from bisect_torch.analysis.histogram import under_tolerances
from bisect_torch.model import ASSERTION, BAD_OUTPUT, STRICT_XFAIL, UNEXPECTED_SUCCESS, Outcome, Verdict
from tests.analysis.made import BASE, observe


def raised(kind: str, **fields: object):
    return observe("ok", outcome="raised", error_type=kind, **{"root_type": kind, **fields})


@pytest.mark.parametrize(("origin", "signature"), [("pytest", "wrong"), ("other", "error:Failed")])
def test_a_test_that_fails_by_pytest_s_own_word_is_wrong(origin: str, signature: str) -> None:
    assert judge(raised("Failed", frame_origin=origin)).signature == signature


@pytest.mark.parametrize(
    ("kind", "message", "origin", "signature"),
    [
        ("NameError", "name 'chekk' is not defined", "case", "broken"),
        ("NameError", "name 'chekk' is not defined. Did you mean: 'check'?", "case", "broken"),
        ("NameError", "name 'inductor' is not defined", "torch", "error:NameError"),
        ("NameError", "name '__resume_at_30_0' is not defined", "case", "error:NameError"),
        ("ImportError", "cannot import name 'chek' from 'bisect_torch' (/x/__init__.py)", "case", "broken"),
        ("ImportError", "cannot import name 'chek' from 'torch' (/x/__init__.py)", "case", "error:ImportError"),
    ],
)
def test_a_slip_of_the_case_s_author_says_nothing_about_the_build(
    kind: str, message: str, origin: str, signature: str
) -> None:
    found = judge(raised(kind, message=message, root_message=message, frame_origin=origin))
    assert found.signature == signature
    assert found.reason.startswith("the case's own mistake: ") == (signature == "broken")


@pytest.mark.parametrize(
    ("kind", "message", "fields", "reason"),
    [
        ("EOFError", "EOF when reading a line", {"frame_origin": "case"}, "it asks for input, and there is nobody"),
        ("EOFError", "Ran out of input", {"frame_origin": "torch"}, None),
        ("SyntaxError", "invalid syntax (x.py, line 3)", {"phase": "load"}, "Python cannot read it: invalid syntax"),
        ("TabError", "inconsistent", {"phase": "load", "frame": "importlib._bootstrap:f"}, "Python cannot read it: in"),
        ("SyntaxError", "invalid syntax", {"phase": "run", "frame": "ast:parse"}, None),
        ("SyntaxError", "invalid syntax", {"phase": "load", "frame": "ast:parse"}, None),
        ("ValueError", "rendezvous: environment variable RANK expected, but not set", {}, "it wants the variable RANK"),
        ("KeyError", "'LOCAL_RANK'", {"frame": "os:__getitem__"}, "it wants the variable LOCAL_RANK, which is not set"),
        ("KeyError", "'HF_TOKEN'", {"frame": "os:__getitem__"}, "it wants the variable HF_TOKEN, which is not set"),
        ("KeyError", "'TORCH_HOME'", {"frame": "os:__getitem__"}, None),
        ("KeyError", "'RANK'", {"frame": "x:f"}, None),
        (
            "AttributeError",
            "partially initialized module 'torch' has no attribute 'ones' (most likely due to …)",
            {},
            None,
        ),
        ("ImportError", "cannot import name 'x' from partially initialized module 'random'", {}, "a file random.py is"),
        ("ImportError", "cannot import name 'x' from partially initialized module 'torch._dynamo'", {}, None),
    ],
)
def test_what_a_case_wants_and_does_not_get_says_nothing_about_the_build(
    kind: str, message: str, fields: dict[str, object], reason: str | None
) -> None:
    found = judge(raised(kind, message=message, root_message=message, **fields))
    assert found.signature == (f"error:{kind}" if reason is None else "broken")
    assert found.reason.startswith(reason or "")


WANTED = "it wants the file inputs.pt, which is not there"


@pytest.mark.parametrize(
    ("kind", "reason", "signature"),
    [
        ("FileNotFoundError", WANTED, "broken"),
        ("FileNotFoundError", None, "error:FileNotFoundError"),
        ("FileNotFoundError", "something else", "error:FileNotFoundError"),
        ("RuntimeError", WANTED, "error:RuntimeError"),
    ],
)
def test_a_file_that_is_not_there_is_no_fault_of_the_build_where_the_worker_found_it_to_be_the_user_s_own(
    kind: str, reason: str | None, signature: str
) -> None:
    found = judge(raised(kind, reason=reason))
    assert (found.signature, found.reason) == (signature, WANTED if signature == "broken" else "")


def test_of_a_command_the_last_line_tells_it() -> None:
    said = "AttributeError: partially initialized module 'random' has no attribute 'seed' (most likely due to a …)"
    observation = observe("ok", outcome="exited", exit_code=1, case_file=".", message=said)
    assert judge(observation).reason == "a file random.py is imported in place of the real random"


SLIP = "the case's own mistake: it returned the function check, not what that gives: write return check(…)"


def test_a_case_that_returns_what_has_still_to_run_was_not_judged() -> None:
    found = judge(observe("ok", reason=SLIP))
    assert (found.signature, found.reason) == ("broken", SLIP)


def test_what_such_a_case_has_checked_before_and_is_wrong_stays_wrong() -> None:
    measured = {"checks": 1, "error_bins": "[[0, 1, 0.5]]", "wrong_elements": 1, "elements": 1}
    observation = observe("ok", reason=SLIP, **measured)
    assert judge(observation).signature == "wrong"
    assert judge(observation, Tolerances(rtol=1e-3)).signature == "wrong"
    assert judge(observation, Tolerances(rtol=10.0)).signature == "broken"


def test_every_outcome_has_a_verdict() -> None:
    for outcome in Outcome:
        assert isinstance(judge(observe("ok", outcome=outcome.value)).verdict, Verdict)


@pytest.mark.parametrize(
    ("fields", "signature"),
    [
        ({}, "ok"),
        ({"returned_false": True}, "wrong"),
        ({"returned_false": False}, "ok"),
        ({"mismatch": "shape (2, 3) came, (3, 2) was expected"}, "wrong"),
        ({"nan_mismatches": 1}, "wrong"),
        ({"inf_mismatches": 2}, "wrong"),
        ({"wrong_elements": 1, "elements": 10}, "wrong"),
        ({"wrong_elements": 0, "elements": 10}, "ok"),
        ({"criterion": "normwise", "tolerance": 1e-3, "rel_error": 1e-2}, "wrong"),
        ({"criterion": "normwise", "tolerance": 1e-3, "rel_error": 1e-3}, "ok"),
        ({"criterion": "normwise", "tolerance": 1e-3, "rel_error": float("nan")}, "wrong"),
        ({"criterion": "normwise", "tolerance": 1e-3, "rel_error": float("inf")}, "wrong"),
        ({"criterion": "elementwise", "rtol": 0.0, "atol": 0.0, "rel_error": 0.5, "wrong_elements": 0}, "ok"),
        ({"elements": 0, "wrong_elements": 0}, "ok"),
    ],
)
def test_a_case_that_returned_is_ok_or_wrong(fields: dict[str, object], signature: str) -> None:
    judgement = judge(observe("ok", **fields))
    assert judgement.signature == judgement.verdict.value == signature


@pytest.mark.parametrize("origin", ["case", "local", "torch.testing", "numpy.testing", "unittest", "pytest"])
def test_an_assertion_of_the_case_or_of_a_testing_library_is_wrong(origin: str) -> None:
    assert judge(raised("AssertionError", frame_origin=origin)).signature == "wrong"


@pytest.mark.parametrize(
    "frame", ["torch.testing._comparison:assert_close", "numpy.testing._private.utils:assert_allclose", "_pytest.x:f"]
)
def test_a_testing_library_is_known_by_its_module_too(frame: str) -> None:
    assert judge(raised("AssertionError", frame_origin="torch", frame=frame)).signature == "wrong"


@pytest.mark.parametrize("origin", ["torch", "numpy", "stdlib", "other", None])
def test_an_assertion_elsewhere_is_an_error(origin: str | None) -> None:
    frame = "torch.testing_not:f"
    assert judge(raised("AssertionError", frame_origin=origin, frame=frame)).signature == "error:AssertionError"


def test_an_assertion_that_is_wrapped_is_an_error_of_the_root_type() -> None:
    judgement = judge(raised("BackendCompilerFailed", root_type="AssertionError", frame_origin="case"))
    assert judgement.signature == "error:AssertionError"


def test_an_assertion_raised_from_another_exception_is_still_the_cases_word() -> None:
    assert judge(raised("AssertionError", root_type="RuntimeError", frame_origin="case")).signature == "wrong"


def test_a_wrapped_compile_error_has_the_type_and_message_of_its_root() -> None:
    judgement = judge(
        raised("InductorError", root_type="TypeError", root_message="bad 3", message="wrapped", frame="a.b:c")
    )
    assert judgement.signature == "error:TypeError"
    assert judgement.detail == "bad # in a.b:c"


@pytest.mark.parametrize(
    ("fields", "signature"),
    [
        ({"exit_code": 3, "error_type": "SystemExit"}, "error:exit 3"),
        ({"exit_code": 125, "error_type": "SystemExit"}, "skip"),
        ({"exit_code": 127, "error_type": "SystemExit"}, "error:exit 127"),
        ({"exit_code": 0}, "crash:exit 0"),
        ({"exit_code": 7}, "crash:exit 7"),
        ({"exit_code": 7, "phase": "load"}, "crash:exit 7"),
        ({"exit_code": 7, "mismatch": "output matches x"}, "crash:exit 7"),
        ({"exit_code": 125}, "crash:exit 125"),
        ({"exit_code": 127}, "crash:exit 127"),
        ({"exit_code": 0, "case_file": "."}, "crash:exit 0"),
        ({"exit_code": 3, "case_file": "."}, "error:exit 3"),
        ({"exit_code": 3, "case_file": ".", "mismatch": "output matches x"}, "wrong"),
        ({"exit_code": 125, "case_file": "."}, "skip"),
        ({"exit_code": 126, "case_file": "."}, "broken"),
        ({"exit_code": 127, "case_file": "."}, "broken"),
        ({"exit_code": 0, "error_type": "SystemExit"}, "ok"),
        ({"error_type": "SystemExit"}, "error:exit 1"),
        ({"exit_code": 7, "phase": "exit"}, "crash:exit 7"),
    ],
)
def test_exit_statuses(fields: dict[str, object], signature: str) -> None:
    """Without a SystemExit nothing but a command may end with a status: a case that does has left abnormally."""
    assert judge(observe("ok", outcome="exited", **fields)).signature == signature


@pytest.mark.parametrize("fields", [{"signal": "SIGSEGV"}, {"exit_code": 1}])
def test_the_exit_status_outranks_the_result(fields: dict[str, object]) -> None:
    judgement = judge(observe("ok", phase="exit", **fields))
    assert judgement.verdict is Verdict.CRASH
    assert "at exit" in judgement.detail


def test_a_signal_is_a_crash_with_its_name() -> None:
    assert judge(observe("crash:SIGFPE")).signature == "crash:SIGFPE"


@pytest.mark.parametrize("kind", ["ModuleNotFoundError", "InductorError", "AssertionError", "RuntimeError"])
@pytest.mark.parametrize("module", ["setuptools", "setuptools.command", "torchvision", "torch"])
def test_a_missing_module_outside_torch_is_broken_at_any_depth(kind: str, module: str) -> None:
    judgement = judge(raised(kind, missing_module=module, frame_origin="case"))
    assert judgement.signature == "broken"
    assert judgement.reason == f"No module named {module.partition('.')[0]!r}"


def test_a_missing_name_in_torch_is_an_error_with_the_flag() -> None:
    judgement = judge(
        raised("ModuleNotFoundError", missing_module="torch.nn.new", absent_name="torch.nn.new", frame_origin="case")
    )
    assert judgement.signature == "error:ModuleNotFoundError"
    assert judgement.api_absent


def test_the_flag_needs_a_name_that_is_absent() -> None:
    assert not judge(raised("AttributeError", frame_origin="torch")).api_absent


def test_a_failed_capability_is_broken_with_its_reason() -> None:
    judgement = judge(raised("InductorError", failed_capability="compile", reason="no C++ compiler"))
    assert judgement.signature == "broken"
    assert judgement.reason == "compile: no C++ compiler"


def test_a_detail_names_the_fault_model_and_the_leaf() -> None:
    judgement = judge(observe("ok", wrong_elements=1, elements=2, check_path="[0]", explained_by="wraps at 2**32"))
    assert judgement.detail == "values differ at [0]: wraps at 2**32"


# --- other tolerances


def bins(*rows: tuple[int | None, int, float]) -> dict[str, object]:
    return {"checks": 1, "criterion": "normwise", "error_bins": json.dumps(rows), "wrong_elements": 5, "elements": 9}


def test_new_tolerances_give_ok_wrong_or_undecidable() -> None:
    facts = bins((0, 9, 1.5e-3))  # |reference| in [1, 2)
    assert judge(observe("ok", **facts), Tolerances(rtol=2e-3)).signature == "ok"
    assert judge(observe("ok", **facts), Tolerances(rtol=1e-4)).signature == "wrong"
    undecidable = judge(observe("ok", **facts), Tolerances(rtol=1e-3))
    assert undecidable.verdict is Verdict.UNDECIDABLE
    assert undecidable.reason
    assert not undecidable.verdict.judged


@pytest.mark.parametrize(
    ("wrong", "rtol", "atol", "verdict"),
    [
        (0, 1e-3, 0.0, "ok"),
        (0, 1.2e-3, 1e-9, "ok"),
        (0, 0.9e-3, 0.0, "undecidable"),
        (3, 1e-3, 0.0, "wrong"),
        (3, 0.9e-3, 0.0, "wrong"),
        (3, 1.1e-3, 0.0, "undecidable"),
    ],
)
def test_what_the_histogram_leaves_open_is_said_by_what_was_found_then(
    wrong: int, rtol: float, atol: float, verdict: str
) -> None:
    """At the very tolerances of the check, and beyond them on the side that they tell."""
    facts = bins((0, 9, 1.5e-3)) | {"criterion": "elementwise", "rtol": 1e-3, "atol": 0.0, "wrong_elements": wrong}
    assert judge(observe("ok", **facts), Tolerances(rtol, atol)).signature == verdict
    two = {**facts, "checks": 2}  # the numbers are those of the worse one alone
    assert judge(observe("ok", **two), Tolerances(rtol, atol)).signature == "undecidable"


def test_new_tolerances_do_not_mend_what_is_wrong_at_any() -> None:
    for fields in ({"mismatch": "shape"}, {"nan_mismatches": 1}, {"inf_mismatches": 1}):
        assert judge(observe("ok", **{**bins((0, 9, 0.0)), **fields}), Tolerances(rtol=1.0)).signature == "wrong"


def test_new_tolerances_leave_alone_what_the_case_asserted_itself() -> None:
    observation = raised("AssertionError", frame_origin="case")
    assert judge(observation, Tolerances(rtol=1.0)) == judge(observation)
    assert judge(BASE, Tolerances(rtol=1e-9)).signature == "ok"


@pytest.mark.parametrize(
    "own", [{"outcome": "raised", "error_type": "AssertionError", "frame_origin": "case"}, {"returned_false": True}]
)
def test_a_case_that_failed_on_its_own_check_is_undecidable_where_the_check_would_pass(own: dict[str, object]) -> None:
    facts = {**bins((0, 9, 1e-3)), **own}
    assert judge(observe("ok", **facts)).signature == "wrong"
    assert judge(observe("ok", **facts), Tolerances(rtol=1e-6)).signature == "wrong"
    assert judge(observe("ok", **facts), Tolerances(rtol=1e-1)).signature == "undecidable"
    right = {**facts, "wrong_elements": 0}  # its check passed: it asserted something else
    assert judge(observe("ok", **right), Tolerances(rtol=1e-1)).signature == "wrong"


@pytest.mark.parametrize(
    "ending",
    [
        {},
        {"outcome": "exited", "exit_code": 1, "error_type": "SystemExit"},
        {"outcome": "raised", "error_type": "ValueError"},
    ],
)
def test_output_that_is_declared_bad_is_wrong_however_the_program_ended(ending: dict[str, object]) -> None:
    judgement = judge(observe("ok", mismatch="output matches loss=nan", **ending))
    assert judgement.signature == "wrong"
    assert "output matches" in judgement.detail
    assert judgement.failure == BAD_OUTPUT


def test_output_that_is_declared_bad_does_not_hide_a_crash_or_a_missing_module() -> None:
    bad = "output matches x"
    assert judge(observe("crash:SIGABRT", mismatch=bad)).signature == "crash:SIGABRT"
    assert judge(raised("ModuleNotFoundError", missing_module="scipy", mismatch=bad)).signature == "broken"


def test_a_mismatch_found_before_an_exception_does_not_hide_it() -> None:
    assert judge(raised("RuntimeError", mismatch="shape differs")).signature == "error:RuntimeError"


def test_a_zero_reference_is_judged_by_atol_alone() -> None:
    rows = json.dumps([[None, 3, 1e-6]])
    assert under_tolerances(rows, rtol=100.0, atol=1e-7) is False
    assert under_tolerances(rows, rtol=0.0, atol=1e-6) is True


def test_the_lowest_of_64_bins_may_hold_smaller_values() -> None:
    rows = [[e, 1, 0.0] for e in range(64)]
    rows[0][2] = 0.5
    assert under_tolerances(json.dumps(rows), rtol=0.5, atol=0.0) is None
    assert under_tolerances(json.dumps(rows[:63]), rtol=0.5, atol=0.0) is True


value = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False)


@given(
    st.lists(st.tuples(value, value), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.5]),
    st.sampled_from([0.0, 1e-3, 10.0]),
)
def test_a_histogram_never_contradicts_the_elements(pairs: list[tuple[float, float]], rtol: float, atol: float) -> None:
    """Whatever the elements are: True only when all are right, False only when one is wrong."""
    import math

    rows: dict[int | None, list[float]] = {}
    for reference, error in pairs:
        exponent = math.frexp(abs(reference))[1] - 1 if reference else None
        count, largest = rows.get(exponent, [0, 0.0])
        rows[exponent] = [count + 1, max(largest, abs(error))]
    told = under_tolerances(json.dumps([[e, *row] for e, row in rows.items()]), rtol, atol)
    right = all(abs(error) <= atol + rtol * abs(reference) for reference, error in pairs)
    assert told is None or told is right


# --- details


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ""),
        ("\n\n  second line \n third", "second line"),
        ("Failed running f(2):\n\n  got 3 \nfrom user code:", "Failed running f[#]: got #"),
        ("backend='inductor' raised:\nSet TORCHDYNAMO_VERBOSE=1 for more", "backend='inductor' raised:"),
        (
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
            "mat1 and mat2 shapes cannot be multiplied (# and #)",
        ),
        ("shape '[2, -1]' is invalid for input of size 7", "shape '[#]' is invalid for input of size #"),
        ("expected torch.Size([2, 3]), got torch.Size([3])", "expected [#], got [#]"),
        ("object at 0x7f3a00ff died", "object at 0x# died"),
        ("'float32' on cuda:1 in addmm2", "'float32' on cuda:# in addmm2"),
        ("No such file: '/home/me/x.so'", "No such file: '/#'"),
        ("at aten/src/ATen/native/Foo.cpp:123, thrown", "at /#:#, thrown"),
        ("tensor([[1., 2.5e-3], [nan, -inf]])", "tensor[#]"),
        ("Tried to allocate 2.00 GiB (12MB free), 99.5%", "Tried to allocate # GiB (# free), #"),
        ("torch 2.9.1 and/or 2.10", "torch # and/or #"),
    ],
)
def test_a_message_loses_numbers_addresses_paths_and_shapes(message: str, expected: str) -> None:
    assert normalise(message) == expected


pieces = st.sampled_from(
    ["1", "2.5", "[", "]", "(", ")", ",", " ", "0x1f", "/", "a/b.py", "~", "..", "...", "nan", "-", "e", "x", "#", "MB"]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=40).map("".join)))
def test_normalising_twice_changes_nothing(message: str) -> None:
    once = normalise(message)
    assert normalise(once) == once
    assert len(once) <= len(message)


@given(st.integers(), st.integers(0, 2**64), st.lists(st.integers(0, 9), min_size=1))
def test_messages_that_differ_in_numbers_alone_are_alike(number: int, address: int, shape: list[int]) -> None:
    def message(number: int, address: int, shape: list[int]) -> str:
        return normalise(f"got {number} of {shape} at {address:#x} in /tmp/{number}/x.py:{number}")

    assert message(number, address, shape) == message(1, 2, [3])


@pytest.mark.parametrize(
    ("kind", "fields", "failure"),
    [
        ("AssertionError", {"case_file": "/x/tests/test_a.py", "frame_origin": "case"}, ASSERTION),
        ("AssertionError", {"case_file": "/x/a.py", "frame_origin": "case"}, ASSERTION),
        ("AssertionError", {"case_file": "/x/a.py", "frame_origin": "unittest"}, ASSERTION),
        ("AssertionError", {"case_file": "/x/test_a.py", "frame_origin": "torch.testing"}, ""),
        ("AssertionError", {"case_file": "/x/a.py", "frame_origin": "case", "checks": 1, "wrong_elements": 2}, ""),
        ("AssertionError", {"case_file": "/x/a.py", "frame_origin": "case", "checks": 1}, ASSERTION),
        ("Failed", {"frame_origin": "pytest", "message": "DID NOT WARN"}, ASSERTION),
        ("Failed", {"frame_origin": "pytest", "message": "[XPASS(strict)] not yet"}, STRICT_XFAIL),
        ("Failed", {"frame_origin": "pytest", "message": "Unexpected success"}, UNEXPECTED_SUCCESS),
    ],
)
def test_a_failed_assertion_is_told_from_values_that_are_not_right(
    kind: str, fields: dict[str, object], failure: str
) -> None:
    found = judge(raised(kind, **fields))
    assert (found.verdict, found.failure) == (Verdict.WRONG, failure)


@pytest.mark.parametrize(("phase", "signature"), [("load", "broken"), ("run", "timeout"), (None, "timeout")])
def test_time_that_was_over_before_the_case_began_is_no_timeout_of_the_build(phase: str | None, signature: str) -> None:
    assert judge(observe("timeout", phase=phase)).signature == signature
