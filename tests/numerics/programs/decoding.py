"""Rules of the decoder that ships with the cases, run with a real torch."""

import json
import os
import sys
import tempfile

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.append(os.path.join(ROOT, "cases"))

import _decoder  # noqa: E402
import _decoder_ranks  # noqa: E402
from _decoder_greedy import greedy, teacher_forced  # noqa: E402
from _decoder_text import questions  # noqa: E402

from bisect_torch.worker import api  # noqa: E402

CASES = os.path.join(ROOT, "cases", "decoding_greedy.py")
PROMPTS = [question.prompt for question in questions()[:6]]
UNEVEN = [prompt[: len(prompt) - cut] for cut, prompt in enumerate(PROMPTS)]
LIMIT = 40

torch.set_num_threads(1)  # a rule below forks


def in_float64(prompts, **options):
    return greedy(_decoder.build("float64"), prompts, dtype=torch.float64, limit=LIMIT, **options)


def assert_same(answers, others):
    assert answers.outputs == others.outputs
    for mine, theirs in zip(answers.logits, others.logits, strict=True):
        assert float((mine - theirs).abs().max()) <= 1e-12 * float(theirs.abs().max())


def rule_two_processes_give_what_one_gives():
    assert_same(
        _decoder_ranks.greedy_in_two(PROMPTS, dtype="float64", batch=4, limit=LIMIT), in_float64(PROMPTS, batch=4)
    )


def rule_a_second_process_that_dies_is_an_error_and_nothing_is_left_of_it():
    parent = os.getpid()
    whole = _decoder_ranks._summed
    calls = []

    def dying(part):
        calls.append(part)
        if os.getpid() != parent and len(calls) == 5:
            os._exit(3)
        return whole(part)

    _decoder_ranks._summed = dying
    try:
        _decoder_ranks.greedy_in_two(PROMPTS, dtype="float32", batch=4, limit=LIMIT)
    except RuntimeError:
        return
    finally:
        _decoder_ranks._summed = whole
        assert not _decoder_ranks.multiprocessing.active_children()
    raise AssertionError("no error")


def rule_the_cache_gives_what_reading_everything_again_gives():
    answers = in_float64(PROMPTS, batch=1)
    model = _decoder.build("float64")
    assert sum(map(len, answers.outputs)) > 100
    for prompt, output, logits in zip(PROMPTS, answers.outputs, answers.logits, strict=True):
        again = teacher_forced(model, prompt, output, torch.float64)
        assert float((logits - again).abs().max()) <= 1e-12 * float(again.abs().max())
        assert output == again.argmax(-1).tolist()


def rule_padding_on_the_left_changes_nothing_in_float64():
    alone = in_float64(UNEVEN, batch=1)
    assert len({len(prompt) for prompt in UNEVEN}) == len(UNEVEN)
    assert_same(in_float64(UNEVEN, batch=6), alone)
    assert_same(in_float64(UNEVEN, batch=4, padding=11), alone)


def rule_every_precision_holds_the_same_weights():
    exact = _decoder.build("float64").state_dict()
    for dtype in ("bfloat16", "float32", "layercast"):
        state = _decoder.build(dtype).state_dict()
        assert state.keys() == exact.keys()
        assert all(torch.equal(state[name].double(), exact[name]) for name in exact)
    half = _decoder.build("float16").state_dict()
    assert all(float((half[name].double() - exact[name]).abs().max()) <= 2.0**-25 for name in exact)


def rule_the_parts_of_two_processes_are_the_whole():
    for name, weight in _decoder.stored_weights().items():
        parts = [_decoder.part_of(name, weight, rank, 2) for rank in (0, 1)]
        if parts[0].shape == weight.shape:
            assert all(torch.equal(part, weight) for part in parts)
        else:
            assert sum(part.numel() for part in parts) == weight.numel()
            assert torch.equal(torch.cat([part.reshape(-1) for part in parts]).sort()[0], weight.reshape(-1).sort()[0])


def rule_layercast_decodes_bit_for_bit_as_float32():
    found = [
        greedy(_decoder.build(name), PROMPTS, dtype=torch.float32, batch=4, limit=LIMIT)
        for name in ("float32", "layercast")
    ]
    assert found[0].outputs == found[1].outputs
    assert all(torch.equal(one, other) for one, other in zip(found[0].logits, found[1].logits, strict=True))


def rule_weights_that_are_not_those_that_ship_are_refused():
    known, message = _decoder.WEIGHTS, ""
    with open(known, "rb") as file:
        content = file.read()
    assert len(content) < 1_000_000
    folder = tempfile.mkdtemp()
    _decoder.WEIGHTS = os.path.join(folder, "decoder_weights.pt")
    try:
        with open(_decoder.WEIGHTS, "wb") as file:
            file.write(content[:-1] + bytes([content[-1] ^ 1]))
        _decoder.stored_weights()
    except RuntimeError as problem:
        message = str(problem)
    finally:
        _decoder.WEIGHTS = known
    assert "not the file that ships" in message


def measured(name, **parameters):
    definitions = {definition.name: definition for definition in api.load_case_file(CASES)}
    sys.modules[definitions[name].function.__module__].LIMIT = 24
    facts = api.run_case(definitions[name], parameters, "cpu", 1)
    assert not facts.get("wrong_elements"), facts
    assert not facts.get("mismatch"), facts
    return json.loads(facts["measurements"])


def rule_a_cell_records_its_facts():
    facts = measured("one_thread", dtype="bfloat16", batch=8, padding=23)
    assert {name: facts[name] for name in ("dtype", "batch", "threads", "padding", "processes", "questions")} == {
        "dtype": "bfloat16",
        "batch": 8,
        "threads": 1,
        "padding": 23,
        "processes": 1,
        "questions": 32,
    }
    assert facts["output_length"] == [len(output) for output in facts["outputs"]]
    assert 0 <= facts["correct"] <= facts["answerable"] == 16
    for place, length, chosen, path in zip(
        facts["div_index"], facts["output_length"], facts["top1_probability"], facts["top1_path"], strict=True
    ):
        assert place is None or 0 <= place <= length
        assert (chosen is None) == (place is None or place == length)
        before = length if place is None else place
        assert len(path) == (before + facts["top1_every"] - 1) // facts["top1_every"]
        assert all(0.0 < probability <= 1.0 for probability in path)


def rule_the_reference_configuration_does_not_differ_from_itself():
    facts = measured("one_thread", dtype="bfloat16", batch=1, padding=0)
    assert facts["div_index"] == facts["top1_probability"] == [None] * 32


def rule_a_cell_of_two_processes_records_its_facts():
    facts = measured("two_processes", dtype="float32", batch=32)
    assert facts["processes"] == 2
    assert len(facts["outputs"]) == 32
