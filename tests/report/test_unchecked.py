"""A row that is ok only because it ran to its end says so: else ``ok`` reads as more than it is."""

from __future__ import annotations

import dataclasses

import pytest

from bisect_torch.model import Series
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown import nothing_found
from bisect_torch.report.summary import note_words, summary
from bisect_torch.report.text import plain
from bisect_torch.report.unchecked import checks_nothing, unchecked, unchecked_words
from tests.report.histories import series
from tests.report.test_markdown import reported

SCRIPT = """\
import torch

def loss(x):
    return x.sum()

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(loss, x)

model = Net()
model.eval()
print(model(torch.ones(3)), torch.allclose(torch.ones(3), torch.ones(3)))
"""

CASES = """\
import torch
from bisect_torch import case, check

@case(n=[1, 2])
def runs(device, n):
    torch.ones(n, device=device).sum()

@case
def compares(device):
    check(torch.ones(3), torch.ones(3))

@case
def gives(device):
    return torch.ones(3)
"""


def found(source: str, *rows: Series, **more: object) -> Findings:
    return reported(*rows, sources={"00": source}, **more)


def script(*signatures: str, source: str = SCRIPT, **more: object) -> Findings:
    return found(source, series("repro", *signatures, file="repro.py"), **more)


def test_it_is_said_once_with_the_rows() -> None:
    text = " ".join(plain(summary(script("ok", "ok"), 100)).split())
    assert text.count("nothing was checked") == 1
    assert (
        "1 row only ran to its end: nothing was checked, only an exception, a crash or a hang would have shown (repro)."
    ) in text
    assert nothing_found(script("ok", "ok")) == [
        "1 instance ok on every version that was judged, 2.4.1 to 2.5.0; nothing was checked in it"
    ]


def test_of_a_case_file_only_the_cases_that_check_nothing() -> None:
    rows = [series(name, "ok", "ok") for name in ("runs[n=1]", "runs[n=2]", "compares", "gives")]
    told = found(CASES, *rows, facts={"digest": "aa"})

    assert [each.instance for each in unchecked(told)] == ["runs[n=1]", "runs[n=2]"]
    assert any(note.startswith("2 rows only ran to their end: nothing was checked") for note in note_words(told, []))
    assert nothing_found(told) == [
        "4 instances ok on every version that was judged, 2.4.1 to 2.5.0; nothing was checked in 2 of them"
    ]


def test_a_value_that_cannot_be_recorded_is_none() -> None:
    """A module, or an object of a class of its own, is not compared between releases."""
    rows = [series(name, "ok", "ok") for name in ("compares", "gives")]

    assert [each.instance for each in unchecked(found(CASES, *rows))] == ["gives"]


@pytest.mark.parametrize("signatures", [("ok", "error:RuntimeError"), ("ok", "crash:SIGSEGV"), ("ok|wrong", "ok")])
def test_where_something_showed_it_is_not_said(signatures: tuple[str, str]) -> None:
    assert unchecked(script(*signatures)) == []


def test_where_nothing_is_known_it_is_not_said() -> None:
    run = {"run_id": "run", "arguments": ["run", "repro.py", "--bad-if-output=nan"]}
    assert len(unchecked(script("ok"))) == 1
    assert unchecked(script("ok", runs=(run,))) == []
    assert unchecked(script("ok", facts={"local_modules": '{"shapes.py": "11"}'})) == []
    data = '{"inputs.pt": "%s 2026-11-28T10:00:00Z"}' % ("1" * 64)
    assert len(unchecked(script("ok", facts={"local_modules": data}))) == 1, "data checks nothing"
    assert unchecked(dataclasses.replace(script("ok"), sources={})) == []
    assert unchecked(found(SCRIPT, series("train", "ok", file="."))) == []  # a command


CHECKS = {
    "an assertion": "assert x is not None",
    "a comparison of torch's": "torch.testing.assert_close(x, x)",
    "its own way to fail": "if x is None: raise ValueError",
    "an exit status": "import sys\nsys.exit(x.sum() != 3)",
    "an exit by name": "quit(1)",
    "a method of a test": "self.assertEqual(x, x)",
    "gradcheck": "torch.autograd.gradcheck(torch.sin, x)",
    "something that is caught": "try:\n    x.sum()\nexcept RuntimeError:\n    print('no')",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
    "another program": "import subprocess\nsubprocess.call(['x'])",
    "another package": "import scipy",
    "code in a text": "exec('x')",
    "a parameter of that name": "torch.load('x', check=True)",
}


@pytest.mark.parametrize("line", CHECKS.values(), ids=CHECKS.keys())
def test_what_may_be_a_check_counts_as_one(line: str) -> None:
    script = "import torch\nx = torch.ones(3)\n"
    assert checks_nothing(script, "repro")
    assert not checks_nothing(f"{script}{line}\n", "repro")


UNCALLED = {
    "a function": "def test_x(): assert torch.ones(1) == 2",
    "what only that calls": "def helper(): assert 0\ndef main(): helper()",
    "a class of tests": "import unittest\nclass T(unittest.TestCase):\n  'Doc.'\n  def test(self): self.fail()",
}


@pytest.mark.parametrize("lines", UNCALLED.values(), ids=UNCALLED.keys())
def test_what_nothing_calls_checks_nothing(lines: str) -> None:
    assert checks_nothing(f"import torch\n{lines}\n", "repro")


@pytest.mark.parametrize(
    "lines",
    [
        "def main(): assert 0\nmain()",
        "def helper(): assert 0\ndef main(): helper()\nif __name__ == '__main__': main()",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): assert 0\nunittest.main()",
        "from unittest import TestCase, main\nclass T(TestCase):\n    def test(self): assert 0\nmain()",
        "from torch.testing._internal.common_utils import run_tests, TestCase\nrun_tests()",
        "@register\ndef main(): assert 0",
        "class C(Base):\n    def f(self): assert 0",
        "class C:\n    assert torch.ones(1) == 2",
        "def f(x=g()): assert 0",
        "def main(): assert 0\n{'run': lambda: getattr(here, 'main')()}['run']()",
    ],
)
def test_what_something_may_call_may_check(lines: str) -> None:
    assert not checks_nothing(f"import torch\n{lines}\n", "repro")


def test_where_tests_are_called_by_nothing_it_is_said_how_they_run() -> None:
    (text,) = unchecked_words(found(f"import torch\n{UNCALLED['a class of tests']}", series("repro", "ok")))
    assert text.endswith(" Nothing calls the tests of cases.py: `bisect-torch run --pytest FILE` runs them.")
