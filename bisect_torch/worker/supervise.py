"""Watch one cell from outside until it and everything it has started are gone.

The loop is single-threaded. It waits for whichever comes first: a message, output, the cell's end, the end of the
orchestrator, or the next tick.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, Optional

from bisect_torch.worker import shared_memory, stacks, system
from bisect_torch.worker.clock import CellClock
from bisect_torch.worker.ending import Ending
from bisect_torch.worker.launch import Child
from bisect_torch.worker.output import BoundedOutput
from bisect_torch.worker.protocol import Decoder, ProtocolError

TICK_S = 1.0
"""Longest tick, which is as much as a suspended machine can take from a cell's time or add to it."""

MEMORY_TICK_S = 0.1
EXIT_LIMIT_S = 30.0
"""Longest time a cell may take to leave after it has sent its result."""

_DRAIN_LIMIT_S = 2.0
_READ_BYTES = 2**20
_MESSAGE_BYTES = 2**14
_buffer = bytearray(_READ_BYTES)  # one for all cells: a new one each time costs a page fault for every 4 KiB


class Limits:
    """What a cell may use.

    Args:
        load_s: Time to get ready: imports, loading inductor.
        run_s: Time from then to the result.
        memory_bytes: Growth of the resident memory of the cell and all that it starts; None for no limit. It is
            watched, not set as RLIMIT_AS: CUDA and sanitizers reserve far more address space than they use.
        native_stack: Take the native stacks too before a timeout's kill.
    """

    def __init__(
        self, load_s: float, run_s: float, memory_bytes: Optional[int] = None, native_stack: bool = False
    ) -> None:
        self.load_s = load_s
        self.run_s = run_s
        self.memory_bytes = memory_bytes
        self.native_stack = native_stack

    def of(self, phase: str) -> float:
        """Seconds for a phase: ``load``, ``run``, ``exit``."""
        if phase == "load":
            return self.load_s
        if phase == "run":
            return self.run_s
        return min(EXIT_LIMIT_S, max(5.0, self.run_s))


