"""``needs=``: which builds a case says that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from bisect_torch.model import Case
from bisect_torch.worker.declaration import CAPABILITIES


def unmet(case: Case, build_version: str, packages: Mapping[str, str] | None = None) -> str | None:
    """Why a case does not apply to a build, in words; None when it does.

    Capabilities (``compile``, ``cuda``, …) are the environment's matter and not looked at here.

    Args:
        build_version: torch's public version.
        packages: Name to version of what is installed beside it, where that is known.
    """
    needed = [need for need in case.needs if need not in CAPABILITIES]
    if not needed:
        return None
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    installed: dict[str, str] = {canonicalize_name(name): version for name, version in (packages or {}).items()}
    installed["torch"] = build_version
    for need in needed:
        requirement = Requirement(need)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        version = installed.get(canonicalize_name(requirement.name))
        if version is None and packages is not None:
            return f"needs {need}, which is not installed"
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            return f"needs {need}, this is {requirement.name} {version}"
    return None


def unusable(need: str) -> str | None:
    """Why an entry of ``needs=`` is not a requirement; None when it is one, or a capability."""
    if need in CAPABILITIES:
        return None
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(need)
    except InvalidRequirement as problem:
        return str(problem).splitlines()[0]
    return None
