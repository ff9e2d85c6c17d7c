"""What the README promises is true: its commands parse, its example runs, its tables are those of the code."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.version import Version

from bisect_torch.cases import discover
from bisect_torch.cli import parser as program
from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.environments import Store, clean_environment_variables, probe_interpreter, staged_package
from bisect_torch.numerics.check import compare
from bisect_torch.results import schema_table
from tests.analysis.made import observe
from tests.results.written import write

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


GUIDES = [ROOT / place / "README.md" for place in ("bisect_torch/cli", "bisect_torch/numerics", "cases")]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


COMMANDS = [
    line.partition("#")[0].partition(" < ")[0].partition(" > ")[0].strip()
    for text in (README, *(guide.read_text() for guide in GUIDES))
    for block in blocks("console", text)
    for line in block.splitlines()
    if line.startswith("bisect-torch ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one_that_the_program_takes(line: str) -> None:
    own, _ = program.before_dashes(shlex.split(line)[1:])
    parser, module = program.build_parser(program.chosen_by(own))

    args, unknown = parser.parse_known_args(own)

    assert unknown == []
    assert module is not None
    assert args.command_name == own[0]


def test_the_column_table_is_that_of_the_schema() -> None:
    block = README.partition("<!-- columns -->\n")[2].partition("<!-- /columns -->")[0]

    assert block.strip() == schema_table().strip()


def test_ci_runs_the_test_command_that_the_readme_gives() -> None:
    line = next(line for block in blocks("console") for line in block.splitlines() if "[test]" in line)

    assert "README.md" in (ROOT / ".ci" / "run").read_text(), "it reads the command from here"
    assert line == 'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/pytest -n auto'


def test_the_example_is_a_case_file(tmp_path: Path) -> None:
    example = tmp_path / "cases.py"
    example.write_text(next(block for block in blocks("python") if "@case" in block))

    (found,) = discover([example])

    assert found.instances is not None
    assert [instance.name for instance in found.instances] == [
        *(f"bmm[dtype={dtype},batch={batch}]" for dtype in ("float32", "bfloat16") for batch in (16, 65552)),
        "compiled",
    ]


def test_the_lines_for_pandas_tell_wrong_rows_whose_fault_is_a_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"wrong_elements": 32, "nan_mismatches": 32, "rel_error": 0.0}
    write(tmp_path / "results.parquet", [observe("wrong", "2.4.1", **fault)])
    monkeypatch.chdir(tmp_path)

    exec(next(block for block in blocks("python") if "import pandas" in block), {})

    words = capsys.readouterr().out.split()
    assert words[:3] == ["wrong_elements", "nan_mismatches", "rel_error"]
    assert [float(word) for word in words[-3:]] == [32, 32, 0]


CASES = (ROOT / "cases" / "README.md").read_text()


def test_the_table_of_checks_arguments_is_that_of_the_code() -> None:
    table = CASES.partition("| argument | what |")[2]
    told = re.findall(r"`(\w+)=?`", " ".join(re.findall(r"^\| (`\w+=?`(?:, `\w+=`)?) \|", table, re.MULTILINE)))

    assert sorted(told) == sorted(inspect.signature(compare).parameters)


@pytest.mark.real_torch
def test_the_example_with_a_fault_model_names_it(tmp_path: Path, real_torch: Mapping[str, Path]) -> None:
    example = tmp_path / "cases.py"
    example.write_text(next(block for block in blocks("python", CASES) if "explain=" in block))
    staged = staged_package(Store.open(tmp_path / "store"))

    for version, python in real_torch.items():
        environment = probe_interpreter(python)
        variables = clean_environment_variables(python)
        wrong = Version(environment.torch_version) >= Version("2.7")  # where the default became float32's
        with WorkerProcess.start(environment, staged, stage="eager", threads=None, env=variables) as worker:
            parameters = {"dtype": "bfloat16"}
            facts = worker.run(CellRequest(file=example, kind="case", case="rms_norm_eps", parameters=parameters))
            told = facts.get("explained_by")
            assert (version, told) == (version, "eps of float32" if wrong else None)


@pytest.mark.real_torch
def test_the_example_is_right_on_real_releases(tmp_path: Path, real_torch: Mapping[str, Path]) -> None:
    example = tmp_path / "cases.py"
    example.write_text(next(block for block in blocks("python") if "@case" in block))
    staged = staged_package(Store.open(tmp_path / "store"))

    for version, python in real_torch.items():
        environment = probe_interpreter(python)
        variables = clean_environment_variables(python)
        with WorkerProcess.start(environment, staged, stage="eager", threads=None, env=variables) as worker:
            for dtype in ("float32", "bfloat16"):
                parameters = {"dtype": dtype, "batch": 16}
                facts = worker.run(CellRequest(file=example, kind="case", case="bmm", parameters=parameters))
                assert (version, facts["outcome"], facts["wrong_elements"]) == (version, "returned", 0)
