"""The guard: its rules on the oldest and the newest release, its settings, and the switch for what the tool runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.model import Isolation
from bisect_torch.numerics.guard import settings
from bisect_torch.numerics.guard.settings import Settings
from tests.numerics.test_on_real_torch import PROGRAMS, REPOSITORY, ends, outcomes, rules
from tests.worker.conftest import interpreter, start  # noqa: F401 - fixtures
from tests.worker.support import StartWorker

NAMES = ("guarding", "guard_table", "guard_compiled")
RULES = [(program, rule) for program in NAMES for rule in rules(program)]
ENDS = pytest.mark.parametrize("end", ["oldest", "newest"])


@pytest.mark.real_torch
@ENDS
@pytest.mark.parametrize(("program", "rule"), RULES)
def test_rule(real_torch: Mapping[str, Path], program: str, rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end], NAMES)[program][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("0", None),
        ("1", Settings("mps", 4294967296)),
        (" cpu ", Settings("cpu", 4294967296)),
        ("cpu:1000", Settings("cpu", 1000)),
        ("mps:2147483648", Settings("mps", 2147483648)),
        ("cuda:1", Settings("cuda:1", 4294967296)),
        ("cuda:1:640", Settings("cuda:1", 640)),
    ],
)
def test_settings_are_read_from_the_variable(text: str, expected: Settings | None) -> None:
    assert expected == settings.from_text(text)
    assert expected == settings.from_environment({"BISECT_TORCH_GUARD": text})


@pytest.mark.parametrize("text", ["2", "yes please", "mps:x", "mps:1:2:3", ":", "cpu:000", "1:1000", "mps:-1000"])
def test_a_variable_that_says_nothing_sensible_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="BISECT_TORCH_GUARD is 1, DEVICE or DEVICE:LIMIT"):
        settings.from_text(text)


@pytest.mark.real_torch
@pytest.mark.parametrize(
    ("end", "early"),
    [("oldest", True), ("newest", False)],
    ids=["torch imported before", "torch imported by the script"],
)
def test_the_variable_guards_a_script(
    start: StartWorker,  # noqa: F811
    real_torch: Mapping[str, Path],
    tmp_path: Path,
    end: str,
    early: bool,
) -> None:
    script = tmp_path / "repro.py"
    # A script that sets variables is given no torch beforehand.
    script.write_text(
        ("" if early else "import os; os.environ['X'] = '1'\n")
        + "import torch\nprint(int((torch.ones(40) + 1).sum()))\ntorch.mm(torch.ones(40, 2), torch.ones(2, 40))\n"
    )
    worker = start(python=ends(real_torch)[end], variables={"BISECT_TORCH_GUARD": "cpu:100"})
    request = CellRequest(script, "script", "repro", isolation=Isolation.PROCESS, cwd=tmp_path, timeout_s=60.0)
    facts = worker.run(request)
    assert (facts["outcome"], facts["error_type"], facts["stdout_tail"]) == ("raised", "GuardError", "80\n")
    assert "aten.mm.default writes" in str(facts["message"])
    assert f"{script}:{3 if early else 4}" in str(facts["stderr_tail"])


@pytest.mark.real_torch
def test_the_variable_guards_a_case(start: StartWorker, real_torch: Mapping[str, Path], tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "cases.py"
    file.write_text("import torch\nfrom bisect_torch import case\n\n\n@case\ndef large():\n    torch.ones(100) + 1\n")
    worker = start(python=ends(real_torch)["newest"], variables={"BISECT_TORCH_GUARD": "cpu:100"})
    facts = worker.run(CellRequest(file, "case", "large", isolation=Isolation.FORK, timeout_s=60.0))
    assert (facts["outcome"], facts["error_type"]) == ("raised", "GuardError")


def test_numerics_and_the_settings_are_read_without_torch() -> None:
    code = "import sys, bisect_torch.numerics.guard.settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_every_program_exists() -> None:
    assert [name for name in NAMES if not (PROGRAMS / f"{name}.py").is_file()] == []
