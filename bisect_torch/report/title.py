"""What a page or a picture is about, in its title: the same in every format. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bisect_torch.report.files import COMMANDS, short_names
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import listed, plural

_MOST_FILES = 3
_LONGEST_NAME = 24
"""Files, and letters of a build's name, that the title has."""


def title(findings: Findings) -> str:
    """``cases.py on torch 2.4.1 … 2.14.0``."""
    files = list(short_names(each.case_file for each in findings.series if each.case_file != COMMANDS).values())
    commands = dict.fromkeys(each.instance for each in findings.series if each.case_file == COMMANDS)
    what = listed([*files, *commands]) if len(files) <= _MOST_FILES else f"{len(files)} case files"
    # The names of hybrids, and paths of interpreters, stand below the matrix.
    names = [name for name in findings.build_names if len(name) <= _LONGEST_NAME]
    on = f" on torch {names[0]}" if names else ""
    return f"{what or 'nothing'}{on}{f' … {names[-1]}' if len(names) > 1 else ''}"


def about(findings: Findings) -> str:
    """``Verdicts of 7 instances on 3 builds, by bisect-torch 0.1.0, 2026-11-30``."""
    run: Mapping[str, object] = findings.runs[-1] if findings.runs else {}
    tool = f"bisect-torch {run['tool_version']}" if run.get("tool_version") else "bisect-torch"
    day = str(run.get("started_at") or "")[:10]
    counted = f"{plural(len(findings.series), 'instance')} on {plural(len(findings.builds), 'build')}"
    return f"Verdicts of {counted}, by {tool}{f', {day}' if day else ''}"
