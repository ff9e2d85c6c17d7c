"""What differs between the machines, settings and environments of two sets of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bisect_torch.analysis.comparing import Comparison, Side
from bisect_torch.model import Environment, Observation
from bisect_torch.report.differences import difference_words
from bisect_torch.report.text import bytes_words

_OF_CELLS = {
    "device": "device",
    "device name": "device_name",
    "driver": "driver",
    "machine class": "machine",
    "Python": "python",
    "backend": "backend",
    "threads": "threads",
}
_OF_HOST = {"CPU": "cpu", "cores": "cores", "memory": "memory_bytes", "kernel": "system_release", "libc": "libc"}
_OF_RUN = {"seed": "seed", "thorough": "thorough", "bisect-torch": "tool_version"}


@dataclass(frozen=True)
class Fact:
    """One fact about each set; several values where its runs or cells differ among themselves."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the two sides do."""
        return self.first != self.second


def host_facts(comparison: Comparison) -> list[Fact]:
    """What is known of both sets, or of one: days, device, machine, settings."""
    first, second = (_facts(side) for side in (comparison.first, comparison.second))
    facts = [Fact(name, first.get(name, ()), second.get(name, ())) for name in {**first, **second}]
    return [fact for fact in facts if fact.first or fact.second]


def _facts(side: Side) -> dict[str, tuple[str, ...]]:
    found = {"day": _days(side.observations)}
    for name, field in _OF_CELLS.items():
        found[name] = _distinct(_value(field, value) for value in {getattr(each, field) for each in side.observations})
    for name, field in _OF_HOST.items():
        found[name] = _distinct(_value(field, host.get(field)) for host in map(_host, side.runs))
    for name, field in _OF_RUN.items():
        found[name] = _distinct(_value(field, run.get(field)) for run in side.runs)
    return found


def _host(run: Mapping[str, object]) -> Mapping[str, Any]:
    host: Any = run.get("host")
    return host if isinstance(host, dict) else {}


def _value(field: str, value: object) -> str:
    if field == "memory_bytes" and isinstance(value, int):
        return bytes_words(value)
    return "" if value is None else str(value)


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def _days(observations: Iterable[Observation]) -> tuple[str, ...]:
    days = sorted({each.started_at[:10] for each in observations if each.started_at})
    return () if not days else (days[0],) if len(days) == 1 else (f"{days[0]} to {days[-1]}",)


def environment_differences(comparison: Comparison) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """What differs between the environments of a build, in words, to the builds for which that is so; and the builds of
    which an environment is not known."""
    found: dict[str, list[str]] = {}
    unknown = []
    ours, theirs = _of_builds(comparison.first), _of_builds(comparison.second)
    for one, other in dict.fromkeys(each.builds for each in comparison.cells):
        first, second = ours.get(one), theirs.get(other)
        if first is None or second is None:
            unknown.append(one)
        elif words := _differing(comparison, first, second):
            found.setdefault(words, []).append(one)
    return {words: tuple(builds) for words, builds in found.items()}, tuple(unknown)


def _of_builds(side: Side) -> dict[str, Observation]:
    """Build name to one of its observations with an environment, the newest."""
    return {each.build_name: each for each in side.observations if each.lock_hash is not None}


def _differing(comparison: Comparison, first: Observation, second: Observation) -> str:
    ours, theirs = _environment(comparison.first, first), _environment(comparison.second, second)
    if ours is not None and theirs is not None:
        words = [f"torch {ours.torch_version} → {theirs.torch_version}"] * (ours.torch_version != theirs.torch_version)
        words += [f"commit {str(ours.git_commit)[:12]} → {str(theirs.git_commit)[:12]}"] * (
            ours.git_commit != theirs.git_commit
        )
        return ", ".join([*words, *difference_words(ours, theirs)])
    return "another lock" if first.lock_hash != second.lock_hash else ""


def _environment(side: Side, observation: Observation) -> Environment | None:
    """As a run described it."""
    for run in side.runs:
        described: Any = run.get("environments")
        for each in described if isinstance(described, list) else ():
            if (each["build"], each["lock_hash"]) == (observation.build_name, observation.lock_hash):
                return Environment.from_description(each)
    return None
