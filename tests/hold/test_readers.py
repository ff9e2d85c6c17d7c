"""Whatever bytes a reader gets: a value, or one of the tool's own errors in one line. Nothing else, and no hang.

``python -m tests.hold.fuzz SECONDS`` looks further; what it found stands here, so that it stays mended.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hold.fuzz import feed_large, fuzz
from tests.hold.readers import Reader, damaged, readers
from tests.support.tally import Tally

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

EXAMPLES = 15


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Reader]]:
    with readers() as found:
        yield found


def test_every_reader_reads_its_examples(known: dict[str, Reader]) -> None:
    unread = [name for name, each in known.items() for data in each.examples if not each.try_one(data)]
    assert unread == ["index, the other form"]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.binary(max_size=60))
def test_damaged_examples_and_bytes_of_chance_are_read_or_refused(
    known: dict[str, Reader], tally: Tally, seed: int, chance: bytes
) -> None:
    dice = random.Random(seed)
    for reader in known.values():
        reader.try_one(chance)
        reader.try_one(damaged(dice.choice(reader.examples), dice))
    tally.add("readers: damaged by Hypothesis", tried=2 * len(known), survived=2 * len(known))


DEEP = b"[" * 100_000
FOUND: dict[str, tuple[str, bytes]] = {
    "a page with a broken declaration": ("index in HTML", b"<![]DOCTYPE html><html><head></head></html>"),
    "a size table without wheels": ("sizes of wheels", b'{"schema": 1, "wheels": null}'),
    "a size whose name is a list": ("sizes of wheels", b'{"schema": 1, "wheels": {"ab": [[], 1, 2]}}'),
    "a size table that is nested deeply": ("sizes of wheels", DEEP),
    "a catalogue with a version that is none": (
        "catalogue",
        b"[[release]]\nversion = \"2'.0\"\nday = 2024-09-04\ngit_commit = 'a'\npythons = []",
    ),
    "a catalogue with a Python that is none": (
        "catalogue",
        b"[[release]]\nversion = '2.0'\nday = 2024-09-04\ngit_commit = 'a'\npythons = ['x']",
    ),
    "settings that are nested deeply": ("uv's settings", b"find-links = " + DEEP),
    "a remembered wheel whose index is an object": (
        "nightly ledger",
        b'{"schema": 1, "wheels": [{"index": {}, "filename": "torch-2-py3-none-any.whl", "url": "u", "sha256": null, '
        b'"bytes": 1, "day": null, "git_commit": null, "first_seen": "x"}]}',
    ),
    "a remembered wheel whose name is none": (
        "nightly ledger",
        b'{"schema": 1, "wheels": [{"index": "n", "filename": "torch", "url": "u", "sha256": "a", '
        b'"bytes": 1, "day": null, "git_commit": null, "first_seen": "x"}]}',
    ),
    "a version that is too long for a file's name": ("version", b"/" + b"1." * 4000),
    "a home of nobody": ("version", b"~nobody-has-this-name/bin/python"),
    "a parameter that is nested deeply": (
        "case file",
        b"from bisect_torch import case\n@case(n=[" + b"-" * 3000 + b"1])\ndef a(n): pass",
    ),
    "a star before what has no items": (
        "case file",
        b"from bisect_torch import case\n@case(n=[*5])\ndef a(n): pass",
    ),
    "a key that is a list": ("case file", b"from bisect_torch import case\nN = {[]: 1}\n@case(n=[1])\ndef a(n): pass"),
    "a number of thousands of digits": (
        "case file",
        b"from bisect_torch import case\n@case(n=[1 << 9999])\ndef a(n): pass",
    ),
    "lists that double sixty times": (
        "case file",
        b"from bisect_torch import case\nA0 = [1] * 999\n"
        + b"".join(b"A%d = A%d + A%d\n" % (n + 1, n, n) for n in range(60))
        + b"@case(n=A60)\ndef a(n): pass",
    ),
    "an expression of ten thousand parentheses": ("expression of -k", b"(" * 10_000),
    "an expression of ten thousand negations": ("expression of -k", b"not " * 10_000 + b"x"),
    "more choices than anybody can run": (
        "case file",
        b"from bisect_torch import case\nR = range(100)\n@case(a=R, b=R, c=R, d=R, e=R)\ndef f(a, b, c, d, e): pass",
    ),
}


@pytest.mark.parametrize("python", ["x" * 5000, "a\0b"])
def test_a_stamp_whose_interpreter_has_an_impossible_name_is_a_change(known: dict[str, Reader], python: str) -> None:
    values = json.loads(known["stamp"].examples[0])
    values["environment"]["python"] = python
    known["stamp"].read(json.dumps(values).encode())


@pytest.mark.parametrize("name", FOUND)
def test_what_fell_once_is_refused(name: str, known: dict[str, Reader], tally: Tally) -> None:
    reader, data = FOUND[name]
    with tally("readers: faults found by fuzzing, kept"):
        known[reader].try_one(data)


@pytest.mark.slow
def test_a_minute_of_fuzzing_finds_nothing(tally: Tally) -> None:
    found = fuzz(60.0)
    tried = found.tried.total()
    tally.add("readers: fuzzed", tried=tried, survived=tried - len(found.faults))
    assert found.faults == {}


@pytest.mark.slow
def test_what_is_large_is_read_or_refused_without_growing_with_the_square(tally: Tally) -> None:
    found = feed_large()
    tried = found.tried.total()
    tally.add("readers: 200 kB each", tried=tried, survived=tried - len(found.faults))
    assert found.faults == {}
