"""What runs inside a target environment is written for Python 3.8, and importing it takes the standard library only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bisect_torch"
STAGED = [PACKAGE / "__init__.py", *sorted(PACKAGE.glob("worker/*.py")), *sorted(PACKAGE.glob("numerics/*.py"))]


@pytest.mark.parametrize("path", STAGED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_staged_files_are_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    late = [call for call in calls if call.func.id == "zip" and call.keywords]  # type: ignore[attr-defined]
    assert late == [], "zip(strict=) came with 3.10"


def test_the_case_api_imports_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from bisect_torch import case, check, skip\n"
        "import bisect_torch.numerics\n"
        "known = set(sys.stdlib_module_names) | {'bisect_torch', '__main__'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - known))"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(PACKAGE.parent)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout.strip(), ended.stderr) == ("[]", "")


def test_the_package_itself_loads_nothing() -> None:
    """The command line imports it too, and should not pay for the case API."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import bisect_torch; print('bisect_torch.worker' in sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(PACKAGE.parent)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "False\n"
