"""What is shown of a case file is what the case needs, word for word, or the whole file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bisect_torch.report.excerpt import excerpt

FILE = '''\
"""Many cases."""

from __future__ import annotations

import math

import torch
from bisect_torch import case, check

SIDE = 3
UNUSED = 4
NAN = float("nan")
torch.manual_seed(0)
torch.backends.mkldnn.enabled = False
TABLE = torch.ones(SIDE)


# What every other helper needs.
def _double(x):
    return 2 * x


def helper(x):
    return _double(x) + SHIFT


def other_helper(x):
    return x


SHIFT = 1  # used by helper only


class Net(torch.nn.Module):
    pass


@case(n=[1, 2])
def wanted(n):
    # inside
    return check(helper(torch.ones(n)), reference=lambda: torch.ones(n))


@case
def unwanted():
    return other_helper(Net())
'''

EXPECTED = """\
from __future__ import annotations

import math

import torch
from bisect_torch import case, check

SIDE = 3
torch.manual_seed(0)
torch.backends.mkldnn.enabled = False
TABLE = torch.ones(SIDE)


# What every other helper needs.
def _double(x):
    return 2 * x


def helper(x):
    return _double(x) + SHIFT


SHIFT = 1  # used by helper only


@case(n=[1, 2])
def wanted(n):
    # inside
    return check(helper(torch.ones(n)), reference=lambda: torch.ones(n))
"""


def test_a_case_with_all_that_it_needs_and_all_that_runs_for_its_effect() -> None:
    found = excerpt(FILE, "wanted")

    assert found.text == EXPECTED
    assert not found.whole


def test_the_other_case_gets_its_own_helpers() -> None:
    text = excerpt(FILE, "unwanted").text

    kept = [node.name for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert kept == ["other_helper", "Net", "unwanted"]


TWO = "from bisect_torch import case\n@case\ndef a(): ...\n@case\ndef b(): ...\n"

WHOLE = {
    "one case": TWO.rpartition("@case")[0],
    "a script": "import torch\nassert torch.ones(1)\n",
    "names looked up as text": TWO + "def c():\n    return globals()['b']\n",
    "names looked up in a module": "import sys\n" + TWO + "sys.modules[__name__]\n",
    "two statements on a line": TWO + "x = 1; y = 2\n",
    "no Python": TWO + "def (:\n",
    "a null byte": TWO + "\0",
    "nested too deeply": TWO + "(" * 5000,
    "a case made in a loop": "from bisect_torch import case\nfor n in 'ab':\n    case(exec)\n" + TWO.partition("\n")[2],
}


@pytest.mark.parametrize("source", WHOLE.values(), ids=WHOLE.keys())
def test_where_it_cannot_be_told_truly_the_whole_file_is_shown(source: str) -> None:
    assert excerpt(source, "a") == excerpt(source, "a")
    assert (excerpt(source, "a").text, excerpt(source, "a").whole) == (source, True)


def test_a_case_that_is_not_there_by_name_shows_the_whole_file() -> None:
    assert excerpt(TWO, "made_elsewhere").whole


def test_other_names_of_the_decorator() -> None:
    imports = "import bisect_torch\nfrom bisect_torch import case as it\n"
    source = imports + "@it\ndef a(): ...\n@bisect_torch.case(n=[1])\ndef b(n): ...\n"

    assert "def b" not in excerpt(source, "a").text
    assert "def a" not in excerpt(source, "b").text


def test_what_another_decorator_registers_stays() -> None:
    source = (
        TWO
        + "import torch\n@torch.library.custom_op('my::op', mutates_args=())\ndef op(x: torch.Tensor) -> None: ...\n"
    )

    assert "def op" in excerpt(source, "a").text


def test_a_helper_may_be_another_case() -> None:
    source = TWO + "@case\ndef c():\n    return a()\n"

    text = excerpt(source, "c").text
    assert "def a" in text
    assert "def b" not in text


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[2] / "cases").glob("*.py")), ids=lambda file: file.stem)
def test_in_the_shipped_files_no_name_is_lost(file: Path) -> None:
    source = file.read_text()
    tree = ast.parse(source)

    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            kept = excerpt(source, node.name).text
            assert unbound(ast.parse(kept)) == unbound(tree) & used(ast.parse(kept))


def used(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def unbound(tree: ast.Module) -> set[str]:
    """Names that nothing in the file gives a value, be it where it may."""
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        for alias in getattr(node, "names", [])
        if isinstance(alias, ast.alias)
    }
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return used(tree) - bound
