"""What is private on a machine, as a value, and the pure functions that take it out of texts.

The rules, in the order in which they are applied:

* Secrets (values of secret variables, passwords) become ``<redacted>`` wherever they stand, also quoted as in an
  address, escaped as in ``repr`` and JSON. Where an output was shortened, so do pieces of at least six characters, and
  pieces of folders their names.
* What is a secret by its shape, whoever's it is: see :mod:`bisect_torch.redaction.shapes`.
* Folders become their names (``<cwd>``, ``<home>``, …), the longest first. One with a single part, such as ``/app``, is
  looked for only where a path begins. Anybody's ``/home/NAME`` and ``/Users/NAME`` is ``<home>`` too.
* Names of users and hosts become ``<user>`` and ``<host>``. One of at least ``LONG_NAME`` characters that is no
  ordinary word is replaced wherever it stands as a whole word. A short or ordinary one (``a``, ``root``, ``ubuntu``)
  is replaced only where nothing else can be meant: before an ``@``, after a ``~``, after ``-of-`` (pytest's folders),
  and, with at least three characters and no ordinary word, as a part of a path.

Replacing twice changes nothing, and a text without anything private is given back as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bisect_torch.model import Observation
from bisect_torch.redaction.patterns import (
    ACCOUNT_HOME,
    CWD,
    ENVIRONMENT,
    HOME,
    HOST,
    PLACEHOLDER,
    STORE,
    USER,
    any_of,
    folder_pattern,
    forms_of,
    name_pattern,
    put_name,
)
from bisect_torch.redaction.patterns import ANY_HOME as _ANY_HOME
from bisect_torch.redaction.shapes import HIDDEN, SECRET_OPTION, without_tokens

_LEFT_OUT = re.compile(r"\n\[\.\.\. \d+ (?:bytes|characters) left out \.\.\.\]\n")
_SHORTEST_PIECE = 6
_MAYBE_CUT = 500
"""Characters from which on an output or a message may have been shortened."""

_LONGEST_CACHED = 32 * 1024
_SHORT = 200
_CLEAN_CHARACTERS = 2**24
_CHARACTERS_BESIDE = 100
"""Bytes that an entry of a set of texts takes besides the text."""

JSON_FIELDS = ("parameters", "warnings", "measurements", "local_modules")
TEXT_FIELDS = (
    "build_name", "case_file", "case", "instance", "issue", "reason", "error_type", "message", "root_type",
    "root_message", "frame", "missing_module", "absent_name", "failed_capability", "traceback", "stack", "check_path",
    "mismatch", "actual_value", "expected_value", "explained_by", "stdout_tail", "stderr_tail", "device_name", "driver",
)  # fmt: skip
"""Columns of results that may hold what a case, a user or a machine wrote. So may :data:`JSON_FIELDS`."""


class _Clean:
    """Texts in which nothing was found to be replaced: most of an observation stands in many others too."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.texts: set[str | None] = {None, "", "{}", "[]"}
        self._room = _CLEAN_CHARACTERS

    def add(self, text: str) -> None:
        self._room -= len(text) + _CHARACTERS_BESIDE
        if self._room < 0:
            self._forget()
        if len(text) < _LONGEST_CACHED:
            self.texts.add(text)


