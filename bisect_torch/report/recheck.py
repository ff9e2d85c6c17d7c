"""What a recheck found: as lines, and as data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.analysis.rechecking import Change, Rechecked, exit_code
from bisect_torch.model import Build, Environment, Observation, Point, Verdict
from bisect_torch.report.origin import BESIDE_TORCH, raising_package
from bisect_torch.report.phrases import does
from bisect_torch.report.text import Line, clean, plural, seconds_words, wrap

FORMAT = 1

_STYLES = {
    Change.FIXED: "green",
    Change.NO_LONGER_BAD: "green",
    Change.STILL_OK: "green",
    Change.STILL_BAD: "red",
    Change.NEWLY_BAD: "bold red",
    Change.FAILS_DIFFERENTLY: "yellow",
    Change.FLAKY: "magenta",
    Change.UNJUDGED: "cyan",
}
_ORDER = (
    Change.FIXED,
    Change.NO_LONGER_BAD,
    Change.STILL_BAD,
    Change.FAILS_DIFFERENTLY,
    Change.FLAKY,
    Change.NEWLY_BAD,
    Change.UNJUDGED,
    Change.STILL_OK,
)


@dataclass(frozen=True)
class Recheck:
    """What a recheck found.

    Args:
        build: The new one.
        environment: Its environment; None where it has none.
        earlier: Build name to environment, for the builds of the earlier results.
        rows: In the order of the earlier results.
        news: Those of which something is to be said; all of them unless a state says otherwise.
        observations: Of the earlier builds, by row, for addresses of issues.
        seen: Of the new build, by the same rows.
        results: The earlier file.
        output: The new one.
    """

    build: Build
    environment: Environment | None
    earlier: Mapping[str, Environment]
    rows: tuple[Rechecked, ...]
    news: tuple[Rechecked, ...]
    observations: Mapping[tuple[str, str, str], Sequence[Observation]]
    results: Path
    output: Path | None = None
    interrupted: bool = False
    seconds: float | None = None
    notes: tuple[str, ...] = field(default=())
    machine: tuple[str, ...] = ()
    seen: Mapping[tuple[str, str, str], Sequence[Observation]] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """See :func:`bisect_torch.analysis.rechecking.exit_code`; 130 where it was interrupted."""
        return 130 if self.interrupted else exit_code(self.rows)

    @property
    def commit(self) -> str | None:
        """Full hash of the new build's commit."""
        return (self.environment and self.environment.git_commit) or self.build.git_commit

    @property
    def title(self) -> str:
        """``torch 2.16.0.dev20261128+cpu``: the new build, without any path."""
        version = self.environment.torch_version if self.environment else self.build.version
        return f"torch {version}"


def recheck_lines(found: Recheck, width: int) -> list[Line]:
    """The outcome in lines of at most ``width`` columns; nothing where there is no news."""
    if not found.news:
        return []
    commit = f" (commit {found.commit[:12]})" if found.commit else ""
    lines: list[Line] = [((f"{clean(found.title)}{commit}, against {clean(str(found.results))}", "bold"),)]
    for change in _ORDER:
        rows = [row for row in found.news if row.change is change]
        if not rows:
            continue
        lines.append(((f"{change.value}: {plural(len(rows), 'instance')}", _STYLES[change]),))
        for row in rows if change is not Change.STILL_OK else ():
            text = wrap(_sentence(row, found).split(" "), width - 2, indent="  ")
            lines += [((f"  {line}", ""),) for line in text]
    silent = len(found.rows) - len(found.news)
    if silent:
        lines.append(((f"{plural(silent, 'instance')} as said before", "dim"),))
    lines += [((line, ""),) for note in found.notes for line in wrap(clean(note).split(" "), width, indent="  ")]
    took = f" in {seconds_words(found.seconds)}" if found.seconds is not None else ""
    lines.append(((f"{summary_words(found.rows)}{took}", "bold"),))
    if found.interrupted:
        lines.append((("interrupted: what had finished is kept", "bold"),))
    return lines


