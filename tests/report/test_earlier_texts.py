"""What a results file holds of an earlier text or command is said where it is not shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bisect_torch.analysis import counted
from bisect_torch.cli.main import main
from bisect_torch.model import Observation
from bisect_torch.report.earlier_texts import earlier_texts, earlier_words
from bisect_torch.results import ResultsFile


def seen(
    case: str, text: str, day: int, *, file: str = ".", build: str = "2.6.0", modules: str = "", reads: str = ""
) -> Observation:
    """A cell of a command, or of a case in a file."""
    beside = {"train.py": modules * 64} if modules else {}
    return Observation(
        key=f"{case} {text} {modules}",
        run_id=text,
        build=build,
        build_name=build,
        build_kind="release",
        case_file=file,
        case_file_hash=text,
        case=case,
        instance=case,
        repeat=0,
        device="cpu",
        outcome="returned",
        started_at=f"2026-01-{day:02}T00:00:00+00:00",
        local_modules=json.dumps({**beside, **({"in.pt": f"{reads * 64} @1"} if reads else {})}),
    )


def manifest(text: str, *words: str) -> dict[str, object]:
    return {"run_id": text, "arguments": ["run", "-o", "c.parquet", "--", *words], "case_files": [text]}


RUNS = [
    manifest("a", "python", "train.py", "--lr", "0.1"),
    manifest("b", "python", "train.py", "--note", "a b"),
    manifest("c", "python", "train.py"),
]


def words(observations: Sequence[Observation]) -> list[str]:
    return earlier_words(earlier_texts(observations, counted(observations), RUNS))


def test_another_command_of_a_row_is_named() -> None:
    a, b, c = (seen("train", text, day) for day, text in enumerate("abc", 1))
    not_shown = "are in the results file and not shown; another file (-o) keeps both."
    assert words([a, b]) == [f"train: results of an earlier command (`python train.py --lr 0.1`) {not_shown}"]
    told = "(`python train.py --lr 0.1` and `python train.py --note 'a b'`)"
    assert words([a, b, c]) == [f"train: results of earlier commands {told} {not_shown}"]
    assert words([a, b, seen("train", "a", 3)]) == [
        f"train: results of an earlier command (`python train.py --note 'a b'`) {not_shown}"
    ], "the newest counts, whatever was there first"
    assert words([a, seen("train", "a", 2, build="2.7.0"), seen("eval", "c", 3)]) == []


def test_a_script_of_a_command_that_was_edited_is_named_and_no_file_that_it_only_read() -> None:
    told = ["Results of an earlier text of train.py are in the results file and not shown."]
    assert words([seen("train", "a", 1, modules="1"), seen("train", "a", 2, modules="2")]) == told
    assert words([seen("train", "a", 1, reads="1"), seen("train", "a", 2, reads="2")]) == []


def test_files_that_were_edited_are_told_together() -> None:
    files = [f"/x/{name}.py" for name in "abcde"]
    both = [seen("f", text, day, file=file) for file in files for day, text in enumerate("ab", 1)]
    assert words(both) == [
        "Results of an earlier text of a.py, b.py, c.py and 2 more are in the results file and not shown."
    ]
    left = seen("g", "a", 1, file="/x/a.py")
    assert words([left, seen("f", "a", 1, file="/x/a.py")]) == []
    assert len(words([left, *both[:2]])) == 1, "a row that was run with the old text alone is shown, the other is not"


@pytest.mark.parametrize(("chosen", "told"), [([], True), (["train"], True), (["eval"], False)])
def test_judge_and_report_say_it_of_the_rows_that_they_show(
    chosen: list[str], told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ResultsFile.open(tmp_path / "c.parquet") as file:
        for run in RUNS:
            file.begin(run)
        file.extend([seen("train", "a", 1), seen("train", "b", 2), seen("eval", "c", 3)])
        file.finish()

    assert main(["judge", str(file.path), *chosen]) == 0
    assert ("(`python train.py --lr 0.1`)" in capsys.readouterr().out) is told
    assert main(["report", str(file.path), "--format", "csv", *chosen]) == 0
    assert ("(`python train.py --lr 0.1`)" in capsys.readouterr().err) is told
