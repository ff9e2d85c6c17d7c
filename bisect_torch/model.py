"""The words of the tool as frozen types. Every room imports this module; it imports none of them.

Only the standard library is used. What a worker finds out about a cell travels as a JSON object whose keys are field
names of :class:`Observation` (its *facts*); the orchestrator adds the identity fields.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Scalar = str | int | float | bool | None
"""A parameter value of a case."""


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


class BuildKind(str, enum.Enum):
    RELEASE = "release"
    NIGHTLY = "nightly"
    CANDIDATE = "candidate"  # a release candidate, from PyTorch's index of tests
    LOCAL = "local"


CANDIDATE_SUFFIX = " (test)"
"""Ends the name of a release candidate, whose version is that of the release to come."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """Other dependencies than those of a build's lock: a hybrid, or a build with today's dependencies.

    Args:
        label: What its name has after the version and a ``+``: ``numpy==2.2.2``, ``today``.
        constraints: ``name==version`` of every package that may not have another version; empty for the newest ones.
        newest: Day up to which other packages are taken from the index; None for no limit.
    """

    label: str
    constraints: tuple[str, ...] = ()
    newest: datetime.date | None = None


TODAY = Variant("today")
"""The newest dependencies."""


def is_variant_name(name: str) -> bool:
    """Whether a build's name is that of a variant: ``2.7.0+numpy==2.2.2``, ``2.7.0+today``.

    The names of other builds have no local part, and of interpreters they are paths.
    """
    return "+" in name and "/" not in name


@dataclasses.dataclass(frozen=True)
class Build:
    """One torch that can be installed or pointed at.

    Args:
        kind: Release, nightly, release candidate or a local interpreter.
        version: Public version as pip shows it, without the local part: ``2.9.1``.
        name: How the user names it and how its column is headed: ``2.9.1``, or the path of the interpreter.
        day: Day on which it was published, where known.
        git_commit: Full hash of the commit that it was built from, where known.
        pythons: Minor Python versions (``3.11``) for which a wheel fits this platform; empty when not known.
        download_bytes: Size of the torch wheel for the chosen Python, where known.
        python: The interpreter, for a local build only.
        yanked: Every file of it was withdrawn from the index: it takes part only when named.
        lock: The committed lock whose hashes are those of the index's files; None when it must be locked on the fly.
        only_lock: ``lock`` is what its environment is made from, whatever the run's options say.
        variant: Other dependencies than those of its lock. Its name is then ``version+label``.
        own_python: The minor Python that its environment has, whatever the others have; None leaves it to the run.
        index: Which of PyTorch's own indexes has it, as a path below their base address: ``nightly/cpu``; None for the
            index of the run.
        wheels: SHA-256 of the files that are this build, for a name whose files an index may replace; empty for any.
        gone: It has left its index: only an environment that exists already can run it.
    """

    kind: BuildKind
    version: str
    name: str
    day: datetime.date | None = None
    git_commit: str | None = None
    pythons: tuple[str, ...] = ()
    download_bytes: int | None = None
    python: Path | None = None
    yanked: bool = False
    lock: Path | None = None
    index: str | None = None
    wheels: tuple[str, ...] = ()
    gone: bool = False
    only_lock: bool = False
    variant: Variant | None = None
    own_python: str | None = None

    def with_variant(self, variant: Variant) -> Build:
        """The same torch with other dependencies."""
        return dataclasses.replace(self, name=f"{self.version}+{variant.label}", variant=variant)


@dataclasses.dataclass(frozen=True)
class Environment:
    """One build, locked with its dependencies, installed in its own virtual environment and checked.

    Args:
        build: What was asked for.
        root: The virtual environment's folder; for a local interpreter, its ``sys.prefix``.
        python: The interpreter to start.
        python_version: ``3.11.7``.
        lock_hash: SHA-256 (hex) of the lock; for a local interpreter, of the sorted list of its packages.
        packages: Name to version of everything that is installed.
        torch_version: ``torch.__version__`` as imported, with the local part: ``2.9.1+cu128``.
        git_commit: ``torch.version.git_version`` as imported.
        cuda: ``torch.version.cuda``, None for a build without it.
        backend: ``pypi``, ``cpu``, ``cu128``, … ; ``local`` for a local interpreter.
    """

    build: Build
    root: Path
    python: Path
    python_version: str
    lock_hash: str
    packages: Mapping[str, str]
    torch_version: str
    git_commit: str | None
    cuda: str | None
    backend: str

    @property
    def local_version(self) -> str | None:
        """The local part of torch's version: ``cu128``."""
        return self.torch_version.partition("+")[2] or None

    @property
    def identity(self) -> tuple[object, ...]:
        """What is the same for two environments of a build that hold the same, wherever they lie."""
        return self.lock_hash, self.python_version, self.torch_version, self.git_commit, self.backend

    def describe(self) -> dict[str, object]:
        """What a results file keeps of it: everything but where it lies."""
        return {
            "build": self.build.name,
            "kind": self.build.kind.value,
            "version": self.build.version,
            "day": self.build.day.isoformat() if self.build.day else None,
            "python": self.python_version,
            "lock_hash": self.lock_hash,
            "packages": dict(self.packages),
            "torch_version": self.torch_version,
            "git_commit": self.git_commit,
            "cuda": self.cuda,
            "backend": self.backend,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any], build: Build | None = None) -> Environment:
        """The environment that :meth:`describe` described; its folders are not known."""
        day = description["day"]
        return cls(
            build=build
            or Build(
                kind=BuildKind(description["kind"]),
                version=description["version"],
                name=description["build"],
                day=datetime.date.fromisoformat(day) if day else None,
                git_commit=description["git_commit"],
            ),
            root=Path(),
            python=Path(),
            python_version=description["python"],
            lock_hash=description["lock_hash"],
            packages=description["packages"],
            torch_version=description["torch_version"],
            git_commit=description["git_commit"],
            cuda=description["cuda"],
            backend=description["backend"],
        )


