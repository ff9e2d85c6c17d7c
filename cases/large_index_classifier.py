"""A whole model: one oversized batch of a text classifier against the same texts in small batches.

Every head of every text has a matrix of attention weights, so these are the largest tensors; ``bmm`` makes them and
reads them again. The classifier finds the class of every text in small batches; where labels change in the oversized
batch, its products were wrong. The simulated cells show what that looks like. **No hardware was measured for them.**
"""

from __future__ import annotations

import collections
from typing import Any, Dict

import torch
from _classifier import CLASSES, HEADS, encoded, labels_of, load, sentences

from bisect_torch import case, check, record, skip, thorough
from bisect_torch.numerics.simulated import MPS_RULES, SimulatedBackend

SHORT, LONG = 24, 256
"""Words and padding of a text, in the scaled and in the real size."""
SMALL = 32
"""Texts in a small batch."""
DIFFERENT = 512
"""Texts that are different; a larger batch repeats them."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def texts_beyond(bits: int, length: int, share: float) -> int:
    """As many texts as have ``share`` times ``2**bits`` attention weights, and one more."""
    return int(share * 2**bits) // (HEADS * length * length) + 1


def memory_of(device: str, dtype: str) -> Dict[str, int]:
    """Bytes of the oversized cell: the attention weights once, and what the layers hold beside them, with room.

    Measured for bfloat16 on the CPU: 12.7e9, where this says 14.8e9.
    """
    texts, kind = texts_beyond(32, LONG, 17 / 16), device.partition(":")[0]
    size = BYTES[dtype] * texts * LONG * (HEADS * LONG + 8 * 64) + (1 << 30)
    return {kind: size} if kind == "cpu" else {kind: size, "cpu": size if kind == "mps" else 1 << 30}


@case(dtype=["float32", "bfloat16"])
def classifier_scaled(device, dtype):
    outcome = compared(device, dtype, DIFFERENT, SHORT)
    return check(outcome, reference={"changed_labels": 0, "collapsed": False, "accurate": True})


@case(dtype=["bfloat16", "float16", "float32"], layout=["contiguous", "transposed"], memory=memory_of, timeout=900)
def classifier_oversized(device, dtype, layout):
    if device.partition(":")[0] == "cpu" and dtype == "float16" and not thorough():
        skip("float16 takes minutes on most CPUs; --thorough runs it")
    outcome = compared(device, dtype, texts_beyond(32, LONG, 17 / 16), LONG, layout)
    return check(outcome, reference={"changed_labels": 0, "collapsed": False, "accurate": True})


@case(
    fault=["none", MPS_RULES, "result is zero"],
    layout=["contiguous", "transposed"],
    device="cpu",
)
def simulated_classifier(device, fault, layout):
    """Ok when the fault changes labels and draws them to one class, and without a fault nothing changes."""
    texts = texts_beyond(16, SHORT, 3 / 2)
    backend = SimulatedBackend(16, None if fault == "none" else fault)
    record(simulated_fault=fault)
    outcome = compared(device, "float32", texts, SHORT, layout, backend)
    found = {"corrupted": outcome["changed_labels"] > 0, **outcome}
    expected = {"corrupted": fault != "none", "collapsed": fault != "none", "accurate": True}
    return check({name: found[name] for name in expected}, reference=expected)


def compared(
    device: Any, dtype: str, texts: int, length: int, layout: str = "contiguous", backend: Any = None
) -> Dict[str, Any]:
    """Labels of the texts in small batches and in one; ``backend`` computes the products of the large one.

    Recorded: ``texts``, ``attention_elements`` (of one layer, in the large batch), ``accuracy`` in small batches and
    in the large one, ``changed_labels``, ``changed_share``, ``first_changed_text``, and, of the large batch,
    ``majority_class`` and ``collapsed_share`` (the share of texts that it was given to) beside its ``expected_share``.
    ``changed_to_majority``: of the changed labels, the share that became that class.
    """
    pairs = sentences(min(texts, DIFFERENT), seed=3)
    tokens, labels = encoded(pairs, length).to(device), labels_of(pairs)
    model = load(device, getattr(torch, dtype))
    with torch.no_grad():
        small = torch.cat([model(part, layout).argmax(-1).cpu() for part in tokens.split(SMALL)])
        every = torch.arange(texts) % len(pairs)
        batch = tokens[every.to(device)]
        if backend is None:
            large = model(batch, layout).argmax(-1).cpu()
        else:
            with backend:
                large = model(batch, layout).argmax(-1).cpu()
    small, labels = small[every], labels[every]
    changed = large != small
    majority, most = collections.Counter(large.tolist()).most_common(1)[0]
    count = int(changed.sum())
    accuracy = float((small == labels).double().mean())
    share = float((small == majority).double().mean())
    record(
        texts=texts,
        attention_elements=texts * HEADS * length * length,
        accuracy=accuracy,
        accuracy_in_large_batch=float((large == labels).double().mean()),
        changed_labels=count,
        changed_share=count / texts,
        first_changed_text=int(changed.nonzero()[0]) if count else None,
        majority_class=CLASSES[majority],
        collapsed_share=most / texts,
        expected_share=share,
        changed_to_majority=float((large[changed] == majority).double().mean()) if count else None,
    )
    collapsed = most / texts - share
    return {"changed_labels": count, "collapsed": collapsed > 0.1, "accurate": accuracy > 0.95}
