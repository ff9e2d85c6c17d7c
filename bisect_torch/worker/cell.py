"""The cell: runs one case, script or pytest session in this process and says what happened.

It is either forked from a worker that has imported torch or an interpreter of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import hashlib
import itertools
import json
import os
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, Optional

from bisect_torch.worker import guarding, ignored, launch, outcome, preload, recording, system
from bisect_torch.worker.beside import Openings, openings_of
from bisect_torch.worker.launch import CellEnds
from bisect_torch.worker.protocol import Decoder, encode

_MOST_WARNINGS = 50
_LONGEST_WARNING = 500

_own_folder: List[str] = []
"""The cell's temporary folder, where compilers leave modules too."""


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
    flush()
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
    _own_folder[:] = [os.path.realpath(folder)]
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
        flush()
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
    clock = Clock()
    with recorded_warnings(facts):
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
    circumstances(facts, request["file"], known)
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


class Clock:
    """Time and peak memory from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._started: Optional[float] = None
        self._resident: Optional[int] = None

    def start(self) -> None:
        """Measure from here."""
        self._resident = system.reset_peak()
        self._started = time.perf_counter()

    def stop(self, facts: Dict[str, Any]) -> None:
        """Add the facts ``elapsed_s`` and ``peak_rss_bytes``: how much the cell's memory grew at most."""
        if self._started is None:
            return
        facts["elapsed_s"] = time.perf_counter() - self._started
        if self._resident is not None:
            facts["peak_rss_bytes"] = max(0, system.peak_bytes() - self._resident)


@contextlib.contextmanager
def recorded_warnings(facts: Dict[str, Any]) -> Iterator[None]:
    """Record Python warnings, each kind once per place, into ``facts``; they are not printed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    noted: List[str] = []
    for warning in caught or ():
        note_warning(noted, warning.category, warning.message)
    facts["warnings"] = json.dumps(noted)


def note_warning(noted: List[str], category: type, message: object) -> None:
    """Add ``Category: message`` to a bounded list, once."""
    text = ("%s: %s" % (category.__name__, message))[:_LONGEST_WARNING]
    if len(noted) < _MOST_WARNINGS and text not in noted:
        noted.append(text)


def circumstances(facts: Dict[str, Any], file: str, known: int) -> None:
    """Add what is known only at the end: threads of torch, local modules really imported, peak device memory.

    Args:
        known: How many modules had been imported before the file was loaded.
    """
    torch = sys.modules.get("torch")
    with contextlib.suppress(AttributeError, RuntimeError):
        facts["threads"] = torch.get_num_threads()  # type: ignore[union-attr]
    facts["local_modules"] = json.dumps(local_modules(file, _newest_modules(known)), sort_keys=True)
    with contextlib.suppress(AttributeError, RuntimeError):
        if torch is not None and torch.cuda.is_initialized():
            facts["peak_device_bytes"] = int(torch.cuda.max_memory_allocated())


def _newest_modules(known: int) -> List[ModuleType]:
    # From the end, so that a fork does not touch (and copy the memory of) the thousands of modules before.
    newest = itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - known))
    return [sys.modules[name] for name in list(newest)]


def local_modules(file: str, modules: List[ModuleType]) -> Dict[str, str]:
    """Relative path to SHA-256 of the modules that were loaded from the case file's folder, itself left out."""
    folder = os.path.dirname(os.path.realpath(file))
    others = tuple(os.path.join(each, "") for each in (sys.prefix, sys.base_prefix, *_own_folder))
    found: Dict[str, str] = {}
    for module in modules:
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.endswith(".py"):
            continue
        real = os.path.realpath(path)
        inside = real.startswith(folder + os.sep) and "site-packages" not in real and real != os.path.realpath(file)
        if inside and not real.startswith(others):
            with contextlib.suppress(OSError), open(real, "rb") as source:
                found[os.path.relpath(real, folder)] = hashlib.sha256(source.read()).hexdigest()
    return found


def flush() -> None:
    """Write out what Python holds back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
