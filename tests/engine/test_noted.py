"""What a test's text says of its failure is noted at once."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from bisect_torch.analysis.unreached import NOTED
from bisect_torch.engine.noted import noted
from bisect_torch.model import CaseFile, CaseKind
from tests.report.histories import instance, observation

TEXT = "import torch\ndef test():\n    if hasattr(torch, 'x'):\n        return\n    assert x\n"


@pytest.fixture
def file(tmp_path: Path) -> CaseFile:
    path = tmp_path / "test_x.py"
    path.write_text(TEXT)
    return CaseFile(path, hashlib.sha256(TEXT.encode()).hexdigest(), CaseKind.PYTEST)


def test_a_test_that_fails_behind_a_condition_says_so(file: CaseFile) -> None:
    seen = observation(
        instance("test"),
        "2.6.0",
        outcome="raised",
        traceback='  File "test_x.py", line 5, in test\n',
        measurements="{}",
    )
    seen = dataclasses.replace(seen, case_file="test_x.py", measurements='{"n": 1}')
    why = "line 5, which failed, stands behind line 3: if hasattr(torch, 'x')"
    assert noted(file, seen).measured == {"n": 1, NOTED: why}
    passed = dataclasses.replace(seen, outcome="returned")
    assert noted(file, passed) == passed
    assert noted(dataclasses.replace(file, kind=CaseKind.CASE), seen) == seen, "its text is kept"
    file.path.write_text(TEXT + "\n")
    assert noted(file, seen) == seen, "it was edited meanwhile"
    file.path.unlink()
    assert noted(file, seen) == seen, "it is gone"
