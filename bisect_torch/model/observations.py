"""What happened in a cell, and what that means.

What a worker finds out about a cell travels as a JSON object whose keys are field names of :class:`Observation` (its
*facts*); the orchestrator adds the identity fields.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any


class Verdict(str, enum.Enum):
    """What an observation means under given tolerances."""

    OK = "ok"
    WRONG = "wrong"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    SKIP = "skip"
    UNINSTALLABLE = "uninstallable"
    BROKEN = "broken"
    INFRA = "infra"
    UNDECIDABLE = "undecidable"  # only under new tolerances: the stored numbers do not tell

    @property
    def judged(self) -> bool:
        """Whether the verdict says something about the build."""
        return self in _JUDGED

    @property
    def bad(self) -> bool:
        """Whether it speaks against the build."""
        return self in _JUDGED and self is not Verdict.OK


_JUDGED = frozenset(
    {Verdict.OK, Verdict.WRONG, Verdict.ERROR, Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM},
)


class Outcome(str, enum.Enum):
    """What happened to a cell, as a fact. The judge turns it into a :class:`Verdict`."""

    RETURNED = "returned"  # the case came to its end and the process left as it should
    RAISED = "raised"  # a Python exception
    EXITED = "exited"  # SystemExit, os._exit or a command's exit status, with no exception recorded
    SIGNALLED = "signalled"  # killed by a signal that we did not send
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"
    NOT_INSTALLED = "not_installed"  # the build has no environment: no wheel, no resolution
    ENVIRONMENT_BROKEN = "environment_broken"  # a control case or capability of the environment failed
    LOST = "lost"  # our fault or the machine's; never says anything about torch


class Isolation(str, enum.Enum):
    """What a cell shares its process with."""

    SESSION = "session"  # an interpreter in which the other tests of a suite run too
    FORK = "fork"  # forked from a worker that has imported torch
    PROCESS = "process"  # an interpreter of its own, with full teardown


@dataclasses.dataclass(frozen=True)
class Observation:
    """What happened in one repeat of a cell: facts only, never overwritten.

    The first block identifies the cell and is filled in by the orchestrator; the second is what the worker saw.
    ``None`` means not known or not applicable. Times are in seconds, memory in bytes.
    """

    # --- identity
    key: str  # SHA-256 of all that makes this cell the same cell (see results.key)
    run_id: str
    build: str  # public version as pip shows it, without the local part
    build_name: str  # how the column is headed; differs from ``build`` for a local interpreter
    build_kind: str
    case_file: str
    case_file_hash: str
    case: str
    instance: str
    device: str
    repeat: int
    outcome: str  # value of Outcome
    local_version: str | None = None
    git_commit: str | None = None
    lock_hash: str | None = None
    python: str | None = None
    backend: str | None = None
    cuda: str | None = None
    parameters: str = "{}"  # JSON object
    issue: str | None = None
    device_name: str | None = None
    driver: str | None = None
    threads: int | None = None
    isolation: str | None = None
    worker: str | None = None  # which worker process ran it; repeats count as independent only across these
    timeout_s: float | None = None
    machine: str | None = None  # machine class: system, architecture, vector instructions
    started_at: str | None = None  # ISO 8601, UTC
    # --- how it ended
    phase: str | None = None  # load, run, exit: where it was when it failed
    reason: str | None = None  # why it was skipped, broken, lost or could not be installed
    exit_code: int | None = None
    signal: str | None = None  # SIGSEGV
    # --- exception
    error_type: str | None = None  # as raised
    message: str | None = None
    root_type: str | None = None  # innermost cause of a wrapped exception; equals error_type when not wrapped
    root_message: str | None = None
    frame: str | None = None  # innermost Python frame, ``module:function``
    frame_origin: str | None = None  # case, local, torch, numpy, unittest, pytest, stdlib, other
    missing_module: str | None = None  # of a "No module named X", at any depth of the chain
    absent_name: str | None = None  # a name or keyword that torch does not have, at the raise itself
    capabilities: str = "[]"  # JSON list of capabilities that the failing traceback passes through (compile, cuda, …)
    failed_capability: str | None = None  # set when such a capability's control failed in this environment
    traceback: str | None = None
    stack: str | None = None  # of every thread, taken before a timeout's kill
    # --- returned value and checks
    returned_false: bool | None = None
    checks: int = 0  # how many times check() ran; the facts below are those of the worst
    criterion: str | None = None  # exact, normwise, elementwise
    check_path: str | None = None  # where in a nested value the worst leaf stands: ``[0]['grad']``
    mismatch: str | None = None  # shape, dtype or structure differs: the reason in words
    dtype: str | None = None
    reduction_length: int | None = None  # K of the normwise criterion
    tolerance: float | None = None  # bound on rel_error under the normwise criterion
    rtol: float | None = None
    atol: float | None = None
    rel_error: float | None = None  # max |actual - reference| / max |reference|, over finite reference elements
    max_abs_error: float | None = None
    reference_max_abs: float | None = None
    elements: int | None = None  # compared
    wrong_elements: int | None = None  # under the criterion that was in force
    first_wrong_index: str | None = None  # JSON list of int
    actual_value: str | None = None  # at the first wrong index
    expected_value: str | None = None
    nan_mismatches: int | None = None  # NaN on one side only
    inf_mismatches: int | None = None  # infinite on one side only, or of the other sign
    error_bins: str | None = None  # JSON list of [binary exponent of |reference|, count, largest |error|], <= 64 rows
    explained_by: str | None = None  # name of the fault model that reproduces the wrong value exactly
    digest: str | None = None  # of the value that the case gave
    reference_digest: str | None = None
    input_digest: str | None = None
    measurements: str = "{}"  # JSON object: named facts that the case recorded with record()
    # --- circumstances
    warnings: str = "[]"  # JSON list of "Category: message", and "ignored in a thread: Type: message"
    seed: int | None = None
    elapsed_s: float | None = None
    peak_rss_bytes: int | None = None
    peak_device_bytes: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    output_bytes: int | None = None
    local_modules: str = "{}"  # JSON: relative path to what was imported, read or named there: see model.beside
    protocol: int | None = None

    @property
    def wrong_fraction(self) -> float | None:
        """Of its elements, those that are wrong; None where nothing was compared."""
        if self.elements is None or self.wrong_elements is None:
            return None
        return self.wrong_elements / self.elements if self.elements else 0.0

    @property
    def measured(self) -> Mapping[str, Any]:
        """The named facts that the case recorded."""
        facts: dict[str, Any] = json.loads(self.measurements)
        return facts

    def to_json(self) -> str:
        """One line of JSON with every field that differs from its default."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.default is dataclasses.MISSING or getattr(self, field.name) != field.default
        }
        return json.dumps(values, ensure_ascii=True, separators=(",", ":"))