class CaseKind(str, enum.Enum):
    CASE = "case"  # a function decorated with @case
    SCRIPT = "script"  # a whole file, run as ``python file.py``
    COMMAND = "command"  # what stands after ``--``
    PYTEST = "pytest"  # a test of the suite that ``--pytest`` names


@dataclasses.dataclass(frozen=True)
class CaseFile:
    """A file of cases, a script, or a command, as read without running it.

    Args:
        path: Absolute path; for a command, the working directory.
        sha256: Hash of the file's bytes; for a command, of its arguments.
        local_modules: Relative path to SHA-256 of every neighbouring module that it imports, directly or not; for a
            file of tests, one hash of everything in the project but tests.
        needs_compile: Whether it uses ``torch.compile`` or what stands on it (dynamo, inductor, export) elsewhere than
            in cases that say so (``needs="compile"``), so that a worker loads that once for all its cases.
    """

    path: Path
    sha256: str
    kind: CaseKind
    local_modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    needs_compile: bool = False


@dataclasses.dataclass(frozen=True)
class Case:
    """A function in a case file, a whole script, or a command.

    Args:
        file: Where it stands.
        name: The function's name; for a script, the file's stem; for a command, the stem of the first script among its
            words, the module after ``-m``, else the stem of its first word.
        line: Line of the definition, 1-based.
        devices: Device types on which it makes sense; empty for any.
        needs: Capabilities (``compile``) and requirements (``torch>=2.6``).
        issue: Address of the public issue.
        argv: The words of a command, or those for pytest.
        bad_if_output: A regular expression; a match in the output means ``wrong``.
    """

    file: CaseFile
    name: str
    line: int = 1
    devices: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    issue: str | None = None
    argv: tuple[str, ...] = ()
    bad_if_output: str | None = None


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a cell may take.

    Args:
        memory: Device type (``cpu``, ``cuda``, …) to bytes that it needs there; empty when not declared.
        timeout_s: Seconds; None takes the run's.
    """

    memory: Mapping[str, int] = dataclasses.field(default_factory=dict)
    timeout_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Instance:
    """A case with one choice of its parameters, in the order of their declaration.

    Args:
        limits: Of its cells.
        limits_by_device: Device type to limits, where they depend on the device on which a cell runs.
    """

    case: Case
    parameters: tuple[tuple[str, Scalar], ...] = ()
    limits: Limits = Limits()
    limits_by_device: Mapping[str, Limits] = dataclasses.field(default_factory=dict)

    def limits_on(self, device: str) -> Limits:
        """The limits of a cell on a device: ``cuda:1``."""
        return self.limits_by_device.get(device.partition(":")[0], self.limits)

    @property
    def name(self) -> str:
        """``bmm[dtype=bfloat16,layout=view,batch=65552]``; without parameters, the case's name."""
        if not self.parameters:
            return self.case.name
        inside = ",".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.case.name}[{inside}]"


