"""The plain script that a report shows instead of a case, and when it shows none."""

from __future__ import annotations

import pytest

from bisect_torch.report.standalone import Call, standalone

CASE = """\
import random

import torch
from bisect_torch import case, check

SIDE = 3


# Two sides.
@case(side=[2, 3], kind=["plain", "it's"])
def product(device, side, kind):
    a = torch.ones(side, SIDE, device=device)
    assert (a @ a.T == SIDE).all(), kind
"""


def made(source: str, call: Call | None = None) -> str | None:
    return standalone(source, call or Call("product", {"side": 2, "kind": "it's"}, "cpu", seed=7))


def test_it_is_the_case_without_its_decorator_then_the_seeds_and_the_call() -> None:
    assert made(CASE) == (
        "import random\n\nimport torch\n\nSIDE = 3\n\n\n"
        "# Two sides.\n"
        "def product(device, side, kind):\n"
        "    a = torch.ones(side, SIDE, device=device)\n"
        "    assert (a @ a.T == SIDE).all(), kind\n\n\n"
        "random.seed(7)\n"
        "torch.manual_seed(7)\n"
        'product(device="cpu", side=2, kind="it\'s")\n'
    )


def test_a_case_that_takes_no_device_is_called_without_and_what_it_returns_is_printed() -> None:
    source = "import torch\nimport bisect_torch\n@bisect_torch.case\ndef total():\n    return torch.ones(3).sum()\n"

    text = made(source, Call("total", {}, "cuda:0"))

    assert text == "import torch\ndef total():\n    return torch.ones(3).sum()\n\n\nprint(total())\n"


def test_what_is_seeded_is_imported_where_the_case_does_so_inside() -> None:
    source = (
        "import torch\nfrom bisect_torch import case\n@case\ndef drawn():\n    import numpy as np\n    np.ones(2)\n"
    )

    text = made(source, Call("drawn", {}, "cpu", seed=2**32 + 1))

    ending = f"import numpy\ntorch.manual_seed({2**32 + 1})\nnumpy.random.seed(1)\ndrawn()\n"
    assert text is not None
    assert text.endswith(ending)


@pytest.mark.parametrize(
    ("returned", "certain"),
    [
        ("torch.equal(x, x)", True),
        ("x is not None and not x", True),
        ("bool((x == 1).all())", True),
        ("(x == 1).all()", False),  # a tensor, which `is not False`
        ("x.sum() == 3", False),
        ("other(x)", False),
    ],
)
def test_false_becomes_an_assertion_only_where_it_can_be_nothing_but_pythons_own(returned: str, certain: bool) -> None:
    source = "import torch\nfrom bisect_torch import case\n@case\ndef right():\n    x = torch.ones(3)\n    return "

    text = made(f"{source}{returned}\n", Call("right", {}, "cpu", returned_false=True))

    assert (text is not None) == certain
    assert text is None or 'assert right() is not False, "it returned False"\n' in text


USES = {
    "check": "    check(a, a)\n",
    "another name of bisect_torch": "    from bisect_torch import record\n    record(a=1)\n",
    "its own name": "    assert __name__ != '__main__'\n",
    "its own file": "    open(__file__)\n",
    "words of the process": "    import sys\n    sys.argv\n",
    "names by text": "    globals()['torch']\n",
    "a package that is not everywhere": "    import scipy\n",
    "a neighbour": "    from . import shapes\n",
    "other processes": "    import torch.multiprocessing\n",
}


@pytest.mark.parametrize("more", USES.values(), ids=USES.keys())
def test_there_is_none_where_it_might_do_something_else(more: str) -> None:
    assert made(CASE + more) is None


REFUSED = {
    "another case beside it": CASE + "\n\n@case\ndef other(): ...\n",
    "a second decorator": CASE.replace("@case(", "@torch.no_grad()\n@case("),
    "torch by another name": CASE.replace("import torch\n", "import torch as t\n"),
    "one line with two imports": CASE.replace("import torch\nfrom", "import torch, bisect_torch\nfrom"),
    "lines that two statements share": CASE.replace("SIDE = 3", "SIDE = 3; import os"),
    "an import that is not always made": CASE.replace("from bisect_torch", "if SIDE:\n    from bisect_torch", 1),
    "no Python": "def (",
    "no such case": CASE.replace("def product", "def sum"),
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_there_is_none_of_such_a_file(source: str) -> None:
    assert made(source) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "<home>/a"])
def test_a_parameter_that_cannot_be_written_as_it_was(value: float | str) -> None:
    assert made(CASE, Call("product", {"side": value, "kind": "plain"}, "cpu")) is None
