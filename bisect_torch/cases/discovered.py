"""What is known of a case file before anything of it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bisect_torch.model import Case, CaseFile, Instance


@dataclass(frozen=True)
class Discovered:
    """A file with its cases.

    Args:
        cases: As far as reading tells.
        instances: In order; None where the file must be expanded in a worker (see :func:`from_expansion`).
        bad_if_output: The run's, for cases that are known only later.
        timeout_s: The run's, for the same.
        only: Names of cases or instances that were named after ``::``; all when empty.
        covered: Of a suite: path from the working directory to the hash of every file that its own hash covers.
    """

    file: CaseFile
    cases: tuple[Case, ...]
    instances: tuple[Instance, ...] | None
    bad_if_output: str | None = None
    timeout_s: float | None = None
    only: frozenset[str] = frozenset()
    covered: Mapping[str, str] = field(default_factory=dict, compare=False)
