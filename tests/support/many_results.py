"""Observations of a run with very many cells, as varied as real ones, made one after another without holding them."""

from __future__ import annotations

import datetime
import hashlib
import random
from collections.abc import Iterator

from bisect_torch.model import Observation
from tests.report.histories import RELEASES

_TRACEBACK = """Traceback (most recent call last):
  File "operators_{file}.py", line {line}, in {case}
    return check(torch.bmm(a, b), reference=lambda: torch.bmm(a.double(), b.double()))
                 ^^^^^^^^^^^^^^^
RuntimeError: expected batch of {number} at index {line}
"""
_CASES = 200
_DTYPES = ("float32", "bfloat16", "float16", "float64")
_FIXED = {
    "run_id": "2026-11-30T03:00:00Z-4711", "build_kind": "release", "device": "cpu", "lock_hash": "ab" * 32,
    "python": "3.11.7", "backend": "pypi", "cuda": "12.8", "device_name": "AMD EPYC", "timeout_s": 120.0,
    "machine": "Linux-x86_64-avx512", "threads": 2, "protocol": 1, "output_bytes": 0,
}  # fmt: skip
_KINDS = ("ok", "broke", "fixed", "raises", "skip", "flaky")
_SHARES = (940, 15, 5, 25, 10, 5)
"""Of a thousand rows."""


def builds_for(cells: int) -> tuple[str, ...]:
    """15 releases for few cells, as many again of nightlies and more for many: 50 from a million on."""
    further = 35 if cells >= 1_000_000 else 15 if cells >= 100_000 else 0
    return (*RELEASES, *(f"2.15.0.dev2026{8 + day // 28:02d}{1 + day % 28:02d}" for day in range(further)))


def many_results(cells: int, *, seed: int = 0) -> Iterator[Observation]:
    """At least ``cells`` cells, build by build as a run makes them. The ends of every transition have three repeats."""
    builds = builds_for(cells)
    rows = -(-cells // len(builds))
    chance = random.Random(seed)
    kinds = chance.choices(_KINDS, _SHARES, k=rows)
    edges = [chance.randrange(1, len(builds)) for _ in range(rows)]
    for place, build in enumerate(builds):
        for row in range(rows):
            yield from _cell(row, kinds[row], edges[row], place, build, chance, len(builds) - 1)


def _cell(
    row: int, kind: str, edge: int, place: int, build: str, chance: random.Random, last: int
) -> Iterator[Observation]:
    case, dtype = f"operator_{row % _CASES}", _DTYPES[row // _CASES % 4]
    changes = kind in ("broke", "fixed", "flaky")
    begin = datetime.datetime(2026, 11, 30)
    for repeat in range(3 if changes and place in (edge - 1, edge) else 1):
        yield Observation(
            key=_digest(row, build) * 2,
            build=build,
            build_name=build,
            git_commit=_digest(build)[:40],
            case_file=f"cases/operators_{row % 20}.py",
            case_file_hash=_digest(row % 20) * 2,
            case=case,
            instance=f"{case}[dtype={dtype},batch={row}]",
            parameters=f'{{"dtype": "{dtype}", "batch": {row}}}',
            repeat=repeat,
            isolation="process" if repeat == 2 or place in (0, last) else "fork",
            worker=f"{_digest(build, chance.randrange(64))[:12]}.{repeat}",
            started_at=f"{begin + datetime.timedelta(seconds=chance.random() * 86_400):%Y-%m-%dT%H:%M:%S.%f}+00:00",
            elapsed_s=chance.random(),
            peak_rss_bytes=chance.randrange(10**9),
            seed=repeat,
            **_FIXED,  # type: ignore[arg-type]
            **_facts(row, kind, edge, place, repeat, chance),  # type: ignore[arg-type]
        )


def _facts(row: int, kind: str, edge: int, place: int, repeat: int, chance: random.Random) -> dict[str, object]:
    if kind == "skip":
        return {"outcome": "skipped", "reason": "needs 16 GiB"}
    if kind == "raises":
        return {
            "outcome": "raised", "error_type": "RuntimeError", "root_type": "RuntimeError", "frame_origin": "torch",
            "message": f"expected batch of {row} at index {row % 97}", "frame": "torch.functional:bmm", "phase": "run",
            "root_message": f"expected batch of {row} at index {row % 97}",
            "traceback": _TRACEBACK.format(file=row % 20, line=row % 97, case=f"operator_{row % _CASES}", number=row),
            "stderr_tail": f"[W{chance.randrange(10**9)}] Warning: falling back to the slow path\n",
        }  # fmt: skip
    bad = (kind == "broke" and place >= edge) or (kind == "fixed" and place < edge)
    bad = bad or (kind == "flaky" and place == edge and repeat == 1)
    facts: dict[str, object] = {
        "outcome": "returned", "checks": 1, "criterion": "normwise", "tolerance": 0.0156, "dtype": "float32",
        "reduction_length": 64, "elements": 65536, "wrong_elements": 0, "nan_mismatches": 0, "inf_mismatches": 0,
        "rel_error": (row % 1000) * (1e-2 if bad else 1e-8), "max_abs_error": (row % 1000) * 1e-7,
        "reference_max_abs": 10.0 + row % 7, "digest": _digest(row, place // 5 if row % 10 == 0 else 0),
        "reference_digest": _digest(row),
        "input_digest": _digest(-row),
        "error_bins": f"[[0, 65000, {(row % 1000) * 1e-9}], [1, 536, 1e-9]]",
    }  # fmt: skip
    if bad:
        facts |= {"wrong_elements": 1 + row % 65536, "first_wrong_index": f"[{row % 65536}]"}
        facts |= {"actual_value": f"{chance.random():.6f}", "expected_value": f"{chance.random():.6f}"}
    return facts


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
