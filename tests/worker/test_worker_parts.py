"""The parts of the worker that need no process: frames, bounded output, exceptions as facts."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.model import FACT_FIELDS
from bisect_torch.worker import outcome
from bisect_torch.worker.conclude import conclude
from bisect_torch.worker.ending import Ending
from bisect_torch.worker.output import HEAD_BYTES, TAIL_BYTES, BoundedOutput
from bisect_torch.worker.protocol import Decoder, ProtocolError, encode, new_nonce
from bisect_torch.worker.script import shadowing

WORKER = Path(__file__).resolve().parents[2] / "bisect_torch" / "worker"


@given(
    messages=st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), max_size=4),
    junk=st.lists(st.binary(max_size=60), min_size=5, max_size=5),
    cut=st.integers(1, 50),
)
def test_frames_are_found_between_whatever_else_is_written(
    messages: list[dict[str, object]], junk: list[bytes], cut: int
) -> None:
    nonce = bytes(range(16))
    forged = encode({"forged": True}, bytes(16))
    stream = junk[4]
    for number, message in enumerate(messages):
        stream += forged[: cut + 20] + junk[number] + encode(message, nonce)
    decoder = Decoder(nonce)
    found = [
        message for start in range(0, len(stream), cut) for _, message in decoder.feed(stream[start : start + cut])
    ]
    assert found == messages


def test_another_version_is_refused() -> None:
    nonce = new_nonce()
    frame = bytearray(encode({}, nonce))
    frame[4] += 1
    with pytest.raises(ProtocolError):
        list(Decoder(nonce).feed(bytes(frame)))


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_a_short_output_is_kept_whole(parts: list[bytes]) -> None:
    output = BoundedOutput()
    for part in parts:
        output.feed(memoryview(part))
    assert output.text() == b"".join(parts).decode("utf-8", "replace")
    assert output.total == sum(map(len, parts))


@pytest.mark.parametrize("size", [1, 1000, 70_000, 500_000])
def test_of_a_long_output_both_ends_are_kept(size: int) -> None:
    whole = b"".join(b"%07d\n" % number for number in range(100_000))
    output = BoundedOutput()
    for start in range(0, len(whole) if size > 1 else 3000, size):
        output.feed(memoryview(whole)[start : start + size])
    text = output.text().encode()
    if size > 1:
        assert text.startswith(whole[:HEAD_BYTES])
        assert text.endswith(whole[-TAIL_BYTES:])
        assert b"%d bytes left out" % (len(whole) - HEAD_BYTES - TAIL_BYTES) in text


@pytest.mark.parametrize(
    ("text", "found"), [("x" * 200_000 + "\nloss nan\ny", True), ("loss nan", True), ("n\nan", False)]
)
@pytest.mark.parametrize("size", [7, 4096, 10**6])
def test_a_pattern_is_found_wherever_the_stream_is_cut(text: str, found: bool, size: int) -> None:
    output = BoundedOutput("nan")
    data = text.encode()
    for start in range(0, len(data), size):
        output.feed(memoryview(data)[start : start + size])
    output.finish()
    assert output.matched is found


NEAR = '{"nearest_name":"torch.allocate"}'


def facts_of(source: str, tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "c.py"
    path.write_text(source)
    try:
        exec(compile(source, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    except BaseException as raised:  # noqa: BLE001
        return outcome.facts_of(raised, str(path))
    raise AssertionError("it does not raise")


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    torch = types.ModuleType("torch")
    dynamo = types.ModuleType("torch._dynamo")
    exec(
        "class Wrapped(Exception):\n"
        "    def __init__(self, inner): self.inner_exception = inner\n"
        "class Internal(Exception): ...\n"
        "def compile(f, how=None):\n"
        "    try: return f()\n"
        "    except Exception as e:\n"
        "        if how == 'inner': raise Wrapped(e) from None\n"
        "        raise Internal('in the compiler')\n",
        vars(dynamo),
    )
    exec(
        "def __getattr__(name): raise AttributeError(f\"module 'torch' has no attribute '{name}'\")\n"
        "def add(a, b): return a + b\n"
        "def check(x): assert x, 'torch asserts'\n"
        "class Tensor: ...\n"
        "class OutOfMemoryError(RuntimeError): ...\n"
        "def allocate(m): raise RuntimeError(m)\n",
        vars(torch),
    )
    vars(torch)["_dynamo"] = dynamo
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._dynamo", dynamo)
    return torch


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("assert 1 == 2", {"error_type": "AssertionError", "root_type": "AssertionError", "frame_origin": "case"}),
        ("import torch\ntorch.check(0)", {"error_type": "AssertionError", "frame_origin": "torch"}),
        ("import json\njson.loads('{')", {"error_type": "JSONDecodeError", "frame_origin": "stdlib"}),
        ("try: 1/0\nexcept Exception as e: raise ValueError('x') from e", {"root_type": "ZeroDivisionError"}),
        ("try: 1/0\nexcept Exception: raise ValueError('x')", {"error_type": "ValueError", "root_type": "ValueError"}),
        ("try: 1/0\nexcept Exception: raise ValueError('x') from None", {"root_type": "ValueError"}),
        (
            "import torch\ntorch._dynamo.compile(lambda: 1/0, 'inner')",
            {
                "error_type": "Wrapped",
                "root_type": "ZeroDivisionError",
                "frame": "c:<lambda>",
                "capabilities": ["compile"],
            },
        ),
        (
            "import torch\ntorch._dynamo.compile(lambda: 1/0)",
            {"error_type": "Internal", "root_type": "ZeroDivisionError"},
        ),
        (
            "import torch\ntorch._dynamo.compile(lambda: __import__('nosuch'), 'inner')",
            {
                "error_type": "Wrapped",
                "root_type": "ModuleNotFoundError",
                "missing_module": "nosuch",
                "absent_name": None,
            },
        ),
        (
            "raise RuntimeError('in a subprocess: ModuleNotFoundError: No module named \\'setuptools\\'')",
            {"missing_module": "setuptools"},
        ),
        ("import torch\ntorch.nothing", {"absent_name": "torch.nothing"}),
        ("import torch\ntorch.Tensor().nothing", {"absent_name": "torch.Tensor.nothing"}),
        ("import torch\ntorch.Tensor.nothing", {"absent_name": "torch.Tensor.nothing"}),
        ("import torch\ntorch.add(1, c=2)", {"error_type": "TypeError", "absent_name": "c="}),
        ("import torch\ntorch.alocate", {"absent_name": "torch.alocate", "measurements": NEAR}),
        ("import torch\nfrom torch import alocate", {"absent_name": "torch.alocate", "measurements": NEAR}),
        ("import torch\ntorch.float4", {"absent_name": "torch.float4", "measurements": None}),
        ("import importlib\nimportlib.import_module('torch.no')", {"absent_name": "torch.no"}),
        # Words of torch's that the user says.
        ("raise AttributeError(\"module 'torch' has no attribute 'x'\")", {"absent_name": None}),
        ("def f(**_):\n  raise TypeError(\"f() got an unexpected keyword argument 'x'\")\nf()", {"absent_name": None}),
        ("import json\njson.nothing", {"error_type": "AttributeError", "absent_name": None}),
        ("import json\njson.dumps(1, c=2, cls=lambda **_: 1/0)", {"root_type": "ZeroDivisionError"}),
        # A keyword that something else than torch refuses: known by its name where it was called.
        ("import shutil\nshutil.copyfile('a', 'b', c=2)", {"error_type": "TypeError", "absent_name": None}),
        ("def f(): ...\nf(c=2)", {"error_type": "TypeError", "absent_name": None}),
        ("class C:\n  def m(self): ...\nC().m(c=2)", {"error_type": "TypeError", "absent_name": None}),
        ("import torch\ndef add(): ...\ntorch.add(1, c=2)", {"absent_name": "c="}),
        # No network is the machine's fault; a refusal is somebody's answer.
        (
            "import socket\nraise OSError('no weights') from socket.gaierror(socket.EAI_AGAIN, 'no name server')",
            {"outcome": "lost", "reason": "no network: [Errno -3] no name server"},
        ),
        (
            "import socket, urllib.error\nraise urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, 'no name'))",
            {"outcome": "lost"},
        ),
        ("import errno\nraise OSError(errno.ENETUNREACH, 'no route')", {"outcome": "lost"}),
        ("import errno\nraise OSError(errno.ECONNREFUSED, 'no')", {"outcome": "raised"}),
        ("open('no such file')", {"outcome": "raised", "error_type": "FileNotFoundError"}),
        ("raise SystemExit(3)", {"outcome": "exited", "exit_code": 3}),
        ("raise SystemExit(-1)", {"outcome": "exited", "exit_code": 255}),
        ("raise SystemExit(125)", {"outcome": "skipped"}),
        ("raise SystemExit()", {"outcome": "returned"}),
        ("import torch\nraise torch.OutOfMemoryError('x')", {"outcome": "out_of_memory"}),
        (
            "import torch\ntorch.allocate('[enforce fail] DefaultCPUAllocator: can\\'t allocate memory: you tried')",
            {"outcome": "out_of_memory", "error_type": "RuntimeError"},
        ),
        (
            "class E(Exception):\n  def __str__(self): raise KeyError\nraise E",
            {"error_type": "E", "frame": "c:<module>"},
        ),
        ("raise ValueError('x' * 10**6)", {"error_type": "ValueError"}),
        ("def f(): f()\nf()", {"error_type": "RecursionError"}),
        ("import unittest\nunittest.TestCase().assertEqual(1, 2)", {"frame_origin": "unittest"}),
    ],
)
def test_an_exception_as_facts(
    fake_torch: types.ModuleType, tmp_path: Path, source: str, expected: dict[str, object]
) -> None:
    facts = facts_of(source + "\n", tmp_path)
    if "capabilities" in expected:
        facts["capabilities"] = json.loads(str(facts["capabilities"]))
    assert {name: facts.get(name) for name in expected} == expected, facts
    assert len(json.dumps(facts)) < 100_000


def ending_of(status: int, **known: object) -> Ending:
    ending = Ending()
    ending.started, ending.status, ending.phase = True, status, "run"
    for name, value in known.items():
        setattr(ending, name, value)
    return ending


REQUEST = {"kind": "case", "device": "cpu", "seed": None, "memory_bytes": 100, "bad_if_output": None, "timeout_s": 2.0,
           "load_timeout_s": 600.0}  # fmt: skip
IMPORTS_TORCH = '  File "/e/torch/__init__.py", line 4 in <module>\n  File "/c/x.py", line 3 in <module>'
RIGHT = {"facts": {"outcome": "returned", "elapsed_s": 1.0}, "exit_status": 0}


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (ending_of(signal.SIGKILL, kernel_killed=True), {"outcome": "out_of_memory", "signal": "SIGKILL"}),
        (ending_of(signal.SIGKILL), {"outcome": "lost"}),
        (ending_of(signal.SIGTERM, kernel_killed=True), {"outcome": "lost"}),
        (ending_of(signal.SIGSEGV, kernel_killed=True), {"outcome": "lost", "signal": "SIGSEGV"}),
        (
            ending_of(signal.SIGKILL, timed_out=True, stack="s"),
            {"outcome": "timed_out", "stack": "s", "phase": "run", "reason": None},
        ),
        (
            ending_of(signal.SIGKILL, timed_out=True, stack=IMPORTS_TORCH),
            {"outcome": "timed_out", "phase": "load", "reason": "torch was still being loaded when its 2 s were over"},
        ),
        (
            ending_of(signal.SIGKILL, timed_out=True, stack=IMPORTS_TORCH.replace("<module>", "f", 1)),
            {"outcome": "timed_out", "phase": "run", "reason": None},
        ),
        (
            ending_of(signal.SIGKILL, timed_out=True, phase="load"),
            {"phase": "load", "reason": "torch and what its file imports were not loaded after 600 s"},
        ),
        (ending_of(signal.SIGKILL, over_memory=200), {"outcome": "out_of_memory"}),
        (ending_of(0, result=RIGHT, phase="exit"), {"outcome": "returned", "elapsed_s": 1.0, "phase": None}),
        (ending_of(5 << 8, result=RIGHT, phase="exit"), {"outcome": "exited", "exit_code": 5, "phase": "exit"}),
        (ending_of(signal.SIGSEGV, result=RIGHT, phase="exit"), {"outcome": "signalled", "phase": "exit"}),
        (ending_of(signal.SIGKILL, result=RIGHT, phase="exit"), {"outcome": "lost"}),
        (ending_of(0), {"outcome": "exited", "exit_code": 0, "phase": "run"}),
        (ending_of(1 << 8, started=False), {"outcome": "environment_broken", "exit_code": 1}),
    ],
)
def test_the_exit_status_outranks_the_result(ending: Ending, expected: dict[str, object]) -> None:
    facts = conclude(REQUEST, ending)
    assert {name: facts.get(name) for name in expected} == expected
    assert set(facts) <= FACT_FIELDS


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (
            signal.SIGKILL,
            "ended by SIGKILL, which the kernel for lack of memory, somebody or the script itself may have sent",
        ),
        (signal.SIGTERM, "ended by SIGTERM, which somebody or the script itself may have sent"),
    ],
)
def test_who_sent_a_signal_is_not_claimed_to_be_known(number: int, reason: str) -> None:
    assert conclude(REQUEST, ending_of(number))["reason"] == reason


def test_text_that_is_no_text_can_be_stored() -> None:
    result = {"facts": {"outcome": "raised", "message": "no file \udcff"}, "exit_status": 0}
    assert conclude(REQUEST, ending_of(0, result=result))["message"] == "no file \\udcff"


def test_a_helper_beside_the_case_file_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "near.py").write_text("def f(): assert 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    facts = facts_of("import near\nnear.f()\n", tmp_path)
    assert (facts["frame"], facts["frame_origin"]) == ("near:f", "local")


def test_files_named_like_standard_modules_in_use_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.delitem(sys.modules, "turtle", raising=False)
    for name in ("torch.py", "random.py", "turtle.py", "mine.py", "data.txt"):
        (tmp_path / name).touch()
    (tmp_path / "json").mkdir()
    script = str(tmp_path / "repro.py")
    assert [text.split()[1] for text in shadowing(script)] == ["random.py", "torch.py"]
    (tmp_path / "json" / "__init__.py").touch()
    assert len(shadowing(script)) == 3


@pytest.mark.parametrize("path", sorted(WORKER.glob("*.py")), ids=lambda path: path.name)
def test_the_worker_is_python_3_8_and_needs_the_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    at_import = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        name.partition(".")[0]
        for node in at_import
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    ours = {"bisect_torch", "pytest"} if path.name == "pytest_plugin.py" else {"bisect_torch"}
    assert names <= {*sys.stdlib_module_names, *ours}
    assert os.path.getsize(path) < 25_000
