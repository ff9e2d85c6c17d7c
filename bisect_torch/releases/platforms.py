"""For which machine and Python a wheel is meant: compatibility tags and marker values of a target."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms, platform_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from bisect_torch.errors import UsageError

LINUX_X86_64, LINUX_AARCH64, MACOS_ARM64 = "linux-x86_64", "linux-aarch64", "macos-arm64"
LOCKED_PLATFORMS = (LINUX_X86_64, LINUX_AARCH64, MACOS_ARM64)
"""Platforms that the committed locks are checked for."""

_NEWEST_GLIBC = 39
_OLDEST_GLIBC = 5
_LEGACY_MANYLINUX = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_MACOS = (15, 0)


parsed_filename = lru_cache(maxsize=2**13)(parse_wheel_filename)
"""Project, version, build number and tags of the name of a wheel. Listings ask for each of hundreds a dozen times,
and parsing one takes 15 µs."""


@dataclass(frozen=True)
class Target:
    """A Python on a platform.

    Args:
        python: Minor version: ``3.11``.
        platform: One of :data:`LOCKED_PLATFORMS`; None for the machine that this runs on.
        tags: The only platform tags that wheels can name, where that is known: there are fewer tags to be made then,
            and the same wheels come first.
    """

    python: str
    platform: str | None = None
    tags: frozenset[str] | None = None

    def markers(self) -> dict[str, str]:
        """Values of environment markers (``sys_platform == 'linux'``) on this target."""
        system, _, machine = (self.platform or this_platform()).partition("-")
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Darwin" if system == "macos" else "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "darwin" if system == "macos" else "linux",
            "extra": "",
        }

    def rank(self, filename: str) -> tuple[int, tuple[int, str]] | None:
        """How well a wheel fits: smaller is better (place of its tag, then newer build number); None: not at all."""
        try:
            _, _, build, tags = parsed_filename(filename)
        except InvalidWheelFilename:
            return None
        places = _places(self)
        fitting = [places[tag] for tag in tags if tag in places]
        if not fitting:
            return None
        number, suffix = build if build else (0, "")
        return min(fitting), (-number, suffix)

    def fits(self, filename: str) -> bool:
        """Whether a wheel of this name can be installed there."""
        return self.rank(filename) is not None


def this_platform() -> str:
    """``linux-x86_64``, ``linux-aarch64``, ``macos-arm64``, or another such name for a machine that has no locks."""
    system = "macos" if sys.platform == "darwin" else sys.platform
    return f"{system}-{platform.machine()}"


def this_python() -> str:
    """Minor version of the Python that runs the tool."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def python_of(version: str) -> str:
    """Minor version of a Python version: ``3.12`` for ``3.12.4``.

    Raises:
        UsageError: The text is not a Python version.
    """
    match = re.fullmatch(r"(3\.\d+)(\.\d+)?", version.strip())
    if match is None:
        raise UsageError(f"{version!r} is not a Python version", hint="write it like 3.12")
    return match[1]


def sorted_pythons(pythons: Iterable[str]) -> tuple[str, ...]:
    """Minor versions in their order, each once."""
    return tuple(sorted(set(pythons), key=Version))


def named_platforms(filename: str) -> frozenset[str]:
    """Platforms that the tags of a wheel name: ``manylinux_2_28_x86_64``, ``any``."""
    try:
        _, _, _, tags = parsed_filename(filename)
    except InvalidWheelFilename:
        return frozenset()
    return frozenset(tag.platform for tag in tags)


def shown_platforms(filename: str) -> list[str]:
    """The same by the last part of the name alone, for a look at many of which few are wanted."""
    return filename.lower().removesuffix(".whl").rpartition("-")[2].split(".")


@lru_cache(maxsize=1)
def platforms_here() -> frozenset[str]:
    """Platform tags of this machine: a wheel that names none of them fits no Python here."""
    return frozenset({"any", *platform_tags()})


def named_pythons(filename: str) -> frozenset[str]:
    """Minor Pythons that the tags of a wheel name: ``cp311`` gives ``3.11``, ``py3`` nothing."""
    try:
        _, _, _, tags = parsed_filename(filename)
    except InvalidWheelFilename:
        return frozenset()
    digits = (tag.interpreter.removeprefix("cp") for tag in tags if tag.interpreter.startswith("cp"))
    return frozenset(f"{text[0]}.{text[1:]}" for text in digits if text.isdigit() and len(text) > 1)


def fits_others(filename: str) -> bool:
    """Whether a wheel may fit Pythons that its tags do not name: those of ``py3``, of the stable ABI, of no ABI.

    Not of an ABI that is a kind of the Python that is named: ``cp313t``.
    """
    try:
        _, _, _, tags = parsed_filename(filename)
    except InvalidWheelFilename:
        return False
    return any(not tag.abi.startswith(tag.interpreter) for tag in tags)


@lru_cache(maxsize=64)
def _places(target: Target) -> dict[Tag, int]:
    major, minor = (int(part) for part in target.python.split("."))
    interpreter = f"cp{major}{minor}"
    # Before 3.8 the ABI had an "m"; torch releases that the tool is about have none of those.
    platforms = [name for name in _platforms(target.platform) if target.tags is None or name in target.tags]
    tags = [
        *cpython_tags((major, minor), abis=[interpreter], platforms=platforms),
        *compatible_tags((major, minor), interpreter=interpreter, platforms=platforms),
    ]
    places: dict[Tag, int] = {}
    for place, tag in enumerate(tags):
        places.setdefault(tag, place)
    return places


def _platforms(name: str | None) -> Iterable[str]:
    if name is None:
        return platform_tags()
    system, _, machine = name.partition("-")
    if system == "macos":
        return mac_platforms(_MACOS, machine)
    tags = []
    for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in _LEGACY_MANYLINUX:
            tags.append(f"{_LEGACY_MANYLINUX[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]
