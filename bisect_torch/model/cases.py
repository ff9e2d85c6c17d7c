"""Case files, cases, and their instances."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path

DEFAULT_TIMEOUT_S = 120.0
"""Seconds for a cell where neither its case nor a command line names any."""

Scalar = str | int | float | bool | None
"""A parameter value of a case."""


class CaseKind(str, enum.Enum):
    """What a case is to its author."""

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
