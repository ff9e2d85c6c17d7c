"""The tool, on a disk that becomes full at a chosen moment: ``python -m tests.hold.filling MOMENT run …``.

Another program, as it were, writes the file that ``TEST_FILLER`` names until nothing more fits.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BLOCK = 4096


def fill(leave: int) -> None:
    """Take all that is free but ``leave`` bytes."""
    with open(os.environ["TEST_FILLER"], "ab", buffering=0) as file:
        for size in (2**26, 2**20, _BLOCK):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
        file.truncate(max(0, os.fstat(file.fileno()).st_size - leave))


@dataclass(frozen=True)
class Moment:
    """When it happens.

    Args:
        place: Module and name of what is about to be called.
        nth: At its nth call that ``when`` accepts.
        when: Told the arguments.
        leave: Bytes that are left.
        cold: No environment is there yet.
    """

    place: str
    nth: int = 1
    when: Callable[..., bool] = lambda *_, **__: True
    leave: int = 0
    cold: bool = False


def _installs(uv: Any, arguments: Any, doing: str, **_: Any) -> bool:
    return "install" in [str(word) for word in arguments]


def _compiles(uv: Any, arguments: Any, **_: Any) -> bool:
    return "compile" in [str(word) for word in arguments]


def _is_expansion(path: Path, values: Any) -> bool:
    return path.parent.name == "expansions"


MOMENTS: dict[str, Moment] = {
    "before anything is written": Moment("bisect_torch.environments.store:Store.open", cold=True),
    "an answer of the index": Moment("bisect_torch.releases.pages:_write_cache", cold=True),
    "locking": Moment("bisect_torch.environments.uv:Uv.attempt", when=_compiles, cold=True),
    "download": Moment("bisect_torch.environments.uv:Uv.run", when=_installs, leave=2**20, cold=True),
    "unpacking": Moment("bisect_torch.environments.uv:Uv.run", when=_installs, leave=5 * 2**20, cold=True),
    "download of the second": Moment("bisect_torch.environments.uv:Uv.run", 2, when=_installs, leave=2**20, cold=True),
    "control case": Moment("bisect_torch.environments.control:base", cold=True),
    "stamp": Moment("bisect_torch.environments.stamp:write", cold=True),
    "staged package": Moment("bisect_torch.environments:staged_package"),
    "start of a worker": Moment("bisect_torch.engine.worker_process:WorkerProcess.start"),
    "a cell": Moment("bisect_torch.engine.worker_process:WorkerProcess.run"),
    "expansion": Moment("bisect_torch.own_digest:write_json", when=_is_expansion),
    "first record": Moment("bisect_torch.results.journal:Journal.write"),
    "a record": Moment("bisect_torch.results.journal:Journal.write", 8),
    "half a record": Moment("bisect_torch.results.journal:Journal.write", 8, leave=_BLOCK),
    "Parquet": Moment("bisect_torch.results.parquet:write_table"),
    "half of Parquet": Moment("bisect_torch.results.parquet:write_table", leave=2 * _BLOCK),
}


def arm(moment: Moment) -> None:
    """Have the disk filled when the moment comes."""
    module_name, _, path = moment.place.partition(":")
    owner: Any = __import__(module_name, fromlist=["_"])
    *parents, name = path.split(".")
    for each in parents:
        owner = getattr(owner, each)
    original = owner.__dict__[name]
    function = original.__func__ if isinstance(original, classmethod) else original
    calls = 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        if moment.when(*arguments, **named):
            calls += 1
            if calls == moment.nth:
                fill(moment.leave)
        return function(*arguments, **named)

    setattr(owner, name, classmethod(called) if isinstance(original, classmethod) else called)


if __name__ == "__main__":
    arm(MOMENTS[sys.argv[1]])
    from bisect_torch.cli.main import main

    del sys.argv[1]
    sys.exit(main())
