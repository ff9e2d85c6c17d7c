"""Groups of environments that fit the disk."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch.environments.disk import OWN_BYTES, SAFETY, DiskBudget

GB = 10**9


def budget(room: float, **parts: dict[str, int]) -> DiskBudget:
    return DiskBudget(int(room * GB), parts, "")


def release(torch: float, cuda: str) -> dict[str, int]:
    """A release whose CUDA packages take 3 GB and are shared by all of one CUDA version."""
    return {f"torch-{torch}": int(torch * GB), cuda: 3 * GB}


FOUR = {"a": release(1.5, "cu121"), "b": release(1.6, "cu124"), "c": release(1.7, "cu124"), "d": release(1.8, "cu126")}


def test_shared_wheels_count_once() -> None:
    alone, both = budget(16, **FOUR).bytes_of(["b"]), budget(16, **FOUR).bytes_of(["b", "c"])
    assert alone == int(SAFETY * (4.6 * GB + OWN_BYTES))
    assert both == int(SAFETY * (6.3 * GB + 2 * OWN_BYTES))


def test_releases_that_share_cuda_stay_together_though_two_others_would_fit_too() -> None:
    assert budget(10, **FOUR).groups("abcd") == (("a",), ("b", "c"), ("d",))


def test_all_in_one_group_where_all_fit() -> None:
    assert budget(100, **FOUR).groups("abcd") == (("a", "b", "c", "d"),)


def test_what_is_there_takes_no_room() -> None:
    assert budget(5, **{**FOUR, "b": {}, "c": {}}).groups("abcd") == (("a", "b", "c"), ("d",))


def test_a_build_that_does_not_fit_alone_does_not_stop_the_others() -> None:
    large = budget(6, a=FOUR["a"], b=release(9, "cu124"), c=FOUR["c"])
    assert large.groups("abc") == (("a",), ("b",), ("c",))
    assert large.too_large("abc") == ("b",)


@settings(deadline=None)
@given(st.data())
def test_no_partition_into_neighbours_writes_less(data: st.DataObject) -> None:
    names = "abcdef"[: data.draw(st.integers(1, 6))]
    wheels = st.dictionaries(st.sampled_from("wxyz"), st.integers(1, 5 * GB), max_size=3)
    shared = data.draw(st.fixed_dictionaries({letter: st.integers(1, 5 * GB) for letter in "wxyz"}))
    parts = {name: {key: shared[key] for key in data.draw(wheels)} for name in names}
    one = DiskBudget(data.draw(st.integers(1, 20 * GB)), parts, "")

    def allowed(groups: list[str]) -> bool:
        return all(len(group) == 1 or one.bytes_of(group) <= one.room_bytes for group in groups)

    every = []
    for cuts in itertools.product([False, True], repeat=len(names) - 1):
        groups = [names[0]]
        for cut, name in zip(cuts, names[1:], strict=True):
            groups = [*groups, name] if cut else [*groups[:-1], groups[-1] + name]
        every.append(groups)
    least = min(sum(map(one.bytes_of, groups)) for groups in every if allowed(groups))
    found = one.groups(names)
    assert [name for group in found for name in group] == list(names)
    assert sum(map(one.bytes_of, found)) == least
    assert allowed(["".join(group) for group in found])
