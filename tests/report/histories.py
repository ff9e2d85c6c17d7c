"""Series, transitions and events of a run that never took place, in few words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bisect_torch.engine.events import CellFinished, CellStarted, Event
from bisect_torch.model import (
    Build,
    BuildKind,
    Case,
    CaseFile,
    CaseKind,
    Environment,
    Instance,
    Judgement,
    Observation,
    Point,
    Scalar,
    Series,
    Transition,
    TransitionKind,
    Verdict,
)
from bisect_torch.report.findings import Findings

_RELEASES = "2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0"
RELEASES = tuple(_RELEASES.split())


def build(name: str) -> Build:
    """A release whose commit begins with its own digits."""
    return Build(BuildKind.RELEASE, name, name, git_commit=name.replace(".", "").ljust(40, "0"))


def environment(name: str, *, cuda: str | None = "12.8", python: str = "3.11.7", **packages: str) -> Environment:
    return Environment(
        build=build(name),
        root=Path("/envs") / name,
        python=Path("/envs") / name / "bin/python",
        python_version=python,
        lock_hash="ab" * 32,
        packages={"torch": name, **{key.replace("_", "-"): value for key, value in packages.items()}},
        torch_version=f"{name}+cu128",
        git_commit=build(name).git_commit,
        cuda=cuda,
        backend="pypi",
    )


def judgement(signature: str, *, detail: str = "", reason: str = "") -> Judgement:
    """``absent`` is an error for want of the API; otherwise the verdict is what stands before the colon."""
    if signature == "absent":
        return Judgement(Verdict.ERROR, "error:AttributeError", detail, api_absent=True)
    return Judgement(Verdict(signature.partition(":")[0]), signature, detail, reason=reason)


def point(name: str, signature: str, **facts: object) -> Point:
    """``ok|wrong`` is flaky: three repeats of each, judged as the last."""
    parts = signature.split("|")
    known = {key: facts.pop(key) for key in ("detail", "reason") if key in facts}
    return Point(
        build=name,
        judgement=judgement(parts[-1], **known),  # type: ignore[arg-type]
        flaky=len(parts) > 1,
        counts={part: 3 for part in parts},
        processes=3,
        own_process=True,
        **facts,  # type: ignore[arg-type]
    )


def series(instance: str, *signatures: str | None, file: str = "/cases/cases.py", device: str = "cpu") -> Series:
    names = RELEASES[: len(signatures)]
    points = tuple(None if each is None else point(name, each) for name, each in zip(names, signatures, strict=True))
    return Series(file, instance, device, names, points)


def transition(kind: str, of: Series, before: str, after: str, **facts: object) -> Transition:
    ends = {each.build: each for each in of.points if each is not None}
    known: dict[str, object] = {"confirmed": True, **facts}
    return Transition(TransitionKind(kind), of, ends[before], ends[after], **known)  # type: ignore[arg-type]


def findings(*rows: Series, transitions: tuple[Transition, ...] = (), **facts: object) -> Findings:
    names = rows[0].builds if rows else RELEASES
    known: dict[str, object] = {"environments": {}, **facts}
    return Findings(tuple(build(name) for name in names), series=rows, transitions=transitions, **known)  # type: ignore[arg-type]


def instance(name: str, *, file: str = "/cases/cases.py", **parameters: Scalar) -> Instance:
    return Instance(Case(CaseFile(Path(file), "00", CaseKind.CASE), name), tuple(parameters.items()))


def observation(of: Instance, name: str, *, repeat: int = 0, **facts: object) -> Observation:
    known: dict[str, object] = {"outcome": "returned", "device": "cpu", "elapsed_s": 0.1, "seed": repeat, **facts}
    return Observation(
        key=f"{of.name} {name}",
        run_id="run",
        build=name,
        build_name=name,
        build_kind="release",
        case_file=str(of.case.file.path),
        case_file_hash="00",
        case=of.case.name,
        instance=of.name,
        repeat=repeat,
        **known,  # type: ignore[arg-type]
    )


def cell(of: Instance, name: str, signature: str, *, repeat: int = 0, kept: bool = False) -> Iterator[Event]:
    """The events of one repeat of a cell."""
    if not kept:
        yield CellStarted(build(name), of, "cpu", repeat)
    yield CellFinished(of, observation(of, name, repeat=repeat), judgement(signature), kept)
