"""What pytest collects of a suite on each build, kept from run to run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisect_torch import cases, own_digest
from bisect_torch.cases import Collection, Discovered
from bisect_torch.model import CaseKind, Environment, Instance

_FORMAT = 2
_AGAIN = "? "


class Suites:
    """The suite of a run, if it has one.

    The file that keeps the collections belongs to the suite's files and the way in which environments are made. Its
    rows are those of every build that was ever asked: a search runs one build at a time, and a test that another build
    has must have an answer here too.

    Args:
        discovered: What the run runs.
        folder: Where collections are kept.
        circumstances: What else decides which tests there are.
    """

    def __init__(self, discovered: Sequence[Discovered], folder: Path, circumstances: Sequence[object]) -> None:
        self.item = next((item for item in discovered if item.file.kind is CaseKind.PYTEST), None)
        self._collections: dict[str, Collection] = {}
        self._instances: dict[tuple[Path, str], Instance] = {}
        self._kept: dict[str, list[Mapping[str, Any]]] = {}
        self.unkept: str | None = None
        if self.item is None:
            return
        parts = json.dumps([_FORMAT, self.item.file.sha256, *circumstances], sort_keys=True, default=str)
        self._path = folder / f"suite-{hashlib.sha256(parts.encode()).hexdigest()}.json"
        self._kept = own_digest.read_kept(self._path) or {}
        for rows in self._kept.values():
            self._take(cases.collection_of(self.item, rows))

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Of every build, in the order in which they were first seen, those of a file together."""
        files: dict[Path, list[Instance]] = {}
        for instance in self._instances.values():
            files.setdefault(instance.case.file.path, []).append(instance)
        return tuple(instance for group in files.values() for instance in group)

    def collected(self, build: str) -> bool:
        """Whether it is known what a build collects; true where there is no suite."""
        return self.item is None or build in self._collections

    def recall(self, environment: Environment) -> None:
        """Take over what an earlier run was told in the same environment."""
        rows = self._kept.get(_identity(environment))
        if self.item is not None and rows is not None:
            self._collections[environment.build.name] = cases.collection_of(self.item, rows)

    def add(self, environment: Environment, rows: Sequence[Mapping[str, Any]]) -> tuple[Instance, ...]:
        """Take what a build collects; gives the instances that no build before it had.

        Where it could not be kept, :attr:`unkept` says why.
        """
        assert self.item is not None
        collection = cases.collection_of(self.item, rows)
        self._collections[environment.build.name] = collection
        # What was broken is asked again another time; its rows are known from now on all the same.
        self._keep(("" if collection.whole else _AGAIN) + _identity(environment), rows)
        return self._take(collection)

    def _take(self, collection: Collection) -> tuple[Instance, ...]:
        added = []
        for instance in collection.instances:
            key = (instance.case.file.path, instance.name)
            if key not in self._instances:
                self._instances[key] = instance
                added.append(instance)
        return tuple(added)

    def _keep(self, identity: str, rows: Sequence[Mapping[str, Any]]) -> None:
        # Another run may have added to it.
        self._kept = {**(own_digest.read_kept(self._path) or {}), **self._kept}
        self._kept[identity] = list(rows)
        self.unkept = own_digest.write_kept(self._path, self._kept)

    def why_not(self, build: str, instance: Instance) -> dict[str, object] | None:
        """The facts of a cell that is no test on a build; None for one that can be run."""
        if instance.case.file.kind is not CaseKind.PYTEST:
            return None
        answer = self._collections[build].why_not(instance)
        return None if answer is None else {"outcome": answer[0], "reason": answer[1]}

    def elsewhere(self, builds: Sequence[str]) -> set[tuple[Path, str]]:
        """File and name of the instances that only builds have which are not among these."""
        asked = [self._collections[build] for build in builds if build in self._collections]
        if not asked:
            return set()
        here = {(each.case.file.path, each.name) for collection in asked for each in collection.instances}
        return set(self._instances) - here


def _identity(environment: Environment) -> str:
    parts = (environment.lock_hash, environment.python_version, environment.torch_version, environment.backend)
    return " ".join(str(part) for part in parts)
