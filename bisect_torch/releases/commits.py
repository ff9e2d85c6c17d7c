"""What the commit inside a build is: a release's tag, a commit of the branch of nightly builds, one of main.

A nightly build is made from a commit of PyTorch's branch ``nightly``, which has one commit a day; the commit of main
with the same files stands in its message. Only a source checkout has the message, and nothing is asked over a network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.redaction import without_secrets

if TYPE_CHECKING:
    from bisect_torch.child_processes import Completed

_FULL = re.compile(r"[0-9a-f]{40}")
_MAIN = re.compile(r"nightly release \(([0-9a-f]{40})\)")
_TAG = re.compile(r"tag: (v[^,\s]+)")
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Origin:
    """Where a build's commit is found.

    Args:
        commit: Full hash, as it stands inside the build.
        where: ``v2.15.0``, ``nightly branch``, ``release branch``; empty where that is not known.
        main: The commit of main with the same files, for a nightly build, where it is known.
        resolved: It is known to be a public commit of PyTorch's repository, so that a link to it leads somewhere.
    """

    commit: str
    where: str = ""
    main: str | None = None
    resolved: bool = False

    @property
    def point(self) -> str:
        """The commit from which a bisection of the source can go on: of main where it is known."""
        return self.main or self.commit

    def __str__(self) -> str:
        words = [self.where or "commit", self.commit[:12], *([f"(main {self.main[:12]})"] if self.main else [])]
        return " ".join(words)


def origin_of(build: Build, commit: str | None) -> Origin | None:
    """What the kind of the build alone tells about its commit; None where that is not known.

    A local build may be of anybody's repository: its commit is not taken for a public one.
    """
    if commit is None:
        return None
    where = {
        BuildKind.RELEASE: f"v{build.version}",
        BuildKind.NIGHTLY: "nightly branch",
        BuildKind.CANDIDATE: "release branch",
    }.get(build.kind, "")
    return Origin(commit, where, resolved=bool(where) and _FULL.fullmatch(commit) is not None)


def check_source(folder: Path) -> Path:
    """The absolute path of a source checkout.

    Raises:
        UsageError: It is none, or there is no git here.
    """
    folder = Path(os.path.expanduser(folder)).absolute()
    if not folder.is_dir() or _git(folder, "rev-parse", "--git-dir").returncode != 0:
        raise UsageError(f"--source {folder}: no git checkout there", hint="name a clone of PyTorch's repository")
    return folder


def origins(
    builds: Iterable[Build], commits: Mapping[str, str | None], source: Path | None = None
) -> Mapping[str, Origin]:
    """Build name to origin, for builds whose commit is known.

    Args:
        commits: Build name to commit.
        source: A source checkout, in which messages and tags are looked up; what it lacks stays as it is.

    Raises:
        UsageError: There is no git here.
    """
    found = {}
    for build in builds:
        origin = origin_of(build, commits.get(build.name))
        if origin is not None:
            found[build.name] = origin if source is None else _looked_up(origin, source)
    return found


def _looked_up(origin: Origin, source: Path) -> Origin:
    if _FULL.fullmatch(origin.commit) is None:
        return origin
    answer = _git(source, "log", "-1", "--format=%D%n%s", origin.commit)
    if answer.returncode != 0:
        return origin
    refs, _, subject = answer.stdout.partition("\n")
    tag, main = _TAG.search(refs), _MAIN.search(subject)
    return replace(
        origin,
        where=tag[1] if tag else origin.where,
        main=main[1] if main else None,
        resolved=True,
    )


def _git(folder: Path, *words: str) -> Completed:
    from bisect_torch.child_processes import run_process

    # A partial clone would fetch what it lacks.
    variables = {**without_secrets(os.environ), "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return run_process(["git", "-C", folder, *words], env=variables, timeout_s=_TIMEOUT_S)
    except OSError as error:
        raise UsageError(f"git cannot be started: {error.strerror or error}", hint="--source needs it") from None
