"""The case files that ship: readable everywhere, quiet on a right torch, and true about the known bugs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.version import Version

from bisect_torch.cases import discover
from bisect_torch.model import Case, Instance
from bisect_torch.shipped import shipped

CASES = Path(str(shipped("cases")))
REPOSITORY = Path(__file__).parent.parent

KNOWN_BUGS: dict[str, dict[str, str]] = {
    "attention_to_nan[tokens=4]": {"2.4.1": "ok", "2.5.0": "wrong"},
    "attention_to_nan[tokens=32]": {"2.4.1": "ok", "2.5.0": "wrong", "2.6.0": "ok"},
    "rms_norm_default_eps": {"2.4.1": "ok", "2.7.0": "wrong"},
    "hardswish_slope_at_its_knees": {"2.4.1": "wrong", "2.8.0": "ok"},
    "softshrink_of_nan": {"2.4.1": "wrong", "2.6.0": "ok"},
    "ldexp_beyond_float32": {"2.4.1": "wrong", "2.5.0": "ok"},
    "atan2_slope_at_the_origin": {"2.4.1": "wrong", "2.10.0": "ok"},
    "fake_quantize_of_infinity": {"2.4.1": "wrong", "2.9.0": "ok"},
    "smallest_integer_by_minus_one[operation=floor_divide]": {"2.4.1": "crash:SIGFPE", "2.10.0": "ok"},
    "smallest_integer_by_minus_one[operation=remainder]": {"2.4.1": "crash:SIGFPE", "2.10.0": "ok"},
    "max_pool_with_stride_zero": {"2.4.1": "crash:SIGFPE", "2.7.1": "ok"},
    "channel_shuffle_in_zero_groups": {"2.4.1": "crash:SIGFPE", "2.8.0": "ok"},
    "ctc_loss_of_no_samples": {"2.4.1": "wrong", "2.8.0": "ok"},
    "view_past_the_end_of_storage": {"2.4.1": "crash:SIGSEGV", "2.7.0": "error:RuntimeError"},
    "chebyshev_of_nan": {"2.4.1": "ok", "2.9.0": "wrong", "2.13.0": "ok"},
    "where_of_uint16": {"2.4.1": "error:RuntimeError", "2.8.0": "error:NotImplementedError", "2.13.0": "ok"},
    "pad_sequence_on_the_left": {"2.4.1": "error:TypeError", "2.5.0": "ok"},
    "median_of_seventeen_million": {"2.4.1": "error:RuntimeError", "2.14.0": "ok"},
    "scan_gradient": {
        "2.4.1": "error:ModuleNotFoundError",
        "2.6.0": "error:RuntimeError",
        "2.8.0": "wrong",
        "2.13.0": "ok",
    },
    "compiled_uint8_arithmetic": {"2.4.1": "ok", "2.5.0": "wrong", "2.14.0": "ok"},
    "compiled_row_added_to_itself": {"2.4.1": "wrong", "2.7.0": "ok"},
}
"""Instance to what it gives from a release on; each edge was seen on the releases at both its sides."""

PROGRAM = """
import gc, json, os, signal, sys

import torch
from bisect_torch.numerics import check
from bisect_torch.worker import api

path, wanted, disturb = sys.argv[1], sys.argv[2], sys.argv[3] == "disturb"
definitions = api.load_case_file(path)

if disturb:
    import by_hand

    def disturbed(tensor, exact=by_hand.exact):
        copy = exact(tensor).clone()
        copy.view(-1)[-1] += 1
        return copy

    case_file = sys.modules[definitions[0].function.__module__]
    case_file.exact = disturbed


def outcome(definition, choice):
    try:
        facts = api.run_case(definition, choice, "cpu", 1)
    except api.Skip:
        return {"outcome": "skip"}
    except AssertionError:
        return {"outcome": "wrong"}
    except Exception as problem:
        return {"outcome": "error:" + type(problem).__name__}
    bad = facts.get("mismatch") or facts.get("wrong_elements") or facts.get("returned_false")
    return {"outcome": "wrong" if bad else "ok", "input_digest": facts.get("input_digest")}


