"""Greedy decoding of a list of prompts in batches, with a KV cache and padding on the left."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from _decoder import Cache, causal, masked
from _decoder_text import END_TOKEN, PAD_TOKEN
from torch import nn


class Answers(NamedTuple):
    """What was decoded, one item per prompt.

    Args:
        outputs: Tokens behind the prompt; the last one is END_TOKEN unless the limit came first.
        logits: (output, words) each: those that the tokens were chosen by.
    """

    outputs: List[List[int]]
    logits: List[torch.Tensor]

    def probabilities(self) -> List[List[float]]:
        """Of the tokens that were chosen, in float64 from the logits."""
        return [logits.double().softmax(-1).amax(-1).tolist() for logits in self.logits]

    def tied(self) -> int:
        """How many tokens were chosen though another one had the same logit: argmax takes the first."""
        return sum(int(((logits == logits.amax(-1, keepdim=True)).sum(-1) > 1).sum()) for logits in self.logits)


def greedy(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    dtype: torch.dtype,
    batch: int,
    padding: int = 0,
    limit: int,
) -> Answers:
    """The likeliest next token, again and again.

    Args:
        prompts: Tokens. Shorter ones of a batch are padded on the left to the longest.
        dtype: That the model computes in.
        batch: Prompts decoded together.
        padding: Tokens of padding in front of the longest prompt too.
        limit: Largest number of tokens of an output.
    """
    outputs: List[List[int]] = []
    logits: List[torch.Tensor] = []
    with torch.inference_mode():
        for first in range(0, len(prompts), batch):
            tokens, pads = padded(prompts[first : first + batch], padding)
            chosen, scores = _decoded(model, tokens, pads, dtype, limit)
            for row, all_tokens in enumerate(chosen.tolist()):
                length = all_tokens.index(END_TOKEN) + 1 if END_TOKEN in all_tokens else len(all_tokens)
                outputs.append(all_tokens[:length])
                logits.append(scores[row, :length])
    return Answers(outputs, logits)


def padded(prompts: Sequence[Sequence[int]], padding: int) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    """Tokens (batch, width), and how much of each row is padding; None where nothing is."""
    width = max(len(prompt) for prompt in prompts) + padding
    pads = [width - len(prompt) for prompt in prompts]
    tokens = torch.tensor([[PAD_TOKEN] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    return tokens, torch.tensor(pads) if any(pads) else None


def _decoded(
    model: nn.Module, tokens: torch.Tensor, pads: Optional[torch.Tensor], dtype: torch.dtype, limit: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Chosen tokens (batch, new) and the logits behind them (batch, new, words)."""
    batch, width = tokens.shape
    cache = Cache(width + limit)
    begins = torch.zeros(batch, dtype=torch.int64) if pads is None else pads
    positions = (torch.arange(width) - begins.view(-1, 1)).clamp(min=0)
    mask = masked(causal(width, pads), dtype)
    later = None
    if pads is not None:
        later = masked((torch.arange(width + limit) >= pads.view(-1, 1)).view(batch, 1, 1, -1), dtype)
    done = torch.zeros(batch, dtype=torch.bool)
    chosen: List[torch.Tensor] = []
    scores: List[torch.Tensor] = []
    logits = model(tokens, positions, mask, cache)[:, -1]
    while True:
        token = logits.argmax(-1).masked_fill(done, PAD_TOKEN)
        chosen.append(token)
        scores.append(logits)
        done = done | (token == END_TOKEN)
        if len(chosen) == limit or bool(done.all()):
            return torch.stack(chosen, 1), torch.stack(scores, 1)
        place = width + len(chosen) - 1
        mask_now = None if later is None else later[..., : place + 1]
        logits = model(token.view(-1, 1), (place - begins).view(-1, 1), mask_now, cache)[:, -1]


def teacher_forced(model: nn.Module, prompt: Sequence[int], output: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """The logits (output, words) of a model that reads a prompt and an output at once, without a cache."""
    tokens = torch.tensor([[*prompt, *output[:-1]]])
    length = tokens.shape[1]
    with torch.inference_mode():
        logits = model(tokens, torch.arange(length).view(1, -1), masked(causal(length), dtype))
    result: torch.Tensor = logits[0, len(prompt) - 1 :]
    return result
