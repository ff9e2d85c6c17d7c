"""Asking a server again where a failure may pass, in bounded time.

``requests`` bounds the silence of a server, not the whole answer: one that sends a byte now and then is never silent.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import requests

Answer = TypeVar("Answer")

TOTAL_S = 120.0
"""Longest time for one answer, with all tries."""

_PAUSES_S = (0.2, 1.0)
_LONGEST_PAUSE_S = 10.0
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be others a moment later."""


def patiently(ask: Callable[[], Answer], *, total_s: float | None = None) -> Answer:
    """What ``ask`` gives, asked up to three times where the failure may pass.

    A server that was silent for as long as it may be is not asked again, nor one whose certificate is not trusted.

    Args:
        ask: Raises ``requests.HTTPError`` for a status that is a failure.
        total_s: Seconds after which it is left behind, whatever it does; :data:`TOTAL_S` when None.

    Raises:
        requests.RequestException: As the last try did; ``Timeout`` when the time is over.
    """
    total_s = TOTAL_S if total_s is None else total_s
    answers: queue.Queue[tuple[Answer | None, BaseException | None]] = queue.Queue()

    def work() -> None:
        try:
            answers.put((_again(ask), None))
        except BaseException as error:  # noqa: BLE001 - handed over, so that it does not vanish with this thread
            answers.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        answer, error = answers.get(timeout=total_s)
    except queue.Empty:
        raise requests.Timeout(f"not answered within {total_s:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]


def _again(ask: Callable[[], Answer]) -> Answer:
    for pause in _PAUSES_S:
        try:
            return ask()
        except requests.RequestException as error:
            if not _may_pass(error):
                raise
            time.sleep(_pause(error, pause))
    return ask()


def _may_pass(error: requests.RequestException) -> bool:
    if isinstance(error, requests.HTTPError):
        return error.response is not None and error.response.status_code in PASSING
    if isinstance(error, requests.exceptions.SSLError | requests.Timeout):
        return False
    return isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError)


def _pause(error: requests.RequestException, usual_s: float) -> float:
    """Seconds to wait: what the server asks for, where it does so in seconds, within reason."""
    asked = error.response.headers.get("Retry-After", "") if error.response is not None else ""
    return min(float(asked), _LONGEST_PAUSE_S) if asked.isdecimal() else usual_s
