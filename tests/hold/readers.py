"""Everything that reads what it did not write itself, with a sound example of each, for fuzzing.

A reader takes bytes. It may give a value or raise one of the tool's own errors; nothing else may come out of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import requests
from requests.adapters import BaseAdapter

from bisect_torch import own_digest
from bisect_torch.cases import discovery, matching
from bisect_torch.environments import stamp
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, BuildKind, Environment
from bisect_torch.releases import catalogue, remote_wheel, served, sizes, uv_settings
from bisect_torch.releases.index import builds_of
from bisect_torch.releases.locks import parse_lock
from bisect_torch.releases.nightly_ledger import NightlyLedger, remembered_sizes
from bisect_torch.releases.nightly_words import named_word, nightly_word
from bisect_torch.releases.pages import _read_cache
from bisect_torch.releases.selection import Selection, select
from bisect_torch.results import ResultsFile
from bisect_torch.results.journal import decode, encode
from bisect_torch.results.parquet import _metadata, read_table
from bisect_torch.results.rows import observations_of
from bisect_torch.results.said import read_said
from bisect_torch.worker import protocol
from tests.results.made import observation
from tests.support.index import FakeIndex
from tests.support.wheels import fake_torch, releases

Read = Callable[[bytes], object]


@dataclass(frozen=True)
class Reader:
    """One reader.

    Args:
        examples: What it reads without an error.
        read: It.
        other_errors: Errors of its own besides those of the tool.
        endless: It is also given beginnings that never end. Python's own parsers of TOML and HTML take time there that
            grows with the square; what they read is the user's own, or comes in bounded time.
    """

    examples: tuple[bytes, ...]
    read: Read
    other_errors: tuple[type[Exception], ...] = ()
    endless: bool = True

    def try_one(self, data: bytes) -> bool:
        """Whether it could be read. Whatever is no error of its own comes out."""
        try:
            self.read(data)
        except (BisectTorchError, *self.other_errors) as error:
            return not _in_one_line(error)
        return True


def _in_one_line(error: Exception) -> bool:
    assert "\n" not in str(error), f"more than one line: {error}"
    return True


class _Canned(BaseAdapter):
    """A server that always gives the same bytes; ranges of them where asked."""

    def __init__(self, body: bytes, content_type: str) -> None:
        super().__init__()
        self._body, self._type = body, content_type

    def send(self, request: requests.PreparedRequest, **_: object) -> requests.Response:  # type: ignore[override]
        answer = requests.Response()
        answer.status_code, answer.request, answer.url = 200, request, request.url or ""
        answer.headers["Content-Type"] = self._type
        body = self._body
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        if span and body:
            first, last = int(span[1]), min(int(span[2]), len(body) - 1)
            answer.status_code = 206
            answer.headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            body = body[first : last + 1]
        answer.raw = io.BytesIO(body)
        return answer

    def close(self) -> None:
        pass


def _session(body: bytes, content_type: str) -> requests.Session:
    session = requests.Session()
    session.mount("http://", _Canned(body, content_type))
    return session


def _page(content_type: str) -> Read:
    def read(data: bytes) -> object:
        with (
            mock.patch.object(served, "web_session", return_value=_session(data, content_type)),
            mock.patch.object(served, "patiently", lambda ask: ask()),
        ):
            files = served.index_page("torch", "http://index/simple/", timeout_s=1.0)
        return builds_of(files or (), {}, None)

    return read


def _wheel(data: bytes) -> object:
    with mock.patch.object(remote_wheel, "patiently", lambda ask: ask()):
        return remote_wheel.torch_wheel_facts("http://index/torch.whl", _session(data, "application/octet-stream"))


def _in_file(folder: Path, name: str, read: Callable[[Path], object]) -> Read:
    path = folder / name

    def of_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return of_bytes


def _journal(folder: Path, *, digests: bool) -> Read:
    """With digests that fit whatever stands there: as another version of the tool would write it."""
    path = folder / "r.parquet"

    def read(data: bytes) -> object:
        if digests:
            lines = [line for line in data.split(b"\n") if _is_json(line)]
            data = b"".join(encode(json.loads(line)) for line in lines)
        path.with_name("r.parquet.journal").write_bytes(data)
        with ResultsFile.open(path) as results:
            return results.observations(), results.runs, results.locks

    return read


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _raw_metadata(data: bytes) -> object:
    names = (b"schema_version", b"tool_version", b"runs", b"locks", b"sources")
    parts = data.split(b"\n")
    return _metadata(
        Path("r.parquet"), {b"bisect_torch." + name: part for name, part in zip(names, parts, strict=False)}
    )


def _uncached(load: object, read: Callable[[Path], object]) -> Callable[[Path], object]:
    def fresh(path: Path) -> object:
        load.cache_clear()  # type: ignore[attr-defined]
        return read(path)

    return fresh


def _frames(data: bytes) -> object:
    return [*protocol.Decoder().feed(data)], [*protocol.Decoder(bytes(16)).feed(data)]


BUILDS = tuple(
    Build(BuildKind.RELEASE, version, version, pythons=("3.11",)) for version in ("2.4.1", "2.5.0", "2.9.1", "2.10.0")
)


def _version(data: bytes) -> object:
    text = data.decode(errors="replace")
    named_word(text)
    for wanted in (
        Selection(versions=(text,)),
        Selection(text, None),
        Selection(None, text),
        Selection(exclude=(text,)),
    ):
        with contextlib.suppress(BisectTorchError):
            select(BUILDS, wanted)
    with contextlib.suppress(BisectTorchError):
        nightly_word(text)
    return named_word(text)


def _expression(folder: Path) -> Read:
    path = folder / "cases.py"
    path.write_text("from bisect_torch import case\n@case(n=[1, 2])\ndef softmax(n):\n    pass\n")
    (found,) = discovery.discover([path])
    return lambda data: matching(found.instances or (), data.decode(errors="replace"))


def _parquet_example() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "r.parquet"
        results = ResultsFile.open(path)
        results.append(observation())
        results.finish({"run_id": "run-1"})
        table = pq.read_table(path)
    kept = {name: value for name, value in table.schema.metadata.items() if name != b"bisect_torch.digest"}
    buffer = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(kept), buffer)
    return bytes(buffer.getvalue())


def _own_json(data: bytes) -> object:
    return own_digest.from_json(data, also_without=True)


def _record_lines() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "r.parquet"
        results = ResultsFile.open(path)
        results.begin({"run_id": "run-1", "command": ["run"]})
        results.add_lock("h", "torch==2.9.1\n")
        results.append(observation(rel_error=0.5, checks=1, error_bins="[[0,1,0.5]]"))
        results.close()
        return path.with_name("r.parquet.journal").read_bytes()


def _pages_of_torch() -> dict[str, bytes]:
    index = FakeIndex(releases({"2.4.1": "", "2.5.0": ""}))
    accept = {"json": "application/vnd.pypi.simple.v1+json", "html": "text/html"}
    answers = {form: index._answer("/simple/torch/", words) for form, words in accept.items()}
    return {form: answer[1] for form, answer in answers.items() if answer is not None}


def _stamp_example(folder: Path) -> bytes:
    root = folder / "made"
    root.mkdir()
    build = Build(BuildKind.RELEASE, "2.9.1", "2.9.1")
    facts = ("3.11.7", "h" * 64, {"torch": "2.9.1"}, "2.9.1+cpu", "c" * 40, None, "pypi")
    stamp.write(Environment(build, root, root / "python", *facts), "0.1.0")  # type: ignore[arg-type]
    return json.dumps(own_digest.from_json((root / stamp.STAMP_NAME).read_bytes())).encode()


LOCK = b"""numpy==2.1.1 ; python_version >= '3.10' \\
    --hash=sha256:%b
