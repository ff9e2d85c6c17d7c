"""What belongs to torch and is built with it every night: it must come from the index that torch itself is from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bisect_torch.environments.failures import NotInstallable
from bisect_torch.model import Build
from bisect_torch.releases.index import own_index_url
from bisect_torch.releases.locks import Pin
from bisect_torch.releases.pages import index_files

COMPANIONS = frozenset(
    {
        "executorch", "fbgemm-gpu", "fbgemm-gpu-genai", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu",
        "tensordict", "torch-tensorrt", "torchao", "torchaudio", "torchcodec", "torchdata", "torchrec", "torchrl",
        "torchtext", "torchtune", "torchvision", "triton", "triton-rocm", "triton-xpu",
    }
)  # fmt: skip
"""Normalised names of projects that PyTorch's index of nightly builds has builds of."""


def check_sources(build: Build, pins: Iterable[Pin], asked: Iterable[str], cache_dir: Path) -> None:
    """Whether a lock of a nightly build or release candidate holds the torch that was meant, and its company.

    What torch itself requires it names exactly; what the user asks for beside it (``--with torchvision``) would be
    taken from the stable index in silence where that has a version that fits.

    Args:
        asked: Normalised names that the user asked for without fixing a version.
        cache_dir: Where answers of indexes are kept.

    Raises:
        NotInstallable: Something is of another index.
        InfrastructureError: The index cannot be read.
    """
    if build.index is None:
        return
    by_name = {pin.project: pin for pin in pins}
    if build.wheels and not set(by_name["torch"].hashes) & set(build.wheels):
        raise NotInstallable(f"torch {build.version} was found on another index than {build.index}")
    for name in sorted(set(asked) & COMPANIONS & by_name.keys()):
        files = index_files(name, own_index_url(build.index), cache_dir=cache_dir) or ()
        if not {file.sha256 for file in files} & set(by_name[name].hashes):
            raise NotInstallable(
                f"no {name} on {build.index} fits torch {build.version}; another index has {by_name[name].version}",
                hint=f'take that one with --with "{name}=={by_name[name].version}"',
            )
