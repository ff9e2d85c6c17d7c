from __future__ import annotations

import pytest

from bisect_torch.first_names import first_of


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [([], 2, ""), (["a"], 1, "a"), (["a", "b"], 2, "a, b"), (["a", "b", "c"], 2, "a, b and 1 more")],
)
def test_the_first_of_many_names(names: list[str], most: int, expected: str) -> None:
    assert first_of(names, most) == expected


def test_many_names_are_counted_and_may_be_set_apart_otherwise() -> None:
    assert first_of(range(2_000), 2, between="; ") == "0; 1 and 1,998 more"
