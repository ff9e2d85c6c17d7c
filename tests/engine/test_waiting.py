"""An accelerator runs one cell at a time, whatever else happens, and nobody waits for it who does not need it."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.engine.host import default_jobs
from bisect_torch.engine.plan import accelerator
from bisect_torch.engine.waiting import Waiting
from tests.engine.conftest import MakeTool

PLACES = st.sampled_from([None, "cuda:0", "cuda:1"])


@given(st.lists(PLACES, max_size=30), st.integers(1, 6), st.randoms(use_true_random=False))
def test_every_piece_runs_once_never_two_on_an_accelerator_and_no_slot_idles_without_need(places, slots, draw):
    """A simulation: pieces end in any order; slots take as long as something may run."""
    waiting: Waiting[int] = Waiting()
    for number, place in enumerate(places):
        waiting.put(number, place)
    waiting.close()
    running: list[tuple[int, ExitStack]] = []
    done: list[int] = []
    while len(done) < len(places):
        busy = Counter(places[number] for number, _ in running if places[number])
        assert all(count == 1 for count in busy.values())
        left = [places[n] for n in range(len(places)) if n not in done and n not in [m for m, _ in running]]
        if len(running) < slots and any(place not in busy for place in left):
            stack = ExitStack()
            number = stack.enter_context(waiting.take())
            assert number is not None
            running.append((number, stack))
            continue
        number, stack = running.pop(draw.randrange(len(running)))
        stack.close()
        done.append(number)
    assert sorted(done) == list(range(len(places)))
    for place in (None, "cuda:0", "cuda:1"):
        started = [number for number in done if places[number] == place]
        assert place is None or started == sorted(started), "on an accelerator, in the order in which they came"
    with waiting.take() as work:
        assert work is None


def test_threads_never_share_an_accelerator():
    waiting: Waiting[str | None] = Waiting()
    inside: Counter[str] = Counter()
    guard, together, seen = threading.Lock(), [], []

    def slot() -> None:
        while True:
            with waiting.take() as work:
                if work is None:
                    return
                with guard:
                    inside[work] += 1
                    together.append(inside[work])
                with guard:
                    inside[work] -= 1
                    seen.append(work)

    slots = [threading.Thread(target=slot) for _ in range(8)]
    for each in slots:
        each.start()
    for number in range(400):
        waiting.put(f"cuda:{number % 2}", f"cuda:{number % 2}")
    waiting.close()
    for each in slots:
        each.join()
    assert set(together) == {1}
    assert len(seen) == 400


def test_an_accelerator_is_free_again_after_a_failure():
    waiting: Waiting[int] = Waiting()
    waiting.put(1, "cuda:0")
    waiting.put(2, "cuda:0")
    with pytest.raises(ValueError, match="broken"), waiting.take():
        raise ValueError("broken")
    with waiting.take() as work:
        assert work == 2


def test_a_free_accelerator_goes_first_and_a_busy_one_holds_up_nothing():
    waiting: Waiting[str] = Waiting()
    for work, place in (("a", None), ("b", "cuda:0"), ("c", "cuda:0"), ("d", None)):
        waiting.put(work, place)
    with ExitStack() as stack:
        assert [stack.enter_context(waiting.take()) for _ in range(3)] == ["b", "a", "d"]


def test_what_is_discarded_never_begins():
    waiting: Waiting[int] = Waiting()
    waiting.put(1)
    waiting.close(discard=True)
    with waiting.take() as work:
        assert work is None


@pytest.mark.parametrize(
    ("device", "held"),
    [("cpu", None), ("cpu:0", None), ("cuda", "cuda:0"), ("cuda:0", "cuda:0"), ("cuda:1", "cuda:1"), ("mps", "mps:0")],
)
def test_a_device_without_a_number_is_the_first(device, held):
    assert accelerator(device) == held


def test_an_accelerator_adds_a_slot_so_that_no_core_waits_for_it():
    cores = default_jobs(["cpu"])
    assert default_jobs(["cpu", "cuda", "cuda:0", "cuda:1"]) == cores + 2


# --- the real tool on fake devices ------------------------------------------------------------------------------

FAKE_DEVICES = """
Tensor.to = lambda self, *_, **__: self
Tensor.cpu = lambda self: self
cuda.is_available = lambda: True
"""
"""Appended to the fake torch: its controls of the device pass."""

CASES = '''
import os
import time
from pathlib import Path

from bisect_torch import case

NOTES = Path({notes!r})


def wait_for(name):
    """No clock decides: without the other cell, this one fails by its time limit."""
    while not (NOTES / name).exists():
        time.sleep(0.01)


@case(n=[1, 2, 3, 4])
def alone(device, n):
    """On an accelerator nobody else is there; the folder can be made by one cell only."""
    if device != "cpu":
        (NOTES / device).mkdir()
        time.sleep(0.05)
        (NOTES / device).rmdir()


@case
def beside(device):
    """Each device's cell waits for those of all others: they must run at the same time."""
    (NOTES / ("seen " + device)).touch()
    for other in {devices!r}:
        wait_for("seen " + other)
'''


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_several_devices_in_one_run(make_tool: MakeTool, tmp_path: Path, isolation: str) -> None:
    """One cell at a time on each of two accelerators, those and the CPU side by side, on two builds."""
    devices = ("cpu", "cuda:0", "cuda:1")
    notes = tmp_path / "notes"
    notes.mkdir()
    tool = make_tool({"2.4.1": FAKE_DEVICES, "2.5.0": FAKE_DEVICES})
    tool.write("cases.py", CASES.format(notes=str(notes), devices=devices))

    answer = tool.run(
        "cases.py", "--device", ",".join(devices), "--isolation", isolation, "--jobs", "6", "--timeout", "60", "--json"
    )

    assert answer.code == 0, answer.stderr
    rows = {(each["instance"], each["device"]): each["cells"] for each in answer.data["series"]}
    assert len(rows) == 5 * len(devices)
    for (instance, device), cells in rows.items():
        told = [cell["signature"] for cell in cells.values()]
        assert (instance, device, told) == (instance, device, ["ok", "ok"])


def test_a_device_that_is_not_there_is_broken_and_the_cpu_goes_on(make_tool: MakeTool, tmp_path: Path) -> None:
    tool = make_tool({"2.4.1": ""})
    tool.write("cases.py", "from bisect_torch import case\n\n\n@case\ndef fine(device):\n    pass\n")
    answer = tool.run("cases.py", "--device", "cpu,cuda:0", "--json")

    assert answer.code == 3, answer.stderr
    told = {each["device"]: each["cells"]["2.4.1"]["verdict"] for each in answer.data["series"]}
    assert told == {"cpu": "ok", "cuda:0": "broken"}
