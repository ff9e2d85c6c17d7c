"""A fuzzer of every reader, for as long as it is told: ``python -m tests.hold.fuzz SECONDS [READER ...]``.

It prints each fault once, with the bytes and the seed; exit status 1 when there was one.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

from tests.hold.readers import Reader, damaged, readers

SLOW_S = 2.0
"""Processor time for one input that counts as a hang."""

LARGE = 200_000
_ENDLESS = (b"[", b"{", b"(", b"<a ", b'"', b"\x89BTW", b" ", b"not ", b"1.", b"torch==1 ", b"--hash=", b"\\\n", b"\n")


@dataclass
class Found:
    """What fuzzing came to.

    Args:
        tried: Reader to number of inputs.
        faults: Reader and the place where it fell, to the first such input and what it raised.
    """

    tried: Counter[str] = field(default_factory=Counter)
    faults: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)

    def feed(self, name: str, reader: Reader, data: bytes, seed: object) -> None:
        """One input; what falls is kept."""
        self.tried[name] += 1
        begun = time.process_time()
        try:
            reader.try_one(data)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"
            self.faults.setdefault((name, place), (data, f"{error!r} (seed {seed})"))
        took = time.process_time() - begun
        if took > SLOW_S:
            self.faults.setdefault((name, "slow"), (data, f"{took:.1f} s for {len(data)} bytes (seed {seed})"))


def feed_large(names: tuple[str, ...] = ()) -> Found:
    """200 kB of repeated examples and of beginnings that never end: time that grows with the square shows."""
    found = Found()
    with readers() as known:
        for name, reader in known.items():
            if not names or name in names:
                for part in (*reader.examples, *(_ENDLESS if reader.endless else ())):
                    found.feed(name, reader, part * (LARGE // len(part)), "large")
    return found


def fuzz(seconds: float, names: tuple[str, ...] = (), *, seed: int | None = None) -> Found:
    """Feed damaged examples to the readers in turn."""
    seed = time.time_ns() % 10**9 if seed is None else seed
    dice = random.Random(seed)
    found = Found()
    end = time.monotonic() + seconds
    with readers() as known:
        chosen = {name: reader for name, reader in known.items() if not names or name in names}
        while time.monotonic() < end:
            for name, reader in chosen.items():
                data = dice.choice(reader.examples)
                for _ in range(dice.choice((1, 1, 3))):
                    data = damaged(data, dice)
                found.feed(name, reader, data, seed)
    return found


def main(words: list[str]) -> int:
    found = fuzz(float(words[0]), tuple(words[1:]))
    large = feed_large(tuple(words[1:]))
    found.tried.update(large.tried)
    found.faults.update(large.faults)
    for name, tried in found.tried.items():
        print(f"{tried:>8}  {name}")
    print(f"{found.tried.total():>8}  inputs, {len(found.faults)} faults")
    for (name, place), (data, said) in found.faults.items():
        print(f"\n{name}: {place}: {said[:300]}\n{data[:600]!r}")
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
