"""The little language of the decoder: its words, the text that it is trained on and the questions that it is asked.

All text comes from the grammar below. Two kinds of it:

- Sums, with the steps written out before the answer: ``add 3 4 7 + 2 5 8 :``, then one step per digit, then the sum.
- Stories: a number of sentences about some animals.

Where several words fit, each is as likely as the others. So a model that has learned the language finds several next
words about equally good, and the smallest error in its arithmetic may decide which one comes first: in the free words of
a story, and in the ways to put a step of a sum, which change an answer's length and may change its value.
"""

from __future__ import annotations

import random
from typing import List, NamedTuple, Optional, Sequence

END = "end"
ANIMALS = ("fox", "bear", "owl", "cat", "hen", "wolf")
WORDS = (
    ("pad", END, "add", "tale", "+", ":", ".", ",", *"0123456789")
    + ("first", "then", "now", "next", "and", "plus", "with", "make", "give", "is", "write", "put", "carry", "keep")
    + ("so", "sum", "the", "a", "old", "red", "small", "shy", *ANIMALS)
    + ("saw", "met", "fed", "lost", "boat", "hill", "tree", "lake", "near", "by", "it", "ran", "home")
)
"""At most 64: a token's number is one character of ``SYMBOLS``."""

SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PAD_TOKEN, END_TOKEN = 0, 1
NUMBER = {word: number for number, word in enumerate(WORDS)}

DIGITS = 3
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
    """The prompt, which names two animals, and sentences in which they and others appear."""
    one, other = (chance.of(*ANIMALS) for _ in range(2))
    parts = ["tale", ":", "the", _quality(chance), one, "and", "the", other, "."]
    for _ in range(3 + chance.below(20)):
        parts += _sentence(chance, one, other)
    return " ".join([*parts, END])


def _sentence(chance: Chance, one: str, other: str) -> List[str]:
    kind = chance.below(4)
    hero = chance.of(one, other)
    start = chance.of("the", "then the", "so the", "now the").split()
    if kind == 0:
        return [*start, hero, chance.of("ran home", "ran"), "."]
    if kind == 1:
        seen = [chance.of("saw", "met", "fed", "lost"), chance.of("the", "a"), _quality(chance), chance.of(*ANIMALS)]
        return [*start, hero, *seen, "."]
    place = [chance.of("near", "by"), chance.of("the", "a"), _quality(chance), chance.of("boat", "hill", "tree", "lake")]
    if kind == 2:
        return [*start, _quality(chance), hero, "ran", *place, "."]
    return [*start, hero, chance.of("saw", "met", "lost"), "the", chance.of(*ANIMALS), *place, "and", "it", "ran", "."]


def _quality(chance: Chance) -> str:
    return chance.of("old", "red", "small", "shy")


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
