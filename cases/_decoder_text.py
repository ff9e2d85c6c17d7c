"""The little language of the decoder: its words, the text that it is trained on and the questions that it is asked.

All text comes from the grammar below. Two kinds of it:

- Sums, with the steps written out before the answer: ``add 0 1 3 4 7 + 2 8 2 5 8 :``, then one step per
  digit, then the sum.
- Stories: a number of sentences about some animals.

Where several words fit, each is as likely as the others. So a model that has learned the language finds several next
words about equally good, and the smallest error in its arithmetic may decide which one comes first: in the free words
of a story, and in the ways to put a step of a sum, which change an answer's length and may change its value.
"""

from __future__ import annotations

import random
from typing import Dict, List, NamedTuple, Optional, Sequence

END = "end"
ANIMALS = ("fox", "bear", "owl", "cat", "hen", "wolf")
WORDS = (
    *("pad", END, "add", "tale", "once", "there", "was", "+", ":", ".", ",", *"0123456789"),
    *("first", "then", "now", "next", "and", "plus", "with", "make", "give", "is", "write", "put", "carry", "keep"),
    *("so", "sum", "the", "a", "old", "red", "small", "shy", *ANIMALS),
    *("saw", "met", "fed", "lost", "boat", "hill", "tree", "lake", "near", "by", "it", "ran", "home"),
)
"""At most 64: a token's number is one character of ``SYMBOLS``."""

SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PAD_TOKEN, END_TOKEN = 0, 1
NUMBER = {word: number for number, word in enumerate(WORDS)}

DIGITS = 5
PROMPT_LENGTH = 2 * DIGITS + 3
QUESTIONS = 32
SUMS = 16
"""Every other question is a sum, the others are stories, so that each batch holds both."""

_QUESTION_SEED = 20250609


class Question(NamedTuple):
    """A prompt of ``PROMPT_LENGTH`` tokens, and the digits of its answer; None for a story, which has no right one."""

    prompt: List[int]
    answer: Optional[List[int]]


class Chance:
    """Even choices that are the same with every Python: only ``random()`` is promised to give the same numbers."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def below(self, count: int) -> int:
        return int(self._generator.random() * count)

    def of(self, *choices: str) -> str:
        return choices[self.below(len(choices))]


def encode(text: str) -> List[int]:
    """The tokens of words that stand between blanks."""
    return [NUMBER[word] for word in text.split()]


def decode(tokens: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)


def sum_text(a: int, b: int, chance: Chance) -> str:
    """The prompt and the answer with its steps, from the last digit to the first."""
    ones, others = _digits(a), _digits(b)
    parts = ["add", *ones, "+", *others, ":"]
    carry = 0
    for place in range(DIGITS - 1, -1, -1):
        start = "first" if place == DIGITS - 1 else chance.of("then", "now", "next")
        total = int(ones[place]) + int(others[place]) + carry
        joined = chance.of("and", "plus", "with")
        parts += [start, ones[place], joined, others[place], *([joined, str(carry)] if carry else [])]
        parts += [chance.of("make", "give", "is"), *str(total)]
        if place:
            parts += [",", chance.of("write", "put"), str(total % 10)]
            carry = total // 10
            parts += ["and", chance.of("carry", "keep"), "1"] if carry else []
        parts.append(".")
    return " ".join([*parts, *chance.of("so the sum is", "the sum is", "so it is").split(), *str(a + b), ".", END])


def story_text(chance: Chance) -> str:
    """The prompt, which names two animals, and sentences about them and others, none like the two before it."""
    story = _Story(chance)
    one, other = (story.fresh("animal", ANIMALS) for _ in range(2))
    opening = [
        "tale",
        ":",
        "once",
        "there",
        "was",
        "the",
        story.quality(),
        one,
        "and",
        "the",
        story.quality(),
        other,
        ".",
    ]
    sentences = [story.sentence(one, other) for _ in range(3 + chance.below(20))]
    return " ".join([*opening, *(word for sentence in sentences for word in sentence), END])


class _Story:
    """Remembers what was said: a story that may repeat itself is continued, greedily, by one sentence for ever."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._said: Dict[str, List[str]] = {}

    def fresh(self, kind: str, choices: Sequence[str]) -> str:
        """One of the choices, but none of the last two of its kind, while two are left."""
        said = self._said.setdefault(kind, [])
        recent = said[-min(2, len(choices) - 2) :] if len(choices) > 2 else []
        said.append(self._chance.of(*(choice for choice in choices if choice not in recent)))
        return said[-1]

    def quality(self) -> str:
        return self.fresh("quality", ("old", "red", "small", "shy"))

    def sentence(self, one: str, other: str) -> List[str]:
        shape = self.fresh("shape", ("saw", "ran", "place", "both"))
        words = [*self.fresh("start", ("the", "then the", "so the", "now the")).split()]
        if shape == "place":
            return [*words, self.quality(), self._chance.of(one, other), "ran", *self._place(), "."]
        words.append(self._chance.of(one, other))
        if shape == "ran":
            return [*words, "ran", *([] if self._chance.below(2) else ["home"]), "."]
        words += [self.fresh("verb", ("saw", "met", "fed", "lost")), self._chance.of("the", "a")]
        if shape == "saw":
            return [*words, self.quality(), self.fresh("animal", ANIMALS), "."]
        return [*words, self.fresh("animal", ANIMALS), *self._place(), "and", "it", "ran", "."]

    def _place(self) -> List[str]:
        place = [self._chance.of("near", "by"), self._chance.of("the", "a"), self.quality()]
        return [*place, self.fresh("place", ("boat", "hill", "tree", "lake"))]


def _digits(number: int) -> List[str]:
    return list(f"{number:0{DIGITS}d}")


def held_out(a: int, b: int) -> bool:
    """Whether a sum is kept for the questions: the model is never trained on it."""
    return (a * 7 + b * 3) % 10 == 1


def questions() -> List[Question]:
    """The questions, always the same: sums that no training text holds, and beginnings of stories."""
    chance = Chance(_QUESTION_SEED)
    found: List[Question] = []
    while len(found) < QUESTIONS:
        if len(found) % 2:
            found.append(Question(encode(story_text(chance))[:PROMPT_LENGTH], None))
            continue
        a, b = chance.below(10**DIGITS), chance.below(10**DIGITS)
        if held_out(a, b):
            found.append(Question(encode(sum_text(a, b, chance))[:PROMPT_LENGTH], encode(" ".join(str(a + b)))))
    return found


def is_right(question: Question, output: Sequence[int]) -> bool:
    """Whether an output ends with the question's sum: its digits, a full stop and the end, and no digit before them."""
    if question.answer is None:
        return False
    ending = [*question.answer, NUMBER["."], END_TOKEN]
    before = list(output[: -len(ending)])
    digits = {NUMBER[digit] for digit in "0123456789"}
    return list(output[-len(ending) :]) == ending and bool(before) and before[-1] not in digits


def divergence(one: Sequence[int], other: Sequence[int]) -> Optional[int]:
    """How many leading tokens of two outputs are equal; None when they are the same."""
    if list(one) == list(other):
        return None
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)
