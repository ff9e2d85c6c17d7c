"""An observation under given tolerances becomes a judgement. Pure; the words are those of the design."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass

from bisect_torch.analysis.histogram import under_tolerances
from bisect_torch.analysis.normalise import normalise
from bisect_torch.model import (
    ASSERTION,
    BAD_OUTPUT,
    STRICT_XFAIL,
    UNEXPECTED_SUCCESS,
    Judgement,
    Observation,
    Outcome,
    Verdict,
)

_ASSERTION_ORIGINS = frozenset({"case", "local", "torch.testing", "numpy.testing", "unittest", "pytest"})
_ASSERTION_MODULES = ("torch.testing", "numpy.testing", "unittest", "pytest", "_pytest")
_COMPARING = ("torch.testing", "numpy.testing")
_BAD_OUTPUT = "output matches "
_SKIP_STATUS = 125
_CANNOT_START = frozenset({126, 127})
_COMMAND = "."
"""What stands as the case file of a command: its working directory."""


FACTS_TO_JUDGE = (
    "case_file", "outcome", "phase", "reason", "exit_code", "signal", "error_type", "message", "root_type",
    "root_message", "frame", "frame_origin", "missing_module", "absent_name", "failed_capability", "returned_false",
    "checks", "criterion", "check_path", "mismatch", "tolerance", "rtol", "atol", "rel_error", "wrong_elements",
    "nan_mismatches", "inf_mismatches", "error_bins", "explained_by",
)  # fmt: skip
"""All that :func:`judge` looks at: observations that agree in these have the same judgement."""


_UNEXPECTED = "a test that is expected to fail passes"
"""What a worker says of a script that unittest ends for that alone (``worker/own_tests.py``)."""

_UNDEFINED = re.compile(r"name '(?!__)\w+' is not defined")
_HALF_A_MODULE = re.compile(r"partially initialized module '(\w+)'")
_NOT_OURS = re.compile(r"cannot import name '\w+' from 'bisect_torch")
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_OF_TORCHRUN = "RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
_NO_VARIABLE = re.compile(rf"\benvironment variable ({_OF_TORCHRUN}) expected, but not set")
_NO_KEY = re.compile(rf"'({_OF_TORCHRUN}|\w+(?:_TOKEN|_KEY|SECRET\w*|PASSWORD))'")
"""What ``torchrun`` sets, and what the tool keeps from cells unless it is told otherwise."""


WANTS_FILE = "it wants the file "
"""How the reason begins that the worker gives where a file of the user's own is not there."""


@dataclass(frozen=True)
class Tolerances:
    """An element is right when ``|actual - reference| <= atol + rtol * |reference|``."""

    rtol: float = 0.0
    atol: float = 0.0


def judge(observation: Observation, tolerances: Tolerances | None = None) -> Judgement:
    """What an observation means.

    Args:
        tolerances: Judge the numbers that ``check`` stored under these instead of the criterion that was in force. A
            value that the stored histogram leaves open is :attr:`Verdict.UNDECIDABLE`, which is never an end of a
            transition. What a case asserted itself does not depend on them.
    """
    outcome = Outcome(observation.outcome)
    if outcome in _PLAIN:
        verdict = _PLAIN[outcome]
        return Judgement(verdict, verdict.value, reason=observation.reason or "")
    if outcome is Outcome.RETURNED:
        return _returned(observation, tolerances)
    if outcome is Outcome.RAISED:
        return _raised(observation, tolerances)
    if outcome is Outcome.EXITED:
        return _exited(observation)
    if outcome is Outcome.SIGNALLED:
        return _crash(observation, observation.signal or "signal")
    if outcome is Outcome.TIMED_OUT and observation.phase == "load":  # the case has not begun
        return Judgement(Verdict.BROKEN, "broken", reason=observation.reason or "its time was over while it was loaded")
    verdict = Verdict.TIMEOUT if outcome is Outcome.TIMED_OUT else Verdict.OOM
    return Judgement(verdict, verdict.value, detail=_detail_with_phase(observation), reason=observation.reason or "")


_PLAIN = {
    Outcome.SKIPPED: Verdict.SKIP,
    Outcome.NOT_INSTALLED: Verdict.UNINSTALLABLE,
    Outcome.ENVIRONMENT_BROKEN: Verdict.BROKEN,
    Outcome.LOST: Verdict.INFRA,
}


def _returned(observation: Observation, tolerances: Tolerances | None) -> Judgement:
    if observation.signal is not None:
        return _crash(observation, observation.signal)  # the exit status outranks the result
    if observation.exit_code:
        return _crash(observation, f"exit {observation.exit_code}")
    if observation.returned_false:
        return _failed_by_the_case(observation, tolerances, Judgement(Verdict.WRONG, "wrong", detail="returned False"))
    why = _why_wrong_at_any_tolerance(observation)
    if why is None and tolerances is not None and observation.error_bins is not None:
        judgement = _rejudged(observation, tolerances)
    else:
        if why is None and _beyond_criterion(observation):
            why = "values differ"
        judgement = Judgement(Verdict.OK, "ok") if why is None else _wrong(observation, why)
    if observation.reason and judgement.verdict is not Verdict.WRONG:
        # What it returned was still to run (worker/api.py): all that was checked before is not what it is about.
        return Judgement(Verdict.BROKEN, "broken", reason=observation.reason)
    return judgement


