"""Makes ``decoder_weights.pt``: ``python _train_decoder.py [FILE]``, minutes on one processor core, no data needed.

The text comes from the grammar in ``_decoder_text.py``. The same release on the same kind of processor gives the same
file; the weights that ship were made on release 2.14.0. Prints the file's SHA-256 for ``_decoder.py``.
"""

from __future__ import annotations

import math
import sys
import time
from typing import List, Tuple

import torch
from _decoder import WEIGHTS, Decoder, causal, masked, save
from _decoder_text import DIGITS, PAD_TOKEN, PROMPT_LENGTH, Chance, encode, held_out, story_text, sum_text

STEPS = 800
SUMS_A_STEP, STORIES_A_STEP = 40, 12
LONGEST = 240
RATE = 3e-3
WARM_UP = 50
SEED = 1


def sums(chance: Chance) -> List[List[int]]:
    """Sums that are not among those held out."""
    found: List[List[int]] = []
    while len(found) < SUMS_A_STEP:
        a, b = chance.below(10**DIGITS), chance.below(10**DIGITS)
        if not held_out(a, b):
            found.append(encode(sum_text(a, b, chance)))
    return found


def stories(chance: Chance) -> List[List[int]]:
    return [encode(story_text(chance)) for _ in range(STORIES_A_STEP)]


def loss_of(model: Decoder, texts: List[List[int]]) -> torch.Tensor:
    """Mean over the tokens behind the prompts."""
    longest = min(LONGEST, max(len(text) for text in texts))
    tokens = torch.tensor([(text + [PAD_TOKEN] * longest)[:longest] for text in texts])
    positions = torch.arange(longest - 1).expand(len(texts), -1)
    logits = model(tokens[:, :-1], positions, masked(causal(longest - 1), torch.float32))
    wanted = tokens[:, PROMPT_LENGTH:].reshape(-1)
    found = logits[:, PROMPT_LENGTH - 1 :].reshape(-1, logits.shape[-1])
    return torch.nn.functional.cross_entropy(found, wanted, ignore_index=PAD_TOKEN)


def rate_at(step: int) -> float:
    """A linear rise, then half a cosine down to a tenth."""
    if step < WARM_UP:
        return RATE * (step + 1) / WARM_UP
    return RATE * (0.55 + 0.45 * math.cos(math.pi * (step - WARM_UP) / (STEPS - WARM_UP)))


def initialised() -> Decoder:
    """Normal weights, those that end a block smaller."""
    torch.manual_seed(SEED)
    model = Decoder()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            small = name.endswith(("attended.weight", "narrowed.weight"))
            torch.nn.init.normal_(parameter, std=0.5 / math.sqrt(parameter.shape[1]) if small else 0.08)
    return model


def groups(model: Decoder) -> Tuple[List[torch.nn.Parameter], List[torch.nn.Parameter]]:
    """Matrices, which decay, and the scales of the norms, which do not."""
    everything = list(model.parameters())
    return [one for one in everything if one.dim() == 2], [one for one in everything if one.dim() != 2]


def train() -> Decoder:
    """Adam on fresh text at every step."""
    torch.set_num_threads(1)
    model, chance = initialised(), Chance(SEED)
    matrices, scales = groups(model)
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": scales, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    started = time.monotonic()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        losses = [loss_of(model, texts) for texts in (sums(chance), stories(chance))]
        optimizer.zero_grad(set_to_none=True)
        (losses[0] + losses[1]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == STEPS - 1:
            numbers = ", ".join(f"{loss.item():.4f}" for loss in losses)
            print(f"step {step}: {numbers}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return model


if __name__ == "__main__":
    print(save(train(), sys.argv[1] if len(sys.argv) > 1 else WEIGHTS))
