"""The worker: takes requests from the orchestrator, runs each cell in a child of its own and supervises it."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Tuple

from bisect_torch.worker import beside, cell, launch, preload, session, shared_memory, system
from bisect_torch.worker.conclude import conclude
from bisect_torch.worker.ending import Ending
from bisect_torch.worker.launch import CellEnds
from bisect_torch.worker.protocol import VERSION, Decoder, encode
from bisect_torch.worker.supervise import Limits, Watch

_STAGE_LIMIT_S = 900.0
_MANY_FORKS = 16  # from here on it pays to make forking cheaper
_ORCHESTRATOR_GONE = 3
_LOST_STAGE = 70


class Worker:
    """One worker process.

    Args:
        requests: Socket to the orchestrator.
        stage: ``none``, ``eager`` or ``compile``.
        worker_id: Unique to this process.
        base: Temporary folder of this worker; removed when the orchestrator goes away.
        failure: Why torch could not be imported; every cell is then told so.
    """

    def __init__(self, requests: socket.socket, stage: str, worker_id: str, base: str, failure: str = "") -> None:
        self._requests = requests
        self._stage = stage
        self._worker_id = worker_id
        self._base = base
        self._failure = failure
        self._decoder = Decoder()
        self._waiting: List[Tuple[bytes, Dict[str, Any]]] = []
        self._own_processes = 0
        self._forks = 0
        self._contents = beside.Contents()
        self._first_stage = -1
        self._begin()

    def _begin(self) -> None:
        system.adopt_orphans()
        shared_memory.begin()
        self._wakeup, self._wakeup_write = os.pipe()
        for descriptor in (self._wakeup, self._wakeup_write):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        self._threads = system.thread_count()

    def hello(self) -> None:
        """Tell the orchestrator that requests are welcome."""
        message = {"event": "hello", "protocol": VERSION, "stage": self._stage, "failure": self._failure}
        self._send(message, bytes(16))

    def serve(self) -> None:
        """Answer requests until the orchestrator closes the socket or the stage is left."""
        for nonce, message in self._messages():
            if message["op"] == "close":
                return
            if message["op"] == "prepare":
                self._prepare(message["stage"], nonce)
            elif message["op"] == "expand":
                self._send(self._expand(message), nonce)
            elif message["op"] == "collect":
                self._send({"rows": self._collect(message["request"])}, nonce)
            elif message["op"] == "session":
                self._session(message["request"], nonce)
            else:
                self._send({"facts": self._run(message["request"])}, nonce)
        self.leave(_ORCHESTRATOR_GONE)

    def leave(self, status: int) -> NoReturn:
        """Kill whatever is left, remove the folder and end."""
        shared_memory.release(os.getpid(), limit_s=0.5)
        system.sweep()
        shared_memory.remove_files()
        launch.remove_folder(self._base)
        os._exit(status)

    def _messages(self) -> Iterator[Tuple[bytes, Dict[str, Any]]]:
        while True:
            while self._waiting:
                yield self._waiting.pop(0)
            try:
                data = self._requests.recv(2**16)
            except ConnectionError:
                return
            if not data:
                return
            self._waiting.extend(self._decoder.feed(data))

    def _send(self, message: Dict[str, Any], nonce: bytes) -> None:
        try:
            self._requests.sendall(encode(message, nonce))
        except (BrokenPipeError, ConnectionError):
            self.leave(_ORCHESTRATOR_GONE)

    def _private(self) -> Tuple[int, ...]:
        """Descriptors that no cell may hold."""
        return self._requests.fileno(), self._wakeup, self._wakeup_write, self._first_stage

    # --- cells

    def _run(self, request: Dict[str, Any]) -> Dict[str, Any]:
        if self._failure:
            reason = "torch cannot be imported: %s" % self._failure
            return {"outcome": "environment_broken", "reason": reason, "phase": "load", "protocol": VERSION}
        forks = request["isolation"] == "fork" and request["kind"] != "command" and self._may_fork()
        worker_id = self._worker_id
        if not forks:
            self._own_processes += 1
            worker_id = "%s.%d" % (self._worker_id, self._own_processes)
        try:
            ending = self._supervise(request, forks)
        except OSError as problem:
            facts = {"outcome": "lost", "reason": "the cell cannot be started: %s" % problem, "protocol": VERSION}
        else:
            facts = conclude(request, ending)
        facts["worker"] = worker_id
        facts["isolation"] = "fork" if forks else "process"
        return facts

    def _may_fork(self) -> bool:
        """Whether a fork of this process would be sound: torch loaded, no child, no new thread, no device in use."""
        return (
            system.LINUX
            and self._stage != "none"
            and not system.has_children()
            # Fewer is sound: numpy's BLAS ends its own threads before a fork.
            and system.thread_count() <= self._threads
            and not preload.device_initialised()
        )

    def _supervise(self, request: Dict[str, Any], forks: bool) -> Ending:
        nonce = os.urandom(16)
        command = request["kind"] == "command"
        if forks:
            self._forks += 1
            if self._forks == _MANY_FORKS:
                system.use_huge_pages()
            openings = beside.openings_of(request, self._base)
            body: Callable[[CellEnds], None] = lambda ends: cell.run_forked(request, ends, nonce, openings)  # noqa: E731
        elif command:
            body = lambda ends: _become_command(request, ends)  # noqa: E731
        else:
            body = _become_interpreter
        shared_memory.begin_cell()
        child = launch.launch(
            body,
            base=self._base,
            cwd=request.get("cwd"),
            close=[each for each in self._private() if each >= 0],
            new_cwd=request["kind"] in ("case", "expand"),
        )
        try:
            if not forks and not command:
                _hand_over(child.channel, request, nonce)
            watch = Watch(
                child,
                _limits(request),
                nonce,
                self._requests,
                self._wakeup,
                lambda: self.leave(_ORCHESTRATOR_GONE),
                pattern=request.get("bad_if_output"),
                ready=command,
            )
            ending = watch.to_the_end()
            ending.began_ns = child.began_ns
            ending.read = beside.read_files(child.folder, request["file"], child.began_ns, self._contents)
            return ending
        finally:
            child.close()

    def _expand(self, message: Dict[str, Any]) -> Dict[str, Any]:
        request = dict(message["request"], kind="expand")
        if self._failure:
            return {"facts": self._run(request)}
        forks = self._may_fork()
        try:
            ending = self._supervise(request, forks)
        except OSError as problem:
            return {"facts": {"outcome": "lost", "reason": "the file cannot be loaded: %s" % problem}}
        if ending.result is not None and "rows" in ending.result and not os.WIFSIGNALED(ending.status):
            return {"rows": ending.result["rows"], "facts": {}}
        return {"facts": conclude(request, ending)}

    # --- pytest

    def _collect(self, request: Dict[str, Any]) -> List[Dict[str, Any]]:
        try:
            return session.rows_of(request, self._watch_session(request, None)[0])
        except OSError as problem:
            reason = "pytest cannot be started: %s" % problem
            return [{"problem": "", "inside": "", "outcome": "lost", "reason": reason}]

    def _session(self, request: Dict[str, Any], nonce: bytes) -> None:
        """Run tests in one process; each answer goes out as it comes, and how the process ended goes last."""
        self._own_processes += 1
        worker_id = "%s.%d" % (self._worker_id, self._own_processes)
        known = {"device": request["device"], "isolation": request["isolation"], "worker": worker_id}
        alone = len(request["tests"]) == 1
        held: List[Dict[str, Any]] = []

        def tell(message: Dict[str, Any]) -> None:
            if "facts" in message:
                message["facts"] = {**message["facts"], **known, "protocol": VERSION}
            if alone and "facts" in message:
                held.append(message)  # how the process leaves decides, and it is this test's
            else:
                self._send(message, nonce)

        try:
            ending, running = self._watch_session(request, tell)
        except OSError as problem:
            self._send({"end": {"blamed": None, "reason": str(problem), "lost": True, "at_exit": None}}, nonce)
            return
        end = session.end_of(request, ending, running)
        end["facts"] = {**end["facts"], **known}
        for message in held:
            if end["at_exit"] is not None:
                message["facts"].update(end["at_exit"])
                end["at_exit"] = None
            self._send(message, nonce)
        self._send({"end": end}, nonce)

    def _watch_session(
        self, request: Dict[str, Any], tell: Optional[Callable[[Dict[str, Any]], None]]
    ) -> Tuple[Ending, Optional[int]]:
        nonce = os.urandom(16)
        close = [each for each in self._private() if each >= 0]
        shared_memory.begin_cell()
        child = launch.launch(_become_interpreter, base=self._base, cwd=request["cwd"], close=close, new_cwd=False)
        try:
            _hand_over(child.channel, request, nonce)
            watch = session.SessionWatch(
                child,
                _limits(request),
                nonce,
                self._requests,
                self._wakeup,
                lambda: self.leave(_ORCHESTRATOR_GONE),
                tell=tell,
            )
            ending = watch.to_the_end()
            return ending, watch.running
        finally:
            child.close()

    # --- stages

    def _prepare(self, stage: str, nonce: bytes) -> None:
        if stage == self._stage or self._stage == "none" or self._failure:
            self._send({"stage": self._stage, "problem": self._failure}, nonce)
        elif stage == "compile":
            self._second_stage(nonce)
        else:
            # The first stage, which waits for this process, goes on and answers.
            os.write(self._first_stage, nonce)
            os._exit(0)

    def _second_stage(self, nonce: bytes) -> None:
        """Fork a worker that loads the compile stack and serves until it is told to go back or ends."""
        ready, ready_write = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            self._become_second_stage(supervisor, ready_write, nonce)
        os.close(ready_write)
        if not (select.select([ready], [], [], _STAGE_LIMIT_S)[0] and os.read(ready, 1)):
            os.close(ready)
            system.sweep()
            system.disarm_lifeline(self._requests.fileno())
            self._send({"stage": self._stage, "problem": "the compile stage could not be loaded"}, nonce)
            return
        os.waitpid(pid, 0)
        last_words = os.read(ready, len(nonce))
        os.close(ready)
        system.sweep()
        if not last_words:
            self.leave(_LOST_STAGE)
        self._send({"stage": self._stage, "problem": ""}, last_words)

    def _become_second_stage(self, supervisor: int, ready: int, nonce: bytes) -> NoReturn:
        system.die_with_parent()
        if os.getppid() != supervisor:
            os._exit(_LOST_STAGE)
        for descriptor in (self._wakeup, self._wakeup_write):
            os.close(descriptor)
        os.environ.update(launch.cell_variables(self._base))
        system.arm_lifeline(self._requests.fileno())
        if system.peer_has_gone(self._requests):
            self.leave(_ORCHESTRATOR_GONE)
        preload.compile_stack()
        system.disarm_lifeline(self._requests.fileno())
        system.sweep()
        self._stage = "compile"
        self._forks = 0
        self._begin()
        preload.freeze()
        self._first_stage = ready
        os.write(ready, b"1")
        self._send({"stage": self._stage, "problem": ""}, nonce)
        self.serve()
        self.leave(_ORCHESTRATOR_GONE)


def _ignore(_: int, __: Optional[object]) -> None:
    """SIGCHLD only has to write to the wakeup pipe."""


def _limits(request: Dict[str, Any]) -> Limits:
    return Limits(
        request["load_timeout_s"],
        request["timeout_s"],
        request.get("memory_bytes"),
        bool(request.get("native_stack")),
    )


def _become_interpreter(ends: CellEnds) -> None:
    """Start the interpreter again for one cell."""
    main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    words = [sys.executable, "-I", "-B", "-X", "faulthandler", "-u", main, "cell"]
    words += [str(ends.channel), str(ends.lifeline), ends.folder]
    variables = dict(os.environ, **launch.cell_variables(ends.folder))
    preload.compile_in_this_process(variables)
    launch.execute(words, variables, keep=(ends.channel, ends.lifeline))


def _become_command(request: Dict[str, Any], ends: CellEnds) -> None:
    """Start the user's command, with the environment's programs first on PATH."""
    programs = os.path.dirname(sys.executable)
    variables = dict(os.environ, **launch.cell_variables(ends.folder))
    variables["PATH"] = programs + os.pathsep + variables.get("PATH", os.defpath)
    argv = list(request["argv"])
    if argv[0] in ("python", "python3"):  # a local interpreter may be called otherwise
        argv[0] = sys.executable
    launch.execute(argv, variables)


def _hand_over(channel: socket.socket, request: Dict[str, Any], nonce: bytes) -> None:
    channel.setblocking(True)
    try:
        channel.sendall(encode(request, nonce))
    except (BrokenPipeError, ConnectionError):
        return  # the interpreter did not start; its exit status says so
    finally:
        channel.setblocking(False)
