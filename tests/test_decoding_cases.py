"""The decoding cases: their text, their grid and their weights; the rules of the decoder on two real releases."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from bisect_torch.cases import discover
from bisect_torch.shipped import shipped
from tests.numerics.test_on_real_torch import ends, outcomes, rules

CASES = Path(str(shipped("cases")))


@pytest.fixture(scope="module")
def text() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("_decoder_text", CASES / "_decoder_text.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_a_word_is_one_symbol(text: ModuleType) -> None:
    assert len(set(text.WORDS)) == len(text.WORDS) <= len(set(text.SYMBOLS)) == 64
    assert (text.WORDS[text.PAD_TOKEN], text.WORDS[text.END_TOKEN]) == ("pad", "end")


def test_the_steps_of_a_sum_are_right(text: ModuleType) -> None:
    chance = text.Chance(7)
    for _ in range(300):
        a, b = chance.below(10**text.DIGITS), chance.below(10**text.DIGITS)
        words = text.sum_text(a, b, chance)
        digits = [f"{number:0{text.DIGITS}d}" for number in (a, b)]
        assert words.split()[: text.PROMPT_LENGTH] == ["add", *digits[0], "+", *digits[1], ":"]
        assert words.endswith(f"is {' '.join(str(a + b))} . end")
        for terms, total in re.findall(r"(\d(?: (?:and|plus|with) \d)+) (?:make|give|is) (\d(?: \d)?)", words):
            assert sum(map(int, re.findall(r"\d", terms))) == int(total.replace(" ", ""))


def test_questions_are_of_equal_length_always_the_same_and_held_out(text: ModuleType) -> None:
    asked = text.questions()
    assert asked == text.questions()
    assert len(asked) == text.QUESTIONS == len({tuple(question.prompt) for question in asked})
    assert {len(question.prompt) for question in asked} == {text.PROMPT_LENGTH}
    sums = [question for question in asked if question.answer is not None]
    assert len(sums) == text.SUMS
    for question in sums:
        words = text.decode(question.prompt)
        a, b = (int("".join(re.findall(r"\d", part))) for part in words.split("+"))
        assert text.held_out(a, b)
        assert text.decode(question.answer).replace(" ", "") == str(a + b)


@pytest.mark.parametrize(
    ("ending", "right"),
    [
        ("so it is 5 6 1 . end", True),
        ("so it is 1 5 6 1 . end", False),
        ("so it is 5 6 1 .", False),
        ("so it is 5 6 1 . end end", False),
        ("so it is 5 6 2 . end", False),
        ("5 6 1 . end", False),
    ],
)
def test_only_the_exact_answer_at_the_end_is_right(text: ModuleType, ending: str, right: bool) -> None:
    question = text.Question(text.encode("add 0 0 5 3 2 + 0 0 0 2 9 :"), text.encode("5 6 1"))
    assert text.is_right(question, text.encode(ending)) is right
    assert text.is_right(text.Question(question.prompt, None), text.encode(ending)) is False


def test_divergence_is_the_number_of_equal_leading_tokens(text: ModuleType) -> None:
    assert text.divergence([3, 4, 5], [3, 4, 5]) is None
    assert text.divergence([3, 4, 5], [3, 9, 5]) == 1
    assert text.divergence([3, 4], [3, 4, 5]) == text.divergence([3, 4, 5], [3, 4]) == 2
    assert text.divergence([], [1]) == 0


def test_the_weights_are_those_that_the_case_files_name_and_small() -> None:
    content = (CASES / "decoder_weights.pt").read_bytes()
    assert len(content) < 1_000_000
    assert f'WEIGHTS_SHA256 = "{hashlib.sha256(content).hexdigest()}"' in (CASES / "_decoder.py").read_text()


def test_every_axis_is_there_and_each_precision_has_its_reference_configuration() -> None:
    (found,) = discover([CASES / "decoding_greedy.py"])
    assert found.instances is not None, "every parameter can be read without torch"
    names = {instance.name for instance in found.instances}
    assert len(names) == len(found.instances) <= 60
    for dtype in ("bfloat16", "float16", "float32", "layercast"):
        assert f"one_thread[dtype={dtype},batch=1,padding=0]" in names
        assert f"two_threads[dtype={dtype},batch=32,padding=23]" in names
        assert f"two_processes[dtype={dtype},batch=32]" in names
    assert {instance.name.partition("[")[0] for instance in found.instances} == {
        "one_thread",
        "two_threads",
        "two_processes",
    }


@pytest.mark.real_torch
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize("rule", rules("decoding"))
def test_rule(real_torch: Mapping[str, Path], rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end], ("decoding",))["decoding"][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)
