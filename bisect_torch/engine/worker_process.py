"""The orchestrator's end of a worker: start it, ask it for cells, end it.

A worker supervises its own cells. When it dies itself, the cell that was running is lost, which says nothing about
torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn

from bisect_torch import temporary
from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.conditions import Conditions, Facts
from bisect_torch.errors import BisectTorchError, InfrastructureError
from bisect_torch.model import Environment
from bisect_torch.worker import system
from bisect_torch.worker.protocol import VERSION, Decoder, ProtocolError, encode, new_nonce

Stage = Literal["none", "eager", "compile"]

_MARK = "BISECT_TORCH_WORKER"
_GRACE_S = 1.5
_START_LIMIT_S = 600.0
_KILLED_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)
_SWEEP_S = 5.0


class CaseFileError(BisectTorchError):
    """A case file cannot be loaded in an environment.

    Args:
        facts: What happened, as for a cell.
    """

    def __init__(self, message: str, facts: dict[str, Any]) -> None:
        super().__init__(message, detail=facts.get("traceback") or None)
        self.facts = facts


def _line_in(path: Path, traceback: str) -> int | None:
    """The line of a file that was running when an exception was raised; None where the traceback has none of it."""
    lines = re.findall(rf'^  File "{re.escape(str(path))}", line (\d+)', traceback, re.MULTILINE)
    return int(lines[-1]) if lines else None


class WorkerLostError(InfrastructureError):
    """The worker died. Says nothing about torch."""


class WorkerProcess:
    """A worker in an environment. One thread at a time may ask it for something; any thread may kill it.

    Use :meth:`start`, not the constructor.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, worker_id: str, base: Path) -> None:
        self.worker_id = worker_id
        self._process = process
        self._connection = connection
        self._base = base
        self._decoder = Decoder()
        self._received: deque[tuple[bytes, dict[str, Any]]] = deque()
        self._closing = threading.Lock()
        self._closed = False
        self._failure = ""
        self._broken = ""

    @property
    def process_id(self) -> int:
        """Of the worker itself; its cells have their own."""
        return self._process.pid

    @classmethod
    def start(
        cls,
        environment: Environment,
        staged: Path,
        *,
        stage: Stage,
        threads: int | None,
        env: Mapping[str, str],
        tmp: Path | None = None,
        on_start: Callable[[WorkerProcess], None] = lambda worker: None,
    ) -> WorkerProcess:
        """Start a worker and wait until it has loaded its stage.

        A worker whose torch cannot be imported starts too; every cell on it is then ``environment_broken``. The
        interpreters are isolated (``-I``): variables such as PYTHONPATH and PYTHONHASHSEED do not reach them.

        Args:
            staged: The folder ``bisect_torch`` of a staged copy, or the folder in which that lies.
            stage: ``none`` gives every cell an interpreter of its own; ``eager`` imports torch once and forks;
                ``compile`` also loads what ``torch.compile`` needs.
            threads: Number of threads of torch and the libraries below it; None leaves their own choice.
            env: The whole environment of the worker and its cells.
            tmp: Where temporary folders are made; the system's own place when None.
            on_start: Called with the worker before it has loaded anything, so that it can be killed meanwhile.

        Raises:
            InfrastructureError: The interpreter cannot be started.
        """
        worker_id = secrets.token_hex(6)
        try:
            base = temporary.make_folder(tmp)
        except OSError as problem:
            raise InfrastructureError(
                f"no folder can be made for a worker: {problem.strerror}",
                hint="`bisect-torch doctor` says what is wrong with TMPDIR",
            ) from problem
        package = staged if staged.name == "bisect_torch" else staged / "bisect_torch"
        ours, theirs = socket.socketpair()
        first: Stage = "none" if stage == "none" else "eager"
        argv = [os.fspath(environment.python), "-I", "-B", "-X", "faulthandler", "-u"]
        argv += [str(package / "worker" / "__main__.py"), "worker", str(theirs.fileno()), first, worker_id, str(base)]
        variables = {**env, _MARK: worker_id, **_thread_variables(threads)}
        try:
            with open(base / "log", "wb") as log:
                process = subprocess.Popen(
                    argv,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as problem:
            ours.close()
            shutil.rmtree(base, ignore_errors=True)
            raise InfrastructureError(
                f"{environment.python} cannot be started: {problem.strerror}",
                hint="`bisect-torch doctor` looks at the store",
            ) from problem
        finally:
            theirs.close()
        worker = cls(process, ours, worker_id, base)
        on_start(worker)
        worker._greet()
        if stage == "compile":
            worker.prepare("compile")
        return worker

    def _greet(self) -> None:
        try:
            self._connection.settimeout(_START_LIMIT_S)
            hello = self._receive(bytes(16))
        except (WorkerLostError, ProtocolError, OSError) as problem:
            self._failure = f"the worker did not start: {problem}"
            if self._process.poll() is None:
                self._failure = f"the worker was not ready after {_START_LIMIT_S:.0f} s"
            elif self._process.poll() not in _KILLED_FROM_OUTSIDE:
                self._broken = self._failure
            return
        self._connection.settimeout(None)
        if hello["protocol"] != VERSION:
            self._failure = f"the staged worker speaks protocol {hello['protocol']}, this is {VERSION}"

    def expand(self, path: Path, *, thorough: bool = False) -> list[dict[str, Any]]:
        """Load a case file in a child of the worker and list its instances, as ``cases.from_expansion`` takes them.

        Raises:
            CaseFileError: It cannot be loaded here.
            WorkerLostError: The worker died.
        """
        request = CellRequest(file=path, kind="expand", case="", load_timeout_s=300.0, thorough=thorough).to_message()
        reply = self._ask({"op": "expand", "request": request})
        if "rows" not in reply:
            facts = reply["facts"]
            told = facts.get("message") or facts.get("reason") or facts.get("signal") or facts.get("outcome")
            kind = f"{facts['error_type']}: " if "error_type" in facts else ""
            line = _line_in(path, str(facts.get("traceback") or ""))
            where = f"{path}:{line}:" if line else f"{path}"
            raise CaseFileError(f"{where} cannot be loaded: {kind}{told}", facts)
        rows: list[dict[str, Any]] = reply["rows"]
        return rows

    def collect(self, request: CellRequest) -> list[dict[str, Any]]:
        """The tests of a pytest suite, as ``cases.collection_of`` takes them.

        Raises:
            WorkerLostError: The worker died.
        """
        rows: list[dict[str, Any]] = self._ask({"op": "collect", "request": request.to_message()})["rows"]
        return rows

    def session(self, request: CellRequest, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Run the tests of a request in one process until it ends; gives how it ended (``worker.session.end_of``).

        Args:
            tell: Called with ``{"began": n}`` and ``{"ended": n, "facts": …}`` as they come.

        Raises:
            WorkerLostError: The worker died.
        """
        nonce = self._send({"op": "session", "request": request.to_message()})
        while True:
            message = self._receive(nonce)
            if "end" in message:
                end: dict[str, Any] = message["end"]
                return end
            tell(message)

    def run(self, request: CellRequest) -> Facts:
        """Run one cell and give its facts; ``outcome`` is ``lost`` when the worker died meanwhile."""
        return self.ask(request)()

    def ask(self, request: CellRequest) -> Callable[[], Facts]:
        """Ask for a cell; what is returned waits for its facts, as :meth:`run` does.

        Another one may be asked for meanwhile: the worker begins with it as soon as this one has ended. Answers are
        waited for in the order of the questions.
        """
        if self._broken:
            broken = {"outcome": "environment_broken", "reason": self._broken, "phase": "load", "protocol": VERSION}
            return lambda: broken
        try:
            nonce = self._send({"op": "run", "request": request.to_message()})
        except WorkerLostError as problem:
            return functools.partial(self._lost, problem)
        return functools.partial(self._facts, nonce)

    def _facts(self, nonce: bytes) -> Facts:
        try:
            facts: Facts = self._receive(nonce)["facts"]
        except (WorkerLostError, ProtocolError) as problem:
            return self._lost(problem)
        return facts

    def _lost(self, problem: Exception) -> Facts:
        return {"outcome": "lost", "reason": str(problem), "worker": self.worker_id, "protocol": VERSION}

    def prepare(self, stage: Stage) -> str:
        """Go over to another stage; gives the reason in words when that cannot be done, else nothing.

        Cells run all the same: those that compile then load what they need themselves.
        """
        try:
            problem: str = self._ask({"op": "prepare", "stage": stage})["problem"]
        except (WorkerLostError, ProtocolError) as lost:
            return str(lost)
        return problem

    def close(self) -> None:
        """End the worker; nothing that it or its cells started is left."""
        self._end(polite=True)

    def kill(self) -> None:
        """End the worker at once, from any thread. A :meth:`run` in another thread returns ``lost``."""
        self._end(polite=False)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        return self._receive(self._send(message))

    def _send(self, message: dict[str, Any]) -> bytes:
        """Send a request; gives the nonce that its answers carry."""
        if self._failure:
            raise WorkerLostError(self._failure)
        nonce = new_nonce()
        try:
            self._connection.sendall(encode(message, nonce))
        except OSError:
            self._mourn()
        return nonce

    def _receive(self, nonce: bytes) -> dict[str, Any]:
        while True:
            while self._received:
                carried, message = self._received.popleft()
                if carried == nonce:
                    return message
            try:
                data = self._connection.recv(2**18)
            except OSError:
                data = b""
            if not data:
                self._mourn()
            self._received.extend(self._decoder.feed(data))

    def _mourn(self) -> NoReturn:
        """The worker is gone: say how.

        Raises:
            WorkerLostError: Always.
        """
        if self._closed:
            raise WorkerLostError("the worker was ended")
        try:
            status = self._process.wait(timeout=_GRACE_S)
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        except subprocess.TimeoutExpired:
            how = "it closed its socket"
        self._failure = self._failure or f"the worker died: {how}{self._last_words()}"
        raise WorkerLostError(self._failure)

    def _last_words(self) -> str:
        text = system.read_file(str(self._base / "log")).strip()
        return f"; {text[-500:]}" if text else ""

    def _end(self, *, polite: bool) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            # The worker sees the end of its socket, kills its cell with all that belongs to it, and ends.
            with contextlib.suppress(OSError):  # it has gone already
                self._connection.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_GRACE_S * (4 if polite else 1))
            self._kill_what_is_left()
            self._process.wait()
            self._connection.close()
            shutil.rmtree(self._base, ignore_errors=True)

    def _kill_what_is_left(self) -> None:
        if self._process.poll() is None:
            system.kill_group(self._process.pid)
        elif self._process.returncode == 0 or self._process.returncode == 3:
            return  # it has swept up itself
        deadline = time.monotonic() + _SWEEP_S
        while time.monotonic() < deadline:
            left = system.marked_processes(f"{_MARK}={self.worker_id}") - {self._process.pid}
            if not left:
                return
            for process in left:
                system.kill(process, signal.SIGKILL)
            time.sleep(0.02)


def start_worker(
    environment: Environment,
    conditions: Conditions,
    *,
    stage: Stage,
    on_start: Callable[[WorkerProcess], None] = lambda worker: None,
) -> WorkerProcess:
    """A worker of an environment, as :meth:`WorkerProcess.start` gives it."""
    return WorkerProcess.start(
        environment,
        conditions.staged,
        stage=stage,
        threads=conditions.threads,
        env=conditions.environment_variables(environment),
        on_start=on_start,
    )


def _thread_variables(threads: int | None) -> dict[str, str]:
    if threads is None:
        return {}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {name: str(threads) for name in names}
