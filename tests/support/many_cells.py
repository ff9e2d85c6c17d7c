"""Findings of a large run that never took place, with observations as varied as real ones."""

from __future__ import annotations

import hashlib
import random

from bisect_torch import analysis
from bisect_torch.model import Build, BuildKind, Environment, Observation
from bisect_torch.report.findings import Findings
from tests.report.histories import RELEASES, build, environment

_TRACEBACK = """Traceback (most recent call last):
  File "cases.py", line {line}, in {case}
    return torch.bmm(a, b)
           ^^^^^^^^^^^^^^^
RuntimeError: expected batch of {number} at index {line}
"""
_LAYOUTS = ("contiguous", "transposed", "strided", "expanded")
_DTYPES = ("float32", "bfloat16", "float16", "float64")


def many_cells(cells: int, builds: tuple[str, ...] = RELEASES, *, seed: int = 0) -> Findings:
    """At least ``cells`` cells in 40 cases: most are ok; of the others some change once, some are flaky."""
    chance = random.Random(seed)
    rows = -(-cells // len(builds))
    observations = [each for row in range(rows) for each in _row(row, builds, chance)]
    series = tuple(analysis.build_series(observations, builds))
    return Findings(
        builds=tuple(_build(name) for name in builds),
        environments={name: _environment(name) for name in builds},
        series=series,
        transitions=tuple(found for each in series for found in analysis.transitions(each)),
        observations=tuple(observations),
    )


def _build(name: str) -> Build:
    return build(name) if name in RELEASES else Build(BuildKind.NIGHTLY, name, name)


def _environment(name: str) -> Environment:
    return environment(name, numpy="2.1.1", sympy="1.13.1", triton="3.0.0")


def _row(row: int, builds: tuple[str, ...], chance: random.Random) -> list[Observation]:
    case, dtype, layout = f"operator_{row % 40}", _DTYPES[row // 40 % 4], _LAYOUTS[row // 160 % 4]
    instance = f"{case}[dtype={dtype},layout={layout},batch={row}]"
    kind = chance.choices(("ok", "broke", "raises", "flaky"), (80, 8, 10, 2))[0]
    edge = chance.randrange(len(builds))
    made = []
    for place, name in enumerate(builds):
        bad = kind == "raises" or (kind == "broke" and place >= edge)
        facts: dict[str, object] = {"outcome": "returned", "checks": 1, "criterion": "normwise", "tolerance": 0.0156}
        facts |= {"rel_error": chance.random() * (10 if bad else 1e-3), "elements": 65536, "wrong_elements": 0}
        facts |= {"digest": _digest(row, place // 5), "reference_digest": _digest(row), "input_digest": _digest(-row)}
        if kind == "raises":
            facts = {"outcome": "raised", "error_type": "RuntimeError", "root_type": "RuntimeError"}
            facts |= {"traceback": _TRACEBACK.format(line=row % 97, case=case, number=row), "frame_origin": "case"}
            facts |= {"message": f"expected batch of {row} at index {row % 97}"}
        elif bad:
            facts |= {"wrong_elements": chance.randrange(1, 65536), "first_wrong_index": f"[{chance.randrange(65536)}]"}
            facts |= {"actual_value": f"{chance.random():.6f}", "expected_value": f"{chance.random():.6f}"}
        repeats = 2 if kind == "flaky" and place == edge else 1
        for repeat in range(repeats):
            if repeat:
                facts |= {"wrong_elements": 5}
            made.append(_observation(row, case, instance, dtype, layout, name, repeat, facts, chance))
    return made


def _observation(
    row: int, case: str, instance: str, dtype: str, layout: str, name: str, repeat: int, facts: dict[str, object],
    chance: random.Random,
) -> Observation:  # fmt: skip
    second = chance.randrange(3600)
    return Observation(
        key=_digest(row, name), run_id="run", build=name, build_name=name, build_kind="release",
        case_file="/cases/cases.py", case_file_hash="00" * 32, case=case, instance=instance, device="cpu",
        repeat=repeat, parameters=f'{{"dtype": "{dtype}", "layout": "{layout}", "batch": {row}}}',
        lock_hash="ab" * 32, python="3.11.7", backend="pypi", cuda="12.8", device_name="AMD EPYC", timeout_s=120.0,
        machine="Linux-x86_64-avx512", isolation="fork", worker=f"{_digest(name, chance.randrange(64))[:12]}.{repeat}",
        started_at=f"2026-11-30T03:{second // 60:02d}:{second % 60:02d}+00:00", elapsed_s=chance.random(),
        peak_rss_bytes=chance.randrange(10**9), seed=repeat, threads=2, protocol=1,
        **facts,  # type: ignore[arg-type]
    )  # fmt: skip


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
