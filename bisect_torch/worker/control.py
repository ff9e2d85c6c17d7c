"""Control cases of an environment: is it whole, and does torch give known numbers in it?

Run by path, with the environment's own interpreter: ``python -I control.py [base|compile|cuda|mps|xpu]``. It prints one
line of JSON as the last line of stdout: ``{"control": ..., "ok": ..., "kind": ..., "reason": ..., ...}``. Only the
standard library is imported until torch is. Nothing here judges a version: who asked for the environment does that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))

SIZE = 24
"""Order of the known matrices: small enough for plain Python, large enough to leave the trivial code paths."""


class ControlFailed(Exception):  # noqa: N818 - an answer, no error of this program
    """A control case did not hold.

    Args:
        kind: ``torch_missing``, ``module_missing``, ``import_failed``, ``wrong_numbers``, ``failed`` or ``absent``.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def main(arguments: List[str]) -> int:
    """Run one control and print its answer. The exit status is 0 also for a control that failed: it was run."""
    name = arguments[0] if arguments else "base"
    # torch and the libraries below it print to stdout: keep the real one aside and send theirs to stderr.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]
    answer: Dict[str, Any] = {"control": name, "ok": True, "kind": "", "reason": ""}
    try:
        answer.update(CONTROLS[name]())
    except ControlFailed as failed:
        answer.update(ok=False, kind=failed.kind, reason=failed.reason)
    except BaseException as error:  # noqa: BLE001 - the outermost edge: whatever torch raises is the answer
        traceback.print_exc()
        answer.update(ok=False, kind="failed", reason=one_line(error))
    with os.fdopen(answer_to, "w", encoding="utf-8") as stream:
        stream.write("\n" + json.dumps(answer) + "\n")
    return 0


def innermost(error: BaseException) -> BaseException:
    """The first cause of a wrapped exception."""
    for _ in range(20):
        cause = getattr(error, "inner_exception", None) or error.__cause__
        if not isinstance(cause, BaseException):
            break
        error = cause
    return error


