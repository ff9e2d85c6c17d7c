"""Case files, called by as little of their paths as tells them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath

COMMANDS = "."
"""What stands for a file where a command ran: its working directory."""

COMMANDS_NAME = "commands"
"""How that is called in every report."""


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Path to its name, with as many of the folders above it as no other of these paths shares; of commands, that they
    are commands."""
    paths = {file: PurePath(file).parts or (file,) for file in files}
    names: dict[str, str] = {}
    alike, depth = [list(paths)], 0
    while alike:
        depth += 1
        groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for file in (file for group in alike for file in group):
            groups[paths[file][-depth:]].append(file)
        names.update({file: "/".join(tail) for tail, group in groups.items() for file in group})
        alike = [
            group for group in groups.values() if len(group) > 1 and any(len(paths[each]) > depth for each in group)
        ]
    return {file: COMMANDS_NAME if file == COMMANDS else names[file] for file in paths}