def summary_words(rows: Iterable[Rechecked]) -> str:
    """``2 fixed, 1 still bad``."""
    changes = [row.change for row in rows]
    words = [f"{changes.count(change):,} {change.value}" for change in _ORDER if change in changes]
    return ", ".join(words) or "nothing was bad"


def _sentence(row: Rechecked, found: Recheck) -> str:
    name = clean(row.row[1]) + (f" on {clean(row.row[2])}" if len({each.row[2] for each in found.rows}) > 1 else "")
    before = f"{_does(row.before)} on {build_title(row.before.build, found.earlier)}"
    if row.change is Change.UNJUDGED or row.after is None:
        return f"{name}: {clean(row.reason)}; {before}"
    if row.change is Change.STILL_BAD:
        text = f"{name}: still {_does(row.after)}, as on {build_title(row.before.build, found.earlier)}"
    else:
        nothing = ", and checks nothing" if row.change is Change.NO_LONGER_BAD else ""
        text = f"{name}: {_does(row.after)} now{nothing}; {before}"
    return text + (f"; the error comes from {package}" if (package := comes_from(row, found)) else "")


def comes_from(row: Rechecked, found: Recheck) -> str:
    """Which package beside torch the error on the new build comes from, with its version; empty where there is none."""
    if row.after is None or row.after.judgement.verdict is not Verdict.ERROR:
        return ""
    package = raising_package(found.seen.get(row.row, ()), found.environment)
    return f"{clean(' '.join(package))}: {BESIDE_TORCH}" if package else ""


def _does(point: Point) -> str:
    if point.flaky:
        counts = ", ".join(f"{clean(signature)} {count}" for signature, count in point.counts.items())
        return f"is flaky ({counts})"
    error = f" (relative error {point.rel_error:.2g})" if point.rel_error and point.judgement.verdict.bad else ""
    return does(point.judgement) + error


def build_title(name: str, environments: Mapping[str, Environment]) -> str:
    """A release's version as it is; of a local interpreter not its path but the version that it holds."""
    if "/" not in name and "\\" not in name:
        return clean(name)
    environment = environments.get(name)
    return f"a local torch {clean(environment.torch_version)}" if environment else "a local torch"


def recheck_data(found: Recheck) -> dict[str, object]:
    """A document that ``json.dumps`` takes.

    Keys:
        format: :data:`FORMAT`.
        build: ``name``, ``version``, ``kind``, ``day``, ``git_commit``, ``torch_version``.
        rows: ``case_file``, ``instance``, ``device``, ``change``, ``news`` (false where it was said before),
            ``reason``, ``before`` and ``after`` with ``build``, ``verdict``, ``signature``, ``detail``, ``flaky``,
            ``counts``, ``processes``, ``own_process``; ``after`` is null where it did not run.
        counts: Change to number.
        exit_code, interrupted, seconds, results, output, notes.
    """
    changes = [row.change for row in found.rows]
    return {
        "format": FORMAT,
        "build": {
            "name": found.build.name,
            "version": found.build.version,
            "kind": found.build.kind.value,
            "day": found.build.day.isoformat() if found.build.day else None,
            "git_commit": found.commit,
            "torch_version": found.environment.torch_version if found.environment else None,
        },
        "rows": [
            {
                "case_file": row.row[0],
                "instance": row.row[1],
                "device": row.row[2],
                "change": row.change.value,
                "news": row in found.news,
                "reason": row.reason,
                "before": _point(row.before),
                "after": _point(row.after) if row.after else None,
            }
            for row in found.rows
        ],
        "counts": {change.value: changes.count(change) for change in _ORDER if change in changes},
        "exit_code": found.exit_code,
        "interrupted": found.interrupted,
        "seconds": found.seconds,
        "results": str(found.results),
        "output": str(found.output) if found.output else None,
        "notes": list(found.notes),
    }


def _point(point: Point) -> dict[str, object]:
    return {
        "build": point.build,
        "verdict": point.judgement.verdict.value,
        "signature": point.judgement.signature,
        "detail": point.judgement.detail,
        "flaky": point.flaky,
        "counts": dict(point.counts),
        "processes": point.processes,
        "own_process": point.own_process,
    }