class Isolation(str, enum.Enum):
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
    warnings: str = "[]"  # JSON list of "Category: message"
    seed: int | None = None
    elapsed_s: float | None = None
    peak_rss_bytes: int | None = None
    peak_device_bytes: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    output_bytes: int | None = None
    local_modules: str = "{}"  # JSON object: relative path to SHA-256, as really imported
    protocol: int | None = None

    @property
    def wrong_fraction(self) -> float | None:
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


@dataclasses.dataclass(frozen=True)
class Judgement:
    """An observation under given tolerances: derived, can be derived again.

    Args:
        signature: Verdict and root exception type or signal: ``ok``, ``wrong``, ``error:RuntimeError``,
            ``crash:SIGFPE``, ``error:exit 3``.
        detail: Normalised message and frame; a change of it alone is never a transition.
        api_absent: A name is missing in torch: the build does not have the feature.
        reason: For what could not be judged: why, in words.
    """

    verdict: Verdict
    signature: str
    detail: str = ""
    api_absent: bool = False
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """All repeats of one cell, judged: one place in a series.

    Args:
        build: The build's name.
        judgement: Of the repeats together; when they differ, of the worst (any bad before ok).
        flaky: Repeats gave different signatures.
        counts: Signature to number of repeats that gave it.
        processes: Number of different worker processes among the judged repeats.
        own_process: Whether one of them was an interpreter of its own with full teardown.
        in_forks: What all forks of a worker answered, where it differs from the answer of all interpreters of their
            own: the latter counts, since ``python file.py`` is one. None where they do not differ.
        elapsed_s: Median.
        rel_error: Largest.
        digests: Distinct output digests, sorted.
    """

    build: str
    judgement: Judgement
    flaky: bool = False
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    processes: int = 0
    own_process: bool = False
    in_forks: str | None = None
    elapsed_s: float | None = None
    rel_error: float | None = None
    digests: tuple[str, ...] = ()

    @property
    def solid(self) -> bool:
        """Whether it may be the end of a transition."""
        return self.judgement.verdict.judged and not self.flaky


@dataclasses.dataclass(frozen=True)
class Series:
    """The points of one instance on one device, over builds in release order. ``None`` stands for a cell not run."""

    case_file: str
    instance: str
    device: str
    builds: tuple[str, ...]
    points: tuple[Point | None, ...]


class TransitionKind(str, enum.Enum):
    BROKE = "broke"  # ok, then bad
    FIXED = "fixed"  # bad, then ok
    BECAME_SILENT = "became silent"  # error, crash, timeout or oom, then wrong
    CHANGED = "changed"  # bad on both sides, other signature
    APPEARED = "appeared"  # the API was absent, then there
    DISAPPEARED = "disappeared"


@dataclasses.dataclass(frozen=True)
class Transition:
    """Two neighbouring judged builds whose verdict or signature differs.

    Args:
        before: The older end.
        after: The newer end.
        between: Builds between them that could not be judged, were flaky or were not run, with the reason.
        confirmed: Both ends were run in at least three worker processes, one of them an interpreter of its own.
    """

    kind: TransitionKind
    series: Series
    before: Point
    after: Point
    between: tuple[tuple[str, str], ...] = ()
    confirmed: bool = False


@dataclasses.dataclass(frozen=True)
class Boundary:
    """Where a search ended: two builds that were judged and differ, with nothing left between them that may be judged.

    Args:
        last_good: Newest build known to have the old signature.
        first_bad: Oldest build known to have the new one.
        between: Builds between them that could not be judged, with the reason. Empty means tight.
        confidence: Posterior probability of the boundary, 0 to 1; 1.0 where no repeat of a build differed.
    """

    last_good: str
    first_bad: str
    between: tuple[tuple[str, str], ...] = ()
    confidence: float = 1.0

    @property
    def tight(self) -> bool:
        """Whether the two builds are neighbours."""
        return not self.between
