"""Parts of a matrix: disjoint, together everything, of one size, whatever a machine already knows."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.cases import Discovered
from bisect_torch.engine.shard import Shard, ShardBy, starts
from bisect_torch.model import Build, BuildKind, Case, CaseFile, CaseKind, Instance

COUNTS = st.integers(1, 40)
FILES = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=8)
"""Instances of each file, and whether torch must expand it."""


def instances_of(name: str, number: int, kind: CaseKind = CaseKind.CASE) -> tuple[Instance, ...]:
    case = Case(CaseFile(Path(name), name, kind), "case")
    return tuple(Instance(case, (("n", place),)) for place in range(number))


def names(instances: tuple[Instance, ...]) -> set[str]:
    return {instance.name for instance in instances}


def builds_of(number: int) -> tuple[Build, ...]:
    return tuple(Build(BuildKind.RELEASE, f"2.{minor}.0", f"2.{minor}.0") for minor in range(number))


def discovered(name: str, number: int, *, expanded: bool) -> Discovered:
    file = CaseFile(Path(name), name, CaseKind.CASE)
    return Discovered(file, (), None if expanded else instances_of(name, number))


@given(FILES, COUNTS)
def test_parts_by_case_hold_every_instance_once_and_are_of_one_size(files: list[tuple[int, bool]], count: int) -> None:
    items = [discovered(f"{place}.py", number, expanded=expanded) for place, (number, expanded) in enumerate(files)]
    begin = starts(items, None)
    everything = [
        instance for place, (number, _) in enumerate(files) for instance in instances_of(f"{place}.py", number)
    ]

    parts = [
        [
            instance
            for place, (number, _) in enumerate(files)
            for instance in Shard(part, count).instances(
                instances_of(f"{place}.py", number), begin[Path(f"{place}.py")]
            )
        ]
        for part in range(1, count + 1)
    ]

    key = repr
    assert sorted((each for part in parts for each in part), key=key) == sorted(everything, key=key)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 + sum(expanded for _, expanded in files)


@given(st.integers(0, 300), COUNTS)
def test_parts_by_build_are_neighbours_in_order_and_of_one_size(number: int, count: int) -> None:
    builds = builds_of(number)
    parts = [Shard(part, count, ShardBy.BUILD).builds(builds) for part in range(1, count + 1)]

    assert tuple(build for part in parts for build in part) == builds
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 300), COUNTS)
def test_the_ends_of_the_matrix_lie_in_the_parts_that_say_so(number: int, count: int) -> None:
    builds = builds_of(number)
    for part in range(1, count + 1):
        shard = Shard(part, count, ShardBy.BUILD)
        own = shard.builds(builds)
        assert shard.holds_ends(number) == (builds[0] in own, builds[-1] in own)


@given(st.integers(0, 50), COUNTS)
def test_a_part_by_case_has_all_builds_and_a_part_by_build_all_instances(number: int, count: int) -> None:
    rows = instances_of("a.py", number)
    assert Shard(count, count).builds(builds_of(number)) == builds_of(number)
    assert Shard(count, count, ShardBy.BUILD).instances(rows, 3) == rows


@given(st.permutations(range(30)), COUNTS)
def test_a_test_of_a_suite_has_its_part_wherever_it_stands(order: list[int], count: int) -> None:
    """A machine that has asked other builds before knows of more tests, and in another order."""
    tests = instances_of("test_a.py", 30, CaseKind.PYTEST)
    mixed = tuple(tests[place] for place in order)
    here = [names(Shard(part, count).instances(tests, 0)) for part in range(1, count + 1)]
    there = [names(Shard(part, count).instances(mixed, 7)) for part in range(1, count + 1)]

    assert here == there
    assert sum(map(len, here)) == len(tests)


def test_an_expression_is_applied_before_instances_are_dealt_out() -> None:
    items = [discovered("first.py", 5, expanded=False), discovered("second.py", 4, expanded=False)]
    assert starts(items, None) == {Path("first.py"): 0, Path("second.py"): 5}
    assert starts(items, "second or n=1") == {Path("first.py"): 0, Path("second.py"): 1}
