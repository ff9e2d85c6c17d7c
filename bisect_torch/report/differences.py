"""What else differs between two builds: their other packages, Python and CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bisect_torch.model import Environment
from bisect_torch.report.text import clean

_PRESENT_FROM_TORCH = frozenset({"torch"})


@dataclass(frozen=True)
class Difference:
    """One thing that differs. ``old`` or ``new`` is None where it is not there."""

    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"{clean(self.name)} {clean(self.new or '')} added"
        if self.new is None:
            return f"{clean(self.name)} {clean(self.old)} removed"
        return f"{clean(self.name)} {clean(self.old)} → {clean(self.new)}"


def differences(before: Environment, after: Environment) -> tuple[Difference, ...]:
    """Everything besides torch that differs: Python, CUDA and backend first, then packages by name."""
    pairs: list[tuple[str, str | None, str | None]] = [
        ("Python", before.python_version, after.python_version),
        ("CUDA", before.cuda, after.cuda),
        ("backend", before.backend, after.backend),
    ]
    old, new = versions(before.packages), versions(after.packages)
    names = sorted((old.keys() | new.keys()) - _PRESENT_FROM_TORCH)
    pairs.extend((name, old.get(name), new.get(name)) for name in names)
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def difference_words(before: Environment, after: Environment) -> list[str]:
    """The differences in words, with NVIDIA's many packages as one number."""
    found = differences(before, after)
    nvidia = [each for each in found if is_nvidia(each.name)]
    words = [str(each) for each in found if not is_nvidia(each.name)]
    if len(nvidia) == 1:
        words.append(str(nvidia[0]))
    elif nvidia:
        words.append(f"{len(nvidia)} nvidia packages")
    return words


def is_nvidia(name: str) -> bool:
    """Whether a package is one of NVIDIA's many, which come and go with torch."""
    return name.startswith(("nvidia-", "cuda-"))


def versions(packages: Mapping[str, str]) -> dict[str, str]:
    """Normalised name of a package to its version."""
    return {name.lower().replace("_", "-").replace(".", "-"): version for name, version in packages.items()}
