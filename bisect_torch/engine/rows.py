"""The rows of a run: the instances that it is about, known beforehand or told by workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bisect_torch import cases, own_digest
from bisect_torch.cases import Discovered
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.shard import starts
from bisect_torch.engine.suites import Suites
from bisect_torch.errors import UsageError
from bisect_torch.model import CaseFile, CaseKind, Environment, Instance

_KEPT_FORMAT = 2


class Rows:
    """The instances of every file, as far as they are known.

    Literal parameters are known from the file's text. Others are told by a worker, and kept for later runs; what pytest
    collects differs from build to build.

    Args:
        request: The run.
        code: Name of the staged package (:func:`~bisect_torch.environments.staged_name`): parameters and sizes may
            come from its numerics.
        wanted: Whether an instance is one of the rows; all of the request's when None.
    """

    def __init__(self, request: RunRequest, code: str, wanted: Callable[[Instance], bool] | None = None) -> None:
        self._request = request
        self._code = code
        self._wanted = wanted
        self._instances: dict[Path, tuple[Instance, ...]] = {}
        self._whole: dict[Path, tuple[Instance, ...]] = {}
        self._starts = starts(request.discovered, request.select)
        self._any_fits = False
        self._asked: set[tuple[Path, str]] = set()
        options = request.environment_options
        circumstances = (self._code, request.projects, options.extras, options.locks, options.backend)
        self.suites = Suites(request.discovered, options.store.expansions, circumstances)

    def read_known(self, environments: Iterable[Environment]) -> None:
        """Take in what needs no worker: literal parameters, and what earlier runs were told of the same bytes.

        Args:
            environments: Those that are known, for what pytest collected in them.
        """
        for item in self._request.discovered:
            instances = item.instances
            if instances is None and item.file.kind is not CaseKind.PYTEST:
                kept = own_digest.read_kept(self._kept_in(item))
                if kept is not None:
                    instances = cases.from_expansion(item, kept["rows"])
            if instances is not None:
                self._instances[item.file.path] = self._selected(item.file, instances)
        if self.suites.item is not None:
            for environment in environments:
                self.suites.recall(environment)
            suite = self.suites.item.file
            self._instances[suite.path] = self._selected(suite, self.suites.instances)

    def all(self) -> tuple[Instance, ...]:
        """Those that are known, in row order."""
        files = (item.file.path for item in self._request.discovered)
        return tuple(instance for file in files for instance in self._instances.get(file, ()))

    def planned(self) -> tuple[Instance, ...]:
        """As :meth:`all`; in a shard, those of the others too, among which its own have their places."""
        files = (item.file.path for item in self._request.discovered)
        return tuple(instance for file in files for instance in self._whole.get(file, ()))

    @property
    def whole(self) -> bool:
        """Whether every file has been read; a suite counts as read also where a build has not been asked."""
        return len(self._instances) == len(self._request.discovered)

    @property
    def unread(self) -> bool:
        """Whether a worker has still to tell the instances of a case file."""
        return any(
            item.file.path not in self._instances
            for item in self._request.discovered
            if item.file.kind is not CaseKind.PYTEST
        )

    @property
    def asking(self) -> bool:
        """Whether a worker has been asked and has not answered yet."""
        return bool(self._asked)

    def to_ask(self, build: str) -> list[Discovered]:
        """The files that a worker of this build must be asked for. They count as asked from now on."""
        found = []
        for item in self._request.discovered:
            of_suite = item.file.kind is CaseKind.PYTEST
            known = self.suites.collected(build) if of_suite else item.file.path in self._instances
            question = (item.file.path, build if of_suite else "")
            if not known and question not in self._asked:
                self._asked.add(question)
                found.append(item)
        return found

    def expanded(self, file: CaseFile, told: tuple[Mapping[str, Any], ...]) -> tuple[tuple[Instance, ...], str | None]:
        """Take what a worker told of a case file.

        Returns:
            The rows that it adds, and why what was told could not be kept; None when it was.

        Raises:
            UsageError: The file declares no case, or something that cannot be run.
        """
        item = next(item for item in self._request.discovered if item.file.path == file.path)
        unkept = own_digest.write_kept(self._kept_in(item), {"rows": told})
        added = self._selected(item.file, cases.from_expansion(item, told))
        self._instances[file.path] = added
        self._asked.discard((file.path, ""))
        return added, unkept

    def collected(
        self, file: CaseFile, environment: Environment, told: tuple[Mapping[str, Any], ...]
    ) -> tuple[Instance, ...]:
        """Take what pytest collects on a build; gives the rows that it adds."""
        added = self._selected(file, self.suites.add(environment, told))
        self._asked.discard((file.path, environment.build.name))
        self._instances[file.path] = self._selected(file, self.suites.instances)
        return added

    def refuse_empty_choice(self) -> None:
        """Once all files have been read. That a shard has none of what fits is no fault.

        Raises:
            UsageError: ``-k`` fits nothing.
        """
        read = all(item.file.path in self._instances for item in self._request.discovered)
        if read and self.suites.item is None and self._request.select and not self._any_fits:
            raise UsageError(
                f"-k {self._request.select!r} fits no instance",
                hint="it looks at file::instance; --dry-run without -k says which there are",
            )

    def _kept_in(self, item: Discovered) -> Path:
        known_by = [
            _KEPT_FORMAT,
            item.file.sha256,
            dict(item.file.local_modules),
            self._code,
            self._request.thorough,
        ]
        parts = json.dumps(known_by, sort_keys=True)
        digest = hashlib.sha256(parts.encode()).hexdigest()
        return self._request.environment_options.store.expansions / f"{digest}.json"

    def _selected(self, file: CaseFile, instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """Those of a file's instances that this run is about."""
        instances = self._request.named(instances)
        fitting = self._request.fitting(instances)
        self._any_fits |= bool(fitting)
        chosen = self._request.chosen(instances, self._starts[file.path])
        if self._wanted is not None:
            chosen, fitting = (tuple(filter(self._wanted, each)) for each in (chosen, fitting))
        self._whole[file.path] = fitting
        return chosen
