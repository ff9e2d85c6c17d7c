"""Reading a file says what running it would say, without running it, and every mistake names file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch import cases
from bisect_torch.errors import UsageError
from bisect_torch.model import CaseKind, Limits
from bisect_torch.shipped import shipped

HEAD = "import torch\nfrom bisect_torch import case, check, skip\n\n"


def write(folder: Path, text: str, name: str = "some.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(folder: Path, text: str) -> list[str] | None:
    (found,) = cases.discover([write(folder, text)])
    return None if found.instances is None else [instance.name for instance in found.instances]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@case\ndef f(device): pass\n", ["f"]),
        ("@case()\ndef f(): pass\n", ["f"]),
        (
            "@case(n=[1, 2], d=['a', None])\ndef f(n, d): pass\n",
            ["f[n=1,d=a]", "f[n=1,d=None]", "f[n=2,d=a]", "f[n=2,d=None]"],
        ),
        ("@case(n=[2**32 + 16, -1, 1 << 3])\ndef f(n): pass\n", ["f[n=4294967312]", "f[n=-1]", "f[n=8]"]),
        ("@case(n=[7 // 2, 1 / 2, True, -0.0])\ndef f(n): pass\n", ["f[n=3]", "f[n=0.5]", "f[n=True]", "f[n=-0.0]"]),
        ("@case(n=range(2))\ndef f(n): pass\n", ["f[n=0]", "f[n=1]"]),
        ("@case(n=list(range(0, 4, 2)))\ndef f(n): pass\n", ["f[n=0]", "f[n=2]"]),
        ("N = 2\nALL = [N, N + 1]\n@case(n=ALL + [9])\ndef f(n): pass\n", ["f[n=2]", "f[n=3]", "f[n=9]"]),
        ("ALL: list = [1]\n@case(n=[*ALL, 2])\ndef f(n): pass\n", ["f[n=1]", "f[n=2]"]),
        ("@case(n=[1])\ndef f(n, *, device, other=3): pass\n", ["f[n=1]"]),
        ("@case(n=[1])\ndef f(**everything): pass\n", ["f[n=1]"]),
        ("if hasattr(torch, 'x'):\n    @case(n=[1])\n    def f(n): pass\n", ["f[n=1]"]),
        ("try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    @case\n    def f(): pass\n", ["f"]),
        ("@torch.no_grad()\n@case\ndef f(): pass\n@case\n@torch.no_grad()\ndef g(): pass\n", ["f", "g"]),
    ],
)  # fmt: skip
def test_literal_parameters_are_expanded_by_reading(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert names(tmp_path, HEAD + text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "@case(n=[torch.get_num_threads()])\ndef f(n): pass\n",
        "@case(n=[n for n in range(3)])\ndef f(n): pass\n",
        "N = 1\nN = 2\n@case(n=[N])\ndef f(n): pass\n",
        "ALL = [1]\nALL.append(2)\n@case(n=ALL)\ndef f(n): pass\n",
        "ALL = [1]\nSAME = ALL\nSAME.append(2)\n@case(n=ALL)\ndef f(n): pass\n",
        "ALL = [1]\nMORE = ALL + [2]\nALL.append(3)\n@case(n=ALL)\ndef f(n): pass\n",
        "for N in (1, 2): pass\n@case(n=[N])\ndef f(n): pass\n",
        "def change():\n    global N\n    N = 5\nN = 1\nchange()\n@case(n=[N])\ndef f(n): pass\n",
        "OPTIONS = dict(n=[1])\n@case(**OPTIONS)\ndef f(n): pass\n",
        "for _ in range(torch.get_num_threads()):\n    @case\n    def f(): pass\n",
        "def f(n): pass\nfor wanted in (1, 2):\n    case(n=[wanted])(f)\n",
        "@case(timeout=torch.get_num_threads())\ndef f(): pass\n",
        "@case(n=[9**9**9])\ndef f(n): pass\n",
        "@case(n=[1 / 0])\ndef f(n): pass\n",
    ],
)
def test_what_must_be_run_to_be_known_is_left_to_a_worker(tmp_path: Path, text: str) -> None:
    assert names(tmp_path, HEAD + text) is None


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from bisect_torch import case", "@case"),
        ("from bisect_torch import case as c", "@c(timeout=3)"),
        ("import bisect_torch", "@bisect_torch.case"),
        ("import bisect_torch as bt", "@bt.case(timeout=3)"),
        ("from bisect_torch.worker.api import case", "@case"),
        ("from bisect_torch import *", "@case"),
    ],
)
def test_every_way_to_import_case_is_known(tmp_path: Path, imports: str, decorator: str) -> None:
    (found,) = cases.discover([write(tmp_path, f"{imports}\n\n{decorator}\ndef f(): pass\n")])
    assert found.file.kind is CaseKind.CASE
    assert [case.name for case in found.cases] == ["f"]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nprint(1)\n",
        "from functools import partial as case\n@case(print)\ndef f(): pass\n",
        "from bisect_torch import check\ncheck(1, 1)\n",
        "import bisect_torch\nbisect_torch.check(1, 1)\n",
        "pass\n",
    ],
)
def test_a_file_without_our_case_is_one_script(tmp_path: Path, text: str) -> None:
    (found,) = cases.discover([write(tmp_path, text, "repro.py")])
    assert found.file.kind is CaseKind.SCRIPT
    assert found.instances is not None
    assert [instance.name for instance in found.instances] == ["repro"]


def limits_of(found: cases.Discovered) -> Limits:
    """Of its only instance, on whichever device."""
    assert found.instances is not None
    (instance,) = found.instances
    assert instance.limits_by_device == {}
    return instance.limits


def test_options_are_parsed(tmp_path: Path) -> None:
    text = '@case(memory={"cpu": "1.5 GiB", "cuda": 7}, timeout=9, device=["cpu", "cuda"],\n      needs=["compile", "torch>=2.6"], issue="https://example.org/1")\ndef f(): pass\n'  # noqa: E501
    (found,) = cases.discover([write(tmp_path, HEAD + text)], timeout_s=50)
    (case,) = found.cases
    assert limits_of(found) == Limits({"cpu": 3 * 2**29, "cuda": 7}, 9.0)
    assert (case.devices, case.needs) == (("cpu", "cuda"), ("compile", "torch>=2.6"))
    assert (case.issue, case.line) == ("https://example.org/1", 6)
    (found,) = cases.discover([write(tmp_path, HEAD + "@case(memory='500 MB')\ndef f(): pass\n")], timeout_s=50)
    assert limits_of(found) == Limits(dict.fromkeys(("cpu", "cuda", "mps", "xpu"), 500_000_000), 50)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("def f(:\n", 4, "invalid syntax"),
        ("x = 1\n", 2, "imports case but declares no case"),
        ("@case\ndef f(): pass\n@case\ndef f(): pass\n", 7, "'f' was declared before, in line 5"),
        ("@case(n=[])\ndef f(n): pass\n", 4, "'n' has an empty list"),
        ("@case(n=5)\ndef f(n): pass\n", 4, "'n' needs a list of values, not 5"),
        ("@case(n='abc')\ndef f(n): pass\n", 4, "'n' needs a list of values, not 'abc'"),
        ("@case(n=[[1, 2]])\ndef f(n): pass\n", 4, "'n' has the value [1, 2]"),
        ("@case(n=[1, 1])\ndef f(n): pass\n", 4, "two values that read '1'"),
        ("@case(n=[1, '1'])\ndef f(n): pass\n", 4, "two values that read '1'"),
        ("@case(n=[1e999])\ndef f(n): pass\n", 4, "pass it as a string"),
        ("@case(n=[1])\ndef f(m): pass\n", 4, "does not take the parameter 'n'"),
        ("@case\ndef f(n): pass\n", 4, "nothing gives the argument 'n' a value"),
        ("@case(n=[1])\ndef f(n, /): pass\n", 4, "by name"),
        ("@case([1])\ndef f(n): pass\n", 4, "keywords only"),
        ("@case(mem='1 GB')\ndef f(): pass\n", 4, "'mem' needs a list of values"),
        ("@case(memory='1 GBit')\ndef f(): pass\n", 4, "memory is a number of bytes"),
        ("@case(memory=-1)\ndef f(): pass\n", 4, "memory is a number of bytes"),
        ("@case(memory=True)\ndef f(): pass\n", 4, "memory is a number of bytes"),
        ("@case(memory={1: 2})\ndef f(): pass\n", 4, "memory is given for a device type"),
        ("@case(timeout=0)\ndef f(): pass\n", 4, "timeout is a positive number"),
        ("@case(timeout='3')\ndef f(): pass\n", 4, "timeout is a positive number"),
        ("@case(device='cuda:0')\ndef f(): pass\n", 4, "device is a device type"),
        ("@case(needs='compiler')\ndef f(): pass\n", 4, "needs knows compile"),
        ("@case(needs='torch=>2')\ndef f(): pass\n", 5, "needs 'torch=>2'"),
        ("@case(issue='#12')\ndef f(): pass\n", 4, "issue is an address"),
        ("@case\nasync def f(): pass\n", 4, "would never run; write a plain def"),
        ("@case\ndef f():\n    yield 1\n", 4, "would never run; write a plain def"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = write(tmp_path, HEAD + text)
    with pytest.raises(UsageError) as raised:
        cases.discover([path])
    assert raised.value.message.startswith(f"{path}:{line}: ")
    assert message in raised.value.message
    assert "\n" not in raised.value.message


def test_a_misspelt_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        cases.discover([write(tmp_path, HEAD + "@case(time_out=5)\ndef f(): pass\n")])
    assert raised.value.hint == "the option is called 'timeout'"


def test_a_file_in_another_encoding_is_refused_or_read_as_declared(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("x = 'ä'\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"latin.py:1: ") as raised:
        cases.discover([path])
    assert raised.value.hint is not None
    path.write_bytes("# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"))
    assert cases.discover([path])[0].file.kind is CaseKind.SCRIPT
    path.write_bytes(b"x = '\0'\n")
    with pytest.raises(UsageError, match=r"latin.py:1: "):
        cases.discover([path])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.compile(f)\n", True),
        ("import torch as t\nt.compile(f)\n", True),
        ("from torch import compile\n", True),
        ("import torch._dynamo\n", True),
        ("from torch._inductor import config\n", True),
        ("import torch\ntorch._higher_order_ops.scan\n", True),
        ("from torch.nn.attention.flex_attention import flex_attention\n", True),
        ("import torch\ntorch.export.export(m, ())\n", True),
        ("model.compile()\n", True),
        ("import re\nre.compile('x')\n", False),
        ("# torch.compile\n'torch._dynamo'\nx = 1\n", False),
        ("import torch\ntorch.jit.script(f)\n", False),
    ],
)
def test_use_of_compile_is_seen(tmp_path: Path, text: str, expected: bool) -> None:
    assert cases.discover([write(tmp_path, text)])[0].file.needs_compile is expected


DECLARED = "@case(needs='compile')\ndef f():\n    return torch.compile(g)(1)\n"


@pytest.mark.parametrize(
    ("more", "expected"),
    [("", False), ("@case\ndef h(): torch.compile(g)\n", True), ("def g(x): return torch.compile(x)\n", True)],
)
def test_cases_that_declare_compile_make_only_themselves_wait_for_it(tmp_path: Path, more: str, expected: bool) -> None:
    (found,) = cases.discover([write(tmp_path, HEAD + DECLARED + more)])
    assert found.file.needs_compile is expected
    assert found.cases[0].needs == ("compile",)


def test_the_shipped_cases_do_not_all_wait_for_the_compiler() -> None:
    (found,) = cases.discover([shipped("cases") / "default.py"])
    assert not found.file.needs_compile


def test_neighbours_are_followed_and_hashed(tmp_path: Path) -> None:
    write(
        tmp_path,
        "from near import thing\nimport pkg.sub\nimport json\nimport torch\ndef f():\n    import late\n",
        "main.py",
    )
    write(tmp_path, "import further\nimport main\n", "near.py")
    write(tmp_path, "import near\nimport torch\ntorch.compile(f)\n", "further.py")
    write(tmp_path, "from . import other\n", "pkg/__init__.py")
    write(tmp_path, "from .other import x\n", "pkg/sub.py")
    write(tmp_path, "x = 1\n", "pkg/other.py")
    write(tmp_path, "", "late.py")
    for unused in ("unused.py", "json.py", "torch.py"):
        write(tmp_path, "", unused)
    (before,) = cases.discover([tmp_path / "main.py"])
    packaged = ["pkg/__init__.py", "pkg/other.py", "pkg/sub.py"]
    assert sorted(before.file.local_modules) == ["further.py", "late.py", "near.py", *packaged]
    assert before.file.needs_compile
    assert cases.hidden_neighbours(tmp_path / "main.py") == (tmp_path / "json.py", tmp_path / "torch.py")
    write(tmp_path, "x = 2\n", "pkg/other.py")
    (after,) = cases.discover([tmp_path / "main.py"])
    changed = {name for name, digest in after.file.local_modules.items() if before.file.local_modules[name] != digest}
    assert changed == {"pkg/other.py"}
    assert after.file.sha256 == before.file.sha256


def test_a_faulty_neighbour_is_named(tmp_path: Path) -> None:
    write(tmp_path, "import near\n", "main.py")
    write(tmp_path, "x = 1\nx = (\n", "near.py")
    with pytest.raises(UsageError, match=r"near.py:2: "):
        cases.discover([tmp_path / "main.py"])
