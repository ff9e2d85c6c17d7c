"""Lines of builds beside the matrix: a build and the same torch with other dependencies."""

from __future__ import annotations

from collections import Counter

from bisect_torch.analysis import wanted_repeats
from bisect_torch.model import Isolation
from tests.analysis.made import observe

BUILDS = ("2.1.0", "2.2.0", "2.3.0")
PAIRS = [(name, f"{name}+today") for name in BUILDS]


def wanted(words: dict[str, str], *, pairs: bool = True) -> Counter[tuple[str, Isolation]]:
    observations = [observe(word, build) for build, word in words.items()]
    found = wanted_repeats(observations, BUILDS, beside=PAIRS if pairs else ())
    return Counter((each.build, each.isolation) for each in found)


def test_where_the_dependencies_change_something_both_ends_run_three_times() -> None:
    words = dict.fromkeys([*BUILDS, *(twin for _, twin in PAIRS)], "ok")

    found = wanted({**words, "2.2.0+today": "wrong"})

    edges = {("2.1.0", Isolation.PROCESS): 1, ("2.3.0", Isolation.PROCESS): 1}
    ends = {(name, kind): 1 for name in PAIRS[1] for kind in (Isolation.FORK, Isolation.PROCESS)}
    assert found == {**edges, **ends}


def test_where_they_change_nothing_a_variant_costs_one_run() -> None:
    words = dict.fromkeys([*BUILDS, *(twin for _, twin in PAIRS)], "ok")

    assert wanted(words) == wanted(dict.fromkeys(BUILDS, "ok"), pairs=False)


def test_the_end_of_two_changes_is_wanted_once() -> None:
    words = {"2.1.0": "ok", "2.2.0": "wrong", "2.3.0": "wrong", "2.2.0+today": "ok"}

    found = wanted(words)

    assert {kind: found["2.2.0", kind] for kind in (Isolation.FORK, Isolation.PROCESS)} == {
        Isolation.FORK: 1,
        Isolation.PROCESS: 1,
    }
