"""Under which conditions cells run: what a worker is asked for, and when it is not torch that fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.plan import CellRun, accelerator, needs_compile, time_limit_s
from bisect_torch.model import CaseKind, Environment, Isolation, Outcome
from bisect_torch.worker.declaration import CAPABILITIES

Facts = Mapping[str, object]
"""What a worker tells of a cell: names of :class:`~bisect_torch.model.Observation` to values."""


@dataclass(frozen=True)
class Conditions:
    """What is the same for every cell of a run.

    Args:
        staged: The folder that holds the staged ``bisect_torch`` package for workers.
        environment_variables: Makes the variables that a child of an environment gets.
        capability: Checks a capability of an environment: None, or the reason why it does not work there.
        timeout_s: Seconds for a cell whose case names none.
        threads: torch's number of threads; None leaves it to torch.
        memory_bytes: What all cells together may use; a single cell is stopped above it.
        seed: Of repeat 0; repeat i is seeded with ``seed + i``.
        working_directory: Of scripts and commands.
        thorough: Cases compare everything that they otherwise sample.
        since_ns: When the first run began whose cells may have left files for those of this one.
    """

    staged: Path
    environment_variables: Callable[[Environment], Mapping[str, str]]
    capability: Callable[[Environment, str], str | None]
    timeout_s: float
    threads: int | None
    memory_bytes: int
    seed: int
    working_directory: Path
    thorough: bool = False
    since_ns: int = 0


def capabilities_of(run: CellRun) -> list[str]:
    """Names of the capabilities that must work in its environment before a cell can say something about torch."""
    device = [] if accelerator(run.device) is None else [run.device.partition(":")[0]]
    return device + [name for name in run.instance.case.needs if name in CAPABILITIES]


def refusal(run: CellRun, capability: Callable[[str], str | None]) -> Facts | None:
    """The outcome of a cell that needs a capability which does not work in its environment; None where all do.

    Args:
        capability: A capability's name to the reason why it does not work there.
    """
    for name in capabilities_of(run):
        reason = capability(name)
        if reason is not None:
            return {"outcome": Outcome.ENVIRONMENT_BROKEN.value, "reason": f"{name}: {reason}"}
    return None


def blame(facts: Facts, capability: Callable[[str], str | None]) -> Facts:
    """Check the capabilities that a failing traceback passes through: their failure is not torch's."""
    for name in json.loads(str(facts.get("capabilities", "[]"))):
        reason = capability(name)
        if reason is not None:
            return {**facts, "failed_capability": f"{name}: {reason}"}
    return facts


def cell_request(run: CellRun, conditions: Conditions) -> CellRequest:
    """One repeat of a cell as a worker needs it."""
    case = run.instance.case
    return CellRequest(
        file=case.file.path,
        kind=case.file.kind.value,
        case=case.name,
        parameters=dict(run.instance.parameters),
        device=run.device,
        timeout_s=time_limit_s(run.instance, run.device, conditions.timeout_s),
        memory_bytes=conditions.memory_bytes,
        isolation=run.isolation,
        full_teardown=run.isolation is Isolation.PROCESS,
        seed=conditions.seed + run.repeat if case.file.kind is CaseKind.CASE else None,
        argv=case.argv,
        bad_if_output=case.bad_if_output,
        cwd=conditions.working_directory,
        needs_compile=needs_compile(case),
        # Up to ten seconds: worth it once for each cell.
        native_stack=run.repeat == 0,
        thorough=conditions.thorough,
        since_ns=conditions.since_ns,
    )
