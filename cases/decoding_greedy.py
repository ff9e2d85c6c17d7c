"""Does the greedy output of a small language model depend on how it is computed, and on the release of torch?

The same 32 questions, half of them sums to be worked out in steps, half of them beginnings of stories, are decoded in
four precisions under every choice of batch size, threads, padding and number of processes. A cell is ``ok`` when the
logits that it chose its tokens by agree with float64 on the same tokens within the rounding of its precision; that
16-bit precisions choose other tokens in another batch is no fault of torch, and is recorded: see ``_decoder.py`` for
the names. Sources: arXiv 2506.09501 for the effect and the measures; the reference configuration is batch 1.

Not every combination is run. Two threads decode the whole batch of 32, two processes batches of 8 and 32: with small
batches each of some thousand steps waits for the other thread or process again and again, which takes minutes on a
busy machine (measured). Two processes have one thread each and no padding: both act inside a process, as with one.
"""

import hashlib
import math

import torch
from _decoder import COMPUTED_IN, HIDDEN, LAYERS, WIDTH, build
from _decoder_greedy import greedy, teacher_forced
from _decoder_text import SUMS, SYMBOLS, divergence, is_right, questions

from bisect_torch import case, check, record, skip

LIMIT = 192
"""Tokens of an output at most."""

CHECKED = 8
"""Questions whose logits are compared with float64: the first ones, as many sums as stories."""

EVERY = 8
PRECISIONS = ["bfloat16", "float16", "float32", "layercast"]


@case(dtype=PRECISIONS, batch=[1, 8, 32], padding=[0, 23], timeout=180)
def one_thread(dtype, batch, padding):
    _one_process(dtype, threads=1, batch=batch, padding=padding)


@case(dtype=PRECISIONS, batch=[32], padding=[0, 23], timeout=600)
def two_threads(dtype, batch, padding):
    _one_process(dtype, threads=2, batch=batch, padding=padding)


@case(dtype=PRECISIONS, batch=[8, 32], timeout=600)
def two_processes(dtype, batch):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        skip("this torch is built without gloo")
    from _decoder_ranks import greedy_in_two

    prompts = [question.prompt for question in questions()]
    answers = greedy_in_two(prompts, dtype=dtype, batch=batch, padding=0, limit=LIMIT)
    _conclude(answers, dtype, threads=1, processes=2, batch=batch, padding=0)


def _one_process(dtype, *, threads, **options):
    torch.set_num_threads(threads)
    prompts = [question.prompt for question in questions()]
    answers = greedy(build(dtype), prompts, dtype=COMPUTED_IN[dtype], limit=LIMIT, **options)
    _conclude(answers, dtype, threads=threads, processes=1, **options)


def _conclude(answers, dtype, *, threads, **configuration):
    """Record what came out, compare it with the reference configuration and the logits with float64."""
    asked = questions()
    torch.set_num_threads(1)
    prompts = [question.prompt for question in asked]
    reference = greedy(build(dtype), prompts, dtype=COMPUTED_IN[dtype], batch=1, limit=LIMIT)
    torch.set_num_threads(threads)
    outputs = answers.outputs
    texts = ["".join(SYMBOLS[token] for token in output) for output in outputs]
    places = [divergence(outputs[i], reference.outputs[i]) for i in range(len(asked))]
    chosen = [[round(one, 9) for one in path] for path in answers.probabilities()]
    record(
        dtype=dtype,
        threads=threads,
        **configuration,
        questions=len(asked),
        answerable=SUMS,
        correct=sum(is_right(question, outputs[i]) for i, question in enumerate(asked)),
        tokens=hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32],
        outputs=texts,
        output_length=[len(output) for output in outputs],
        div_index=places,
        top1_probability=[_at(chosen[i], place) for i, place in enumerate(places)],
        top1_every=EVERY,
        top1_path=[chosen[i][:place:EVERY] for i, place in enumerate(places)],
        tied=answers.tied(),
    )
    exact = build("float64")
    expected = [teacher_forced(exact, asked[i].prompt, outputs[i], torch.float64) for i in range(CHECKED)]
    _check_logits(torch.cat(answers.logits[:CHECKED]), torch.cat(expected))


def _at(path, place):
    return path[place] if place is not None and place < len(path) else None


def _check_logits(logits, expected):
    """Normwise, by the theorem of ``bisect_torch.numerics.tolerance``: c sqrt(n) u for n roundings one after another.

    A 16-bit model rounds every result of an operator, about 12 on the way through a block, and sums in float32; the
    sums of a float32 model round at every term. For the few roundings of a 16-bit model c is 4, not 8: errors of 0.017
    (2.14.0) and 0.035 (2.4.1) of the largest logit were measured in bfloat16, the bound is 0.083.
    """
    if logits.dtype == torch.float32:
        longest = LAYERS * (3 * WIDTH + HIDDEN + LIMIT) + WIDTH
        check(logits, expected, k=longest)
    else:
        roundings = 12 * LAYERS + 4
        bound = 4.0 * math.sqrt(roundings) * torch.finfo(logits.dtype).eps / 2
        check(logits, expected, rtol=0.0, atol=bound * float(expected.abs().max()))
