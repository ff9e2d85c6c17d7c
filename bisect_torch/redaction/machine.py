"""What is private on the machine that this process runs on. The one place that looks."""

from __future__ import annotations

import functools
import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from bisect_torch.redaction.names import secret_values, secret_words
from bisect_torch.redaction.patterns import ACCOUNT_HOME, CASES, CWD, HOME, PROJECT, STORE
from bisect_torch.redaction.private import Private


def this_machine() -> Private:
    """Of the user, the host, the variables, the words and the working directory of this process, as they are now."""
    try:
        working_directory = os.getcwd()
    except FileNotFoundError:  # it was removed meanwhile: nothing can lie in it
        working_directory = ""
    return _gather(working_directory, tuple(sorted(os.environ.items())), tuple(sys.argv))


@functools.lru_cache(maxsize=4)
def _gather(working_directory: str, variables: tuple[tuple[str, str], ...], words: tuple[str, ...]) -> Private:
    given = dict(variables)
    login, full_name, home = _account()
    users = [login, full_name, *(given.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER"))]
    homes = _paths([given.get("HOME", "") or home])
    return Private(
        users=_distinct(users),
        hosts=_host_names(given),
        # The working directory before the home, which it may be.
        folders=tuple((path, CWD) for path in _paths([working_directory]))
        + tuple((path, HOME) for path in homes)
        + tuple((path, ACCOUNT_HOME) for path in _paths([home]) if path not in homes),
        secrets=tuple(sorted(secret_values(given) | secret_words(words), key=lambda text: (-len(text), text))),
    )


def private_of(
    private: Private, *, store: Path | None = None, projects: Iterable[Path] = (), case_files: Iterable[Path] = ()
) -> Private:
    """With the folders of a run.

    Args:
        store: The store's root.
        projects: Folders of editable projects.
        case_files: Case files and scripts; their folders count.
    """
    inside = [path for path, name in private.folders if name == CWD]
    folders = [path.parent for path in case_files]
    outside = [folder for folder in folders if not any(folder.is_relative_to(path) for path in inside)]
    named = [(path, PROJECT) for project in projects for path in _paths([str(project)])]
    named += [(path, CASES) for folder in outside for path in _paths([str(folder)])]
    if store is not None:
        named += [(path, STORE) for path in _paths([str(store)])]
    return private.with_folders(named)


def _account() -> tuple[str, str, str]:
    """Login, full name and home as the system's table of users has them; empty where it has no such user."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:  # a container may run under a number that has no name
        return "", "", ""
    return entry.pw_name, entry.pw_gecos.partition(",")[0].strip(), entry.pw_dir


def _host_names(variables: Mapping[str, str]) -> tuple[str, ...]:
    names = [os.uname().nodename, variables.get("HOSTNAME", "")]
    names += [name.partition(".")[0] for name in names]
    return _distinct(sorted(names, key=len, reverse=True))


def _paths(texts: Iterable[str]) -> list[str]:
    """Absolute paths as they are written and as they are really called; not the root."""
    found = [form for text in texts if text for form in (os.path.abspath(text), os.path.realpath(text))]
    return [path for path in dict.fromkeys(found) if path != os.sep]


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
