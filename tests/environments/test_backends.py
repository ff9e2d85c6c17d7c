"""``auto`` and ``rocm`` become one named backend before anything is listed or installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bisect_torch.environments import backends
from bisect_torch.environments.backends import known_backends, resolve_backend
from bisect_torch.errors import UsageError

SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
+-----------------------------------------------------------------------------------------+
"""


def test_uv_names_the_backends_that_it_knows() -> None:
    assert {"auto", "cpu", "cu128", "xpu"} <= set(known_backends())


def test_a_named_backend_is_taken_as_it_is() -> None:
    assert resolve_backend("cu128") == ("cu128", None)
    assert resolve_backend("pypi") == ("pypi", None)


def test_rocm_is_the_newest_one_and_said_so() -> None:
    name, note = resolve_backend("rocm")

    assert name in known_backends()
    assert note is not None
    assert name in note


def test_a_backend_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(UsageError) as refused:
        resolve_backend("cu12.8")

    assert "cu128" in str(refused.value.hint)


@pytest.mark.parametrize(("output", "expected"), [(SMI, "cu126"), (SMI.replace("12.6", "9.1"), "cu91")])
def test_auto_is_the_newest_cuda_that_the_driver_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, expected: str
) -> None:
    (tmp_path / "answer").write_text(output)
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        name, note = resolve_backend("auto")

    assert name == expected
    assert "driver" in str(note)


def test_auto_without_a_driver_is_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        patch.setattr(backends, "_AMD_DRIVER", tmp_path / "absent")
        patch.setattr(backends, "_RENDER_NODES", tmp_path / "absent")
        known_backends()
        assert resolve_backend("auto")[0] == "cpu"
