"""A results file with its journal: what is known is found again, what is new is kept, nothing is lost to a kill."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Observation
from bisect_torch.nearest import nearest_path
from bisect_torch.redaction import Private, this_machine
from bisect_torch.results.held import Held, Source
from bisect_torch.results.journal import Journal, encode
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.parquet import read_table, write_whole
from bisect_torch.results.recorded import Recorded
from bisect_torch.results.records import Recovered, observation_line, recovered, redacted
from bisect_torch.results.rows import Rows
from bisect_torch.results.schema import SCHEMA_VERSION
from bisect_torch.results.values import Values, json_texts_in, texts_in, values_of
from bisect_torch.shipped import tool_version
from bisect_torch.temporary import why_unwritable

_AT_ONCE = 1024
"""Observations that are written together: some megabyte."""


class ResultsFile:
    """The observations of all runs that were written to one path.

    A run opens the file, looks cells up, appends what it observes, and at its end (also after Ctrl-C) calls
    :meth:`finish`. A run that is killed has left its observations in the journal; the next one finds them there.

    Nothing private enters, neither the journal nor the Parquet file: see :mod:`bisect_torch.redaction`. What an earlier
    version of the tool has written is redacted when it is opened.

    Use :meth:`open`.
    """

    def __init__(
        self, path: Path, stored: Source | None, metadata: Metadata, journal: Journal, private: Private
    ) -> None:
        self.path = path
        self.private = private
        self.problems: tuple[str, ...] = ()
        self._whole = True
        self._metadata = metadata
        self._journal = journal
        self._recorded = Recorded(stored)

    @classmethod
    def open(cls, path: Path, *, must_exist: bool = False, private: Private | None = None) -> ResultsFile:
        """Read what is there. Nothing is written before the first :meth:`append`.

        Args:
            path: Of the Parquet file; the journal lies beside it, with ``.journal`` appended to the name.
            must_exist: It is an error that neither is there.
            private: What must not be written; what is private on this machine when None.

        ``problems`` then tells, in one line each, what could not be used.

        Raises:
            UsageError: A folder, a file of another kind, or one of a newer version of the tool is in its place,
                its folder does not exist, or nothing may be written there.
            InfrastructureError: It cannot be read.
        """
        try:
            path = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name with a zero byte
            raise UsageError(f"{path}: {error}", hint="name another file for the results") from None
        journal = Journal(path.with_name(path.name + ".journal"))
        _check_place(path, journal.path, must_exist)
        private = this_machine() if private is None else private
        content = recovered(path, journal.parts(), private)
        stored, metadata, whole = _read(path, private) if path.exists() else (None, Metadata(), True)
        results = cls(path, stored, metadata, journal, private)
        results._whole = whole
        results._take_in(content)
        return results

    def _take_in(self, content: Recovered) -> None:
        self._metadata = self._metadata.with_more(content.metadata)
        self._recorded.extend(content.given_away())
        if content.strange or content.damaged or content.torn:
            self._journal.forget_read()  # :meth:`finish` puts aside what is not used
        if content.strange:
            self.problems += (f"{self._journal.path}: {len(content.strange)} records of an unknown kind are not used",)
        if content.damaged:
            self.problems += (f"{self._journal.path}: {len(content.damaged)} damaged lines are not used",)
        if content.torn:
            self.problems += (f"{self._journal.path}: the last line was cut off; that cell will run again",)

    @property
    def settled(self) -> bool:
        """Whether there is nothing to be written that the Parquet file does not hold as it would be written now."""
        return self._whole and self.path.exists() and not self._journal.path.exists()

    def lookup(self, key: str) -> list[Observation]:
        """Every observation of a cell, of all repeats and runs, in the order in which they were recorded."""
        return self._recorded.lookup(key)

    def observations(self) -> Rows:
        """All of them, in the order in which they were recorded."""
        return self._recorded.rows()

    @property
    def metadata(self) -> Metadata:
        """Runs, locks and sources together."""
        return self._metadata

    @property
    def runs(self) -> tuple[Mapping[str, object], ...]:
        """Manifest of every run that contributed, oldest first."""
        return self._metadata.runs

    @property
    def locks(self) -> Mapping[str, str]:
        """Lock hash to the lock's text."""
        return self._metadata.locks

    @property
    def sources(self) -> Mapping[str, str]:
        """SHA-256 to text of the case files that ran and of the neighbours that they imported.

        A text in which something private was replaced is not the one that ran: see :meth:`is_whole`.
        """
        return self._metadata.sources

    def is_whole(self, digest: str) -> bool:
        """Whether the source that is kept under a hash is, byte for byte, what ran."""
        text = self._metadata.sources.get(digest)
        return text is not None and hashlib.sha256(text.encode()).hexdigest() == digest

    def begin(self, manifest: Mapping[str, object]) -> None:
        """Record a run before its first cell, so that a killed one has its manifest too.

        Args:
            manifest: JSON object with a ``run_id``: the command, the facts on the host, the versions.
        """
        manifest = self.private.manifest(manifest)
        self._metadata = self._metadata.with_more(Metadata(runs=(manifest,)))
        self._journal.append({"v": SCHEMA_VERSION, "run": dict(manifest)})

    def add_lock(self, lock_hash: str, text: str) -> None:
        """Keep a lock's text; nothing happens when it is known."""
        if lock_hash in self._metadata.locks:
            return
        text = self.private.redact(text)
        self._metadata = self._metadata.with_more(Metadata(locks={lock_hash: text}))
        self._journal.append({"v": SCHEMA_VERSION, "lock": [lock_hash, text]})

    def add_sources(self, texts: Mapping[str, str]) -> None:
        """Keep what ran.

        Args:
            texts: SHA-256 to text; what is known is not written again.
        """
        for digest, text in texts.items():
            if digest not in self._metadata.sources:
                text = self.private.redact(text)
                self._metadata = self._metadata.with_more(Metadata(sources={digest: text}))
                self._journal.append({"v": SCHEMA_VERSION, "source": [digest, text]})

    def append(self, observation: Observation) -> Observation:
        """Keep an observation, on the disk before this returns. Safe from several threads.

        Returns:
            The observation as it is kept, without anything private.

        Raises:
            InfrastructureError: The disk is full or fails. The observation counts in this run all the same, and
                :meth:`finish` tries to write it once more.
        """
        kept, values = self._redacted(observation)
        self._recorded.add_values(values)
        self._journal.write(observation_line(values))
        return kept

    def extend(self, observations: Iterable[Observation]) -> list[Observation]:
        """Keep observations that are there at the same time, as :meth:`append` each: with one write for all of them.

        In the journal each has a line of its own, as if it had come alone. A kill meanwhile may leave some of them.

        Raises:
            InfrastructureError: As :meth:`append`; all of them count. Of those that are written together, none is.
        """
        kept: list[Observation] = []
        problem: InfrastructureError | None = None
        waiting = map(self._redacted, observations)
        while some := list(itertools.islice(waiting, _AT_ONCE)):
            observed, values = zip(*some, strict=True)
            kept += observed
            self._recorded.add_values(*values)
            try:
                if problem is None:
                    self._journal.write(b"".join(map(observation_line, values)))
            except InfrastructureError as error:  # those behind it count all the same
                problem = error
        if problem is not None:
            raise problem
        return kept

    def _redacted(self, observation: Observation) -> tuple[Observation, Values]:
        """An observation as it may be kept, and its values."""
        values = values_of(observation)
        if self.private.are_clean(texts_in(values), json_texts_in(values)):
            return observation, values
        observation = self.private.observation(observation)
        return observation, values_of(observation)

    def take_over(self, observations: Rows, metadata: Metadata) -> None:
        """Hold what other files have; it is on the disk once :meth:`finish` has written the file, and not before.

        Where this file has another record of the same observation, the one that is taken over stands for it.
        """
        self._recorded.extend(observations.tables())
        self._metadata = self._metadata.with_more(metadata)

    def finish(self, manifest: Mapping[str, object] | None = None) -> None:
        """Write everything into the Parquet file, whole, and remove the journal.

        What another run has added meanwhile is kept. A kill at any moment loses nothing: until the new file is in its
        place the journal stays, and what is in both is found once.

        Args:
            manifest: The run's manifest as it is at its end; replaces the one that :meth:`begin` recorded.

        Raises:
            InfrastructureError: It cannot be written. The old file and the journal are untouched.
        """
        try:
            with self._journal.locked() as fd:
                # What this run has read and appended is known, and need not be read again.
                parts = () if self._journal.is_own_locked(fd) else self._journal.parts()
                self._finish_locked(recovered(self.path, parts, self.private), manifest)
        except OSError as error:
            raise InfrastructureError(
                f"cannot write {self._journal.path}: {error.strerror}",
                hint=f"what was run is in the journal; {_mended(error)} the same line goes on",
            ) from error

    def _finish_locked(self, content: Recovered, manifest: Mapping[str, object] | None) -> None:
        stored, metadata = self._recorded.stored, self._metadata
        if self.path.exists():
            stored, metadata, _ = _read(self.path, self.private)
        recorded = Recorded(stored)
        recorded.extend(content.given_away())
        recorded.extend(self._recorded.added)
        metadata = metadata.with_more(content.metadata).with_more(self._metadata)
        metadata = metadata.with_more(Metadata(runs=() if manifest is None else (self.private.manifest(manifest),)))
        write_whole(self.path, recorded.blocks(), metadata, tool_version())
        aside = [line + b"\n" for line in content.damaged] + [encode(record) for record in content.strange]
        if aside:
            with open(self._journal.path.with_name(self._journal.path.name + ".damaged"), "ab") as file:
                file.write(b"".join(aside))
        self._journal.remove_locked()
        self._metadata = metadata
        self._recorded = recorded
        self._whole = True

    def close(self) -> None:
        """Let go of the journal; what has been appended stays there."""
        self._journal.close()

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read(path: Path, private: Private) -> tuple[Source, Metadata, bool]:
    """Columns and metadata of a file, and whether its writer had redacted it; else that is done here."""
    stored, metadata, was_redacted = read_table(path)
    if was_redacted:
        return stored, metadata, True
    return redacted(Held([stored]).table(), private), metadata.redacted(private), False


