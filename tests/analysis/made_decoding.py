"""Observations of decoding cells, made up, with the names that ``cases/_decoder.py`` documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bisect_torch.model import Observation
from tests.analysis.made import observe

EVERY = 2


def decoded(
    build: str,
    outputs: Sequence[str],
    *,
    dtype: str = "bfloat16",
    batch: int = 1,
    threads: int = 1,
    padding: int = 0,
    processes: int = 1,
    correct: int = 2,
    answerable: int = 4,
    paths: Sequence[Sequence[float]] | None = None,
    word: str = "ok",
    **fields: object,
) -> Observation:
    """One cell; ``word`` other than ``ok`` and ``wrong`` is one without outputs."""
    parameters = {"dtype": dtype, "batch": batch}
    parameters.update({"threads": threads, "padding": padding} if processes == 1 else {})
    case = "one_process" if processes == 1 else "two_processes"
    inside = ",".join(f"{name}={value}" for name, value in parameters.items())
    measured = {
        "dtype": dtype,
        "batch": batch,
        "threads": threads,
        "padding": padding,
        "processes": processes,
        "questions": len(outputs),
        "answerable": answerable,
        "correct": correct,
        "outputs": list(outputs),
        "output_length": [len(output) for output in outputs],
        "top1_every": EVERY,
        "top1_path": [[0.5] * -(-len(output) // EVERY) for output in outputs] if paths is None else paths,
    }
    return observe(
        word,
        build,
        **{
            "case_file": "cases/decoding_greedy.py",
            "case": case,
            "instance": f"{case}[{inside}]",
            "parameters": json.dumps(parameters),
            "measurements": json.dumps(measured) if word in ("ok", "wrong") else "{}",
            **fields,
        },  # type: ignore[arg-type]
    )
