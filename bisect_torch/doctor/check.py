"""What is asked about, and what one look finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.environments import EnvironmentOptions, Store
from bisect_torch.releases import IndexOptions
from bisect_torch.releases.selection import Selection


class Status(str, enum.Enum):
    """``ok``; ``warning``: a run works, but not as well or not all of it; ``fault``: it does not work."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True)
class Check:
    """One line of the answer.

    Args:
        name: What was looked at, in one or two words.
        status: Whether a run works.
        found: What is there.
        means: What that means for a run; empty where there is nothing to say.
        fix: A command, or what to do; empty where nothing is to be done.
    """

    name: str
    status: Status
    found: str
    means: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Asked:
    """The run that is asked about.

    Args:
        store: Its store, which need not be there.
        results: The results file that it would write.
        index: Where its builds come from.
        backend: Of torch.
        python: As ``--python`` says; None leaves it to the tool.
        selection: Its builds.
    """

    store: Store
    results: Path
    index: IndexOptions
    backend: str
    python: str | None = None
    selection: Selection = field(default_factory=Selection)

    def options(self, store: Store | None = None) -> EnvironmentOptions:
        """What the rooms are asked with.

        Args:
            store: In place of the run's own.
        """
        return EnvironmentOptions(store or self.store, python=self.python, backend=self.backend, index=self.index)
