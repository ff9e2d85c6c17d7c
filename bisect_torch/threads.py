"""The same work on many items, in a few threads that do not keep an interrupted program alive."""

from __future__ import annotations

import queue
import sysconfig
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], *, threads: int) -> list[Result]:
    """``function`` of every item, in order; the first exception ends it.

    An executor of ``concurrent.futures`` would finish all its work before Ctrl-C ends the program. Here what has not
    begun never does, and what runs is left behind.
    """
    waiting = list(enumerate(items))
    waiting.reverse()
    left = len(waiting)
    answers: queue.Queue[tuple[int, Result | None, BaseException | None]] = queue.Queue()

    def work() -> None:
        while True:
            try:
                place, item = waiting.pop()
            except IndexError:
                return
            try:
                answers.put((place, function(item), None))
            except BaseException as error:  # noqa: BLE001
                # Not handled here but handed over: an exception must not vanish with this thread.
                answers.put((place, None, error))

    # Python fills these at the first question, before 3.12 without a lock: a thread that looks for uv would meet them
    # half full where another has just asked.
    sysconfig.get_config_vars()
    results: dict[int, Result] = {}
    for _ in range(min(threads, left)):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in range(left):
            place, result, error = answers.get()
            if error is not None:
                raise error
            results[place] = result  # type: ignore[assignment]
    finally:
        waiting.clear()
    return [results[place] for place in range(left)]
