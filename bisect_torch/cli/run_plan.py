"""What a run is going to do: the lines that it begins with, and all that ``--dry-run`` prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.environments import EnvironmentPlan, PlannedEnvironment

MOST_NAMES = 20
"""Instances that ``--dry-run`` lists; with ``--json`` it lists all."""

UNSIZED = "to download: a size that is not known yet"
"""Stands for the sizes of a plan that has none."""

_MOST_BUILDS = 6
_AGAIN = "the same line tries again; `bisect-torch doctor` looks at the index"


def plan_lines(request: RunRequest) -> list[str]:
    """What there is, what has to be downloaded and made, and what is to be known about it, as sentences; private names
    are replaced."""
    from bisect_torch.report.text import bytes_words, plural

    plan = request.plan
    download, disk = bytes_words(plan.download_bytes), bytes_words(plan.disk_bytes)
    there = sum(planned.present is not None for planned in plan.environments)
    are_there = f"{plural(there, 'environment')} {'is' if there == 1 else 'are'} there"
    lines = [f"{plural(len(request.builds), 'build')}: {are_there}, {len(plan.missing)} to be made"]
    if plan.elsewhere:
        lines = [
            f"{plural(len(request.builds), 'build')}: environments are made on the nodes where they are not there;",
            f"{f'at most {download} to download and {disk} on disk' if plan.sized else UNSIZED}, shared"
            f" out among the nodes; about {max(1, round(plan.minutes))} min on one ({plan.basis})",
        ]
    elif plan.missing:
        lines.append(
            f"{f'to download {download}, on disk {disk} more' if plan.sized else UNSIZED}"
            f"{' at once,' if plan.budget else ' of' if plan.sized else ','} {bytes_words(plan.free_bytes)} free;"
            f" {'about' if plan.sized else 'at least'} {max(1, round(plan.minutes))} min ({plan.basis})"
        )
    if plan.missing or plan.elsewhere:
        again = ", and what is told of them runs again in more processes" if request.confirm else ""
        lines.append(f"that is for environments: the cells come on top{again}")
    lines += impossible_lines(plan)
    lines += unsized_lines(plan)
    lines += [f"note: {note}" for note in (*plan.notes, *missing_devices(request))]
    lines += [f"hint: {hint}" for hint in plan.hints]
    return [request.file.private.redact(line) for line in lines]


def unsized_lines(plan: EnvironmentPlan) -> list[str]:
    """What the sizes of a plan leave out."""
    from bisect_torch.report.text import listed

    packages = [f"size not known, and not counted: {', '.join(plan.unknown)}"] if plan.unknown else []
    builds = listed(list(plan.unsized), most=_MOST_BUILDS)
    return [*packages, *([f"not known yet, and not counted: what is installed for {builds}"] if builds else [])]


def impossible_lines(plan: EnvironmentPlan) -> list[str]:
    """The builds that get no environment, with the reason; those with one reason in one line."""
    from bisect_torch.report.text import listed

    builds: dict[str, list[str]] = {}
    for planned in plan.environments:
        if planned.impossible:
            builds.setdefault(planned.impossible, []).append(planned.build.name)
    return [f"{listed(names, most=_MOST_BUILDS)}: {reason}" for reason, names in builds.items()]


def missing_devices(request: RunRequest) -> list[str]:
    """A sentence for each device that this machine surely lacks."""
    return [f"there is no {device} device on this machine: its cells will be broken" for device in _lacking(request)]


def _lacking(request: RunRequest) -> list[str]:
    """The devices of a run that this machine surely lacks, as far as a case is made for them."""
    from bisect_torch.engine import host
    from bisect_torch.engine.plan import is_made_for

    if request.plan.elsewhere:
        return []
    open_files = any(item.instances is None for item in request.discovered)
    known = request.known_instances()
    return [
        device
        for device in request.devices
        if host.surely_lacks(device) and (open_files or any(is_made_for(each.case, device) for each in known))
    ]


def _refuse_missing_devices(request: RunRequest) -> None:
    """Raises InfrastructureError where all that would run has no device to run on."""
    from bisect_torch.errors import InfrastructureError

    lacking = _lacking(request)
    if lacking and len(lacking) == len(request.devices):
        what = " and ".join(f"no {device} device" for device in lacking)
        are = "are" if len(lacking) > 1 else "is"
        raise InfrastructureError(
            f"there {are} {what} on this machine, and a run would end with 3: all cells would be broken",
            hint="--device cpu is the default; `bisect-torch doctor` says what it sees of a GPU",
        )


def refuse_in_vain(request: RunRequest, *, search: bool = False) -> None:
    """End a dry run as its run would end, where that is known: nothing can be judged on the newest build.

    Args:
        search: A search does without an end that cannot be judged, but not without all builds.

    Raises:
        InfrastructureError: The newest build gets no environment (of those that a search begins with, none does), a
            build is not known, a file cannot be read, or none of the devices is there.
    """
    from bisect_torch.errors import InfrastructureError
    from bisect_torch.model import Verdict
    from bisect_torch.report.unjudged import hint

    for name, why in request.unknown.items():
        raise InfrastructureError(f"{name} is not known, and a run would end with 3: {why}", hint=_AGAIN)
    if request.unread:
        raise InfrastructureError(
            "not all that was named can be read, and a run would not end with 0",
            hint="mend what is left out, or name the files that are to run",
        )
    own = [each for each in request.plan.environments if each.build.variant is None and not each.open]
    needed = own if search else own[-1:]
    if not needed or not all(map(_in_vain(request), needed)):
        _refuse_missing_devices(request)
        return
    newest = needed[-1]
    whose = f"{newest.build.name} gets no environment"
    if len(own) > 1:
        begun = "none of the builds that the search begins with gets an environment"
        whose = begun if search else f"{newest.build.name}, the newest build, gets no environment"
    verdict = Verdict.UNINSTALLABLE if newest.reason else Verdict.INFRA
    raise InfrastructureError(
        request.file.private.redact(f"{whose}, and a run would end with 3: {newest.impossible}"),
        hint=hint(verdict, newest.impossible) if newest.reason else "run once without --offline",
    )


def _in_vain(request: RunRequest) -> Callable[[PlannedEnvironment], bool]:
    """Whether a build gets no environment, nor needs one: what has run once is known, also where no server is asked."""

    def in_vain(planned: PlannedEnvironment) -> bool:
        if planned.reason or not planned.offline:
            return bool(planned.reason)
        return all(each.build_name != planned.build.name for each in request.file.observations())

    return in_vain


def show_plan(request: RunRequest) -> None:
    """The plan on stderr, before anything is downloaded."""
    print_wrapped(plan_lines(request), sys.stderr)


def print_wrapped(lines: Sequence[str], stream: TextIO) -> None:
    """Sentences in lines of the stream's width; names, which stand further in, as they are."""
    from bisect_torch.report.terminal import print_lines, width_for
    from bisect_torch.report.text import wrap

    width = width_for(stream)
    wrapped = [
        each
        for line in lines
        for each in ([line] if line.startswith(" ") else wrap(line.split(" "), width, indent="  "))
    ]
    print_lines([((line, ""),) for line in wrapped], stream)


