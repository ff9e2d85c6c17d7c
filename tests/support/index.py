"""A package index on the loopback interface, for tests: both forms of the Simple API, faults on request, a request log.

    with FakeIndex(releases({"2.4.1": "def answer(): return 42"})) as index:
        run(["uv", "pip", "install", "--index-url", index.url, "torch==2.4.1", ...])
        index.fault("*/torch-2.4.1-*.whl", Fault(status=503, times=2))
        index.requests                     # what was asked, in order

It serves ``/simple/`` (all projects), ``/simple/<project>/`` in JSON or HTML (by the request's Accept header, or always
the one named by ``form=``), ``/files/<filename>`` with range requests, and ``/files/<filename>.metadata`` (PEP 658).
``upload_times=False``, ``sizes=False``, ``hashes=False`` and ``metadata=False`` leave those out, as many
indexes do; HTML never has upload times and sizes, as the standard has no place for them.

``index.add(wheel, shelf="nightly/cpu")`` puts a wheel on another index of the same server, ``/nightly/cpu/<project>/``,
which speaks HTML only; ``index.base`` is then the base address of all of them.

Nothing here imports pytest: a fixture is ``with FakeIndex(...) as index: yield index``.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import html
import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, unquote

from .wheels import Wheel

_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = "application/vnd.pypi.simple.v1+html"


@dataclass
class Fault:
    """What goes wrong with the answers for matching addresses.

    Args:
        status: HTTP status code of an empty answer: 403, 404, 500, …
        body: Sent in place of the right body, with status 200 and the right content type: garbage.
        truncate_to: Send only so many bytes of the body, then close, although Content-Length promises all.
        reset: Do not close then, but reset the connection.
        content_type: In place of the right one.
        retry_after: Seconds in a header of an answer with ``status``.
        only_ranges: It happens to range requests alone.
        redirect_to_itself: Every answer leads to the same address.
        delay_s: Seconds to wait before anything is sent.
        bytes_per_second: Send the body slowly.
        times: Number of requests that it happens to; None for all.
    """

    status: int | None = None
    body: bytes | None = None
    truncate_to: int | None = None
    reset: bool = False
    content_type: str | None = None
    retry_after: int | None = None
    only_ranges: bool = False
    redirect_to_itself: bool = False
    delay_s: float = 0.0
    bytes_per_second: int | None = None
    times: int | None = None


@dataclass(frozen=True)
class Request:
    """One request that the index answered. ``range`` is the header as sent; ``status`` is what was answered."""

    method: str
    path: str
    accept: str | None
    range: str | None
    status: int


class FakeIndex:
    """The index, running between ``__enter__`` and ``__exit__`` (or :meth:`start` and :meth:`stop`).

    Args:
        wheels: What it has from the start; :meth:`add` and :meth:`remove` change that while it runs.
        form: ``negotiated``, ``json`` or ``html``.
        generic_html: Send the HTML form as ``text/html``, as old indexes do.
        ranges: Answer range requests with a part of the file; otherwise always with all of it.
        user: Name and password without which every answer is 401.
        certificate: PEM file of a certificate and its key: the index then speaks TLS.
    """

    def __init__(
        self,
        wheels: Iterable[Wheel] = (),
        *,
        form: str = "negotiated",
        upload_times: bool = True,
        sizes: bool = True,
        hashes: bool = True,
        metadata: bool = True,
        generic_html: bool = False,
        ranges: bool = True,
        user: tuple[str, str] | None = None,
        certificate: Path | None = None,
    ) -> None:
        self.form = form
        self.upload_times = upload_times
        self.sizes = sizes
        self.hashes = hashes
        self.metadata = metadata
        self.generic_html = generic_html
        self.ranges = ranges
        self.user = user
        self.certificate = certificate
        self.requests: list[Request] = []
        self.begun: list[str] = []
        self._shelves: dict[str, dict[str, Wheel]] = {"simple": {}}
        self._faults: list[tuple[str, Fault]] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        for wheel in wheels:
            self.add(wheel)

    # --- use

    @property
    def url(self) -> str:
        """What goes after ``--index-url``."""
        return f"{self.base}/simple/"

    @property
    def base(self) -> str:
        """Address of the server without a path: ``http://127.0.0.1:40123``."""
        assert self._server is not None, "the index is not running"
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url_with_password(self) -> str:
        """The address with name and password in it."""
        assert self.user is not None
        return self.url.replace("://", f"://{quote(self.user[0])}:{quote(self.user[1])}@")

    def file_url(self, wheel: Wheel) -> str:
        return f"{self.base}/files/{quote(wheel.filename)}"

    @property
    def _wheels(self) -> dict[str, Wheel]:
        return self._shelves["simple"]

    def add(self, *wheels: Wheel, shelf: str = "simple") -> None:
        with self._lock:
            self._shelves.setdefault(shelf, {}).update({wheel.filename: wheel for wheel in wheels})

    def remove(self, *wheels: Wheel, shelf: str = "simple") -> None:
        with self._lock:
            for wheel in wheels:
                del self._shelves[shelf][wheel.filename]

    def fault(self, pattern: str, fault: Fault) -> Fault:
        """Let requests whose path matches the shell pattern go wrong; the first that matches counts."""
        with self._lock:
            self._faults.append((pattern, fault))
        return fault

    def clear_faults(self) -> None:
        with self._lock:
            self._faults.clear()

    def forget_requests(self) -> None:
        """Begin anew; one that is still being answered, as slowly as a fault wants it, belongs to those before."""
        with self._lock:
            self.requests, self.begun = [], []

    def requested(self, pattern: str) -> list[Request]:
        """The requests so far whose path matches the shell pattern."""
        with self._lock:
            return [request for request in self.requests if fnmatch.fnmatch(request.path, pattern)]

    def asked(self, pattern: str) -> list[str]:
        """Paths that match the shell pattern and were asked for, also those that are not answered yet."""
        with self._lock:
            return [path for path in self.begun if fnmatch.fnmatch(path, pattern)]

    def start(self) -> FakeIndex:
        index = self

        class Handler(_Handler):
            owner = index

        self._server = _Server(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            # Not in accept(): who does not trust the certificate would stop the server.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> FakeIndex:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- answers

    def _next_fault(self, path: str, *, is_range: bool) -> Fault | None:
        with self._lock:
            for pattern, fault in self._faults:
                if fault.only_ranges and not is_range:
                    continue
                if fnmatch.fnmatch(path, pattern) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None

    def _answer(self, path: str, accept: str) -> tuple[str, bytes] | None:
        """Content type and body, None when there is nothing at this path."""
        with self._lock:
            shelves = {name: dict(wheels) for name, wheels in self._shelves.items()}
        wheels = shelves["simple"]
        parts = unquote(path).strip("/").split("/")
        if parts[0] == "files" and len(parts) == 2:
            name, is_metadata = parts[1].removesuffix(".metadata"), parts[1].endswith(".metadata")
            wheel = next((shelf[name] for shelf in shelves.values() if name in shelf), None)
            if wheel is None or (is_metadata and not self.metadata):
                return None
            return "application/octet-stream", wheel.metadata if is_metadata else wheel.content
        as_json = self.form == "json" or (self.form == "negotiated" and _JSON in accept)
        if parts == ["simple"]:
            return self._render_root(sorted({wheel.project for wheel in wheels.values()}), as_json)
        if parts[0] == "simple" and len(parts) == 2:
            chosen = [wheel for wheel in wheels.values() if wheel.project == parts[1]]
            if not chosen:
                return None
            return self._render_json(parts[1], chosen) if as_json else self._render_html(parts[1], chosen)
        shelf = shelves.get("/".join(parts[:-1]), {})
        chosen = [wheel for wheel in shelf.values() if wheel.project == parts[-1]]
        return self._render_html(parts[-1], chosen) if chosen else None

    @property
    def _html_type(self) -> str:
        return "text/html" if self.generic_html else _HTML

    def _render_root(self, projects: list[str], as_json: bool) -> tuple[str, bytes]:
        if as_json:
            page = {"meta": {"api-version": "1.1"}, "projects": [{"name": project} for project in projects]}
            return _JSON, json.dumps(page).encode()
        links = "".join(f'<a href="/simple/{project}/">{project}</a><br/>' for project in projects)
        return self._html_type, f"<!DOCTYPE html><html><body>{links}</body></html>".encode()

    def _render_json(self, project: str, wheels: list[Wheel]) -> tuple[str, bytes]:
        files = []
        for wheel in wheels:
            row: dict[str, object] = {
                "filename": wheel.filename,
                "url": f"/files/{wheel.filename}",
                "hashes": {"sha256": wheel.sha256} if self.hashes else {},
                "yanked": False if wheel.yanked is None else wheel.yanked or True,
            }
            if self.sizes:
                row["size"] = len(wheel.content)
            if self.upload_times and wheel.upload_time is not None:
                row["upload-time"] = wheel.upload_time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            if wheel.requires_python is not None:
                row["requires-python"] = wheel.requires_python
            if self.metadata:
                row["core-metadata"] = {"sha256": hashlib.sha256(wheel.metadata).hexdigest()}
            files.append(row)
        page = {
            "meta": {"api-version": "1.1"},
            "name": project,
            "versions": sorted({wheel.version for wheel in wheels}),
            "files": files,
        }
        return _JSON, json.dumps(page).encode()

    def _render_html(self, project: str, wheels: list[Wheel]) -> tuple[str, bytes]:
        links = []
        for wheel in wheels:
            fragment = f"#sha256={wheel.sha256}" if self.hashes else ""
            attributes = ""
            if wheel.requires_python is not None:
                attributes += f' data-requires-python="{html.escape(wheel.requires_python)}"'
            if wheel.yanked is not None:
                attributes += f' data-yanked="{html.escape(wheel.yanked)}"'
            if self.metadata:
                attributes += f' data-core-metadata="sha256={hashlib.sha256(wheel.metadata).hexdigest()}"'
            address = f"/files/{quote(wheel.filename)}{fragment}"
            links.append(f'<a href="{address}"{attributes}>{wheel.filename}</a><br/>')
        head = f'<meta name="pypi:repository-version" content="1.0"><title>Links for {project}</title>'
        page = f"<!DOCTYPE html><html><head>{head}</head><body>{''.join(links)}</body></html>"
        return self._html_type, page.encode()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up in a handshake is no fault of the server; nothing is printed."""


class _Handler(BaseHTTPRequestHandler):
    owner: FakeIndex
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(send_body=True)

    def do_HEAD(self) -> None:
        self._serve(send_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """The request log is :attr:`FakeIndex.requests`; nothing is printed."""

    def _serve(self, *, send_body: bool) -> None:
        path = self.path.partition("?")[0]
        with self.owner._lock:
            self.owner.begun.append(path)
            self._noted_in = self.owner.requests
        fault = self.owner._next_fault(path, is_range="Range" in self.headers) or Fault()
        time.sleep(fault.delay_s)
        if not self._may_enter():
            self._start(401, {"Content-Length": "0", "WWW-Authenticate": 'Basic realm="index"'})
            return
        if fault.redirect_to_itself:
            self._start(302, {"Content-Length": "0", "Location": self.path})
            return
        answer = self.owner._answer(path, self.headers.get("Accept") or "")
        if fault.status is not None or answer is None:
            more = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
            self._start(fault.status or 404, {"Content-Length": "0", **more})
            return
        content_type, body = answer
        body = fault.body if fault.body is not None else body
        headers = {
            "Content-Type": fault.content_type or content_type,
            "ETag": f'"{hashlib.sha256(body).hexdigest()[:16]}"',
        }
        is_file = path.startswith("/files/")
        headers["Cache-Control"] = "max-age=3600, immutable" if is_file else "no-cache"
        if self.headers.get("If-None-Match") == headers["ETag"]:
            self._start(304, headers)
            return
        status = 200
        if is_file and self.owner.ranges:
            headers["Accept-Ranges"] = "bytes"
            span = _span(self.headers.get("Range"), len(body))
            if span is not None:
                status, (first, last) = 206, span
                headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                body = body[first : last + 1]
        headers["Content-Length"] = str(len(body))
        self._start(status, headers)
        if send_body:
            self._send(body, fault)

    def _may_enter(self) -> bool:
        if self.owner.user is None:
            return True
        expected = base64.b64encode(":".join(self.owner.user).encode()).decode()
        return self.headers.get("Authorization") == f"Basic {expected}"

    def _start(self, status: int, headers: dict[str, str]) -> None:
        accept, span = self.headers.get("Accept"), self.headers.get("Range")
        with self.owner._lock:
            self._noted_in.append(Request(self.command, self.path.partition("?")[0], accept, span, status))
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
        except ConnectionError:
            self.close_connection = True

    def _send(self, body: bytes, fault: Fault) -> None:
        if fault.truncate_to is not None:
            body = body[: fault.truncate_to]
            self.close_connection = True
        try:
            if fault.bytes_per_second is None:
                self.wfile.write(body)
                if fault.reset:
                    self.wfile.flush()
                    # With no time to linger, closing sends a reset.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    os.close(self.connection.detach())
                return
            step = max(1, fault.bytes_per_second // 20)
            for start in range(0, len(body), step):
                self.wfile.write(body[start : start + step])
                self.wfile.flush()
                time.sleep(step / fault.bytes_per_second)
        except ConnectionError:
            self.close_connection = True


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte of a single range, None when all is wanted."""
    if header is None or not header.startswith("bytes=") or "," in header or size == 0:
        return None
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1