gc.collect()
gc.freeze()
for definition in definitions:
    if ("compile" in definition.options.needs) != (wanted == "compile"):
        continue
    for choice in api.expand(definition.parameters):
        inside = ",".join("%s=%s" % item for item in choice.items())
        name = definition.name + ("[%s]" % inside if inside else "")
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(120)
            os.dup2(2, 1)
            os.write(writing, json.dumps(outcome(definition, choice)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            result = pipe.read()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            found = {"outcome": "crash:" + signal.Signals(os.WTERMSIG(status)).name}
        else:
            found = json.loads(result)
        print(json.dumps(dict(found, instance=name, known=definition.options.issue is not None)), flush=True)
"""


def run_all(python: Path, wanted: str, tmp_path: Path, *, disturb: bool = False) -> dict[str, dict[str, object]]:
    """Every instance of the default cases in a fork of its own, in a process of the given interpreter."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.update(PYTHONPATH=str(REPOSITORY), TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "inductor")
    arguments = [str(CASES / "default.py"), wanted, "disturb" if disturb else "plain"]
    run = subprocess.run(
        [str(python), "-c", PROGRAM, *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["instance"]: row for row in rows}


def expected_of(known: Mapping[str, str], version: str) -> str:
    return [outcome for since, outcome in known.items() if Version(since) <= Version(version)][-1]


def default_cases() -> tuple[tuple[Case, ...], tuple[Instance, ...]]:
    (found,) = discover([CASES / "default.py"])
    assert found.instances is not None, "every parameter can be read without torch"
    return found.cases, found.instances


@pytest.mark.parametrize("path", sorted(CASES.glob("*.py")), ids=lambda path: path.name)
def test_a_shipped_case_file_is_python_3_8_and_imports_nothing_that_a_bare_environment_lacks(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    neighbours = {neighbour.stem for neighbour in CASES.glob("*.py")}
    allowed = {"torch", "bisect_torch"} | neighbours | set(sys.stdlib_module_names)
    assert {name.partition(".")[0] for name in imported} - allowed == set()


def test_the_default_file_has_everyday_cases_and_known_bugs_under_names_of_their_own() -> None:
    cases, instances = default_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert len({instance.name for instance in instances}) == len(instances)
    assert sum(case.issue is None for case in cases) >= 25
    assert sum(case.issue is not None for case in cases) >= 12
    assert sum("compile" in case.needs for case in cases) >= 3


def test_every_known_bug_links_to_its_issue_and_its_series_is_on_record() -> None:
    _, instances = default_cases()
    known = {instance.name: instance.case.issue for instance in instances if instance.case.issue}
    assert known.keys() == KNOWN_BUGS.keys()
    for name, issue in known.items():
        assert re.fullmatch(r"https://github\.com/pytorch/pytorch/issues/\d+", issue), name


def test_every_known_bug_changed_within_the_range() -> None:
    assert [name for name, series in KNOWN_BUGS.items() if len(series) < 2] == []


@pytest.mark.real_torch
@pytest.mark.parametrize("wanted", ["eager", pytest.param("compile", marks=pytest.mark.slow)])
def test_everyday_cases_are_ok_and_known_bugs_show_on_real_releases(
    wanted: str, real_torch: Mapping[str, Path], tmp_path: Path
) -> None:
    inputs: dict[str, set[object]] = {}
    for version, python in real_torch.items():
        rows = run_all(python, wanted, tmp_path)
        assert {name: row["outcome"] for name, row in rows.items() if not row["known"] and row["outcome"] != "ok"} == {}
        known = {name: row["outcome"] for name, row in rows.items() if row["known"]}
        assert known == {name: expected_of(KNOWN_BUGS[name], version) for name in known}
        for name, row in rows.items():
            if not row["known"]:
                inputs.setdefault(name, set()).add(row["input_digest"])
    assert inputs
    assert {name for name, digests in inputs.items() if len(digests) > 1 or None in digests} == set()


@pytest.mark.real_torch
def test_everyday_cases_notice_a_single_element_that_is_off(real_torch: Mapping[str, Path], tmp_path: Path) -> None:
    """The last element of every operand is changed for the reference only, as if an operator had misread it."""
    rows = run_all(list(real_torch.values())[-1], "eager", tmp_path, disturb=True)
    assert [name for name, row in rows.items() if not row["known"] and row["outcome"] != "wrong"] == []
