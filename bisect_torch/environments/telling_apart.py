"""What tells the environments of one release apart: Python, backend, and what was asked for beside torch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from bisect_torch.environments.stamp import records
from bisect_torch.first_names import first_of
from bisect_torch.model import Environment

_OF_EVERY_LOCK = frozenset({"torch", "numpy", "setuptools", "pip", "wheel"})
"""What an environment has that was asked for by nobody, and required by nothing else in it."""

_MOST_PACKAGES = 4
"""Those that stand beside torch in the words for an environment."""

_REQUIRED = re.compile(r"^Requires-Dist:\s*([\w.-]+)[ \t]*(?:\[([^\]]*)\])?(.*)", re.MULTILINE)
_FOR_EXTRA = re.compile(r"\bextra\s*==\s*[\"']([^\"']+)")


def beside_torch(environment: Environment) -> dict[str, str]:
    """Name to version of what was asked for with ``--with``: what is installed, and required by nothing that is.

    By the text of the packages' metadata: to parse it as such takes 50 ms an environment, twenty times as long.
    """
    found = [
        (package, _FOR_EXTRA.search(rest), canonicalize_name(name), extras)
        for package, info in records(environment.root)
        for name, extras, rest in _REQUIRED.findall(_head(info / "METADATA"))
    ]
    asked = {(name, extra.strip()) for _, _, name, extras in found for extra in extras.split(",")}
    required = {name for package, extra, name, _ in found if extra is None or (package, extra[1]) in asked}
    names = sorted(environment.packages.keys() - required - _OF_EVERY_LOCK)
    return {name: environment.packages[name] for name in names}


def _head(path: Path) -> str:
    """The fields of a package's metadata, without the description behind them."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:  # it has none, or another run removes it at this moment
        return ""


def in_release_order(environments: Iterable[Environment]) -> list[Environment]:
    """By release, then by what tells them apart: Python, backend, what was asked for beside torch."""
    return sorted(environments, key=_order)


def _order(environment: Environment) -> tuple[object, ...]:
    build = environment.build
    python = [int(part) for part in re.findall(r"\d+", environment.python_version)]
    beside = sorted(beside_torch(environment).items())
    return Version(build.version), build.name, python, environment.backend, len(beside), beside, environment.root


def _holds(environment: Environment, wanted: str) -> bool:
    """Whether a package is installed there, in a version that fits."""
    requirement = Requirement(wanted)
    version = environment.packages.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


class Alike:
    """Environments of one release, at least one.

    Args:
        environments: All that there are.
    """

    def __init__(self, environments: Iterable[Environment]) -> None:
        self._every = in_release_order(environments)
        self._beside = {each.root: beside_torch(each) for each in self._every}

    def picked(self, fitting: Sequence[Environment]) -> Environment:
        """Of some of them the one that is meant: that with the least beside torch, of several such the newest."""
        return min(fitting, key=lambda each: (len(self._beside[each.root]), -each.root.stat().st_mtime))

    def others(self, picked: Environment) -> list[Environment]:
        """All but that one, in order."""
        return [each for each in self._every if each.root != picked.root]

    def words(self, environment: Environment) -> str:
        """What it is: ``Python 3.12.4, cpu, with torchvision 0.24.1``."""
        parts = [f"Python {environment.python_version}", environment.backend]
        own = {**self._beside[environment.root], **self._other_versions(environment)}
        named = [f"{name} {version}" for name, version in own.items()]
        parts += [f"with {first_of(named, _MOST_PACKAGES)}"] if named else []
        return ", ".join(parts)

    def options(self, environment: Environment) -> list[str] | None:
        """The fewest options that pick it; None where none do."""
        minor = ".".join(environment.python_version.split(".")[:2])
        beside, versions = self._beside[environment.root], self._other_versions(environment)
        asked: list[tuple[str, str]] = [("--python", minor), ("--torch-backend", environment.backend)]
        asked += [("--with", name) for name in beside if name not in versions]
        asked += [("--with", f"{name}=={version}") for name, version in versions.items()]
        for number in range(1, len(asked) + 1):
            for some in itertools.combinations(asked, number):
                if self.picked([each for each in self._every if fits(each, *some)]).root == environment.root:
                    return [word for option in some for word in option]
        return None

    def _other_versions(self, environment: Environment) -> Mapping[str, str]:
        """Packages that stand in another version in one that is else the same."""
        like = [each for each in self._every if self._kind(each) == self._kind(environment)]
        own = environment.packages
        differing = [
            name for name in sorted(own) if any(each.packages.get(name, own[name]) != own[name] for each in like)
        ]
        named = [name for name in differing if name in self._beside[environment.root] or name in _OF_EVERY_LOCK]
        return {name: own[name] for name in named or differing[:1]}

    def _kind(self, environment: Environment) -> tuple[object, ...]:
        return environment.python_version, environment.backend, tuple(self._beside[environment.root])


def _has_python(environment: Environment, wanted: str) -> bool:
    """Whether its Python is a ``3.12`` or ``3.12.4``."""
    return f"{environment.python_version}.".startswith(f"{wanted}.")


def fits(environment: Environment, *options: tuple[str, str]) -> bool:
    """Whether it is what options ask for: ``--python 3.12``, ``--torch-backend cpu``, ``--with torchvision``."""
    tests = {"--python": _has_python, "--torch-backend": lambda one, name: one.backend == name, "--with": _holds}
    return all(tests[option](environment, value) for option, value in options)
