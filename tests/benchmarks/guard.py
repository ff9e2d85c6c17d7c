"""What the guard costs: microseconds per operation, and how much longer a small and a large transformer step takes.

python -m tests.benchmarks.guard [VERSION ...]      (default: 2.4.1 and 2.14.0; environments are built when missing)

One thread. Times are CPU times of that thread, which a busy machine changes less than wall times; the guard waits for
nothing. With and without guard are measured in turn; medians over rounds. Exit status 1 when an operation costs more
than 15 µs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple  # noqa: UP035 - the inner part runs on the environment's Python

LIMIT_US = 15.0
ROUNDS = 9
TENSORS = 20
Measured = Dict[str, Tuple[float, float]]  # noqa: UP006


def main(versions: list[str]) -> int:
    from tests.benchmarks.timing import interpreter, quiet_python

    worst = 0.0
    for version in versions:
        python = interpreter(version)
        root = Path(__file__).resolve().parents[2]
        variables = {**quiet_python(python), "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([python, __file__, "--inside"], env=variables, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"torch {version}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        for name, (without, guarded) in found["operations"].items():
            print(f"  {name:32} {without:8.2f} µs, guarded {guarded:8.2f} µs: {guarded - without:+6.2f} µs")
            worst = max(worst, guarded - without)
        for name, (without, guarded) in found["steps"].items():
            print(
                f"  {name:32} {without / 1e3:8.2f} ms, guarded {guarded / 1e3:8.2f} ms: ratio {guarded / without:.3f}"
            )
    verdict = "within" if worst <= LIMIT_US else "BEYOND"
    print(f"dearest operation: {worst:.1f} µs, {verdict} the limit {LIMIT_US:.0f} µs")
    return int(worst > LIMIT_US)


def inside() -> None:
    """Runs in the environment of a release; prints one line of JSON."""
    import torch

    torch.set_num_threads(1)
    found = {"operations": operations(torch), "steps": steps(torch)}
    print(json.dumps(found))


def operations(torch: Any) -> Measured:
    """Microseconds per call without and with guard."""
    tiny, view, large = torch.ones(4, 4), torch.ones(4, 4).t(), torch.ones(70000)
    trained, row = torch.ones(4, 4, requires_grad=True), torch.ones(1, 70000)
    column = row.t()
    many = [torch.ones(4) for _ in range(TENSORS)]
    picks = torch.zeros(70000, dtype=torch.int64)

    def inference() -> None:
        with torch.inference_mode():
            torch.mm(tiny, tiny)

    calls: Dict[str, Callable[[], Any]] = {  # noqa: UP006
        "add": lambda: torch.add(tiny, tiny),
        "add, strided": lambda: torch.add(view, view),
        "add in place": lambda: tiny.mul_(1.0),
        "add, recorded by autograd": lambda: torch.add(trained, trained),
        "mm": lambda: torch.mm(tiny, tiny),
        "mm, inference": inference,
        "view": lambda: tiny.view(16),
        "sum": lambda: tiny.sum(),
        "cat": lambda: torch.cat([tiny, tiny]),
        "zeros": lambda: torch.zeros(4, 4),
        "arange": lambda: torch.arange(5),
        "layer_norm": lambda: torch.nn.functional.layer_norm(tiny, (4,)),
        "add, product beyond 2**32": lambda: torch.add(large, large),
        "lerp, product beyond 2**32": lambda: torch.lerp(large, large, 0.5),
        "mm, product beyond 2**32": lambda: torch.mm(row, column),
        "index_select, beyond 2**32": lambda: large.index_select(0, picks),
        "foreach, per tensor": lambda: torch._foreach_add(many, 1.0),
    }
    found = {}
    for name, call in calls.items():
        without, guarded = in_turn(call, 1000, ROUNDS)
        share = TENSORS if name.startswith("foreach") else 1
        found[name] = (without / share, guarded / share)
    return found


def steps(torch: Any) -> Measured:
    """Microseconds of one forward and backward."""
    found = {}
    for name, width, heads, layers, length, rounds in (
        ("small transformer step (64, 2)", 64, 4, 2, 32, 31),
        ("large transformer step (768, 4)", 768, 12, 4, 256, 7),
    ):
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, dropout=0.0)
        model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        inputs = torch.randn(1, length, width)

        def step(model: Any = model, inputs: Any = inputs) -> None:
            model(inputs).square().mean().backward()

        found[name] = in_turn(step, 1, rounds)
    return found


def in_turn(call: Callable[[], Any], count: int, rounds: int) -> Tuple[float, float]:  # noqa: UP006
    """Median microseconds of a call without and with guard, measured in turn."""
    from bisect_torch.numerics import Guard

    times: List[List[float]] = [[], []]  # noqa: UP006
    guard = Guard(device="cpu")
    for number in range(rounds + 1):
        first = microseconds(call, count)
        with guard:
            second = microseconds(call, count)
        if number:  # the first round warms up
            times[0].append(first)
            times[1].append(second)
    return statistics.median(times[0]), statistics.median(times[1])


def microseconds(call: Callable[[], Any], count: int) -> float:
    """CPU time of one call, from a row of ``count``."""
    begin = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - begin) / count * 1e6


if __name__ == "__main__":
    if sys.argv[1:] == ["--inside"]:
        inside()
    else:
        sys.exit(main(sys.argv[1:] or ["2.4.1", "2.14.0"]))
