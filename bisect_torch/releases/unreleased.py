"""The nightly builds and release candidates of one run: asked for at most once, and remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build
from bisect_torch.releases import nightlies
from bisect_torch.releases.nightlies import Shelf
from bisect_torch.releases.nightly_index import NightlyIndex, nightly_backend
from bisect_torch.releases.nightly_ledger import NightlyLedger
from bisect_torch.releases.nightly_words import NIGHTLY, NightlyWord, named_word
from bisect_torch.releases.selection import release_order


@dataclass
class Unreleased:
    """Answers names with builds.

    Where an index cannot be asked, what was seen before and is installed will do for days and versions; what is the
    latest only the index knows.

    Args:
        backend: Folder below the channel: ``cpu``.
        ledger: What is remembered.
        python: The minor Python that all must have a wheel for; None for any.
        cache_dir: Where answers of indexes are kept for ten minutes.
        offline: Ask no server.
        installed: Whether a build has an environment already.
        note: Called with a line for each thing that the user should know.
    """

    backend: str
    ledger: NightlyLedger
    python: str | None
    cache_dir: Path | None
    offline: bool
    installed: Callable[[Build], bool]
    note: Callable[[str], None]
    _shelves: dict[str, tuple[Shelf, InfrastructureError | None]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        backend: str,
        *,
        ledger: Path | None,
        python: str | None,
        cache_dir: Path | None,
        offline: bool,
        installed: Callable[[Build], bool],
        note: Callable[[str], None],
    ) -> Unreleased:
        """For the backend of a run, where ``pypi`` leaves open which folder is meant."""
        folder, said = nightly_backend(backend)
        if said is not None:
            note(said)
        return cls(folder, NightlyLedger(ledger), python, cache_dir, offline, installed, note)

    def builds(self, word: NightlyWord) -> tuple[Build, ...]:
        """The builds that a word means, oldest first.

        Raises:
            UsageError: There is none, nor one near enough.
            InfrastructureError: The index cannot be read, and what is installed does not answer the word.
        """
        shelf, failed = self._shelf(word.channel)
        if failed is not None and (word.first is None or not shelf.usable()):
            raise failed
        try:
            chosen = nightlies.choose(word, shelf)
        except UsageError:
            if failed is not None:
                raise failed from None
            raise
        for text in chosen.notes:
            self._say(text)
        if failed is not None:
            self._say(f"{failed.message}; using the environments of nightly builds that are there")
        return chosen.builds

    def named(self, name: str) -> tuple[Build, ...]:
        """The builds that a name means: a word, or a version, which is meant whatever is wrong with it.

        Raises:
            UsageError: There is none.
            InfrastructureError: The index cannot be read, and the build is not installed.
        """
        word = named_word(name)
        if word is not None:
            return self.builds(word)
        shelf, failed = self._shelf(NIGHTLY)
        try:
            build = nightlies.named(name, shelf)
        except UsageError:
            if failed is not None:
                raise failed from None
            raise
        if failed is not None and not self.installed(build):
            raise failed
        return (build,)

    def excluded(self, name: str) -> tuple[Build, ...]:
        """The builds that a name means exactly: a day without a build means none here, not the nearest."""
        word = named_word(name)
        if word is None or word.first is None:
            return self.named(name)
        last = word.last or (None if word.span else word.first)
        return tuple(
            build
            for build in self._shelf(word.channel)[0].builds
            if build.day is not None and word.first <= build.day and (last is None or build.day <= last)
        )

    def every(self) -> tuple[Build, ...]:
        """All nightly builds that can take part without being named, in release order."""
        return self._shelf(NIGHTLY)[0].usable()

    def inside(self, word: NightlyWord, builds: Sequence[Build]) -> tuple[Build, ...]:
        """The nightly builds between the oldest and the newest of some builds, of the days that a word allows.

        A single day is the last that takes part.

        Raises:
            InfrastructureError: The index cannot be read, and no nightly build is installed.
        """
        shelf, failed = self._shelf(NIGHTLY)
        if failed is not None and not shelf.usable():
            raise failed
        if failed is not None:
            self._say(f"{failed.message}; using the environments of nightly builds that are there")
        ends = [release_order(build) for build in builds]
        first, last = (word.first, word.last) if word.span else (None, word.first)
        return tuple(
            build
            for build in shelf.usable()
            if min(ends) < release_order(build) < max(ends)
            and build.day is not None
            and (first is None or first <= build.day)
            and (last is None or build.day <= last)
        )

    def with_facts(self, builds: Sequence[Build], *, ask: bool = True) -> tuple[Build, ...]:
        """The same builds; nightly builds and candidates with commit and size, as far as they can be known."""
        return with_facts(builds, self.ledger, python=self.python, note=self._say, ask=ask)

    def _shelf(self, channel: str) -> tuple[Shelf, InfrastructureError | None]:
        """The builds of a channel, and why its index could not be asked."""
        if channel not in self._shelves:
            index = f"{channel}/{self.backend}"
            source, failed = self._index(index), None
            if self.offline:
                failed = InfrastructureError(
                    f"offline: the index {index} is not asked", hint="name a day or version whose environment is there"
                )
            else:
                try:
                    builds = source.listed()
                except InfrastructureError as error:
                    failed = error
                if self.ledger.unkept is not None:
                    self._say(_not_kept(self.ledger))
            if failed is not None:
                builds = source.remembered()
            self._shelves[channel] = Shelf(builds, index, self.python, self.installed), failed
        return self._shelves[channel]

    def _index(self, index: str) -> NightlyIndex:
        return NightlyIndex(index, self.ledger, self.python, self.cache_dir)

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.note(text)


def with_facts(
    builds: Sequence[Build],
    ledger: NightlyLedger,
    *,
    python: str | None,
    note: Callable[[str], None],
    ask: bool = True,
) -> tuple[Build, ...]:
    """The same builds; nightly builds and candidates with commit and size, as far as they can be known.

    Args:
        python: The minor Python whose wheel counts; None for the newest that a build has.
        note: Called with a line for each build whose commit and size cannot be read.
        ask: Read them out of the wheels where the ledger does not know them; some requests for each.

    Raises:
        InfrastructureError: The ledger cannot be read.
    """
    known = {build.name: build for build in builds}
    for index in dict.fromkeys(build.index for build in builds if build.index is not None):
        own = [build for build in builds if build.index == index]
        found = NightlyIndex(index, ledger, python).with_facts(own, note, ask=ask)
        known.update((build.name, build) for build in found)
    if ledger.unkept is not None:
        note(_not_kept(ledger))
    return tuple(known.values())


def _not_kept(ledger: NightlyLedger) -> str:
    return f"what was learnt about nightly builds is not kept: {ledger.unkept}"
