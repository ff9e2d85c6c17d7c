"""Builds and environments as a results file remembers them, so that it can be reported without anything installed."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from bisect_torch.analysis.columns import telling
from bisect_torch.model import CANDIDATE_SUFFIX, TODAY, Build, BuildKind, Environment, Observation, is_variant_name


def recalled_environments(runs: Iterable[Mapping[str, object]]) -> dict[str, Environment]:
    """Build name to environment, from the runs' manifests; of a build in several runs, the newest."""
    found: dict[str, Environment] = {}
    for run in runs:
        described: Any = run.get("environments")
        for each in described if isinstance(described, list) else ():
            found[each["build"]] = Environment.from_description(each)
    return found


def recalled_builds(
    observations: Iterable[Observation], environments: Mapping[str, Environment], runs: Iterable[Mapping[str, object]]
) -> tuple[Build, ...]:
    """Every build that was observed or that a run set out to observe, in release order; local interpreters last.

    Local interpreters keep the order in which they were named. Builds with other dependencies (hybrids, today's) have
    no place in this order and are left out.
    """
    found: dict[str, Build] = {}
    for run in runs:
        named: Any = run.get("builds")
        for name in named if isinstance(named, list) else ():
            if not is_variant_name(name):
                found.setdefault(name, _build_by_name(name))
    for observation in telling(observations, ("build_name", "build", "build_kind", "git_commit")):
        if is_variant_name(observation.build_name):
            continue
        if observation.build_name not in found or found[observation.build_name].git_commit is None:
            found[observation.build_name] = Build(
                kind=_kind(observation),
                version=observation.build,
                name=observation.build_name,
                day=_day_in(observation.build),
                git_commit=observation.git_commit,
            )
    found.update({name: each.build for name, each in environments.items() if name in found})
    return tuple(sorted(found.values(), key=_release_order))


def recalled_twins(observations: Iterable[Observation], builds: Iterable[Build]) -> tuple[tuple[str, str], ...]:
    """Names of each of these builds that was also observed with today's dependencies, and of that variant."""
    seen = {observation.build_name for observation in telling(observations, ("build_name",))}
    pairs = ((build.name, f"{build.version}+{TODAY.label}") for build in builds if build.kind is not BuildKind.LOCAL)
    return tuple(pair for pair in pairs if pair[1] in seen)


def _kind(observation: Observation) -> BuildKind:
    """As recorded; of a kind that this version of the tool does not know, what the name says."""
    known = {kind.value: kind for kind in BuildKind}
    return known.get(observation.build_kind) or _build_by_name(observation.build_name).kind


def _build_by_name(name: str) -> Build:
    shown = name.removesuffix(CANDIDATE_SUFFIX)
    version = _version(shown)
    if version is None:
        return Build(kind=BuildKind.LOCAL, version=name, name=name)
    kind = BuildKind.NIGHTLY if version.is_devrelease else BuildKind.RELEASE
    return Build(kind=BuildKind.CANDIDATE if shown != name else kind, version=shown, name=name, day=_day_in(name))


def _day_in(version: str) -> datetime.date | None:
    """The day of a nightly: ``2.16.0.dev20261128``."""
    digits = version.partition(".dev")[2][:8]
    try:
        return datetime.datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        return None


def _release_order(build: Build) -> tuple[bool, Version]:
    version = _version(build.version)
    if build.kind is BuildKind.LOCAL or version is None:
        return True, Version("0")
    return False, version


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