def _wrong(observation: Observation, why: str) -> Judgement:
    where = f" at {observation.check_path}" if observation.check_path else ""
    explained = f": {observation.explained_by}" if observation.explained_by else ""
    failure = BAD_OUTPUT if _output_is_bad(observation) else ""
    return Judgement(Verdict.WRONG, "wrong", detail=f"{why}{where}{explained}", failure=failure)


def _why_wrong_at_any_tolerance(observation: Observation) -> str | None:
    if observation.mismatch:
        return normalise(observation.mismatch)
    if observation.nan_mismatches:
        return "NaN on one side only"
    if observation.inf_mismatches:
        return "infinite on one side only"
    return None


def _beyond_criterion(observation: Observation) -> bool:
    if observation.wrong_elements:
        return True
    if observation.criterion != "normwise" or observation.tolerance is None or observation.rel_error is None:
        return False
    return math.isnan(observation.rel_error) or observation.rel_error > observation.tolerance


def _rejudged(observation: Observation, tolerances: Tolerances) -> Judgement:
    right = under_tolerances(observation.error_bins or "[]", tolerances.rtol, tolerances.atol)
    if right is None:
        right = _as_then(observation, tolerances)
    if right is not None:
        return Judgement(Verdict.OK, "ok") if right else _wrong(observation, "values differ")
    return Judgement(Verdict.UNDECIDABLE, "undecidable", reason="the stored histogram of errors leaves it open")


def _as_then(observation: Observation, tolerances: Tolerances) -> bool | None:
    """What was found then under tolerances of this kind says it for these: what is right stays right under looser ones,
    and what is wrong stays wrong under stricter ones. None where it says nothing."""
    rtol, atol = observation.rtol, observation.atol
    if observation.criterion != "elementwise" or observation.checks != 1 or rtol is None or atol is None:
        return None
    if not observation.wrong_elements:
        return True if tolerances.rtol >= rtol and tolerances.atol >= atol else None
    return False if tolerances.rtol <= rtol and tolerances.atol <= atol else None


def _failed_by_the_case(observation: Observation, tolerances: Tolerances | None, wrong: Judgement) -> Judgement:
    """A case that asserted, or returned False, has said itself that it is wrong.

    Under new tolerances that stands, unless it may have said so because of its own ``check``, as in
    ``assert check(...)``, and that check is right now: what the case would have gone on to do is not known.
    """
    beyond = _why_wrong_at_any_tolerance(observation) is None and _beyond_criterion(observation)
    if tolerances is None or not observation.checks or not beyond or observation.error_bins is None:
        return wrong
    if _rejudged(observation, tolerances).verdict is Verdict.WRONG:
        return wrong
    reason = "the case failed on its own check, which these tolerances may let pass"
    return Judgement(Verdict.UNDECIDABLE, "undecidable", reason=reason)


def _raised(observation: Observation, tolerances: Tolerances | None) -> Judgement:
    if observation.error_type == "SystemExit":
        return _exited(observation)
    broken = _not_torchs_fault(observation)
    if broken is not None:
        return broken
    if _output_is_bad(observation):
        return _wrong(observation, normalise(observation.mismatch or ""))
    if _asserted(observation):
        wrong = Judgement(Verdict.WRONG, "wrong", detail=_detail(observation), failure=_failure(observation))
        return _failed_by_the_case(observation, tolerances, wrong)
    root = observation.root_type or observation.error_type or "Exception"
    absent = observation.absent_name is not None
    return Judgement(Verdict.ERROR, f"error:{root}", detail=_detail(observation), api_absent=absent)


def _not_torchs_fault(observation: Observation) -> Judgement | None:
    module = (observation.missing_module or "").partition(".")[0]
    if module and (module != "torch" or observation.missing_module == "torch"):
        reason = f"No module named {module!r}"
        return Judgement(Verdict.BROKEN, "broken", detail=_detail(observation), reason=reason)
    mistake = _own_mistake(observation) or _lacking(observation)
    if mistake is not None:
        return Judgement(Verdict.BROKEN, "broken", detail=_detail(observation), reason=mistake)
    if observation.failed_capability is not None:
        reason = observation.failed_capability
        if observation.reason and observation.reason not in reason:
            reason = f"{reason}: {observation.reason}"
        return Judgement(Verdict.BROKEN, "broken", detail=_detail(observation), reason=reason)
    return None


def _own_mistake(observation: Observation) -> str | None:
    """A slip of the case's author: a name that the case itself never defines, or that this tool does not have.

    Names that the compiler makes begin with two underscores: one of those that is missing is torch's.
    """
    message = observation.root_message or observation.message or ""
    if observation.root_type == "NameError" and observation.frame_origin == "case":
        named = _UNDEFINED.match(message)
        return f"the case's own mistake: {named[0]}" if named else None
    if observation.root_type == "ImportError" and _NOT_OURS.match(message):
        return f"the case's own mistake: {message.partition(' (')[0]}"
    return None


