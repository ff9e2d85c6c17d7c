"""Torch or a dependency: makes and runs the hybrids that :mod:`bisect_torch.analysis.attribution` asks for."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch import analysis, environments
from bisect_torch.analysis.attribution import Answer, Attribution, Cause, Hybrid, Side, answer_of, attribute
from bisect_torch.analysis.series import Row
from bisect_torch.engine import events
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.engine.run import Run
from bisect_torch.errors import Interrupted
from bisect_torch.interruption import Interruption
from bisect_torch.model import Build, BuildKind, Environment, Observation, Point, Series, Variant
from bisect_torch.releases.locks import DAYS_AFTER_RELEASE
from bisect_torch.results.attributed import PYTHON, Attributed, keep

NOT_RESOLVED = "no set of versions has it in the other version"


@dataclass(frozen=True)
class Change:
    """One thing besides torch that differs between the two builds; None where a side does not have it.

    Args:
        name: Normalised name of a package, or :data:`PYTHON`.
        held: Whose torch to why it cannot be taken from the other side; a side is absent where it can.
    """

    name: str
    old: str | None
    new: str | None
    held: Mapping[Side, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class AttributionRequest:
    """A boundary whose cause is wanted.

    Args:
        run: Of the two builds, the older first, and of one instance on one device.
        row: Case file, instance and device, as the results call them.
    """

    run: RunRequest
    row: Row

    @property
    def old(self) -> Build:
        """The build before the change."""
        return self.run.builds[0]

    @property
    def new(self) -> Build:
        """The build after it."""
        return self.run.builds[1]


@dataclass(frozen=True)
class AttributionResult:
    """What was found.

    Args:
        instance: Its name.
        old: The older build's point, new the newer one's; None where it was not run.
        attribution: None when the two builds do not differ, or could not be judged.
        changes: Everything besides torch that differs.
        names: Hybrid to the name of its build, as in the results file.
        points: That name to its point.
    """

    instance: str
    builds: tuple[Build, Build]
    old: Point | None
    new: Point | None
    attribution: Attribution | None
    changes: tuple[Change, ...]
    names: Mapping[Hybrid, str]
    points: Mapping[str, Point | None]
    environments: Mapping[str, Environment]


class Attributing:
    """Runs the two builds (which costs nothing when their results are kept), then hybrids until it is decided.

    Args:
        request: The boundary.
        observers: Makes an observer for each of the runs, one after another.
        interruption: Watches the signals that end a run.
    """

    def __init__(
        self, request: AttributionRequest, observers: Callable[[], events.Observer], interruption: Interruption
    ) -> None:
        self._request = request
        self._observers = observers
        self._interruption = interruption
        self._environments: dict[str, Environment] = {}
        self._names: dict[Hybrid, str] = {}
        self._points: dict[str, Point | None] = {}
        self._ends: dict[Side, Point] = {}

    def execute(self) -> AttributionResult:
        """Find the cause, and keep it in the results.

        Raises:
            Interrupted: The user stopped it; what had finished is kept.
            BisectTorchError: The results file cannot be written.
        """
        result = self._run(self._request.run, self._observers())
        old, new = _points(result.series)
        self._environments.update(result.environments)
        changes: tuple[Change, ...] = ()
        attribution = None
        if old is not None and new is not None and _differ(result.series):
            self._ends = {Side.OLD: old, Side.NEW: new}
            changes = self._changes()
            names = tuple(change.name for change in changes)
            separable = {side: [each.name for each in changes if side not in each.held] for side in Side}
            attribution = attribute(names, separable, self._judge)
        if attribution is not None and attribution.cause is not Cause.INSEPARABLE:
            self._keep(attribution, changes, result.observations)
        return AttributionResult(
            instance="".join(name for _, name in self._request.run.only or ()),
            builds=(self._request.old, self._request.new),
            old=old,
            new=new,
            attribution=attribution,
            changes=changes,
            names=self._names,
            points=self._points,
            environments=self._environments,
        )

    def _keep(self, found: Attribution, changes: Sequence[Change], observations: Sequence[Observation]) -> None:
        """For whoever reads the results later; where both builds ran one text of the case."""
        ends = (self._request.old.name, self._request.new.name)
        texts = {each.case_file_hash for each in observations if each.build_name in ends}
        if len(texts) != 1:
            return
        case_file, instance, device = self._request.row
        answer = Attributed(
            case_file=case_file,
            case_file_hash=texts.pop(),
            instance=instance,
            device=device,
            before=ends[0],
            after=ends[1],
            torch=self._request.new.version,
            cause=found.cause,
            packages=tuple((each.name, each.old, each.new) for each in changes if each.name in found.packages),
            bound=found.bound,
        )
        with self._interruption.held():
            keep(self._request.run.file, answer)

    def _run(self, request: RunRequest, observer: events.Observer) -> RunResult:
        result = Run(request, observer, self._interruption).execute()
        if result.interrupted:
            raise Interrupted("interrupted; what had finished is kept", hint="the same command goes on from there")
        return result

    # --- what differs

    def _changes(self) -> tuple[Change, ...]:
        """What differs, and what of it can be taken from the other side."""
        versions = {side: _versions(self._environment(side)) for side in Side}
        names = sorted(versions[Side.OLD].keys() | versions[Side.NEW].keys())
        changes = [
            Change(name, versions[Side.OLD].get(name), versions[Side.NEW].get(name))
            for name in names
            if versions[Side.OLD].get(name) != versions[Side.NEW].get(name)
        ]
        for side in Side:
            changes = self._held(changes, side)
        return tuple(changes)

    def _held(self, changes: list[Change], side: Side) -> list[Change]:
        """Mark what the torch of a side does not run with from the other side."""
        others = {each.name: (each.old if side is Side.NEW else each.new) for each in changes}
        held: dict[str, str] = {
            each.name: "it is there on one side only" for each in changes if each.old is None or each.new is None
        }
        environment = self._environment(side)
        if environment.build.kind is BuildKind.LOCAL or self._environment(side.other).build.kind is BuildKind.LOCAL:
            held = dict.fromkeys(others, "the environment of a local interpreter is not the tool's to make")
        elif environment.root != Path():
            minor = _minor(environment)
            known = {name: version for name, version in others.items() if version is not None and name != PYTHON}
            held.update(environments.bound_to(environment.root, "torch", minor, known))
        free = [each.name for each in changes if each.name not in held]
        if free and self._why_not(Hybrid(side, tuple(free))):
            held.update({name: why for name in free if (why := self._why_not(Hybrid(side, (name,))))})
        return [
            dataclasses.replace(each, held={**each.held, side: held[each.name]}) if each.name in held else each
            for each in changes
        ]

    def _why_not(self, hybrid: Hybrid) -> str:
        """Why uv finds no set of versions; empty where it finds one. Nothing is installed."""
        plan = environments.plan_environments([self._build(hybrid)], self._request.run.environment_options)
        reason = plan.environments[0].reason
        # What uv says of packages names all that were fixed; that torch has no wheel for a Python is short and enough.
        return NOT_RESOLVED if reason and hybrid.swapped != (PYTHON,) else reason

    # --- hybrids

    def _judge(self, hybrids: Sequence[Hybrid]) -> list[Answer]:
        request = self._request.run
        builds = [self._build(hybrid) for hybrid in hybrids]
        old, new = self._request.old, self._request.new
        observer = self._observers()
        for hybrid, build in zip(hybrids, builds, strict=True):
            observer(events.Note(f"trying torch {build.version} with {build.name.partition('+')[2]}"))
            self._names[hybrid] = build.name
        everything = (old, new, *builds)
        result = self._run(
            dataclasses.replace(
                request,
                builds=everything,
                plan=environments.plan_environments(everything, request.environment_options),
                lines=((old.name, new.name), *((old.name, build.name, new.name) for build in builds)),
            ),
            observer,
        )
        self._environments.update(result.environments)
        for series in result.beside:
            self._points[series.builds[1]] = series.points[1]
        return [answer_of(self._points.get(build.name), self._ends[Side.OLD], self._ends[Side.NEW]) for build in builds]

    def _build(self, hybrid: Hybrid) -> Build:
        """The build of a hybrid: every package of its torch's environment, but the swapped ones of the other."""
        own, other = self._environment(hybrid.torch), self._environment(hybrid.torch.other)
        packages, others = _versions(own), _versions(other)
        swapped = {name: others[name] for name in hybrid.swapped}
        mixed = {**packages, **swapped}
        python = mixed.pop(PYTHON)
        build = self._request.new if hybrid.torch is Side.NEW else self._request.old
        variant = Variant(
            label=",".join(f"{name}=={version}" for name, version in sorted(swapped.items())),
            constraints=tuple(f"{name}=={version}" for name, version in sorted(mixed.items())),
            newest=self._newest(),
        )
        # Where both sides have the same Python, the run's choice stays: it may be an interpreter's path.
        own_python = python if others[PYTHON] != packages[PYTHON] else None
        return dataclasses.replace(build, own_python=own_python).with_variant(variant)

    def _newest(self) -> datetime.date | None:
        """The later day of the two sides: each fixed version must have been there."""
        days = [self._request.old.day, self._request.new.day]
        today = self._request.run.environment_options.locks == "today" or any(
            build.variant is not None and build.variant.newest is None for build in self._request.run.builds
        )
        if today or None in days:
            return None
        return max(day for day in days if day is not None) + datetime.timedelta(days=DAYS_AFTER_RELEASE)

    def _environment(self, side: Side) -> Environment:
        return self._environments[self._request.old.name if side is Side.OLD else self._request.new.name]


def _versions(environment: Environment) -> dict[str, str]:
    """Normalised name to version of everything but torch, with Python."""
    packages = {
        name.lower().replace("_", "-").replace(".", "-"): version for name, version in environment.packages.items()
    }
    packages.pop("torch", None)
    return {**packages, PYTHON: _minor(environment)}


def _minor(environment: Environment) -> str:
    return ".".join(environment.python_version.split(".")[:2])


def _points(series: Sequence[Series]) -> tuple[Point | None, Point | None]:
    if not series:
        return None, None
    old, new = series[0].points
    return old, new


def _differ(series: Sequence[Series]) -> bool:
    return any(analysis.transitions(each) for each in series)
