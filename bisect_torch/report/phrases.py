"""How a signature reads in a sentence."""

from __future__ import annotations

from bisect_torch.model import ASSERTION, BAD_OUTPUT, STRICT_XFAIL, UNEXPECTED_SUCCESS, Judgement, Verdict
from bisect_torch.report.text import clean


def does(judgement: Judgement) -> str:
    """``raises RuntimeError``: what a case does on a build, third person."""
    return _phrase(judgement, 0)


def doing(judgement: Judgement) -> str:
    """``raising RuntimeError``."""
    return _phrase(judgement, 1)


def did(judgement: Judgement) -> str:
    """``raised RuntimeError``."""
    return _phrase(judgement, 2)


_FORMS = {
    Verdict.OK: ("is ok", "being ok", "was ok"),
    Verdict.WRONG: ("gives silently wrong values", "giving silently wrong values", "gave silently wrong values"),
    Verdict.TIMEOUT: ("times out", "timing out", "timed out"),
    Verdict.OOM: ("runs out of memory", "running out of memory", "ran out of memory"),
}
SEVERAL = "several"
"""Stands for the failure of what is wrong in more than one way."""
_FAILURES = {
    ASSERTION: ("fails an assertion", "failing an assertion", "failed an assertion"),
    BAD_OUTPUT: (
        "prints what --bad-if-output names",
        "printing what --bad-if-output names",
        "printed what --bad-if-output names",
    ),
    STRICT_XFAIL: (
        "passes although marked as failing (strict xfail)",
        "passing although marked as failing (strict xfail)",
        "passed although marked as failing (strict xfail)",
    ),
    UNEXPECTED_SUCCESS: (
        "has an unexpected success (a test that is expected to fail passes)",
        "having an unexpected success (a test that is expected to fail passes)",
        "had an unexpected success (a test that is expected to fail passed)",
    ),
    SEVERAL: ("is wrong", "being wrong", "was wrong"),
}
_CRASH = ("crashes", "crashing", "crashed")
_RAISE = ("raises", "raising", "raised")
_EXIT = ("exits", "exiting", "exited")
_FAIL = ("fails", "failing", "failed")


def _phrase(judgement: Judgement, form: int) -> str:
    if judgement.failure and (judgement.verdict is Verdict.WRONG or judgement.failure == UNEXPECTED_SUCCESS):
        return _FAILURES[judgement.failure][form]
    if judgement.verdict in _FORMS:
        return _FORMS[judgement.verdict][form]
    kind = clean(judgement.signature.partition(":")[2])
    if judgement.verdict is Verdict.CRASH:
        kind = f"exit status {kind.removeprefix('exit').strip()}" if kind.startswith("exit") else kind
        return f"{_CRASH[form]} with {kind}" if kind else _CRASH[form]
    if kind.startswith("exit"):
        return f"{_EXIT[form]} with status {kind.removeprefix('exit').strip()}"
    if judgement.verdict is Verdict.ERROR and kind:
        return f"{_RAISE[form]} {kind}"
    return _FAIL[form]


def instead_of(old: Judgement, new: Judgement) -> str:
    """What follows ``instead of``: ``raising RuntimeError``, or just ``RuntimeError`` where the new one raises too."""
    kind = clean(old.signature.partition(":")[2])
    plain_kind = kind and not kind.startswith("exit") and not new.signature.partition(":")[2].startswith("exit")
    return kind if plain_kind and old.verdict is new.verdict else doing(old)


def noun(judgement: Judgement) -> str:
    """``an explicit error``, ``a crash``: what became silent."""
    return {
        Verdict.CRASH: "a crash",
        Verdict.TIMEOUT: "a timeout",
        Verdict.OOM: "running out of memory",
    }.get(judgement.verdict, "an explicit error")
