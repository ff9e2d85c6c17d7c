"""A small language model with its shipped weights, and greedy decoding with a KV cache, as the decoding cases use them.

The model: pre-norm transformer, RMSNorm, rotary positions, eager attention (two products and a softmax), untied output.
Every precision computes with the same numbers: the weights are stored in bfloat16, so float16, float32 and float64
hold them exactly (float16 but for what underflows), and what differs between precisions is the arithmetic alone.

What a decoding cell records (``bisect_torch.record``; the Parquet column ``measurements``):

======================  ==================  ============================================================================
name                    type                meaning
======================  ==================  ============================================================================
``dtype``               str                 ``bfloat16``, ``float16``, ``float32`` or ``layercast``
``batch``               int                 questions decoded together: 1, 8, 32
``threads``             int                 of torch, in each process: 1, 2
``padding``             int                 tokens of padding on the left of every prompt: 0 or more
``processes``           int                 over which the model is split (tensor parallel): 1, 2
``questions``           int                 number of questions; every list below has one item for each, in one order
``answerable``          int                 how many of them have an exact answer (the sums; the others are stories)
``correct``             int                 how many of those were answered exactly; accuracy is correct / answerable
``tokens``              str                 digest of all outputs
``outputs``             list of str         the output of each question, one character a token: item i of two outputs
                                            is the same token exactly when the characters are the same. The token that
                                            ends a text is part of it; without it, the output was cut at the limit
``output_length``       list of int         tokens of each output, which is ``len(outputs[i])``
``div_index``           list of int/null    number of leading tokens that are equal to the output of the reference
                                            configuration, so the 0-based position of the first token that differs (or
                                            is missing in one of the two); null where the outputs are equal
``top1_probability``    list of float/null  probability that this cell gave its token at ``div_index``; null likewise,
                                            and where its output ends there
``top1_every``          int                 distance of the positions in ``top1_path``
``top1_path``           list of lists       per question the probability of the chosen (top-1) token at the positions 0,
                                            ``top1_every``, 2 ``top1_every``, … that lie before ``div_index`` (before
                                            the output's end where that is null)
``tied``                int                 chosen tokens whose logit another token's equalled exactly, over all outputs
======================  ==================  ============================================================================

The reference configuration of a cell has the same release and precision, batch 1, one thread, no padding, one process.
It is decoded in the cell itself. To compare across releases or precisions, compare ``outputs``.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from typing import Callable, Dict, List, Optional, Tuple

import torch
from _decoder_text import WORDS
from torch import nn

WIDTH = 128
LAYERS = 2
HEADS = 4
HEAD_WIDTH = WIDTH // HEADS
HIDDEN = 4 * WIDTH
CONTEXT = 320
"""Longest sequence, padding included."""

WEIGHTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "decoder_weights.pt")
WEIGHTS_SHA256 = "5c42ac3c6f9283edf8dc133c3b1879bd51330b25416b3372ec1cc6905bd54e18"
EPS = 1e-5

COMPUTED_IN = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "layercast": torch.float32,
}
"""Precision to the type of everything between the weights."""

Reduce = Callable[[torch.Tensor], torch.Tensor]


class Cache:
    """Keys and values of all that has been read so far.

    Args:
        length: Positions that there is room for, padding included.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._stored: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self.used = 0

    def extend(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Add (batch, heads, new, HEAD_WIDTH) of a layer behind ``used`` and give all of that layer's so far."""
        if layer == len(self._stored):
            batch, heads, _, width = keys.shape
            room = (batch, heads, self._length, width)
            self._stored.append((keys.new_zeros(room), values.new_zeros(room)))
        end = self.used + keys.shape[2]
        all_keys, all_values = self._stored[layer]
        all_keys[:, :, self.used : end] = keys
        all_values[:, :, self.used : end] = values
        return all_keys[:, :, :end], all_values[:, :, :end]


class Block(nn.Module):
    """Attention and a two-layer network, each added to what came in.

    Args:
        ranks: Over how many processes heads and hidden units are split.
        reduce: Gives the sum of a tensor over those processes.
    """

    def __init__(self, ranks: int, reduce: Optional[Reduce]) -> None:
        super().__init__()
        self.heads = HEADS // ranks
        self.reduce = reduce
        self.before_attention = nn.RMSNorm(WIDTH, eps=EPS)
        self.projected = nn.Linear(WIDTH, 3 * self.heads * HEAD_WIDTH, bias=False)
        self.attended = nn.Linear(self.heads * HEAD_WIDTH, WIDTH, bias=False)
        self.before_network = nn.RMSNorm(WIDTH, eps=EPS)
        self.widened = nn.Linear(WIDTH, HIDDEN // ranks, bias=False)
        self.narrowed = nn.Linear(HIDDEN // ranks, WIDTH, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        turns: Tuple[torch.Tensor, torch.Tensor],
        mask: Optional[torch.Tensor],
        layer: int,
        cache: Optional[Cache],
    ) -> torch.Tensor:
        x = x + self._summed(self._attention(self.before_attention(x), turns, mask, layer, cache))
        return x + self._summed(self.narrowed(nn.functional.gelu(self.widened(self.before_network(x)))))

    def _summed(self, part: torch.Tensor) -> torch.Tensor:
        return part if self.reduce is None else self.reduce(part)

    def _attention(
        self,
        x: torch.Tensor,
        turns: Tuple[torch.Tensor, torch.Tensor],
        mask: Optional[torch.Tensor],
        layer: int,
        cache: Optional[Cache],
    ) -> torch.Tensor:
        batch, new, _ = x.shape
        parts = self.projected(x).view(batch, new, 3, self.heads, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        queries, keys, values = turned(parts[0], turns), turned(parts[1], turns), parts[2]
        if cache is not None:
            keys, values = cache.extend(layer, keys, values)
        scores = torch.matmul(queries, keys.transpose(-2, -1)) * (1.0 / math.sqrt(HEAD_WIDTH))
        if mask is not None:
            scores = scores + mask
        mixed = torch.matmul(torch.softmax(scores, dim=-1), values)
        return self.attended(mixed.transpose(1, 2).reshape(batch, new, self.heads * HEAD_WIDTH))


def turned(x: torch.Tensor, turns: Tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotate the two halves of each head by their positions' angles."""
    one, two = x.chunk(2, dim=-1)
    return x * turns[0] + torch.cat((-two, one), dim=-1) * turns[1]


class Decoder(nn.Module):
    """Tokens in, logits over the next token out.

    Args:
        ranks: Over how many processes the blocks are split; embedding, norms and output are whole in each.
        reduce: Gives the sum of a tensor over those processes; None for one process.
    """

    def __init__(self, ranks: int = 1, reduce: Optional[Reduce] = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), WIDTH)
        self.blocks = nn.ModuleList(Block(ranks, reduce) for _ in range(LAYERS))
        self.last_norm = nn.RMSNorm(WIDTH, eps=EPS)
        self.output = nn.Linear(WIDTH, len(WORDS), bias=False)
        # No buffers: rounding the model must not round angles.
        self._cosines, self._sines = _turn_tables()

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        mask: Optional[torch.Tensor] = None,
        cache: Optional[Cache] = None,
    ) -> torch.Tensor:
        """Logits (batch, new, words).

        Args:
            tokens: (batch, new).
            positions: Of the tokens in their own text, (batch, new); padding does not count.
            mask: Added to the scores, (batch or 1, 1, new, all), in the type computed in; None where all may be seen.
            cache: Of what was read before; extended.
        """
        x = self.embedding(tokens)
        turns = (
            self._cosines[positions].unsqueeze(1).to(x.dtype),
            self._sines[positions].unsqueeze(1).to(x.dtype),
        )
        for layer, block in enumerate(self.blocks):
            x = block(x, turns, mask, layer, cache)
        if cache is not None:
            cache.used += tokens.shape[1]
        logits: torch.Tensor = self.output(self.last_norm(x))
        return logits


def _turn_tables() -> Tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines (CONTEXT, HEAD_WIDTH) in float64, by Python's own functions: the same on every release."""
    rates = [10000.0 ** (-2.0 * pair / HEAD_WIDTH) for pair in range(HEAD_WIDTH // 2)] * 2
    angles = [[position * rate for rate in rates] for position in range(CONTEXT)]
    return tuple(  # type: ignore[return-value]
        torch.tensor([[function(angle) for angle in row] for row in angles], dtype=torch.float64)
        for function in (math.cos, math.sin)
    )


def masked(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Zero where ``seen`` is true, elsewhere half of the type's lowest number, which a score added to it cannot push to
    infinity: a row that sees nothing stays finite."""
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min / 2)


def causal(length: int, pads: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Which keys each query of a text may see: none that come later, none of its row's padding on the left.

    Returns:
        bool, (batch or 1, 1, length, length).
    """
    places = torch.arange(length)
    seen = (places.view(1, -1) <= places.view(-1, 1)).view(1, 1, length, length)
    return seen if pads is None else seen & (places.view(1, 1, 1, -1) >= pads.view(-1, 1, 1, 1))


def stored_weights() -> Dict[str, torch.Tensor]:
    """The shipped weights, in bfloat16.

    Raises:
        RuntimeError: The file is not the one that ships.
    """
    with open(WEIGHTS, "rb") as file:
        content = file.read()
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS_SHA256:
        raise RuntimeError(f"{os.path.basename(WEIGHTS)} is not the file that ships: its SHA-256 is {found}")
    weights: Dict[str, torch.Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return weights


def build(dtype: str, rank: int = 0, ranks: int = 1, reduce: Optional[Reduce] = None) -> nn.Module:
    """The model with its shipped weights, ready to decode.

    Args:
        dtype: ``float64`` or a key of ``COMPUTED_IN``.
        rank: Which part of the model, counted from 0.
        ranks: Number of parts; it divides ``HEADS``.
        reduce: Gives the sum of a tensor over the parts.
    """
    stored = torch.bfloat16 if dtype == "layercast" else getattr(torch, dtype)
    model = Decoder(ranks, reduce).to(stored).requires_grad_(False).eval()
    model.load_state_dict({name: part_of(name, weight, rank, ranks) for name, weight in stored_weights().items()})
    if dtype != "layercast":
        return model
    from bisect_torch.numerics import LayerCast

    return LayerCast(model)


def part_of(name: str, weight: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """What one of several processes holds of a weight (output, input): some heads, some hidden units, or all of it."""
    if ranks == 1:
        return weight
    kind = name.split(".")[-2]
    if kind == "projected":
        heads = weight.view(3, ranks, HEADS // ranks * HEAD_WIDTH, WIDTH)
        return heads[:, rank].reshape(-1, WIDTH)
    if kind == "widened":
        return weight.chunk(ranks, dim=0)[rank]
    return weight.chunk(ranks, dim=1)[rank] if kind in ("attended", "narrowed") else weight


def save(model: Decoder, path: str) -> str:
    """Write a model's weights in bfloat16; gives the file's SHA-256."""
    stored = io.BytesIO()  # a file's name would become part of its content
    torch.save({name: weight.detach().to(torch.bfloat16) for name, weight in model.state_dict().items()}, stored)
    with open(path, "wb") as file:
        file.write(stored.getvalue())
    return hashlib.sha256(stored.getvalue()).hexdigest()