@dataclasses.dataclass(frozen=True)
class Private:
    """What must not leave a machine. Gathered once, at the edge: :func:`bisect_torch.redaction.this_machine`.

    Args:
        users: Names of the user: login, full name.
        hosts: Names of the machine.
        folders: Absolute path and what stands for it.
        secrets: Texts such as the values of ``*_TOKEN`` variables.
    """

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    folders: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)

    def with_folders(self, more: Iterable[tuple[str, str]]) -> Private:
        """The same with further folders; those that are there keep their names."""
        known = {path for path, _ in self.folders}
        added = tuple((path, name) for path, name in more if path not in known)
        return dataclasses.replace(self, folders=(*self.folders, *added))

    @functools.cached_property
    def portable(self) -> Private:
        """With the folders alone that every machine has: what it replaces, :meth:`expand` finds again."""
        kept = tuple((path, name) for path, name in self.folders if name in (CWD, HOME, ACCOUNT_HOME))
        return dataclasses.replace(self, folders=kept)

    def manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """A run's manifest as it may be kept: its words say as much as they can of where things lie."""
        found: dict[str, Any] = self.value(self.portable.value(manifest))
        return found

    def kept_words(self, words: Sequence[str]) -> list[str]:
        """The words of a command line as :meth:`manifest` keeps them."""
        return self.words(self.portable.words(words))

    # --- texts

    def redact(self, text: str) -> str:
        """The text without anything private."""
        if len(text) <= _SHORT:
            return self._cached_short(text)
        return self._cached(text) if len(text) < _LONGEST_CACHED else self._redact(text)

    def hide_secrets(self, text: str) -> str:
        """The text without secrets, with the names and folders that the user of this machine knows anyway."""
        return without_tokens(self._secret.sub(functools.partial(put_name, HIDDEN), text) if self._secret else text)

    def words(self, words: Iterable[str]) -> list[str]:
        """The words of a command line; what follows ``--password`` and the like goes too."""
        found: list[str] = []
        before = ""
        for word in words:
            secret = SECRET_OPTION.fullmatch(before) and not word.startswith("-")
            found.append(HIDDEN if secret else self.redact(word))
            before = word
        return found

    def value(self, value: Any) -> Any:
        """A JSON value; keys count as well."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact(key): self.value(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            words = all(isinstance(each, str) for each in value)
            return self.words(value) if words else [self.value(each) for each in value]
        return value

    def json(self, text: str) -> str:
        """A JSON text, given back as it is where it holds nothing private."""
        return self._cached_json(text) if len(text) <= _SHORT else self._json(text)

    def _json(self, text: str) -> str:
        try:
            value = json.loads(text)
        except ValueError:
            return self.redact(text)
        after = self.value(value)
        return text if after == value else json.dumps(after)

    def instance(self, name: str) -> str:
        """The name of an instance. One that had to be changed gets a mark of its own, so that no two become one."""
        after = self.redact(name)
        return after if after == name else f"{after}~{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}"

    def expand(self, text: str) -> str:
        """A path or word of an earlier command line on this machine: ``<home>/x.py`` is ``/home/me/x.py`` again."""
        for name in dict.fromkeys(name for _, name in self.folders):
            if name in text:
                text = text.replace(name, next(path for path, other in self.folders if other == name))
        return text.replace(USER, self.users[0]) if self.users else text

    # --- values of the tool

    def observation(self, observation: Observation) -> Observation:
        """An observation as it may be kept."""
        changes = {}
        values = vars(observation)
        for names, clean in ((TEXT_FIELDS, self._clean.texts), (JSON_FIELDS, self._clean_json.texts)):
            for name in [name for name in names if values[name] not in clean]:
                after = self.field(name, values[name])
                if after != values[name]:
                    changes[name] = after
        return dataclasses.replace(observation, **changes) if changes else observation  # type: ignore[arg-type]

    def facts(self, facts: Mapping[str, object]) -> dict[str, object]:
        """What a worker saw of a cell, as it may leave this machine."""
        texts = {name: text for name in (*TEXT_FIELDS, *JSON_FIELDS) if isinstance(text := facts.get(name), str)}
        return {**facts, **{name: self.field(name, text) for name, text in texts.items()}}

    def are_clean(self, texts: Iterable[str | None], json_texts: Iterable[str | None]) -> bool:
        """Whether all of these were seen before in such fields, and nothing in them had to be replaced.

        Args:
            texts: Of :data:`TEXT_FIELDS`.
            json_texts: Of :data:`JSON_FIELDS`.
        """
        return self._clean.texts.issuperset(texts) and self._clean_json.texts.issuperset(json_texts)

    def texts(self, name: str, texts: Sequence[str]) -> Sequence[str]:
        """What stands in a field of many observations, as it may be kept.

        Args:
            name: One of :data:`TEXT_FIELDS` and :data:`JSON_FIELDS`.
        """
        clean = self._clean_json if name in JSON_FIELDS else self._clean
        return texts if clean.texts.issuperset(texts) else [self.field(name, text) for text in texts]

    def field(self, name: str, text: str) -> str:
        """What stands in one of :data:`TEXT_FIELDS` and :data:`JSON_FIELDS`, as it may be kept."""
        clean, redact = (self._clean_json, self.json) if name in JSON_FIELDS else (self._clean, self.redact)
        if text in clean.texts:
            return text
        after = self.instance(text) if name == "instance" else redact(text)
        if after == text:
            clean.add(text)
        return after

    # --- how

    @functools.cached_property
    def _clean(self) -> _Clean:
        return _Clean()

    @functools.cached_property
    def _clean_json(self) -> _Clean:
        return _Clean()

    @functools.cached_property
    def _cached_short(self) -> Callable[[str], str]:
        """Names of instances and parameters come back with every build."""
        return functools.lru_cache(maxsize=2**16)(self._redact)

    @functools.cached_property
    def _cached_json(self) -> Callable[[str], str]:
        return functools.lru_cache(maxsize=2**15)(self._json)

    @functools.cached_property
    def _cached(self) -> Callable[[str], str]:
        return functools.lru_cache(maxsize=2048)(self._redact)

    def _redact(self, text: str) -> str:
        if not text:
            return text
        text = self.hide_secrets(text)
        if len(text) >= _MAYBE_CUT:
            text = self._without_pieces(text)
        if "/" in text or "%2F" in text:  # every folder begins with one of these, however it is written
            for pattern, name in self._paths:
                text = pattern.sub(name, text)
        if "/" in text or "\\" in text:
            text = _ANY_HOME.sub(HOME, text)
        for names, pattern, put in self._names:
            if any(name in text for name in names):
                text = pattern.sub(put, text)
        return text

    @functools.cached_property
    def _secret(self) -> re.Pattern[str] | None:
        forms = {form for secret in self.secrets for form in forms_of(secret)}
        if not forms:
            return None
        return re.compile(f"{PLACEHOLDER}|{any_of(forms)}")

    @functools.cached_property
    def _paths(self) -> list[tuple[re.Pattern[str], str]]:
        """Patterns of folders, the longest first: a folder that lies in another has the more telling name."""
        found: dict[str, str] = {}
        for path, name in self.folders:
            for form in forms_of(path.rstrip("/")):
                found.setdefault(form, name)
        patterns = []
        for path, name in sorted(found.items(), key=lambda item: -len(item[0])):
            if name == STORE:
                # An interpreter alone names a build, and two of them must not become one.
                interpreter = re.escape(path) + r"/envs/([^/\s]+)/bin/(python[\d.]*)"
                patterns.append((re.compile(rf"\A{interpreter}\Z"), rf"{STORE}/envs/\1/bin/\2"))
                # Else an environment is named for what it is: a traceback reads the same on every release.
                patterns.append((re.compile(re.escape(path) + r"/(?:envs|tmp)/[^/\s'\"`:,;<>()]+"), ENVIRONMENT))
            patterns.append((folder_pattern(path), name))
        return patterns

    @functools.cached_property
    def _names(self) -> list[tuple[Sequence[str], re.Pattern[str], Callable[[re.Match[str]], str]]]:
        return [
            (names, pattern, functools.partial(put_name, name))
            for names, name in ((self.users, USER), (self.hosts, HOST))
            if (pattern := name_pattern(names, host=name == HOST)) is not None
        ]

    def _without_pieces(self, text: str) -> str:
        """Take out what a cut has left of a secret or folder: at the end, and on both sides of what was left out."""
        places = [(match.start(), match.end()) for match in _LEFT_OUT.finditer(text)]
        for start, end in reversed(places):
            text = self._without_end(text[:start]) + text[start:end] + self._without_start(text[end:])
        return self._without_end(text)

    @functools.cached_property
    def _whole(self) -> list[tuple[str, str]]:
        """What may have been cut, and what stands for it."""
        return [*((secret, HIDDEN) for secret in self.secrets), *sorted(self.folders, key=lambda each: -len(each[0]))]

    def _without_end(self, text: str) -> str:
        for whole, name in self._whole:
            for length in range(len(whole) - 1, _SHORTEST_PIECE - 1, -1):
                if text.endswith(whole[:length]):
                    return text[:-length] + name
        return text

    def _without_start(self, text: str) -> str:
        for whole, name in self._whole:
            for length in range(len(whole) - 1, _SHORTEST_PIECE - 1, -1):
                if text.startswith(whole[-length:]):
                    return name + text[length:]
        return text