class Watch:
    """One cell under watch.

    Args:
        nonce: Carried by the cell's messages.
        requests: The socket to the orchestrator; its end is the cell's end too.
        wakeup: Read end of the pipe that SIGCHLD writes to.
        orchestrator_gone: Called when ``requests`` is at its end; does not come back.
        pattern: Regular expression to look for in the output.
        ready: It has nothing to load.
    """

    def __init__(
        self,
        child: Child,
        limits: Limits,
        nonce: bytes,
        requests: socket.socket,
        wakeup: int,
        orchestrator_gone: Callable[[], None],
        *,
        pattern: Optional[str] = None,
        ready: bool = False,
    ) -> None:
        self._child = child
        self._limits = limits
        self._decoder = Decoder(nonce)
        self._requests = requests
        self._wakeup = wakeup
        self._orchestrator_gone = orchestrator_gone
        self._ending = Ending()
        self._ending.stdout = BoundedOutput(pattern)
        self._ending.stderr = BoundedOutput(pattern)
        self._clock = CellClock(child.pid, limits.of("load"))
        self._poll = select.poll()
        self._streams = {child.stdout: self._ending.stdout, child.stderr: self._ending.stderr}
        for descriptor in (child.channel.fileno(), *self._streams, requests.fileno(), wakeup):
            self._poll.register(descriptor, select.POLLIN)
        self._kills_before = system.kernel_kills()
        self._baseline = 0
        self._measured = time.monotonic()
        if ready:
            self._enter("run")
            self._baseline = 0

    def to_the_end(self) -> Ending:
        """Watch the cell, then kill and reap everything that is left of it."""
        ending = self._ending
        exited = False
        while not exited:
            tick = self._tick_length()
            before = time.monotonic()
            events = self._poll.poll(max(1, int(tick * 1000)))
            for descriptor, event in events:
                self._handle(descriptor, event)
            exited = self._reap()
            spent = time.monotonic() - before
            self._clock.count(spent, tick)
            if not exited and self._over_limits():
                self._kill()
                break
        self._finish()
        return ending

    def _tick_length(self) -> float:
        longest = MEMORY_TICK_S if self._limits.memory_bytes else TICK_S
        return max(0.001, min(longest, self._clock.left_s))

    def _enter(self, phase: str) -> None:
        if phase == "exit":
            self._ending.elapsed_s = self._clock.used_s
        else:
            # What a forked cell shares with its parent, and what an interpreter has loaded, is not the cell's own use.
            self._baseline = system.resident_bytes(self._child.pid)
        self._ending.phase = phase
        self._clock.begin(self._limits.of(phase))

    def _handle(self, descriptor: int, event: int) -> None:
        if descriptor in self._streams:
            if not self._read_output(descriptor):
                self._poll.unregister(descriptor)
        elif descriptor == self._wakeup:
            os.read(descriptor, 4096)
        elif descriptor == self._requests.fileno():
            self._look_at_requests(event)
        elif not self._read_messages():
            self._poll.unregister(descriptor)

    def _read_output(self, descriptor: int) -> bool:
        """Whether more may come."""
        try:
            count = os.readv(descriptor, [_buffer])
        except BlockingIOError:
            return True
        if not count:
            return False
        self._streams[descriptor].feed(memoryview(_buffer)[:count])
        return True

    def _look_at_requests(self, event: int) -> None:
        if event & ~select.POLLIN or system.peer_has_gone(self._requests):
            self._orchestrator_gone()
        # The request for the next cell came early, and waits until this one is over. From here on only the end counts.
        self._poll.modify(self._requests.fileno(), 0)

    def _read_messages(self) -> bool:
        """Whether more may come."""
        try:
            data = self._child.channel.recv(_MESSAGE_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        try:
            for _, message in self._decoder.feed(data):
                self._take(message)
        except ProtocolError:
            return False
        return bool(data)

    def _take(self, message: Dict[str, Any]) -> None:
        event = message.get("event")
        if event == "started":
            self._ending.started = True
        elif event == "ready" and self._ending.phase == "load":
            self._enter("run")
        elif event == "ignored":
            self._ending.ignored.append(str(message["text"]))
        elif event == "result":
            self._ending.result = message
            if self._ending.phase != "exit":
                self._enter("exit")

    def _reap(self) -> bool:
        """Whether the cell's own process has ended."""
        process, status = os.waitpid(self._child.pid, os.WNOHANG)
        if process:
            self._ending.status = status
        return bool(process)

    def _over_limits(self) -> bool:
        if self._over_memory():
            return True
        if self._clock.left_s > 0:
            return False
        before = self._ending.phase
        self._read_messages()
        if self._ending.phase != before:  # what is already in the pipe counts
            return False
        if self._clock.forgive_waiting():
            return False
        self._ending.timed_out = True
        return True

    def _over_memory(self) -> bool:
        limit = self._limits.memory_bytes
        now = time.monotonic()
        if not limit or self._ending.phase == "load" or now - self._measured < MEMORY_TICK_S / 2:
            return False
        self._measured = now
        grown = self._growth()
        self._ending.peak_bytes = max(self._ending.peak_bytes, grown)
        if grown > limit:
            self._ending.over_memory = grown
        return grown > limit

    def _growth(self) -> int:
        own = system.resident_bytes(self._child.pid)
        below = sum(system.resident_bytes(process) for process in system.descendants(self._child.pid))
        return max(0, own - self._baseline) + below

    def _kill(self) -> None:
        if self._ending.timed_out:
            self._ending.elapsed_s = self._ending.elapsed_s or self._clock.used_s
            self._ending.stack = self._stacks()
        shared_memory.killing(self._child.pid)
        system.kill(self._child.pid, signal.SIGKILL)
        _, self._ending.status = os.waitpid(self._child.pid, 0)

    def _stacks(self) -> str:
        native = self._native_stack() if self._limits.native_stack else stacks.thread_states(self._child.pid)
        if self._ending.started:
            python = stacks.python_stacks(self._child.pid, self._child.stack_file)
        else:  # it has no handler yet
            python = system.read_file(self._child.stack_file)
        return "\n".join(part.rstrip() for part in (python, native) if part)[: 64 * 1024]

    def _native_stack(self) -> str:
        """A debugger takes seconds: should the orchestrator go meanwhile, that is not waited for."""
        text = stacks.native_stack(self._child.pid, lambda: system.peer_has_gone(self._requests))
        if system.peer_has_gone(self._requests):
            self._orchestrator_gone()
        return text

    def _finish(self) -> None:
        if not self._ending.timed_out and self._ending.over_memory is None:
            # The request for stacks may have woken a cell that hung; what it says after its time does not count.
            while self._read_messages() and select.select([self._child.channel], [], [], 0)[0]:
                pass
        if self._ending.phase != "exit":
            self._ending.elapsed_s = self._ending.elapsed_s or self._clock.used_s
        self._ending.kernel_killed = system.kernel_kills() > self._kills_before
        shared_memory.release(self._child.pid)
        system.kill_group(self._child.pid)
        # With all writers gone there is an end to what they have written, however long it takes to read it.
        ended = system.sweep() and system.LINUX
        shared_memory.remove_files()
        deadline = float("inf") if ended else time.monotonic() + _DRAIN_LIMIT_S
        for descriptor, stream in self._streams.items():
            while time.monotonic() < deadline and select.select([descriptor], [], [], 0)[0]:
                if not self._read_output(descriptor):
                    break
            stream.finish()
