"""What belongs to torch and is built with it every night: it must come from the index that torch itself is from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from bisect_torch.environments.failures import NotInstallable
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build
from bisect_torch.releases.index import own_index_url
from bisect_torch.releases.index_file import IndexFile, shown_url
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


def check_sources(
    build: Build, own_index: str | None, pins: Iterable[Pin], asked: Iterable[str], cache_dir: Path
) -> None:
    """Whether a lock holds the torch that was meant, and its company, where PyTorch's own index is one of several.

    uv asks all of them: where the own one fails, or has no version that fits, it takes what another one calls by the
    same name, in silence. What torch itself requires it names exactly; what the user asks for beside it (``--with
    torchvision``) it does not.

    Args:
        own_index: Address of the index that torch is meant to come from; None where it is the only one asked.
        asked: Normalised names that the user asked for without fixing a version.
        cache_dir: Where answers of indexes are kept.

    Raises:
        NotInstallable: Something is of another index.
        InfrastructureError: The index cannot be read, or does not show the release that it had.
    """
    if own_index is None:
        return
    by_name = {pin.project: pin for pin in pins}
    if build.index is None:
        for name in ("torch", *sorted(set(asked) & COMPANIONS & by_name.keys())):
            files = index_files(name, own_index, cache_dir=cache_dir, outdated=lambda *_: None) or ()
            if (files or name == "torch") and not any(_is_of(by_name[name], file) for file in files):
                what = f"{name} was not found on {shown_url(own_index)}, and that of another index is not taken"
                raise InfrastructureError(f"locking torch {build.version}: {what}", hint="try again later")
        return
    if build.wheels and not set(by_name["torch"].hashes) & set(build.wheels):
        raise NotInstallable(f"torch {build.version} was found on another index than {build.index}")
    for name in sorted(set(asked) & COMPANIONS & by_name.keys()):
        files = index_files(name, own_index_url(build.index), cache_dir=cache_dir) or ()
        if not {file.sha256 for file in files} & set(by_name[name].hashes):
            raise NotInstallable(
                f"no {name} on {build.index} fits torch {build.version}; another index has {by_name[name].version}",
                hint=f'take that one with --with "{name}=={by_name[name].version}"',
            )


def _is_of(pin: Pin, file: IndexFile) -> bool:
    """Whether a file is one that a pin names: by its hash, or where the index tells none, by its whole version."""
    if file.sha256 is not None:
        return file.sha256 in pin.hashes
    return parse_wheel_filename(file.filename)[1] == Version(pin.version)
