"""The committed universal locks: read, made with uv, and checked against an index.

A lock names torch, numpy and setuptools and all that they need, as they were a few days after the release, for every
Python and platform at once, with the hashes of all files. It holds no address, no path and no command.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from bisect_torch.errors import InfrastructureError
from bisect_torch.redaction import variables_for_uv
from bisect_torch.releases.catalogue import envs_folder
from bisect_torch.releases.index_file import IndexFile
from bisect_torch.releases.platforms import LINUX_AARCH64, LINUX_X86_64, MACOS_ARM64, Target

if TYPE_CHECKING:
    from packaging.markers import Marker

    from bisect_torch.child_processes import Completed

LOCKED_TOGETHER = ("numpy", "setuptools")
"""Besides torch: without numpy no tensor converts, without setuptools inductor fails on half of the releases."""

DAYS_AFTER_RELEASE = 4
"""Dependencies are those of the release day plus so many days: some belong to the release and are uploaded after it."""

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_UV_PLATFORMS = {
    LINUX_X86_64: "x86_64-manylinux_2_28",
    LINUX_AARCH64: "aarch64-manylinux_2_28",
    MACOS_ARM64: "aarch64-apple-darwin",
}
_MACOS_DEPLOYMENT_TARGET = "15.0"
_UV_TIMEOUT_S = 300.0

_MADE_ANEW = "the lock was changed by hand: `bisect-torch envs lock` makes it anew, or install bisect-torch again"


@dataclass(frozen=True)
class Pin:
    """One line of a lock.

    Args:
        project: Normalised name.
        version: With the local part, if any.
        marker: Where it applies; None for everywhere.
        hashes: SHA-256 of every file of that version.
    """

    project: str
    version: str
    marker: Marker | None
    hashes: tuple[str, ...]

    def applies(self, target: Target) -> bool:
        """Whether it is installed on a target."""
        return self.marker is None or self.marker.evaluate(dict(target.markers()))


def lock_path(version: str, folder: Path | None = None) -> Path | None:
    """The committed lock of a release, None when there is none."""
    path = (folder or envs_folder()) / f"{version}.lock"
    return path if path.is_file() else None


def read_lock(path: Path) -> str:
    """The text of a committed lock.

    Raises:
        InfrastructureError: It is missing, or no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InfrastructureError(
            f"the lock {path} cannot be read: {error}", hint="install bisect-torch again"
        ) from None


_USUAL = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)==([0-9][\w.+!-]*)(?: ?; ?([^;]+))?", re.ASCII)
"""A name, a version, and perhaps a marker: read in a tenth of the time that the parser of any requirement takes."""


@lru_cache(maxsize=1024)
def _marker(text: str) -> Marker:
    """Locks share their markers, and nobody changes one.

    Raises:
        ValueError: It is none.
    """
    from packaging.markers import Marker

    return Marker(text)


def _usual(words: str) -> tuple[str, str, Marker | None] | None:
    """Name, version and marker of a usual line; None for what the parser of any requirement must look at."""
    found = _USUAL.fullmatch(words)
    if found is None:
        return None
    try:
        Version(found[2])
        return found[1], found[2], None if found[3] is None else _marker(found[3])
    except ValueError:  # of the version, or the marker
        return None


def parse_lock(text: str) -> tuple[Pin, ...]:
    """The pins of a lock, in its order.

    Raises:
        InfrastructureError: The text is not a lock: a line that is no exact version.
    """
    pins = []
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        usual = _usual(words.partition("--hash")[0].strip())
        if usual is not None:
            name, pinned, marker = usual
            pins.append(Pin(canonicalize_name(name), pinned, marker, tuple(_HASH.findall(words))))
            continue
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(words.partition("--hash")[0].strip())
            (version,) = requirement.specifier
        except (InvalidRequirement, ValueError) as error:
            raise InfrastructureError(
                f"a lock has a line that is no exact version: {words[:80]}",
                hint=_MADE_ANEW,
            ) from error
        if version.operator != "==":
            raise InfrastructureError(
                f"a lock has a line that is no exact version: {words[:80]}",
                hint=_MADE_ANEW,
            )
        name = canonicalize_name(requirement.name)
        pins.append(Pin(name, version.version, requirement.marker, tuple(_HASH.findall(words))))
    return tuple(pins)


# --- making