# a remark
setuptools==74.1.2 --hash=sha256:%b
torch==2.4.1 --hash=sha256:%b
""" % ((b"ab" * 32,) * 3)
SCRIPT = b"""from bisect_torch import case, check
N = [1, 2]
@case(n=[1, 2, 65536], dtype=["float32"], memory="14 GiB", timeout=3, needs=["torch>=2.5"])
def bmm(device, n, dtype):
    import torch
    assert torch.compile(lambda x: x)
"""
UV_TOML = b"""index-url = "http://one/simple"
extra-index-url = ["http://two/simple"]
find-links = ["wheels"]
[[index]]
url = "http://three/simple"
default = true
[pip]
index-strategy = "first-index"
"""
LEDGER_ROW = {
    "index": "nightly/cpu", "filename": "torch-2.16.0.dev20261128+cpu-cp311-cp311-linux_x86_64.whl", "url": "http://x/y",
    "sha256": "ab" * 32, "bytes": 5, "day": "2026-11-28", "git_commit": None, "first_seen": "2026-11-28",
    "yanked": None, "requires_python": ">=3.10",
}  # fmt: skip
CACHE_ROW = {
    "filename": "torch-2.9.1-py3-none-any.whl", "url": "http://x/y", "sha256": "ab" * 32, "bytes": 5,
    "uploaded": "2025-11-12T00:00:00+00:00", "yanked": None, "requires_python": None,
}  # fmt: skip


@contextlib.contextmanager
def readers() -> Iterator[dict[str, Reader]]:
    """Name to reader, with a folder for those that read files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "env").mkdir()
        pages = _pages_of_torch()
        lines = _record_lines()
        bare_lines = b"\n".join(line.partition(b" ")[2] for line in lines.splitlines())
        envs = catalogue.envs_folder()
        ledger = {"schema": 1, "wheels": [LEDGER_ROW]}
        nonce, other = bytes(16), bytes(range(16))
        frames = protocol.encode({"facts": {"outcome": "returned"}}, nonce) + protocol.encode({"n": [1, 2]}, other)
        rows = next(iter(json.loads((envs / "wheels.json").read_bytes())["wheels"].items()))
        toml = (envs / "catalogue.toml").read_bytes()
        answers = own_digest.to_json({"files": [CACHE_ROW]})
        yield {
            "journal": Reader((lines,), decode),
            "journal of a results file": Reader((lines,), _journal(folder, digests=False)),
            "records with digests that fit": Reader((bare_lines,), _journal(folder, digests=True)),
            "metadata of a results file": Reader(
                (b'2\n0.1.0\n[{"run_id": "a"}]\n{"h": "t"}\n{"s": "t"}',), _raw_metadata
            ),
            "results file": Reader(
                (_parquet_example(),),
                _in_file(folder, "x.parquet", lambda path: observations_of(read_table(path)[0])),
            ),
            "lock": Reader((LOCK,), lambda data: parse_lock(data.decode(errors="replace"))),
            "catalogue": Reader(
                (toml[: toml.index(b"[[release]]", 1500)],),
                _in_file(
                    folder, "catalogue.toml", _uncached(catalogue._load, lambda p: catalogue.load_catalogue(p.parent))
                ),
                endless=False,
            ),
            "sizes of wheels": Reader(
                (json.dumps({"schema": 1, "wheels": dict([rows])}).encode(),),
                _in_file(folder, "wheels.json", _uncached(sizes._load, lambda p: sizes.known_wheels(p.parent))),
            ),
            "index in JSON": Reader((pages["json"],), _page("application/vnd.pypi.simple.v1+json")),
            "index in HTML": Reader((pages["html"],), _page("text/html"), endless=False),
            "index, the other form": Reader((pages["html"],), _page("application/vnd.pypi.simple.v1+json")),
            "wheel on a server": Reader((fake_torch("2.9.1").content,), _wheel),
            "frames of a worker": Reader((frames,), _frames, (protocol.ProtocolError,)),
            "stamp": Reader(
                (_stamp_example(folder),),
                _in_file(folder / "env", stamp.STAMP_NAME, lambda path: stamp.sweep(path.parent)),
            ),
            "nightly ledger": Reader(
                (json.dumps(ledger).encode(),),
                _in_file(folder, "l.json", lambda p: (NightlyLedger(p).wheels("nightly/cpu"), remembered_sizes(p))),
            ),
            "kept answers": Reader((answers,), _in_file(folder, "answers.json", _read_cache)),
            "state of recheck": Reader(
                (b'{"recheck_state": 1, "rows": {"a": {"answer": "fixed", "unjudged": null}}}',),
                _in_file(folder, "s.json", read_said),
            ),
            "object with its digest": Reader((own_digest.to_json({"a": 1}),), _own_json, (ValueError,)),
            "uv's settings": Reader((UV_TOML,), _in_file(folder, "uv.toml", uv_settings._read), endless=False),
            "case file": Reader((SCRIPT,), _in_file(folder, "c.py", lambda path: discovery.discover([path]))),
            "version": Reader((b"2.9.1", b"nightly-2026-11-28", b"2.16.0.dev20261128"), _version),
            "expression of -k": Reader((b"softmax and not (n or x)",), _expression(folder)),
        }


