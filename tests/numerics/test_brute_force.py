"""The facts of a check agree with the same computed element by element in Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_torch.numerics import tolerance
from tests.numerics.test_on_real_torch import ends
from tests.support.asking import Ask, asking

LARGEST = {
    "float64": 1.7976931348623157e308,
    "float32": (2 - 2.0**-24) * 2.0**127,
    "float16": (2 - 2.0**-11) * 2.0**15,
    "bfloat16": (2 - 2.0**-8) * 2.0**127,
}
"""From here on a number is infinite in the type; for float64, the largest number."""


@pytest.fixture(scope="module", params=["oldest", "newest"])
def ask(request: pytest.FixtureRequest, real_torch: Mapping[str, Path]) -> Iterator[Ask]:
    python = ends(real_torch)[request.param]
    with asking(python, Path(__file__).with_name("programs") / "answering.py") as answer:
        yield answer


numbers = st.one_of(
    st.floats(-10, 10),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 65519.0, 65520.0, 1e-45, 3.4e38, 5e-324, 1e-310]),
)
pairs = st.one_of(
    st.tuples(numbers, numbers),
    numbers.map(lambda value: (value, value)),
    st.tuples(st.floats(-4, 4), st.floats(-1e-3, 1e-3)).map(lambda pair: (pair[0] + pair[1], pair[0])),
)
tolerances = st.one_of(st.just(0.0), st.floats(0, 1), st.floats(1e-9, 1e-3))


@pytest.mark.real_torch
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    elements=st.lists(pairs, max_size=12),
    dtype=st.sampled_from(sorted(LARGEST)),
    bounds=st.one_of(st.none(), st.tuples(tolerances, tolerances)),
    k=st.integers(1, 10**6),
)
def test_facts_agree_with_brute_force(
    ask: Ask, elements: list[tuple[float, float]], dtype: str, bounds: tuple[float, float] | None, k: int
) -> None:
    options = {"rtol": bounds[0], "atol": bounds[1]} if bounds else {"k": k}
    reference = [r for _, r in elements]
    answer = ask({"actual": [a for a, _ in elements], "reference": reference, "dtype": dtype, "options": options})
    facts = answer["facts"]
    stored = [math.copysign(math.inf, r) if dtype != "float64" and abs(r) >= LARGEST[dtype] else r for r in reference]
    expected = brute_force(list(zip(answer["rounded"], stored, strict=True)), facts, bounds)
    assert {name: facts[name] for name in expected} == expected


def brute_force(
    elements: list[tuple[float, float]], facts: dict[str, Any], bounds: tuple[float, float] | None
) -> dict[str, Any]:
    norm = max((abs(r) for _, r in elements if math.isfinite(r)), default=0.0)
    bins: dict[int | None, list[Any]] = {}
    errors: list[float] = []
    wrong: list[int] = []
    nan = inf = 0
    for place, (a, r) in enumerate(elements):
        if math.isnan(a) or math.isnan(r):
            if math.isnan(a) != math.isnan(r):
                nan += 1
                wrong.append(place)
            continue
        if math.isinf(a) or math.isinf(r):
            if a != r:
                inf += 1
                wrong.append(place)
            continue
        error = min(abs(a - r), LARGEST["float64"])
        errors.append(error)
        row = bins.setdefault(math.frexp(r)[1] - 1 if r else None, [0, 0.0])
        row[0] += 1
        row[1] = max(row[1], error)
        if bounds is not None:
            too_far = error > bounds[1] + bounds[0] * abs(r)
        else:
            too_far = error > 0 if norm == 0 else error / norm > facts["tolerance"]
        if too_far:
            wrong.append(place)
    largest = max(errors, default=0.0)
    return {
        "criterion": "normwise" if bounds is None else "elementwise",
        "elements": len(elements),
        "nan_mismatches": nan,
        "inf_mismatches": inf,
        "reference_max_abs": norm,
        "max_abs_error": largest,
        "rel_error": min(largest / norm, LARGEST["float64"]) if norm else (math.inf if largest else 0.0),
        "wrong_elements": len(wrong),
        "error_bins": json.dumps([[e, *bins[e]] for e in sorted(bins, key=lambda e: -9999 if e is None else e)]),
        **({"first_wrong_index": json.dumps([wrong[0]])} if wrong else {}),
    }


@pytest.mark.real_torch
def test_more_sizes_than_rows_are_merged_from_below(ask: Ask) -> None:
    """64 rows at most, no element lost, and the lowest row bounds all that were merged into it."""
    reference = [0.0] + [2.0**e for e in range(-60, 60)]
    actual = [value * (1 + 2.0**-20) for value in reference]
    facts = ask({"actual": actual, "reference": reference, "dtype": "float64", "options": {}})["facts"]
    rows = json.loads(facts["error_bins"])
    assert len(rows) == 64
    assert sum(count for _, count, _ in rows) == 121
    assert rows[0] == [None, 1, 0.0]
    assert rows[1] == [-3, 58, 2.0**-23]
    assert rows[-1] == [59, 1, 2.0**39]


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        ("float64", "float32", True),
        ("float32", "bfloat16", True),
        ("bfloat16", "float16", False),
        ("float16", "bfloat16", False),
        ("float16", "float8_e5m2", True),
        ("int16", "uint8", True),
        ("uint16", "int8", False),
        ("int64", "uint64", False),
        ("int8", "bool", False),
        ("float64", "int8", False),
        ("complex64", "complex32", True),
        ("complex128", "float64", False),
        ("bits8", "bits8", True),
    ],
)
def test_a_wider_type_of_the_same_kind_holds_every_value(wide: str, narrow: str, holds: bool) -> None:
    assert tolerance.holds(wide, narrow) is holds


def test_the_bound_grows_with_the_root_of_the_length_and_is_tight_for_narrow_types() -> None:
    assert tolerance.normwise_bound("float32", 1, 1.0, 0.0) == 8 * 2.0**-24
    assert tolerance.normwise_bound("float32", 400, 1.0, 0.0) == 20 * 8 * 2.0**-24
    assert tolerance.normwise_bound("float64", 4, 1.0, 0.0) == 16 * 2.0**-53
    assert tolerance.normwise_bound("bfloat16", 4, 1.0, 0.0) == 4 * 2.0**-8 + 16 * 2.0**-24
    assert tolerance.normwise_bound("float8_e4m3fn", 1, 1.0, 0.0) == 2 * 2.0**-4 + 8 * 2.0**-24
    assert tolerance.normwise_bound("complex64", 1, 1.0, 0.0) == pytest.approx(8 * 2.0**-24 * math.sqrt(5))
