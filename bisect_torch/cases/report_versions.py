"""What the sentences of a bug report say of releases: right in 2.8.0, wrong in 2.9.1.

A suggestion rests on it, so a sentence that may mean something else says nothing: one with *if* or a question mark, one
that compares (*than*, *before*, *until*), one in which *not* may belong to something else, one about numpy 2.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_VERSION = re.compile(r"(?<![\w.])v?(?P<number>\d+\.\d+(?:\.\d+)?)(?:\+\w+)?(?!\.?\w|-\w)")
_TORCH = re.compile(r"(?i)\b(?:py)?torch(?:\s+(?:versions?|releases?))?\s*(?:is)?\s*[:=]{0,2}\s*$")
_NO_NAMES = """
    a also and as at both even first for from in is last latest now of official on only or release releases since
    stable still the to under up using version versions was were with not
"""
"""What may stand before a bare version that is torch's. Any other word there is another project's name."""

_UNIT = re.compile(r"\s*(?:[%×]|(?:x|times|percent|[KMGT]i?B|m?s|sec\w*|min\w*|hours?|days?|[GM]Hz)\b)")
_NO_PROSE = re.compile(r"https?://\S+|<!--(?:(?!<!--).)*?-->", re.S)
_FENCED = re.compile(
    r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|^(?: {4}|\t).*$|<pre>(?:(?!<pre>).)*?</pre>", re.M | re.S
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')]*\s+|\n\s*\n|\n(?=\s*(?:[-*+|#>]|\d+[.)])\s)")
_CLAUSE = re.compile(r"[,;]\s|\s[-–—]+\s|\b(?:but|while|whereas|however|although|though)\b|\band\b(?!\s*v?\d)", re.I)
_IN_PARENTHESES = re.compile(r"\(([^()]*)\)")

_GOOD = re.compile(
    r"\b(?:right(?!\s+(?:now|after|away|before|hand|side)|-)|correct(?:ly)?|fine(?!-|\s*tun)|ok(?:ay)?|good|works"
    r"|worked|as expected|succeed(?:s|ed)|(?:tests?|it|this|which|suite)\s+pass(?:es|ed)?)\b", re.I
)  # fmt: skip
_WORK = re.compile(r"(?:(?:\b(?:not|never|longer|cannot|to|still)|n['’]t)\s+)(?P<verb>work)\b", re.I)
"""The verb; else it may be a noun."""

_BAD = re.compile(
    r"\b(?:wrong(?:ly)?|incorrect(?:ly)?|fail(?:s|ed|ing|ures?)?|crash(?:es|ed|ing)?|hangs?|hung|segfaults?|raises?"
    r"|raised|throws?|threw|\w*errors?|broken?|breaks|bugs?|bad|nans?|regress(?:es|ed|ions?)|issues?|problems?"
    r"|reproduc(?:e|es|ed|ible)|happen(?:s|ed)?|occur(?:s|red)?|stop(?:s|ped) working)\b", re.I
)  # fmt: skip
_NEGATION = re.compile(r"\b(?:not|never|cannot|no longer|no|none|neither|nor|without)\b|n['’]t\b", re.I)
_NEGATED = re.compile(
    r"(?:\b(?:not|never|cannot|no longer)|n['’]t)\s+(?:(?!only\b)\w+\s+){0,2}?$"
    r"|\b(?:no|without)\s+(?:an?\s+|any\s+|such\s+)?$", re.I
)  # fmt: skip
_DOUBT = re.compile(
    r"\b(?:if|should|would|could|might|may|maybe|perhaps|think|guess|whether|unsure|probably|presumably|expect(?:ed)?"
    r"|unlike|compared?|than|before|prior|after|until|till|between|fix(?:e[sd])?|resolved?|solve[sd]?|helps?|instead"
    r"|except|downgrad\w+|regress\w+ from|gone|disappear\w*|vanish\w*|(?:goes|went) away)\b|\?", re.I
)  # fmt: skip
_SINCE = re.compile(r"\bafter (?:upgrading|updating|moving|switching|an? (?:upgrade|update)) to\b", re.I)
_ONE = r"(?:(?:py)?torch\s+)?v?(\d+\.\d+(?:\.\d+)?)(?:\+\w+)?"
_FROM_TO = re.compile(
    rf"(?:\b(?:after|since|when|upon)\s+)?\b(?:upgrad|updat|mov|switch|bump)\w*\s+(?:\w+\s+){{0,2}}?from\s+{_ONE}\s+to\s+{_ONE}(?!\.?\w)"
    rf"|\b(?:regress\w+|broken?)\s+between\s+{_ONE}\s+and\s+{_ONE}(?!\.?\w)", re.I
)  # fmt: skip
_HEAD = 80
"""Characters before a version that tell whose it is."""

_SHORT = 6
"""Words of a clause that only turns round what was said before it: ``but not in 2.8.0``."""


@dataclass(frozen=True)
class Told:
    """What a report says of releases.

    Args:
        good: The newest that it calls right, where all that it calls wrong are newer; else None.
        bad: The oldest that it calls wrong; None together with ``good``.
        named: All that it names, whatever it says of them, oldest first.
    """

    good: str | None
    bad: str | None
    named: tuple[str, ...]


def told(report: str, releases: Sequence[str]) -> Told:
    """What a report says of releases; its code says nothing.

    Args:
        releases: All that are known, oldest first. ``2.8`` is the first of its patches.
    """
    said: dict[bool, set[str]] = {True: set(), False: set()}
    named: set[str] = set()
    for text in _SENTENCE.split(_NO_PROSE.sub(" ", _FENCED.sub("\n\n", report))):
        for sentence in (*_IN_PARENTHESES.findall(text), _IN_PARENTHESES.sub(" ", text)):
            for good, version in _of_sentence(" ".join(sentence.split()), releases):
                named.add(version)
                if good is not None:
                    said[good].add(version)
    order = tuple(each for each in releases if each in named)
    right = [place for place, each in enumerate(order) if each in said[True]]
    wrong = [place for place, each in enumerate(order) if each in said[False]]
    if right and wrong and right[-1] < wrong[0]:
        return Told(order[right[-1]], order[wrong[0]], order)
    return Told(None, None, order)


def _of_sentence(sentence: str, releases: Sequence[str]) -> Iterator[tuple[bool | None, str]]:
    """Whether a release is right (None: that is not said), and the release."""
    rest = _SINCE.sub("in", _FROM_TO.sub(" ", sentence))
    clauses = [clause for clause in _CLAUSE.split(rest) if clause.strip()]
    alone = any(_foreign(clause, releases) for clause in clauses)
    before: bool | None = None
    unclear = False
    verdicts: list[bool | None] = []
    for clause in clauses:
        versions = _versions(clause, releases, alone=alone)
        verdict = _verdict(clause)
        if verdict is None and before is not None and _turns_round(clause):
            verdict = not before
        if verdict is not None or _says_something(clause):
            verdicts.append(verdict)
        yield from ((None if unclear else verdict, version) for version in versions)
        # What is denied here may stand further on: "not, as far as I see, right in 2.9.0".
        unclear = verdict is None and (bool(_NEGATION.search(clause)) or (unclear and not versions))
        before = verdict
    sure = bool(verdicts) and all(verdict is False for verdict in verdicts)
    for found in _FROM_TO.finditer(sentence):
        old, new = (_release(each, releases) for each in found.groups() if each)
        sure = sure or found[3] is not None  # "regressed between" says it itself
        yield from ((good if sure else None, each) for good, each in ((True, old), (False, new)) if each is not None)


def _says_something(clause: str) -> bool:
    return any(each.search(clause) for each in (_GOOD, _WORK, _BAD, _DOUBT))


def _verdict(clause: str) -> bool | None:
    """Whether a clause says that something is right; None where it says neither, or may say either."""
    if _DOUBT.search(clause.replace("as expected", "")):
        return None
    starts = [(True, found.start()) for found in _GOOD.finditer(clause)]
    starts += [(True, found.start("verb")) for found in _WORK.finditer(clause)]
    starts += [(False, found.start()) for found in _BAD.finditer(clause)]
    denied = [bool(_NEGATED.search(clause[:start])) for _, start in starts]
    meant = {good != no for (good, _), no in zip(starts, denied, strict=True)}
    denials = len(_NEGATION.findall(clause))
    return meant.pop() if len(meant) == 1 and denials == sum(denied) and denials < 2 else None


def _turns_round(clause: str) -> bool:
    words = [word for word in _VERSION.sub("", clause).split() if word]
    denied = len(_NEGATION.findall(clause)) == 1 and len(words) <= _SHORT
    return denied and not _says_something(clause)


def _versions(text: str, releases: Sequence[str], *, alone: bool) -> list[str]:
    """Releases of torch.

    Args:
        alone: Only those that stand behind the name of torch.
    """
    found = []
    for match in _VERSION.finditer(text):
        head, release = _head(match), _release(match["number"], releases)
        bare = not alone and not _is_foreign(head) and not _UNIT.match(text, match.end())
        if release is not None and (bare or _TORCH.search(head)):
            found.append(release)
    return found


def _foreign(text: str, releases: Sequence[str]) -> bool:
    """Whether it names a version of something else, and that could be taken for one of torch."""
    return any(
        _is_foreign(_head(match)) and not _TORCH.search(_head(match))
        for match in _VERSION.finditer(text)
        if match["number"].count(".") == 2 or _release(match["number"], releases) is not None
    )


def _head(version: re.Match[str]) -> str:
    """What stands before a version, as far as it matters."""
    return version.string[max(0, version.start() - _HEAD) : version.start()]


def _is_foreign(head: str) -> bool:
    """Whether a version behind these words is not torch's."""
    before = re.search(r"(\w[\w-]*)[\s:=]*(?:(?:versions?|releases?)\s*)?[:=<>~]*\s*$", head)
    if before is None:
        return False
    word = before[1].lower()
    known = word in _NO_NAMES.split() or _VERSION.fullmatch(word) or word.replace(".", "").isdigit()
    return not (known or _GOOD.fullmatch(word) or _BAD.fullmatch(word))


def _release(number: str, releases: Sequence[str]) -> str | None:
    if number in releases:
        return number
    return next((each for each in releases if number.count(".") == 1 and each.startswith(f"{number}.")), None)
