"""A small text classifier with eager attention through ``bmm``, the sentences that it reads, and its weights.

The sentences come from the word lists below: what somebody thinks of something, in one or two clauses, of which the
last decides; a negation turns it round. The weights beside this file were made by ``_train_classifier.py``.
"""

from __future__ import annotations

import hashlib
import os
import random
from typing import Any, Dict, List, Tuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

__all__ = ["CLASSES", "HEADS", "SHA256", "WEIGHTS", "Classifier", "encoded", "labels_of", "load", "sentences"]

CLASSES = ("negative", "neutral", "positive")
WIDTH, HEADS, LAYERS, HIDDEN, WORDS = 64, 4, 2, 128, 24
"""WORDS: the longest sentence, with the mark in front of it."""

WEIGHTS = "_classifier.pt"
SHA256 = "df53f1b913ceaa103aa8539ede83b655b9b32af7420b51e5e8ba0fba0fe5e044"


def _list(words: str) -> List[str]:
    return words.split()


_THINGS = _list(
    "film plot actor music ending book story author chapter hotel room bed breakfast view meal soup waiter table phone "
    "screen battery camera keyboard laptop cable lamp chair garden museum guide tour train seat driver concert singer "
    "game level update app website shop delivery parcel jacket shoe bag"
)
_JUDGEMENTS = {
    "positive": _list(
        "wonderful good great lovely superb delightful charming brilliant excellent pleasant comfortable delicious "
        "friendly reliable beautiful clever enjoyable perfect"
    ),
    "negative": _list(
        "awful bad terrible dreadful poor boring ugly broken rude dirty painful useless bland noisy disappointing slow "
        "clumsy horrible"
    ),
    "neutral": _list(
        "blue grey wooden metallic square round short long new old local foreign electric printed indoor outdoor empty "
        "open"
    ),
}
_BEFORE = _list("the this that my our their")
_VERBS = _list("is was seemed felt looked")
_DEGREES = _list("really very quite rather truly somewhat")
_FILLERS = ("on monday", "last week", "in the morning", "as far as i know", "to my mind", "after all", "that day")
_MARKS = ["[pad]", "[start]", "but", "although", "not", "never", "and", "i", "thought", "said"]

VOCABULARY: Dict[str, int] = {
    word: place
    for place, word in enumerate(
        [
            *_MARKS,
            *_BEFORE,
            *_THINGS,
            *_VERBS,
            *_DEGREES,
            *(word for words in _JUDGEMENTS.values() for word in words),
            *sorted({word for filler in _FILLERS for word in filler.split()} - {*_MARKS, *_BEFORE}),
        ]
    )
}


def sentences(count: int, seed: int) -> List[Tuple[str, str]]:
    """So many pairs of a sentence and its class, the same on every machine."""
    source = random.Random(seed)
    return [_sentence(source) for _ in range(count)]


def _one(source: random.Random, words: Any) -> Any:
    return words[int(source.random() * len(words))]  # the only stream that Python promises to keep


def _clause(source: random.Random, kind: str) -> Tuple[str, str]:
    words = [_one(source, _BEFORE), _one(source, _THINGS), _one(source, _VERBS)]
    negated = source.random() < 0.35
    if negated:
        words.append(_one(source, ("not", "never")))
    if source.random() < 0.4:
        words.append(_one(source, _DEGREES))
    words.append(_one(source, _JUDGEMENTS[kind]))
    if source.random() < 0.3:
        words.append(_one(source, _FILLERS))
    turned = {"positive": "negative", "negative": "positive", "neutral": "neutral"}
    return " ".join(words), turned[kind] if negated else kind


def _sentence(source: random.Random) -> Tuple[str, str]:
    (first, _), (last, meant) = (_clause(source, _one(source, CLASSES)) for _ in range(2))
    form = int(source.random() * 3)
    if form == 0:
        return last, meant
    return (f"{first} but {last}" if form == 1 else f"although {first} {last}"), meant


def encoded(pairs: List[Tuple[str, str]], length: int) -> torch.Tensor:
    """Word numbers, (sentences, length) int64: the start mark, the words, padding.

    Raises:
        ValueError: A sentence has more than ``length - 1`` words.
    """
    rows = [[VOCABULARY["[start]"], *(VOCABULARY[word] for word in text.split())] for text, _ in pairs]
    longest = max(map(len, rows))
    if longest > length:
        raise ValueError(f"a sentence has {longest} marks, more than {length}")
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def labels_of(pairs: List[Tuple[str, str]]) -> torch.Tensor:
    """Class numbers, (sentences,) int64."""
    return torch.tensor([CLASSES.index(label) for _, label in pairs])


class Classifier(nn.Module):
    """Two layers of eager attention; the state of the start mark decides."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(VOCABULARY), WIDTH)
        self.places = nn.Parameter(torch.zeros(WORDS, WIDTH))
        self.layers = nn.ModuleList(_Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(CLASSES))

    def forward(self, tokens: torch.Tensor, layout: str = "contiguous") -> torch.Tensor:
        """Scores (sentences, classes) for word numbers (sentences, length).

        ``layout``: how the keys come to the first product, as a ``transposed`` view or ``contiguous``.
        """
        state = self.words(tokens)
        known = min(tokens.shape[1], WORDS)
        state[:, :known] += self.places[:known]
        hidden = tokens.eq(0)
        for layer in self.layers:
            state = layer(state, hidden, layout)
        return self.head(self.norm(state[:, 0]))


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, state: torch.Tensor, hidden: torch.Tensor, layout: str) -> torch.Tensor:
        query, key, value = (_by_head(part) for part in self.mixed(self.before(state)).chunk(3, -1))
        turned = key.transpose(1, 2)
        scores = torch.bmm(query * (WIDTH // HEADS) ** -0.5, turned.contiguous() if layout == "contiguous" else turned)
        del query, key, turned
        joined = torch.bmm(_softmax(scores, hidden), value)
        del scores, value
        batch, length, _ = state.shape
        context = joined.view(batch, HEADS, length, -1).transpose(1, 2).reshape(batch, length, WIDTH)
        state = state + self.out(context)
        return state + self.down(F.gelu(self.up(self.between(state))))


def _by_head(state: torch.Tensor) -> torch.Tensor:
    """(sentences, length, width) as contiguous (sentences * heads, length, width / heads)."""
    batch, length, _ = state.shape
    return state.reshape(batch, length, HEADS, -1).transpose(1, 2).reshape(batch * HEADS, length, -1)


def _softmax(scores: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Softmax over the words that are there. Without gradients in place and in parts.

    So the oversized tensor exists once, and only ``bmm`` ever sees the whole of it.
    """
    mask = hidden.repeat_interleave(HEADS, 0).unsqueeze(1)
    if torch.is_grad_enabled():
        return torch.softmax(scores.masked_fill(mask, float("-inf")), -1)
    for part, absent in zip(scores.split(256), mask.split(256)):  # noqa: B905 - Python 3.8
        part.copy_(torch.softmax(part.masked_fill_(absent, float("-inf")), -1))
    return scores


def load(device: Any, dtype: torch.dtype) -> Classifier:
    """The trained classifier.

    Raises:
        RuntimeError: The weights are not those that belong to this file.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), WEIGHTS)
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != SHA256:
        raise RuntimeError(f"{WEIGHTS} has SHA-256 {found}, not {SHA256}")
    model = Classifier()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return model.to(device=device, dtype=dtype).eval().requires_grad_(False)