def make_lock(
    version: str,
    *,
    day: datetime.date,
    oldest_python: str,
    uv_arguments: Sequence[str] = (),
) -> str:
    """Resolve torch and its company for all Pythons from the oldest on, as of the release's day.

    Args:
        day: Of the release.
        uv_arguments: Index options for ``uv pip compile``.

    Raises:
        InfrastructureError: uv cannot be run, or finds no resolution.
    """
    newest = datetime.datetime.combine(
        day + datetime.timedelta(days=DAYS_AFTER_RELEASE), datetime.time(), datetime.timezone.utc
    )
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text("".join(f"{line}\n" for line in (f"torch=={version}", *LOCKED_TOGETHER)), encoding="utf-8")
        result = _uv(
            "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate",
            "--only-binary", ":all:", "--python", sys.executable, "--python-version", oldest_python,
            "--exclude-newer", newest.strftime("%Y-%m-%dT%H:%M:%SZ"), *uv_arguments, str(wanted),
        )  # fmt: skip
    if result.returncode != 0:
        raise InfrastructureError(
            f"torch {version} cannot be locked: {_last_words(result.stderr)}",
            hint="check the index and the version; `bisect-torch doctor` looks at both",
        )
    return result.stdout


# --- checking


def check_lock(
    version: str,
    text: str,
    targets: Iterable[Target],
    files_of: Callable[[str], Iterable[IndexFile]],
    *,
    uv_arguments: Sequence[str] = (),
) -> list[str]:
    """What is wrong with a lock, in words; nothing when it is good.

    It is good when it pins this torch, numpy and setuptools, all with hashes, and when on each target every pin that
    applies has a wheel on the index with a locked hash, and uv, given these pins only, resolves to just the same set.

    Args:
        files_of: The files that the index has of a project.
        uv_arguments: Index options for ``uv pip install``.
    """
    pins = parse_lock(text)
    problems = [f"{pin.project}=={pin.version} has no hashes" for pin in pins if not pin.hashes]
    if [pin.version for pin in pins if pin.project == "torch"] != [version]:
        problems.append(f"it does not pin torch=={version}")
    wheels = {file.sha256: file for pin in pins for file in files_of(pin.project) if file.sha256 is not None}
    for target in targets:
        where = f"on {target.platform} with Python {target.python}"
        applying = [pin for pin in pins if pin.applies(target)]
        names = {pin.project for pin in applying}
        problems += [f"{where} {name} is missing" for name in ("torch", *LOCKED_TOGETHER) if name not in names]
        problems += [
            f"{where} no wheel of {pin.project}=={pin.version} with a locked hash"
            for pin in applying
            if not _has_wheel(pin, target, wheels)
        ]
        problems += [f"{where} {problem}" for problem in _uv_disagrees(text, applying, target, uv_arguments)]
    return problems


def _has_wheel(pin: Pin, target: Target, wheels: Mapping[str, IndexFile]) -> bool:
    return any(value in wheels and target.fits(wheels[value].filename) for value in pin.hashes)


def _uv_disagrees(text: str, applying: Iterable[Pin], target: Target, uv_arguments: Sequence[str]) -> list[str]:
    """uv resolves with the lock as its only source: a dependency that the lock forgot, or one too many, shows here."""
    assert target.platform is not None
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.txt"
        lock.write_text(text, encoding="utf-8")
        result = _uv(
            "pip", "install", "--dry-run", "--require-hashes", "--only-binary", ":all:", "--python", sys.executable,
            "--target", str(Path(folder) / "target"), "--python-platform", _UV_PLATFORMS[target.platform],
            "--python-version", target.python, *uv_arguments, "--requirements", str(lock),
        )  # fmt: skip
    if result.returncode != 0:
        return [f"uv cannot resolve it: {_last_words(result.stderr)}"]
    planned = set(re.findall(r"^ \+ (\S+)==(\S+)", result.stderr, re.MULTILINE))
    pinned = {(pin.project, pin.version) for pin in applying}
    if planned == pinned:
        return []
    odd = ", ".join(sorted(f"{name}=={number}" for name, number in planned ^ pinned))
    return [f"uv would install another set: {odd}"]


def _uv(*words: str) -> Completed:
    from bisect_torch.child_processes import run_process
    from bisect_torch.uv_program import binary

    own = {"MACOSX_DEPLOYMENT_TARGET": _MACOS_DEPLOYMENT_TARGET, "NO_COLOR": "1"}
    environment = {**variables_for_uv(os.environ), **own}
    try:
        result = run_process([binary(), *words], env=environment, timeout_s=_UV_TIMEOUT_S)
    except OSError as error:
        raise InfrastructureError(f"uv cannot be started: {error}", hint="`bisect-torch doctor` looks at uv") from error
    if result.timed_out:
        raise InfrastructureError(f"uv did not end within {_UV_TIMEOUT_S:.0f} s", hint="check the network")
    return result


def _last_words(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("error:", "cause:", "×", "╰"))]
    return " ".join((causes or lines[-2:] or ["no reason given"])[:3])[:400]
