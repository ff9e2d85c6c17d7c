"""Real runs of the large-index and decoding suites are kept: judged again they say what ``findings.md`` says.

Paths of the machine and the texts of the locks were taken out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.analysis.decoding import axis_change, precision_change, release_changes
from bisect_torch.analysis.decoding_sweep import AXES, Sweep, sweep
from bisect_torch.analysis.judge import judge
from bisect_torch.model import Observation, Verdict
from bisect_torch.results import ResultsFile

DATA = Path(__file__).parent.parent / "data"
FINDINGS = (DATA / "findings.md").read_text()
NAMES = "2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0"
RELEASES = tuple(NAMES.split())


def kept(name: str) -> list[Observation]:
    return list(ResultsFile.open(DATA / name).observations())


def sizes(observation: Observation) -> list[int]:
    """Elements of the tensors that take part."""
    measured = observation.measured
    names = ("output_elements", "upstream_elements")
    return [*(measured.get(name, 0) for name in names), *measured.get("operand_elements", ())]


@pytest.mark.parametrize(("name", "right", "skipped"), [("bmm", 250, 108), ("neighbours", 91, 6)])
def test_what_ran_beyond_the_borders_is_right_and_the_rest_is_said_to_be_skipped(
    name: str, right: int, skipped: int
) -> None:
    verdicts = [judge(each).verdict for each in kept(f"large_index_{name}.parquet")]

    assert (verdicts.count(Verdict.OK), verdicts.count(Verdict.SKIP), len(verdicts)) == (
        right,
        skipped,
        right + skipped,
    )


def test_products_of_16_bits_have_the_same_bits_on_every_release_on_which_they_ran() -> None:
    ran = [each for each in kept("large_index_bmm.parquet") if judge(each).verdict is Verdict.OK]
    by_instance: dict[str, set[str | None]] = {}
    for each in ran:
        assert each.dtype in ("bfloat16", "float16")
        by_instance.setdefault(each.instance, set()).add(each.digest)

    assert {each.build for each in ran} == set(RELEASES)
    assert sum(max(sizes(each)) > 2**32 for each in ran) == 88
    assert all(len(digests) == 1 for digests in by_instance.values())
    assert len(by_instance) == 90


@pytest.fixture(scope="module")
def decoded() -> Sweep:
    return sweep(kept("decoding.parquet"), RELEASES)


def test_two_upgrades_of_torch_change_greedy_output_in_16_bits_and_none_in_32(decoded: Sweep) -> None:
    assert len(decoded.cells) == 600
    for dtype in ("bfloat16", "float16"):
        changes = release_changes(decoded, dtype, RELEASES)
        assert [(each.after, each.build) for each in changes.upgrades] == [("2.5.1", "2.6.0"), ("2.6.0", "2.7.0")]
        assert [len(each.differences) for each in changes.upgrades] == [10, 10]
        assert (changes.change.compared, changes.change.open) == (140, 0)
    for dtype in ("float32", "layercast"):
        changes = release_changes(decoded, dtype, RELEASES)
        assert (changes.change.compared, changes.change.changed, changes.change.open) == (140, 0, 0)


def test_batch_padding_and_processes_change_16_bit_output_and_layercast_stops_it(decoded: Sweep) -> None:
    changed = {dtype: {axis: axis_change(decoded, dtype, axis).changed for axis in AXES} for dtype in decoded.dtypes}

    assert changed["bfloat16"] == {"batch": 9, "threads": 0, "padding": 56, "processes": 30}
    assert changed["float16"] == {"batch": 9, "threads": 0, "padding": 60, "processes": 30}
    assert changed["float32"] == changed["layercast"] == dict.fromkeys(AXES, 0)
    beside = precision_change(decoded, "layercast", "float32")
    assert (beside.compared, beside.changed, beside.open) == (150, 0, 0)


def test_the_page_of_findings_has_the_table_of_the_kept_file(decoded: Sweep) -> None:
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.report.decoding import decoding, decoding_lines

    found = decoding(judged_again(ResultsFile.open(DATA / "decoding.parquet"), None))
    assert found is not None
    lines = ["".join(text for text, _ in line).rstrip() for line in decoding_lines(found, 100)]
    table = "\n".join(lines).partition("\nbfloat16: upgrading")[0].rstrip()

    assert table in FINDINGS
