"""A script that never imports torch cannot tell builds apart, and that is said."""

from __future__ import annotations

import dataclasses

import pytest

from bisect_torch.report.findings import Findings
from bisect_torch.report.remarks import remarks
from bisect_torch.report.without_torch import never_imports_torch, without_torch_words
from tests.report.histories import series
from tests.report.test_markdown import reported


def script(*signatures: str, source: str = "print(1/0)\n") -> Findings:
    return reported(series("repro", *signatures, file="repro.py"), sources={"00": source})


@pytest.mark.parametrize(
    ("signatures", "told"),
    [
        (["error:ZeroDivisionError"] * 2, ["repro does not import torch: every build gives the same."]),
        (["ok", "error:ZeroDivisionError"], ["repro does not import torch: what differs is not torch's."]),
        (["ok|wrong", "ok"], ["repro does not import torch: what differs is not torch's."]),
        (["broken", "broken"], []),
    ],
)
def test_it_is_said_by_what_the_builds_gave(signatures: list[str], told: list[str]) -> None:
    found = script(*signatures)
    assert without_torch_words(found) == told
    assert [each for each in remarks(found) if "import torch" in each] == told


def test_several_are_told_together() -> None:
    rows = [series(name, "ok", "ok", file=f"{name}.py") for name in "abcde"]
    found = reported(*rows, sources={"00": "print(1/0)\n"})
    assert without_torch_words(found) == ["a, b, c and 2 more do not import torch: every build gives the same."]


@pytest.mark.parametrize(
    ("source", "never"),
    [
        ("import json, os.path\nfrom math import pi\nassert pi\n", True),
        ("import torch\n", False),
        ("def f():\n    from torch import nn\n", False),
        ("import numpy\n", False),
        ("from . import near\n", False),
        ("import helper\n", False),
        ("from bisect_torch import case\n", False),
        ("import importlib\nimportlib.import_module('to' + 'rch')\n", False),
        ("__import__('to' + 'rch')\n", False),
        ("exec(open('other.py').read())\n", False),
        ("import os\nos.system('python other.py')\n", False),
        ("if True\n", False),
    ],
)
def test_what_may_reach_torch_is_not_said_to_be_without(source: str, never: bool) -> None:
    assert never_imports_torch(source) is never


@pytest.mark.parametrize("facts", [{"local_modules": '{"helper.py": "' + "0" * 64 + '"}'}, {"case_file_hash": "11"}])
def test_a_script_with_neighbours_or_of_an_unknown_text_is_not_said_to_be_without(facts: dict[str, str]) -> None:
    found = script("ok", "ok")
    first, *rest = found.observations
    changed = dataclasses.replace(first, **facts)  # type: ignore[arg-type]
    assert without_torch_words(dataclasses.replace(found, observations=(changed, *rest))) == []


def test_of_a_command_nothing_is_known() -> None:
    found = reported(series("repro", "ok", "ok", file="."), sources={"00": "print(1/0)\n"})
    assert without_torch_words(found) == []