def _lacking(observation: Observation) -> str | None:
    """What the case wants and does not get here, whatever torch is: a file, input, a variable, a Python that can read
    it, or a module, of which a file beside it has the name (``python FILE`` looks there first)."""
    message = observation.root_message or observation.message or ""
    kind, frame = observation.root_type, observation.frame or ""
    if kind == "FileNotFoundError" and (observation.reason or "").startswith(WANTS_FILE):
        return observation.reason
    if kind == "EOFError" and message == "EOF when reading a line" and observation.frame_origin in ("case", "local"):
        return "it asks for input, and there is nobody to give any"
    if kind in _SYNTAX and observation.phase == "load" and (not frame or "importlib" in frame.partition(":")[0]):
        return f"Python cannot read it: {message}"
    wanted = _NO_VARIABLE.search(message)
    if kind == "KeyError" and frame == "os:__getitem__":
        wanted = _NO_KEY.fullmatch(message)
    if wanted:
        return f"it wants the variable {wanted[1]}, which is not set"
    module = _HALF_A_MODULE.search(message)
    # Of torch it may be a release's own fault that it imports itself in a circle.
    if module and module[1] in sys.stdlib_module_names:
        return f"a file {module[1]}.py is imported in place of the real {module[1]}"
    return None


def _asserted(observation: Observation) -> bool:
    """Whether torch came to its end and the values are not right. An assertion that another exception wraps is not."""
    if observation.error_type == "Failed":  # pytest.fail, pytest.raises around what raised nothing
        return observation.frame_origin == "pytest"
    if observation.error_type != "AssertionError":
        return False
    module = (observation.frame or "").partition(":")[0]
    return observation.frame_origin in _ASSERTION_ORIGINS or any(
        module == name or module.startswith(name + ".") for name in _ASSERTION_MODULES
    )


def _failure(observation: Observation) -> str:
    """What failed, of one that asserted: empty where values were compared, by ``check`` or by a function for tests.

    Any other assertion may be about anything: all that is known is that it did not hold.
    """
    message = observation.root_message or observation.message or ""
    if observation.error_type == "Failed" and message.startswith("[XPASS(strict)]"):
        return STRICT_XFAIL
    if observation.error_type == "Failed" and message.startswith("Unexpected success"):
        return UNEXPECTED_SUCCESS
    module = (observation.frame or "").partition(":")[0]
    compares = any(module == name or module.startswith(name + ".") for name in _COMPARING)
    differs = _why_wrong_at_any_tolerance(observation) is not None or _beyond_criterion(observation)
    if (observation.checks and differs) or compares or observation.frame_origin in _COMPARING:
        return ""
    return ASSERTION


def _output_is_bad(observation: Observation) -> bool:
    """``--bad-if-output`` says what the symptom looks like; it counts however the program ended, short of a crash."""
    return (observation.mismatch or "").startswith(_BAD_OUTPUT)


def _exited(observation: Observation) -> Judgement:
    by_exception = observation.error_type == "SystemExit"
    status = observation.exit_code
    if status is None:
        status = 1 if by_exception else 0
    if observation.phase == "exit":
        return _crash(observation, f"exit {status}")
    if not by_exception and (status == 0 or observation.case_file != _COMMAND):
        # os._exit, or exit() in native code: the interpreter did not come to its end.
        return _crash(observation, f"exit {status}", reason="left without a result")
    broken = _not_torchs_fault(observation)
    if broken is not None:
        return broken
    if _output_is_bad(observation):
        return _wrong(observation, normalise(observation.mismatch or ""))
    if status == 0:
        return Judgement(Verdict.OK, "ok")
    if status == _SKIP_STATUS:
        return Judgement(Verdict.SKIP, "skip", reason=observation.reason or f"exit {_SKIP_STATUS}")
    if status in _CANNOT_START and not by_exception:
        return Judgement(Verdict.BROKEN, "broken", reason=observation.reason or f"exit {status}: cannot be started")
    failure = UNEXPECTED_SUCCESS if observation.reason == _UNEXPECTED else ""
    return Judgement(Verdict.ERROR, f"error:exit {status}", detail=_detail(observation), failure=failure)


def _crash(observation: Observation, how: str, reason: str = "") -> Judgement:
    detail = _detail_with_phase(observation)
    return Judgement(Verdict.CRASH, f"crash:{how}", detail=detail, reason=observation.reason or reason)


def _detail_with_phase(observation: Observation) -> str:
    at_exit = "at exit" if observation.phase == "exit" else ""
    return " ".join(part for part in (at_exit, _detail(observation)) if part)


def _detail(observation: Observation) -> str:
    message = normalise(observation.root_message or observation.message or "")
    frame = f"in {observation.frame}" if observation.frame else ""
    return " ".join(part for part in (message, frame) if part)