def print_plan(request: RunRequest, *, as_json: bool, lines: Sequence[str] | None = None) -> None:
    """The plan on stdout, for ``--dry-run`` of every command that runs cells.

    Args:
        lines: The plan in words; those of a matrix when None.
    """
    if as_json:
        import json

        sys.stdout.write(json.dumps(request.file.private.value(_described(request)), indent=1) + "\n")
    else:
        said = lines or [*plan_lines(request), *_would_run(request)]
        if sys.stdout.isatty():
            print_wrapped(said, sys.stdout)
        else:
            sys.stdout.write("".join(f"{line}\n" for line in said))


def _would_run(request: RunRequest) -> list[str]:
    """How many instances, and below that their names."""
    from bisect_torch.model import CaseKind
    from bisect_torch.report.text import plural

    names = [request.file.private.instance(each.name) for each in request.known_instances()]
    suites = sum(item.file.kind is CaseKind.PYTEST for item in request.discovered)
    unread = sum(item.instances is None for item in request.discovered) - suites
    more = f" and those of {plural(unread, 'file')} that torch must expand" if unread else ""
    more += " and the tests that pytest finds there" if suites else ""
    would_run = f"would run {plural(len(names), 'instance')}{more} on each build"
    left = len(names) - MOST_NAMES
    if request.shard is not None and not (request.builds and (names or more)):
        from bisect_torch.cli.sharding import empty_line

        return [empty_line(request)]
    return [would_run, *(f"  {name}" for name in names[:MOST_NAMES]), *([f"  and {left:,} more"] if left > 0 else [])]


def _described(request: RunRequest) -> dict[str, object]:
    plan = request.plan
    return {
        "instances": [each.name for each in request.known_instances()],
        "builds": [
            {
                "name": planned.build.name,
                "python": planned.python,
                "present": planned.present is not None,
                "reason": planned.impossible or None,
            }
            for planned in plan.environments
        ],
        "download_bytes": plan.download_bytes,
        "disk_bytes": plan.disk_bytes,
        "free_bytes": plan.free_bytes,
        "minutes": plan.minutes,
        "unknown_sizes": list(plan.unknown),
        "builds_of_unknown_size": list(plan.unsized),
        "notes": [*plan.notes, *missing_devices(request)],
        "hints": list(plan.hints),
    }
