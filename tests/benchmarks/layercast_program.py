"""Runs inside a release: one kind's memory, or the times of all kinds in turn, as JSON."""

import copy
import ctypes
import gc
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "numerics" / "programs")]

import torch  # noqa: E402
from casting_models import Decoder, filled, reference  # noqa: E402

from bisect_torch.numerics import LayerCast, integers  # noqa: E402

KINDS = ("float32", "bfloat16", "layercast")
VOCABULARY = 16000


def main():
    kind, rounds, threads, batch, prefill, steps = sys.argv[1], *(int(word) for word in sys.argv[2:])
    torch.set_num_threads(threads)
    with torch.inference_mode():
        filled(Decoder())(integers((1, 4), seed=1))  # what the first operations load counts for none of the kinds
    before = settled()
    models = made(KINDS if kind == "all" else (kind,), prefill + steps)
    parameters = sum(p.numel() * p.element_size() for p in next(iter(models.values())).parameters())
    ids = integers((batch, prefill), seed=1, low=0, high=VOCABULARY)
    settled()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    found = {name: {"prefill": [], "step": []} for name in models}
    for _ in range(rounds):
        logits = {name: decoded(model, ids, steps, found[name]) for name, model in models.items()}
    found["equal"] = kind != "all" or torch.equal(logits["layercast"], logits["float32"])
    print(json.dumps({**found, "parameters": parameters, "peak": resident("VmHWM") - before}))


def made(kinds, length):
    base = filled(Decoder(width=512, layers=8, vocabulary=VOCABULARY, length=length))
    converted = {
        "float32": lambda model: reference(model, torch.bfloat16),
        "bfloat16": lambda model: copy.deepcopy(model).bfloat16(),
        "layercast": LayerCast,
    }
    return {kind: converted[kind](base) for kind in kinds}


def decoded(model, ids, steps, times):
    with torch.inference_mode():
        begin = time.perf_counter()
        logits, caches = model(ids)
        times["prefill"].append(time.perf_counter() - begin)
        for _ in range(steps):
            ids = logits[:, -1:].argmax(-1)
            begin = time.perf_counter()
            logits, caches = model(ids, caches)
            times["step"].append(time.perf_counter() - begin)
    return logits


def settled():
    """Bytes that are resident once freed memory has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident("VmRSS")


def resident(name):
    """Bytes: VmRSS now, or VmHWM, the most since the mark was reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


main()
