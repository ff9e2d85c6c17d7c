"""The judge and the fault models of the large-index cases, tried on a simulated backend. **No hardware was measured.**

These cells run the same bodies as ``large_index_bmm.py`` and ``large_index_backward.py`` while ``bmm`` is computed in
Python with a fault at 2**k elements in place of 2**32. They say nothing about torch: a cell is ``ok`` when the judge
saw the fault where values differ (and only there), named the one that was put in, and the predictor foretold it.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Callable, Dict, Optional

from bisect_torch import case, record
from bisect_torch.numerics.large_index import (
    bmm_backward,
    bmm_forward,
    parse_shape,
    predict_backward,
    predict_forward,
)
from bisect_torch.numerics.simulated import MPS_RULES, SimulatedBackend, SimulatedError
from bisect_torch.worker.api import apart

LAYOUTS = ["contiguous", "a transposed", "b transposed", "both transposed", "strided", "expanded"]
LARGE = {"output": "8x2x12", "a": "12x8x2", "b": "2x8x12"}
"""What crosses the border first, to a shape."""
SIDES = ["far below", "below", "beyond"]
"""Where the largest tensor is: below half the border (2**(k-1) elements), between that and the border, beyond it."""


@case(
    fault=[
        "none",
        "strides of a ignored",
        "strides of b ignored",
        "flat index of a wraps at 2**(k-1)",
        "flat index of a wraps at 2**k",
        "flat index of b wraps at 2**(k-1)",
        "flat index of b wraps at 2**k",
        "flat index of output wraps at 2**k",
        "tail not written",
        "result is zero",
    ],
    k=[12],
    device="cpu",
)
def simulated_bmm(device, fault, k):
    shape = LARGE["a" if " a " in fault else "b" if " b " in fault else "output"]
    batch = batches(shape, k, "beyond")
    for layout in LAYOUTS:

        def body(backend, layout=layout):
            return bmm_forward(device, "bfloat16", layout, shape, batch, bits=k, call=backend.bmm)

        recognised(body, put_in(fault, k), k, layout)


@case(
    fault=[
        "none",
        "strides of a ignored",
        "strides of b ignored",
        "flat index of upstream gradient wraps at 2**(k-1)",
        "flat index of upstream gradient wraps at 2**k",
        "flat index of output wraps at 2**k",
        "tail not written",
        "result is zero",
    ],
    k=[11],
    device="cpu",
)
def simulated_backward(device, fault, k):
    for layout, grad in itertools.product(LAYOUTS, "ab"):
        shape = LARGE["output"] if "upstream" in fault or "strides" in fault else LARGE[grad]
        batch = batches(shape, k, "beyond")

        def body(backend, layout=layout, grad=grad, shape=shape, batch=batch):
            with backend:
                return bmm_backward(device, "float32", layout, shape, batch, grad, bits=k)

        recognised(body, put_in(fault, k), k, f"{layout}, gradient of {grad}", during="backward")


@case(layout=LAYOUTS, k=[9], device="cpu")
def simulated_mps_bmm(device, layout, k):
    for (large, shape), side in itertools.product(LARGE.items(), SIDES):
        batch = batches(shape, k, side)

        def body(backend, shape=shape, batch=batch):
            return bmm_forward(device, "float16", layout, shape, batch, bits=k, predict=True, call=backend.bmm)

        prediction = predict_forward(parse_shape(shape, batch), layout, bits=k)
        recognised(body, MPS_RULES, k, f"{large} {side} the border", prediction=prediction)


@case(layout=LAYOUTS, grad=["a", "b"], k=[11], device="cpu")
def simulated_mps_backward(device, layout, grad, k):
    for (large, shape), side in itertools.product(LARGE.items(), SIDES):
        batch = batches(shape, k, side)

        def body(backend, shape=shape, batch=batch):
            with backend:
                return bmm_backward(device, "float32", layout, shape, batch, grad, bits=k, predict=True)

        prediction = predict_backward(parse_shape(shape, batch), layout, grad, bits=k)
        recognised(body, MPS_RULES, k, f"{large} {side} the border", prediction=prediction)


def put_in(fault: str, k: int) -> Optional[str]:
    """The fault of a parameter as the backend and the models call it."""
    return None if fault == "none" else fault.replace("2**(k-1)", f"2**{k - 1}").replace("2**k", f"2**{k}")


def elements(shape: str) -> int:
    """Elements of one batch of the largest of the two operands and the output."""
    rows, inner, columns = (int(size) for size in shape.split("x"))
    return max(rows * inner, inner * columns, rows * columns)


def batches(shape: str, k: int, side: str) -> int:
    """A number of batches that takes the largest tensor to a side of the border at ``2**k``: see :data:`SIDES`."""
    border = 2 ** (k - 1) if side == "far below" else 2**k
    return border // elements(shape) + (2 if side == "beyond" else -1)


def recognised(
    body: Callable[[Any], Any],
    fault: Optional[str],
    k: int,
    what: str,
    *,
    prediction: Any = None,
    during: str = "both",
) -> None:
    """Run a body on the simulated backend, and assert what the judge, the models and the predictor say of it.

    Recorded: ``simulated_fault``, and what the judge saw last, ``simulated_verdict`` and ``simulated_explained_by``.
    """
    backend = SimulatedBackend(k, fault, during=during)
    verdict, explained = "error", None
    with apart(), contextlib.suppress(SimulatedError):
        result = body(backend)
        verdict, explained = ("wrong", result.facts.get("explained_by")) if result.wrong else ("ok", None)
    record(simulated_fault=fault, simulated_verdict=verdict, simulated_explained_by=explained)
    last = backend.calls[-1] if backend.calls and verdict != "error" else None
    # What lies beyond the end of a storage is unknown, so that no model explains a value that was read there.
    known = last is None or not last.outside
    found: Dict[str, Any] = {"verdict": verdict}
    expected: Dict[str, Any] = {"verdict": "error" if last is None else "wrong" if last.wrong_elements else "ok"}
    if verdict == "wrong" and known:
        found["named"], expected["named"] = last.fault in (explained or "").split(" or "), True
    if prediction is not None:
        found["predicted"] = [prediction.verdict, prediction.model]
        expected["predicted"] = [verdict, last.fault if last is not None and known else None]
    assert found == expected, f"{what}: found {found}, expected {expected}"  # not by check, which is tried here
