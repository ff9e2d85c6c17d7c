"""The table about greedy decoding: what changes the output, at which token, and whether LayerCast stops it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from bisect_torch.model import BuildKind
from bisect_torch.report.data import as_data
from bisect_torch.report.decoding import decoding, decoding_lines, decoding_sentences
from bisect_torch.report.decoding_data import decoding_data
from bisect_torch.report.findings import Findings
from bisect_torch.report.summary import summary
from bisect_torch.report.text import plain, width_of
from tests.analysis.made_decoding import decoded
from tests.report.histories import build, findings

BUILDS = ("2.4.1", "2.5.0", "2.5.1", "2.6.0")
SAME = ["abcdefgh", "ijklmnop"]
CONFIGURATIONS = [
    *({"batch": batch, "threads": threads, "padding": padding} for batch in (1, 8) for threads in (1, 2)
      for padding in (0, 23)),
    {"batch": 8, "processes": 2},
]  # fmt: skip


def usual(name: str, dtype: str, batch: int = 1, padding: int = 0, processes: int = 1, **_: int) -> list[str]:
    """bfloat16 depends on the release from 2.5.1 on, on the batch and on padding; float16 on two processes."""
    first, second = SAME
    if dtype == "bfloat16" and batch == 8:
        second = "ijX" + second[3:]
    if dtype == "bfloat16" and padding:
        second = second[:6]
    if dtype == "bfloat16" and name in BUILDS[2:]:
        first = "abcdX" + first[5:]
    if dtype == "float16" and processes == 2:
        first = "aX" + first[2:]
    return [first, second]


def made(outputs=usual, lost=(), dtypes=("layercast", "float32", "float16", "bfloat16"), builds=BUILDS) -> Findings:
    """A whole sweep; ``lost`` has pairs of build and dtype."""
    observations = []
    for name in builds:
        for dtype in dtypes:
            for each in CONFIGURATIONS:
                word = "infra" if (name, dtype) in lost else "ok"
                observations.append(decoded(name, outputs(name, dtype, **each), dtype=dtype, word=word, **each))
    known = findings(observations=tuple(observations))
    return dataclasses.replace(known, builds=tuple(build(name) for name in builds))


def text(of: Findings, width: int = 80) -> str:
    found = decoding(of)
    assert found is not None
    return plain(decoding_lines(found, width))


def test_the_whole_text_at_80_columns():
    assert text(made()) == (
        "                      bfloat16      float16       float32       LayerCast\n"
        "does the greedy output change? (first token, its median; comparisons)\n"
        "upgrading torch       from 2.5.1    no            no            no\n"
        "                      at token 4    0 of 27       0 of 27       0 of 27\n"
        "                      9 of 27\n"
        "batch size            at token 2    no            no            no\n"
        "                      median 2      0 of 16       0 of 16       0 of 16\n"
        "                      16 of 16\n"
        "threads               no            no            no            no\n"
        "                      0 of 16       0 of 16       0 of 16       0 of 16\n"
        "left padding          at token 6    no            no            no\n"
        "                      median 6      0 of 16       0 of 16       0 of 16\n"
        "                      16 of 16\n"
        "tensor parallel       no            at token 1    no            no\n"
        "                      0 of 4        median 1      0 of 4        0 of 4\n"
        "                                    4 of 4\n"
        "\n"
        "over the 9 configurations of a build (arXiv 2506.09501); from the best of 4\n"
        "  builds to the worst\n"
        "Std@Acc               0 %           0 %           0 %           0 %\n"
        "Avg_Std@Output_Length 0.53          0             0             0\n"
        "Div_Index, earliest   2             1             never         never\n"
        "  questions diverging 1 of 2        1 of 2        0 of 2        0 of 2\n"
        "Avg_Std@top1_prob     0             0             0             0\n"
        "\n"
        "over 4 releases; from the best configuration to the worst\n"
        "Std@Acc               0 %           0 %           0 %           0 %\n"
        "Avg_Std@Output_Length 0             0             0             0\n"
        "Div_Index, earliest   4             never         never         never\n"
        "  questions diverging 1 of 2        0 of 2        0 of 2        0 of 2\n"
        "Avg_Std@top1_prob     0             0             0             0\n"
        "\n"
        "bfloat16: upgrading torch changes the greedy output, first in 2.5.1 (at token 4,\n"
        "  in 9 configurations): 9 of 27 steps from release to release, median 4.\n"
        "bfloat16: with the release fixed, batch size (from token 2 on, median 2, 16 of\n"
        "  16) and left padding (from token 6 on, median 6, 16 of 16) change the greedy\n"
        "  output; threads and tensor parallel change nothing.\n"
        "float16: upgrading torch changes no output (0 of 27 steps from release to\n"
        "  release, 2.4.1 to 2.6.0).\n"
        "float16: with the release fixed, tensor parallel (from token 1 on, median 1, 4\n"
        "  of 4) changes the greedy output; batch size, threads and left padding change\n"
        "  nothing.\n"
        "float32: upgrading torch changes no output (0 of 27 steps from release to\n"
        "  release, 2.4.1 to 2.6.0).\n"
        "float32: with the release fixed, batch size, threads, left padding and tensor\n"
        "  parallel change nothing.\n"
        "LayerCast: upgrading torch changes no output (0 of 27 steps from release to\n"
        "  release, 2.4.1 to 2.6.0).\n"
        "LayerCast: with the release fixed, batch size, threads, left padding and tensor\n"
        "  parallel change nothing.\n"
        "LayerCast stops it: none of its outputs changes by batch size, left padding,\n"
        "  tensor parallel or upgrading torch.\n"
        "LayerCast gives the same outputs as float32 in 36 of 36 cells.\n"
        "Tokens are counted from 0; of every output, the first that differs counts.\n"
        "\n"
    )


@pytest.mark.parametrize("width", [36, 60, 80, 120])
def test_the_table_fits_the_width(width):
    lines = text(made(lost={("2.5.0", "layercast")}), width).splitlines()
    assert max(width_of(line) for line in lines) <= width


def test_what_was_lost_is_said_and_never_taken_for_equal():
    found = text(made(lost={("2.5.0", "layercast")}))
    sentences = " ".join(found.split())
    assert "LayerCast stops it" not in sentences
    assert (
        "LayerCast: upgrading torch is not seen to change an output (0 of 9 steps from release to release, 2.4.1 to "
        "2.6.0; 18 steps could not be compared)."
    ) in sentences
    assert (
        "LayerCast: with the release fixed, not decided: batch size (4 open), threads (4 open), left padding (4 open) "
        "and tensor parallel (1 open)."
    ) in sentences
    assert (
        "LayerCast: no output is seen to change, but comparisons are open for batch size, left padding, tensor "
        "parallel and upgrading torch."
    ) in sentences
    assert (
        "9 of 144 cells have no output to compare, and what needs them is open: 9 in 2.5.0 (infra: worker lost)."
    ) in sentences
    rows = {line[:22].strip(): line[64:] for line in found.splitlines()}
    assert rows["batch size"] == "not seen"
    assert rows["Div_Index, earliest"] == "not seen"


def test_a_precision_that_was_lost_on_every_build_is_named():
    found = decoding(made(lost={(name, "layercast") for name in BUILDS}))
    assert found is not None
    assert [each.name for each in found.precisions] == ["bfloat16", "float16", "float32"]
    silent = [line for line in decoding_sentences(found) if "gave no output on any build" in line]
    name = "one_process[dtype=layercast,batch=1,threads=1,padding={}]"
    assert silent == [
        f"{name.format(0)}, {name.format(23)} and 7 more gave no output on any build, and are compared with nothing: "
        "infra: worker lost."
    ]
    assert "Whether LayerCast stops it was not seen: there is no output of it." in decoding_sentences(found)


def cure(outputs) -> str:
    found = decoding(made(outputs))
    assert found is not None
    (sentence,) = [
        each
        for each in decoding_sentences(found)
        if each.startswith("LayerCast") and "LayerCast:" not in each and "float32" not in each
    ]
    return sentence


def test_what_layercast_does_is_said_in_one_sentence():
    def nothing(name, dtype, **_):
        return SAME

    def everything(name, dtype, batch=1, **_):
        return SAME if batch == 1 else ["aX", "b"]

    assert cure(nothing) == "LayerCast has nothing to stop here: no 16-bit output changed."
    assert cure(everything) == (
        "LayerCast does not stop it all: batch size (from token 0 on, median 0.5, 16 of 16) still changes its output."
    )


def test_layercast_is_counted_beside_float32_cell_by_cell():
    def another(name, dtype, batch=1, **_):
        return ["aX", "b"] if dtype == "layercast" and batch == 8 else SAME

    found = decoding(made(another, lost={("2.6.0", "float32")}))
    assert found is not None
    (sentence,) = [each for each in decoding_sentences(found) if "same outputs as float32" in each]
    assert sentence == "LayerCast gives the same outputs as float32 in 12 of 27 cells; 9 could not be compared."


def test_a_change_across_builds_without_an_output_names_both_possibilities():
    of = made(lost={("2.5.0", "bfloat16"), ("2.5.1", "bfloat16")})
    sentence = " ".join(text(of).split())
    assert "first in 2.6.0 or an earlier release that gave no output (at token 4, in 9 configurations)" in sentence


def test_a_local_interpreter_is_no_step_of_an_upgrade():
    of = made()
    local = dataclasses.replace(of.builds[2], kind=BuildKind.LOCAL)
    found = decoding(dataclasses.replace(of, builds=(*of.builds[:2], of.builds[3], local)))
    assert found is not None
    assert found.releases == ("2.4.1", "2.5.0", "2.6.0")
    assert found.sweep.builds == ("2.4.1", "2.5.0", "2.6.0", "2.5.1")
    only = decoding(dataclasses.replace(of, builds=(local,)))
    assert only is not None
    assert only.releases == ("2.5.1",)
    assert "upgrading torch" not in " ".join(decoding_sentences(only)).replace("or upgrading torch", "")


def test_a_cell_that_differs_between_processes_has_a_row_and_a_sentence():
    of = made()
    again = decoded("2.4.1", ["Xbcdefgh", "ijklmnop"], dtype="float32", batch=1, repeat=1)
    found = text(dataclasses.replace(of, observations=(*of.observations, again)))
    assert "another process       not compared  not compared  at token 0    not compared" in found
    assert "float32: 1 of 1 cell that ran in several processes gave other outputs there, from token 0 on." in " ".join(
        found.split()
    )


def test_the_run_and_its_data_hold_the_table_and_other_runs_do_not():
    of = made()
    assert "LayerCast stops it" in plain(summary(of, 80))
    document = as_data(of)["decoding"]
    assert document == decoding_data(decoding(of))
    assert json.loads(json.dumps(document, allow_nan=False))["precisions"]["bfloat16"]["upgrade"] == {
        "compared": 27,
        "changed": 9,
        "open": 0,
        "token": 4,
        "median": 4,
        "example": {"tokens": [4], "build": "2.5.1", "configurations": [
            {"dtype": "bfloat16", "batch": 1, "threads": 1, "padding": 0, "processes": 1, "device": "cpu"}]},
        "upgrades": document["precisions"]["bfloat16"]["upgrade"]["upgrades"],
    }  # fmt: skip
    assert document["precisions"]["bfloat16"]["axes"]["batch"]["changed"] == 16
    assert document["missing"] == []
    other = dataclasses.replace(of, observations=())
    assert as_data(other)["decoding"] is None
    assert "greedy" not in plain(summary(other, 80))


def test_a_release_that_was_not_run_may_have_changed_it_first():
    known = dataclasses.replace(made(builds=("2.4.1", "2.6.0")), known_releases=BUILDS)
    found = decoding(known)
    assert found is not None
    sentences = decoding_sentences(found)
    sentence = next(each for each in sentences if "upgrading torch changes" in each)
    assert "first in 2.6.0 or an earlier release that was not run (at token 4" in sentence
    assert "9 of 9 steps from one release that was run to the next" in sentence
    assert "Not run between 2.4.1 and 2.6.0: 2.5.0 and 2.5.1." in sentences
    assert "by 2.6.0" in text(known)
    data = decoding_data(found)
    assert data is not None
    assert data["precisions"]["bfloat16"]["upgrade"]["upgrades"][0]["not_run_between"] == ["2.5.0", "2.5.1"]


def test_what_lies_beside_each_other_is_said_without_doubt():
    known = dataclasses.replace(made(), known_releases=BUILDS)
    found = decoding(known)
    assert found is not None
    assert "not run" not in " ".join(decoding_sentences(found))
    assert "from 2.5.1" in text(known)