FACT_FIELDS = frozenset(
    field.name
    for field in dataclasses.fields(Observation)
) - {
    "key", "run_id", "build", "build_name", "build_kind", "case_file", "case_file_hash", "case", "instance", "repeat",
    "local_version", "git_commit", "lock_hash", "python", "backend", "cuda", "parameters", "issue", "timeout_s",
    "machine", "failed_capability",
}  # fmt: skip
"""Names that a worker may send."""


ASSERTION = "assertion"
"""An assertion that may be about anything: values, warnings, that something is raised."""

BAD_OUTPUT = "bad output"
"""The output matches what ``--bad-if-output`` names, whatever that says of values."""

STRICT_XFAIL = "strict xfail"
"""A test that passes although it is marked as failing: torch may have become better."""

UNEXPECTED_SUCCESS = "unexpected success"
"""The same of a test of unittest, or of a script that ends with a status for nothing else."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """An observation under given tolerances: derived, can be derived again.

    Args:
        signature: Verdict and root exception type or signal: ``ok``, ``wrong``, ``error:RuntimeError``,
            ``crash:SIGFPE``, ``error:exit 3``.
        detail: Normalised message and frame; a change of it alone is never a transition.
        api_absent: A name is missing in torch: the build does not have the feature.
        reason: For what could not be judged: why, in words.
        failure: What says that it is wrong, where that is not a comparison of values: :data:`ASSERTION`,
            :data:`BAD_OUTPUT`, :data:`STRICT_XFAIL` or :data:`UNEXPECTED_SUCCESS`. It chooses words and no more.
    """

    verdict: Verdict
    signature: str
    detail: str = ""
    api_absent: bool = False
    reason: str = ""
    failure: str = ""
