"""What a run is going to do: the lines that it begins with, and all that ``--dry-run`` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from bisect_torch.engine.request import RunRequest

MOST_NAMES = 20
"""Instances that ``--dry-run`` lists; with ``--json`` it lists all."""


def plan_lines(request: RunRequest) -> list[str]:
    """What there is, what has to be downloaded and made, and what is to be known about it, as sentences; private names
    are replaced."""
    from bisect_torch.report.text import bytes_words, plural

    plan = request.plan
    there = sum(planned.present is not None for planned in plan.environments)
    are_there = f"{plural(there, 'environment')} {'is' if there == 1 else 'are'} there"
    lines = [f"{plural(len(request.builds), 'build')}: {are_there}, {len(plan.missing)} to be made"]
    if plan.elsewhere:
        lines = [
            f"{plural(len(request.builds), 'build')}: environments are made on the nodes where they are not there;",
            f"at most {bytes_words(plan.download_bytes)} to download and {bytes_words(plan.disk_bytes)} on disk, shared"
            f" out among the nodes; about {max(1, round(plan.minutes))} min on one ({plan.basis})",
        ]
    elif plan.missing:
        lines.append(
            f"to download {bytes_words(plan.download_bytes)}, on disk {bytes_words(plan.disk_bytes)} more"
            f"{' at once,' if plan.budget else ' of'} {bytes_words(plan.free_bytes)} free;"
            f" about {max(1, round(plan.minutes))} min ({plan.basis})"
        )
    lines += [f"{planned.build.name}: {planned.impossible}" for planned in plan.environments if planned.impossible]
    lines += [f"size not known, and not counted: {', '.join(plan.unknown)}"] if plan.unknown else []
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"hint: {hint}" for hint in plan.hints]
    return [request.file.private.redact(line) for line in lines]


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
        "notes": list(plan.notes),
        "hints": list(plan.hints),
    }
