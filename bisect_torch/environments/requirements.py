"""What a user requires besides torch, and what the packages of an environment require of each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from bisect_torch.environments.stamp import records
from bisect_torch.errors import UsageError
from bisect_torch.releases.platforms import Target


def extra_requirement(text: str) -> Requirement:
    """What ``--with`` names.

    Raises:
        UsageError: It is no requirement.
    """
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"--with {text}: not a requirement: {str(error).splitlines()[0]}",
            hint="as after `pip install`: --with torchvision, --with 'pandas==2.2.3'",
        ) from None


def bound_to(root: Path, project: str, python: str, others: Mapping[str, str]) -> dict[str, str]:
    """The packages that a project, or what is bound to it, does not run with in another version.

    Args:
        root: The environment's folder.
        project: Normalised name of what stays as it is.
        python: Minor version of the environment's Python.
        others: Normalised name to that other version.

    Returns:
        Name to the requirement that forbids it: ``torch requires triton==3.3.0``.
    """
    texts = dict(_requirements(root))
    markers = Target(python).markers()
    bound: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    pending = [(project, "")]
    while pending:
        name, extra = pending.pop()
        for requirement in texts.get(name, ()):
            if requirement.marker is not None and not requirement.marker.evaluate({**markers, "extra": extra}):
                continue
            needed = canonicalize_name(requirement.name)
            forbids = needed in others and not _allows(requirement, others[needed])
            if forbids:
                bound.setdefault(needed, f"{name} requires {needed}{requirement.specifier}")
            # What is not bound may have another version, which requires other things.
            if forbids or any(part.operator in ("==", "===") for part in requirement.specifier):
                following = {(needed, wanted) for wanted in ("", *requirement.extras)} - seen
                seen |= following
                pending += sorted(following)
    return bound


def _requirements(root: Path) -> Iterator[tuple[str, list[Requirement]]]:
    for name, info in records(root):
        path = info / "METADATA"
        if path.is_file():
            from email.parser import HeaderParser  # only now: every command loads this room

            lines = HeaderParser().parsestr(path.read_text(encoding="utf-8")).get_all("Requires-Dist") or []
            yield name, [requirement for line in lines if (requirement := _read(line)) is not None]


def _read(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:  # of an old wheel: uv, which decides in the end, may know better
        return None


def _allows(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False
