"""What the tool keeps for itself beside results: a single changed bit is noticed, and so is a part that is gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bisect_torch import own_digest
from bisect_torch.environments import stamp
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, BuildKind, Environment
from bisect_torch.releases.index_file import IndexFile
from bisect_torch.releases.nightly_ledger import NightlyLedger, SeenWheel
from bisect_torch.releases.pages import _read_cache, _write_cache
from bisect_torch.results.said import read_said
from tests.hold.test_stored import is_one_line
from tests.support.tally import Tally


def _stamp(folder: Path) -> tuple[Path, Callable[[], object]]:
    root = folder / "env"
    root.mkdir()
    (root / "python").touch()
    build = Build(BuildKind.RELEASE, "2.9.1", "2.9.1")
    facts = ("3.11.7", "h" * 64, {"torch": "2.9.1"}, "2.9.1+cpu", "c" * 40, None, "pypi")
    stamp.write(Environment(build, root, root / "python", *facts), "0.1.0")
    return root / stamp.STAMP_NAME, lambda: stamp.read(root)


def _ledger(folder: Path) -> tuple[Path, Callable[[], object]]:
    ledger = NightlyLedger(folder / "ledger.json")
    ledger.add(
        [
            SeenWheel("nightly/cpu", f"torch-2.{n}-py3-none-any.whl", "u", "s", 5, "2026-11-28", None, "x")
            for n in range(2)
        ]
    )
    return folder / "ledger.json", ledger.wheels


def _index_answers(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "answer.json"
    _write_cache(path, [IndexFile("torch-2.9.1-py3-none-any.whl", "u", "s", 5, None, None, ">=3.10")])
    return path, lambda: _read_cache(path)


def _expansions(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "expansion.json"
    own_digest.write_json(path, {"rows": [{"case": "a", "parameters": {"batch": 65536}}]})
    return path, lambda: own_digest.read_kept(path)


def _said(folder: Path) -> tuple[Path, Callable[[], object]]:
    path = folder / "state.json"
    own_digest.write_json(path, {"recheck_state": 1, "rows": {"a": {"answer": "fixed", "unjudged": None}}})
    return path, lambda: read_said(path)


KEPT = {"stamp": _stamp, "nightly ledger": _ledger, "answers of an index": _index_answers, "instances": _expansions}
KEPT |= {"state of recheck": _said}


@pytest.mark.parametrize("name", KEPT)
def test_every_flipped_byte_and_prefix_of_what_the_tool_keeps_is_noticed(
    name: str, tmp_path: Path, tally: Tally
) -> None:
    path, read = KEPT[name](tmp_path)
    data = path.read_bytes()
    whole = read()
    assert whole
    mark = data.index(b"bisect-torch-digest:")
    tried = refused = 0
    for number in range(len(data)):
        flipped = bytearray(data)
        flipped[number] ^= 1 << number % 8
        for damaged in (bytes(flipped), data[:number]):
            path.write_bytes(damaged)
            tried += 1
            try:
                found = read()
            except BisectTorchError as error:
                refused += is_one_line(error)
            else:
                # The mark itself may be hit: the rest is then as it was.
                in_mark = damaged != data[:number] and mark <= number < mark + len("bisect-torch-digest:")
                assert not found or (found == whole and (in_mark or number == len(data) - 1)), number
    tally.add(f"stored data: {name}", tried=tried, survived=tried)


def test_what_an_older_version_kept_is_still_read(tmp_path: Path) -> None:
    """Stamps, ledgers and states of before had no digest."""
    path, read = _ledger(tmp_path)
    whole = read()
    path.write_text(json.dumps(own_digest.from_json(path.read_bytes())))
    assert read() == whole
