"""Runs the large-index bodies on the simulated backend, one question (JSON) a line, and says what is true of the value.

What is true is found by comparing lists that the simulated backend computed, not by the judge or the models.
"""

import contextlib
import json
import sys

import torch

sys.path.insert(0, sys.argv[1])

from bisect_torch.numerics.large_index import bmm_backward, bmm_forward
from bisect_torch.numerics.simulated import SimulatedBackend, SimulatedError
from bisect_torch.worker import api, recording

torch.set_num_threads(1)


class Watched(SimulatedBackend):
    """Keeps what the last product was made of."""

    def _bmm(self, first, second, out):
        self.last = (first, second)
        self.result = super()._bmm(first, second, out)
        return self.result


class Again(SimulatedBackend):
    """The same product with another fault, at whatever size."""

    def __init__(self, fault, names, k):
        wanted = f"{fault} beyond 2**{k}" if fault == "tail not written" else fault
        super().__init__(1, wanted)
        self.names = names

    def _names(self, first, second, backward):
        return self.names


def answer(question):
    k, grad = question["k"], question["grad"]
    recording.forget_records()
    recording.set_thorough(question["thorough"])
    backend = Watched(k, question["fault"], during=question["during"])
    options = [question[name] for name in ("dtype", "layout", "shape", "batch")]
    found = {"verdict": "error", "explained": None}
    result = None
    with api.apart(), contextlib.suppress(SimulatedError):
        if grad:
            with backend:
                result = bmm_backward("cpu", *options, grad, bits=k, predict=True)
        else:  # the mode is there for the product alone: the judge's own operators are then faster
            result = bmm_forward("cpu", *options, bits=k, predict=True, call=backend.bmm)
    measured = json.loads(recording.recorded())
    found["calls"] = [call._asdict() for call in backend.calls]
    found["measured"] = measured
    if result is None:
        return found
    found.update(verdict="wrong" if result.wrong else "ok", explained=result.facts.get("explained_by"))
    names = backend.calls[-1].operands
    right = again(backend, None, names, k)[0]
    compared = [batch for first, last in measured["compared"] for batch in range(first, last + 1)]
    differing = (backend.result != right).reshape(-1)
    found["first"] = int(differing.nonzero()[0]) if bool(differing.any()) else None
    found["differing"] = int(differing.sum())
    found["compared_differing"] = int((backend.result != right)[compared].sum())
    named = found["explained"].split(" or ") if found["explained"] else []
    found["named"] = named
    candidates = [*question["candidates"], *named]
    found["coinciding"] = sorted({name for name in candidates if coincides(backend, name, names, k, compared)})
    return found


def again(backend, fault, names, k):
    with Again(fault, names, k) as other:
        value = torch.bmm(*(operand.detach() for operand in backend.last))
    return value, other.calls[-1]


def coincides(backend, fault, names, k, compared):
    value, call = again(backend, fault, names, k)
    distinct = (
        call.fault == fault or fault == "tail not written"
    )  # not, say, "and" with an operand that is read rightly
    return distinct and not call.outside and torch.equal(value[compared], backend.result[compared])


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
