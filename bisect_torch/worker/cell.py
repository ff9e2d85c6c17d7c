"""The cell: runs one case, script or pytest session in this process and says what happened.

It is either forked from a worker that has imported torch or an interpreter of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import os
import socket
import sys
import tempfile
import threading
import traceback
from typing import Any, Callable, Dict, Optional

from bisect_torch.worker import circumstances, guarding, ignored, launch, outcome, preload, recording, system
from bisect_torch.worker.beside import Openings, openings_of
from bisect_torch.worker.launch import CellEnds
from bisect_torch.worker.protocol import Decoder, encode


class Channel:
    """The cell's end of the message channel.

    Args:
        descriptor: Of the socket; not inherited by what the cell starts.
        nonce: The cell's.
    """

    def __init__(self, descriptor: int, nonce: bytes) -> None:
        self._descriptor = descriptor
        self._nonce = nonce
        self._process = os.getpid()
        self._writing = threading.Lock()

    def send(self, message: Dict[str, Any], *, wait: bool = True) -> bool:
        """Send one message; a process that the code under test has forked has nothing to say here.

        Args:
            wait: For another message that is being written; False is given back where one was not waited for.
        """
        if os.getpid() != self._process:
            return True
        data = memoryview(encode(message, self._nonce))
        if not self._writing.acquire(blocking=wait):
            return False
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        finally:
            self._writing.release()
        return True


def run_forked(request: Dict[str, Any], ends: CellEnds, nonce: bytes, openings: Optional[Openings]) -> None:
    """Run a cell in this fork of a worker, and leave the process.

    Args:
        openings: Watches which files it reads.
    """
    status = _run_guarded(request, Channel(ends.channel, nonce), ends.folder, openings)
    if request.get("full_teardown"):
        raise SystemExit(status)
    circumstances.flush()
    os._exit(status)


def run_own_process(descriptor: int, lifeline: int, folder: str) -> int:
    """Run a cell in an interpreter of its own; the request comes over the channel. Gives the exit status."""
    for each in (descriptor, lifeline):
        os.set_inheritable(each, False)
    if not system.LINUX:
        _watch_lifeline(lifeline)
    nonce, request = _receive(descriptor)
    return _run_guarded(request, Channel(descriptor, nonce), folder, openings_of(request, os.path.dirname(folder)))


def _receive(descriptor: int) -> Any:
    decoder = Decoder()
    connection = socket.socket(fileno=os.dup(descriptor))
    with connection:
        connection.setblocking(True)
        while True:
            data = connection.recv(65536)
            if not data:
                os._exit(70)
            for nonce, message in decoder.feed(data):
                return nonce, message


def _watch_lifeline(lifeline: int) -> None:
    def wait() -> None:
        os.read(lifeline, 1)
        system.kill_group(os.getpid())

    threading.Thread(target=wait, daemon=True, name="lifeline").start()


def _run_guarded(request: Dict[str, Any], channel: Channel, folder: str, openings: Optional[Openings]) -> int:
    """As :func:`_run`; a fault of ours is reported as such and never as the build's."""
    try:
        return _run(request, channel, folder, openings)
    except Exception as problem:  # noqa: BLE001 - the worker's outermost edge
        traceback.print_exc()
        reason = "bisect-torch failed in the cell: %s: %s" % (type(problem).__name__, problem)
        # Too little memory to tell of the case's own error: whose memory that was is plain.
        what = "out_of_memory" if isinstance(problem, MemoryError) else "lost"
        channel.send({"event": "result", "facts": {"outcome": what, "reason": reason}, "exit_status": 0})
        return 0


def _run(request: Dict[str, Any], channel: Channel, folder: str, openings: Optional[Openings]) -> int:
    """Run what was asked for; gives the status with which the process is to leave."""
    stack = os.open(launch.stack_file(folder), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    faulthandler.register(system.STACK_SIGNAL, file=stack, all_threads=True, chain=False)
    channel.send({"event": "started"})
    recording.set_thorough(bool(request.get("thorough")))
    os.environ.update(launch.cell_variables(folder))
    tempfile.tempdir = None
    circumstances.begin(folder)
    if request["kind"] != "expand":
        guarding.enable()
    if openings is not None:
        openings.begin(folder)
    passed_over = ignored.Ignored(functools.partial(channel.send, wait=False))
    if request["kind"] in ("case", "script"):  # pytest has its own eye on these
        passed_over.watch()
    if request["kind"] == "expand":
        result = _expand(request)
        channel.send({"event": "ready"})
    elif request["kind"] == "script":
        from bisect_torch.worker import script

        result = script.run(request, channel.send, passed_over)
    elif request["kind"] == "pytest":
        from bisect_torch.worker import suite

        result = suite.run(request, channel.send, folder)
    else:
        result = _run_case(request, channel.send)
        passed_over.finish()
    channel.send(dict(result, event="result"))
    status = int(result["exit_status"])
    del result
    # Heap damage shows when objects are freed; a child that just left would hide it.
    gc.collect()
    if _threads_left() and request["kind"] not in ("script", "pytest"):
        # The interpreter's end would wait for them for ever. That is the case's doing, not a fault of the build.
        circumstances.flush()
        os._exit(status)
    return status


def _threads_left() -> bool:
    return any(
        thread.is_alive() and not thread.daemon and thread is not threading.main_thread()
        for thread in threading.enumerate()
    )


def _expand(request: Dict[str, Any]) -> Dict[str, Any]:
    from bisect_torch.worker import api

    try:
        preload.torch_for(request)
        return {"rows": api.describe(api.load_case_file(request["file"])), "facts": {}, "exit_status": 0}
    except BaseException as raised:  # noqa: BLE001 - the worker's outermost edge
        facts = outcome.facts_of(raised, request["file"])
        facts["phase"] = "load"
        return {"facts": facts, "exit_status": 0}


def _run_case(request: Dict[str, Any], send: Callable[[Dict[str, Any]], object]) -> Dict[str, Any]:
    from bisect_torch.worker import api

    facts: Dict[str, Any] = {"phase": "load"}
    known = len(sys.modules)
    clock = circumstances.Clock()
    with circumstances.recorded_warnings(facts):
        try:
            preload.torch_for(request)
            definition = _declared(request["file"], request["case"])
            facts["phase"] = "run"
            clock.start()
            send({"event": "ready"})
            facts.update(api.run_case(definition, request["parameters"], request["device"], request["seed"]))
            facts["outcome"] = "returned"
        except api.Skip as skip:
            facts.update(api.collected_facts(request["seed"]), outcome="skipped", reason=skip.reason)
        except BaseException as raised:  # noqa: BLE001 - the worker's outermost edge
            facts.update(api.collected_facts(request["seed"]))
            facts.update(outcome.facts_of(raised, request["file"]))
            traceback.clear_frames(raised.__traceback__)
    clock.stop(facts)
    circumstances.add(facts, request["file"], known)
    return {"facts": facts, "exit_status": 0}


def _declared(file: str, name: str) -> Any:
    """The definition of a case; one that stands in a branch which this build does not take does not apply here.

    Raises:
        api.Skip: The file does not declare it on this build.
    """
    from bisect_torch.worker import api

    with contextlib.suppress(api.NoCaseError):
        for definition in api.load_case_file(file):
            if definition.name == name:
                return definition
    raise api.Skip("the case file does not declare it on this build")
