"""Environment variables on a node: its own, with those of the user's that steer torch, without what Ray sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bisect_torch.redaction import without_secrets

_STEERING = (
    "ATEN_", "CUBLAS_", "CUDA_LAUNCH_BLOCKING", "CUDNN_", "KMP_", "MKL_", "NCCL_", "NVIDIA_TF32_OVERRIDE", "OMP_",
    "OPENBLAS_", "PYTORCH_", "TORCH", "TRITON_", "VECLIB_", "BISECT_TORCH_GUARD",
)  # fmt: skip
"""How the names begin of variables that change what torch and the libraries below it compute, or how."""

_OF_RAY = "RAY_"
_CHOSEN_BY_RAY = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ONEAPI_DEVICE_SELECTOR")
"""Ray hides what it has not reserved; the run, not Ray, says which device a cell runs on."""


def steering(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the user's variables that cells on every node get. Paths are not among them: they lead nowhere there."""
    return {
        name: value
        for name, value in without_secrets(variables).items()
        if name.startswith(_STEERING) and not value.startswith((os.sep, "~"))
    }


def adopt(sent: Mapping[str, str], before_ray: Mapping[str, str]) -> None:
    """Make this process's variables those of the node, as it was started, with what the user's run has sent.

    Args:
        sent: By :func:`steering`.
        before_ray: With which the node was started; see :func:`of_parent`.
    """
    for name in list(os.environ):
        if name.startswith(_STEERING) or name in _CHOSEN_BY_RAY:
            del os.environ[name]
    os.environ.update({name: before_ray[name] for name in _CHOSEN_BY_RAY if name in before_ray})
    os.environ.update(sent)


def for_cells() -> dict[str, str]:
    """The variables of this process, without Ray's."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OF_RAY)}


def of_parent() -> dict[str, str]:
    """The variables with which the process that started this one was started; none where the system does not tell."""
    try:
        text = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    return {name: value for name, _, value in (line.partition("=") for line in text.split("\0") if line)}
