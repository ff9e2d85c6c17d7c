"""What Ctrl-C does to a run, seen from the command line."""

from __future__ import annotations

import os
import signal
import time

import pytest

from bisect_torch.cli.run import signals_interrupt


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_a_second_does_not_cut_the_stop_short_and_a_third_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with signals_interrupt():
        with pytest.raises(KeyboardInterrupt):
            send(number)
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert signal.getsignal(number) is before
