"""Makes ``_classifier.pt``: ``python _train_classifier.py``, 80 s on one thread. Prints accuracy and SHA-256.

The shipped file was made with torch 2.14.0 on the CPU. Other releases or machines give other last bits.
"""

from __future__ import annotations

import hashlib
import os
import time

import torch
import torch.nn.functional as F  # noqa: N812
from _classifier import WEIGHTS, WORDS, Classifier, encoded, labels_of, sentences

STEPS, BATCH, TRAINED, TESTED = 2400, 96, 40000, 4000


def main() -> None:
    began = time.monotonic()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    known = sentences(TRAINED, seed=1)
    tokens, labels = encoded(known, WORDS), labels_of(known)
    model = Classifier()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=STEPS)
    order = torch.randperm(TRAINED).repeat(-(-STEPS * BATCH // TRAINED))
    for step in range(STEPS):
        rows = order[step * BATCH : (step + 1) * BATCH]
        loss = F.cross_entropy(model(tokens[rows]), labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {float(loss.detach()):.4f}, {time.monotonic() - began:.0f} s", flush=True)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), WEIGHTS)
    rounded = {name: value.half() for name, value in model.state_dict().items()}
    torch.save(rounded, path)
    model.load_state_dict(rounded)
    print(f"accuracy {accuracy(model):.4f} on {TESTED} sentences, {time.monotonic() - began:.0f} s")
    with open(path, "rb") as file:
        print(os.path.getsize(path), "bytes, SHA-256", hashlib.sha256(file.read()).hexdigest())


def accuracy(model: Classifier) -> float:
    """Share of sentences, none of them used in training, whose class is found."""
    known = set(sentences(TRAINED, seed=1))
    unseen = [pair for pair in sentences(2 * TESTED, seed=2) if pair not in known][:TESTED]
    with torch.no_grad():
        found = model(encoded(unseen, WORDS)).argmax(-1)
    return float((found == labels_of(unseen)).double().mean())


if __name__ == "__main__":
    main()