def how_to_make(path: Path) -> str:
    """The hint where a file holds no results yet."""
    return f"`bisect-torch run FILE -o {shlex.quote(_shown(path))}` makes them"


def _shown(path: Path) -> str:
    """As it is typed in the working directory, where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _others(path: Path) -> str:
    """The results that are there in its place; empty where there are none."""
    meant = nearest_path(path, _is_kept)
    if meant is not None:
        return f"did you mean {_shown(meant)}? Else "
    there = [_shown(each) for each in sorted(path.parent.glob("*.parquet"))]
    return f"there is {', '.join(there[:4])}{', …' if len(there) > 4 else ''}; " if there else ""


def _is_kept(path: Path) -> bool:
    return path.suffix == ".parquet" and path.is_file()


def _mended(error: OSError) -> str:
    return "with room on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "once that is mended"


def _check_place(path: Path, journal: Path, must_exist: bool) -> None:
    """
    Raises:
        UsageError: Nothing can be kept there, or nothing is there that must be.
    """
    try:
        _look(path, journal, must_exist)
    except OSError as error:  # a folder above may not be entered, the name is too long
        raise UsageError(f"{path}: {error.strerror}", hint="name another file for the results") from None


_OTHERS = frozenset({".csv", ".html", ".json", ".md", ".pdf", ".png", ".svg", ".xml"})
"""Endings of what a report is written as, or is wished to be: Parquet under one of these opens in nothing."""


def _look(path: Path, journal: Path, must_exist: bool) -> None:
    hint = "name a results file" if must_exist else "name another file for the results"
    for each in (path, journal):
        if each.exists() and not each.is_file():
            what = "there are no results in it" if must_exist else "no results can be kept there"
            inside = sorted(each.glob("*.parquet")) if each.is_dir() else []
            hint = f"{hint}: {inside[0]} perhaps" if inside else hint
            raise UsageError(f"{each} is no file, so {what}", hint=hint)
    if not path.parent.is_dir():
        meant = nearest_path(path, _is_kept) if must_exist else None
        hint = "make it, or name another file" if meant is None else f"did you mean {_shown(meant)}?"
        raise UsageError(f"the folder {path.parent} does not exist", hint=hint)
    if must_exist:
        if not path.exists() and not journal.exists():
            raise UsageError(f"there are no results at {_shown(path)}", hint=f"{_others(path)}{how_to_make(path)}")
        return
    if path.suffix.lower() in _OTHERS and not path.exists():
        raise UsageError(
            f"{path}: results are kept as Parquet, under a name that does not say {path.suffix}",
            hint=f"-o {path.stem}.parquet; afterwards `bisect-torch report {path.stem}.parquet -o {path.stem}.html` "
            "makes a page of it, and other endings other formats",
        )
    for each in (path, journal):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            raise UsageError(f"{each} may not be read and written", hint=f"{hint}, or a copy of this one")
    if why := why_unwritable(path.parent):
        raise UsageError(f"nothing can be written in {path.parent}: {why}", hint=hint)