def one_line(error: BaseException) -> str:
    """``Type: first line of the message`` of the innermost cause."""
    error = innermost(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "{}: {}".format(type(error).__name__, lines[0][:400]) if lines else type(error).__name__


def what_failed(error: subprocess.CalledProcessError) -> str:
    """What the compiler complained about, without its long command line in folders that differ each time."""
    said = error.output or error.stderr or b""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    lines = [line.strip() for line in text.splitlines() if "error" in line.lower()]
    return "the C++ compiler {} fails{}".format(compiler(), ": " + lines[0][:200] if lines else "")


def import_torch() -> Any:
    """torch, or the reason why not: not there at all, something else missing, or there and damaged."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ControlFailed("torch_missing", "torch is not installed") from error
        if (error.name or "").partition(".")[0] in ("torch", ""):
            raise ControlFailed("import_failed", "import torch: a file is missing: " + one_line(error)) from error
        raise ControlFailed("module_missing", "import torch: " + one_line(error)) from error
    except BaseException as error:
        raise ControlFailed("import_failed", "import torch: " + one_line(error)) from error
    if getattr(torch, "__version__", None) is None:
        # A folder without __init__.py is imported as a namespace package, with nothing in it.
        raise ControlFailed("import_failed", "import torch: its __init__.py is missing")
    return torch


def known_matrices() -> "tuple[List[List[float]], List[List[float]], List[List[float]], List[List[float]]]":
    """Two matrices of small integers, their sum and their product: exact in every floating-point format used here."""
    left = [[float((3 * i + 5 * j) % 7 - 3) for j in range(SIZE)] for i in range(SIZE)]
    right = [[float((2 * i + j * j) % 5 - 2) for j in range(SIZE)] for i in range(SIZE)]
    total = [[left[i][j] + right[i][j] for j in range(SIZE)] for i in range(SIZE)]
    product = [[sum(left[i][k] * right[k][j] for k in range(SIZE)) for j in range(SIZE)] for i in range(SIZE)]
    return left, right, total, product


def expect(what: str, actual: object, expected: object) -> None:
    """Compare with a number that is known.

    Raises:
        ControlFailed: It is another.
    """
    if actual != expected:
        raise ControlFailed("wrong_numbers", "{} gives wrong numbers".format(what))


def base() -> Dict[str, Any]:
    """Import, add, matmul and autograd on the CPU; says what is installed."""
    torch = import_torch()
    left, right, total, product = known_matrices()
    a, b = torch.tensor(left), torch.tensor(right)
    expect("add", (a + b).tolist(), total)
    expect("matmul", (a @ b).tolist(), product)
    x = torch.tensor([1.0, 2.0, 3.0]).requires_grad_()
    (x + x).sum().backward()
    expect("autograd", x.grad.tolist(), [2.0, 2.0, 2.0])
    version = getattr(torch, "version", None)
    threads = getattr(torch, "get_num_threads", None)
    return {
        "torch": str(torch.__version__),
        "git_commit": getattr(version, "git_version", None),
        "cuda": getattr(version, "cuda", None),
        "threads": None if threads is None else threads(),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "prefix": sys.prefix,
        "packages": installed_packages(),
    }


def installed_packages() -> Dict[str, str]:
    """Name to version of every distribution on ``sys.path``; the first one found is the one that is imported."""
    import importlib.metadata

    found: Dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-").replace(".", "-"), str(distribution.version))
    return dict(sorted(found.items()))


def compiler() -> Optional[str]:
    """The C++ compiler that torch.compile would start, if there is one on PATH."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and shutil.which(name.split()[0]):
            return name
    return None


def compiled() -> Dict[str, Any]:
    """One trivial function through torch.compile on the CPU."""
    if compiler() is None:
        raise ControlFailed("absent", "no C++ compiler")
    folder = tempfile.mkdtemp(prefix="bisect-torch-control-")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    # Without this, inductor starts a pool of children when it is imported.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    try:
        torch = import_torch()
        if not hasattr(torch, "compile"):
            raise ControlFailed("absent", "this torch has no torch.compile")
        x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        expect("torch.compile", torch.compile(lambda t: t + t * t)(x).tolist(), [2.0, 6.0, 12.0, 20.0])
    except ControlFailed:
        raise
    except Exception as error:
        if "InvalidCxxCompiler" in type(error).__name__ or "No working C++ compiler" in str(error):
            reason = "no working C++ compiler: {} is there, and torch cannot use it".format(compiler())
            raise ControlFailed("absent", reason) from error
        cause = innermost(error)
        if isinstance(cause, subprocess.CalledProcessError):
            raise ControlFailed("failed", what_failed(cause)) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"torch": str(torch.__version__)}


def on_device(device: str) -> Dict[str, Any]:
    """The known matmul on a device: fails without a kernel for it or with an old driver."""
    torch = import_torch()
    owner = getattr(torch, device, None)
    if device == "mps":
        owner = getattr(getattr(torch, "backends", None), "mps", None)
    if owner is None or not owner.is_available():
        raise ControlFailed("absent", "no {} device".format(device))
    left, right, total, product = known_matrices()
    a, b = torch.tensor(left).to(device), torch.tensor(right).to(device)
    expect("add on " + device, (a + b).cpu().tolist(), total)
    expect("matmul on " + device, (a @ b).cpu().tolist(), product)
    x = torch.tensor([1.0, 2.0, 3.0]).to(device).requires_grad_()
    (x + x).sum().backward()
    expect("autograd on " + device, x.grad.cpu().tolist(), [2.0, 2.0, 2.0])
    named = getattr(getattr(torch, device, None), "get_device_name", None)
    return {"device_name": None if named is None else str(named())}


CONTROLS: Dict[str, Callable[[], Dict[str, Any]]] = {
    "base": base,
    "compile": compiled,
    "cuda": lambda: on_device("cuda"),
    "mps": lambda: on_device("mps"),
    "xpu": lambda: on_device("xpu"),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