# --- damage

_TOKENS = (
    b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"{}", b"[]", b'""', b"\x00", b"\xff\xfe", b"\xed\xa0\x80",
    b"99999999999999999999", b"[" * 3000, b"(" * 300, b"\\ud800", b"<a href=", b"==", b"\n", b"\r\n", b"'", b'"',
    b"9999-99-99",
    b"torch-2.9.1+cpu-cp311-cp311-linux_x86_64.whl", b"http://[", b"-" * 500, b"1." * 500, "ﬀ½²".encode(),
)  # fmt: skip
_VALUES: tuple[object, ...] = (
    None, True, -1, 0, 2**70, 1e300, "", "x", "\ud800", [], {}, [[]], {"a": None}, "2026-13-45", "9" * 30, [1, "a"],
)  # fmt: skip


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Other bytes, that are nearly those."""
    if dice.random() < 0.35:
        changed = _changed_json(data, dice)
        if changed is not None:
            return changed
    result = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(result) + 1)
        end = min(len(result), place + dice.choice((1, 2, 8, 64)))
        kind = dice.randrange(6)
        if kind == 0 and place < len(result):
            result[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del result[place:end]
        elif kind == 2:
            result[place:place] = dice.choice(_TOKENS)
        elif kind == 3:
            result[place:end] = dice.choice(_TOKENS)
        elif kind == 4:
            result[place:place] = result[place:end]
        else:
            del result[place:]
    return bytes(result)


def _changed_json(data: bytes, dice: random.Random) -> bytes | None:
    """One value of a JSON text (or of one of its lines) replaced by another."""
    lines = data.split(b"\n")
    number = dice.randrange(len(lines))
    for candidate, join in ((data, False), (lines[number], True)):
        try:
            values = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        text = json.dumps(_with_one_changed(values, dice)).encode()
        return b"\n".join([*lines[:number], text, *lines[number + 1 :]]) if join else text
    return None


def _with_one_changed(values: object, dice: random.Random) -> object:
    if dice.random() < 0.2 or not isinstance(values, dict | list) or not values:
        return dice.choice(_VALUES)
    if isinstance(values, list):
        place = dice.randrange(len(values))
        return [_with_one_changed(each, dice) if n == place else each for n, each in enumerate(values)]
    name = dice.choice(list(values))
    if dice.random() < 0.2:
        return {key: each for key, each in values.items() if key != name}
    return {key: _with_one_changed(each, dice) if key == name else each for key, each in values.items()}
