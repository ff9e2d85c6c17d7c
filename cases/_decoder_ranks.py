"""Tensor parallel decoding over two processes of one machine, which exchange sums by gloo.

The second process is started before the first has run an operator: after that a fork could not be trusted, since the
threads of torch would be missing in it. Both meet over a file in a folder of their own, so there is no port that
could be taken. The second one dies with the first: its pipe and its connection end.
"""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import Any, Iterator, List, Sequence

import torch
import torch.distributed as distributed
from _decoder import COMPUTED_IN, build
from _decoder_greedy import Answers, greedy

RANKS = 2
START = "fork" if sys.platform.startswith("linux") else "spawn"
_WAIT = datetime.timedelta(seconds=60)
_LEAVE_S = 10.0

# On older releases (seen on 2.4.1) the end of a group holds the interpreter's lock while it waits for gloo's threads; a
# thread that lets go of a tensor which Python has dropped already waits for that lock: for ever. So none is dropped.
_exchanged: List[torch.Tensor] = []


class RanksDifferError(AssertionError):
    """The processes hold the same sums but chose different tokens."""


def greedy_in_two(prompts: Sequence[Sequence[int]], *, dtype: str, **options: Any) -> Answers:
    """As :func:`_decoder_greedy.greedy`, with heads and hidden units split over this process and another one.

    Args:
        dtype: A key of ``COMPUTED_IN``, or ``float64``.

    Raises:
        RanksDifferError: The two did not choose the same tokens.
        RuntimeError: The other process has failed or hangs; its error is on stderr.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder, _second(folder, prompts, dtype, options) as second:
        answers = _greedy_as(0, folder, prompts, dtype, options)
        if answers.outputs != _received(second):
            raise RanksDifferError("the two processes chose different tokens")
        return answers


def _received(second: Connection) -> List[List[int]]:
    if not second.poll(_WAIT.total_seconds()):
        raise RuntimeError(f"the second process gave no answer for {_WAIT.total_seconds():g} s")
    try:
        outputs: List[List[int]] = second.recv()
    except EOFError:
        raise RuntimeError("the second process ended without an answer") from None
    return outputs


@contextlib.contextmanager
def _second(folder: str, prompts: Sequence[Sequence[int]], dtype: str, options: Any) -> Iterator[Connection]:
    """Start the other process; gives the pipe on which it sends its outputs. It is gone at the end."""
    context = multiprocessing.get_context(START)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, folder, prompts, dtype, options), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
        process.join(_LEAVE_S)
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve(pipe: Connection, folder: str, prompts: Sequence[Sequence[int]], dtype: str, options: Any) -> None:
    pipe.send(_greedy_as(1, folder, prompts, dtype, options).outputs)


def _greedy_as(rank: int, folder: str, prompts: Sequence[Sequence[int]], dtype: str, options: Any) -> Answers:
    torch.set_num_threads(1)
    # Without a name, gloo looks up the machine's own, which fails where there is no network.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform.startswith("linux") else "lo0")
    store = distributed.FileStore(os.path.join(folder, "store"), RANKS)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=_WAIT)
    try:
        model = build(dtype, rank, RANKS, _summed)
        return greedy(model, prompts, dtype=COMPUTED_IN.get(dtype, torch.float64), **options)
    finally:
        distributed.destroy_process_group()
        _exchanged.clear()


def _summed(part: torch.Tensor) -> torch.Tensor:
    """Over the processes, rounded to the type of the parts."""
    total = part.contiguous()
    _exchanged.append(total)
    distributed.all_reduce(total)
    return total
