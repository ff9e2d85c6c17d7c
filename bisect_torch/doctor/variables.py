"""Environment variables that change what a run does. Names are shown, never values: they may hold passwords."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.environments import reaches_computing
from bisect_torch.environments.store import STORE_VARIABLE
from bisect_torch.environments.uv import NOT_FOR_UV
from bisect_torch.first_names import first_of
from bisect_torch.nearest import nearest_names
from bisect_torch.releases.index import BACKEND_INDEX_VARIABLE

PREFIX = "BISECT_TORCH_"
KNOWN = {
    STORE_VARIABLE: "the store",
    BACKEND_INDEX_VARIABLE: "where --torch-backend takes its wheels from",
    "BISECT_TORCH_DEBUG": "errors come with their traceback",
    "BISECT_TORCH_GUARD": "the guard of large tensors is around every cell",
    # Of the tool's own tests and processes; they change no run.
    "BISECT_TORCH_BACKEND": "",
    "BISECT_TORCH_MATRIX_RESULTS": "",
    "BISECT_TORCH_TEST_PYTHONS": "",
    "BISECT_TORCH_UPDATE_SNAPSHOTS": "",
    "BISECT_TORCH_WORKER": "",
}
"""Each variable that the tool reads, and what it changes."""

_UV = {
    "UV_OFFLINE": "no server is asked",
    "UV_LINK_MODE": "environments may take 80 GB in place of 47",
    "UV_INDEX_STRATEGY": "which of several indexes counts",
    "UV_PYTHON_DOWNLOADS": "whether Pythons are fetched",
    **dict.fromkeys(
        ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        "where builds come from",
    ),
}
_PIP = {
    "PIP_INDEX_URL": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "PIP_CERT": ("SSL_CERT_FILE",),
    "PIP_PROXY": ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
}
"""How pip reaches an index, and the names by which uv and this tool know that. One of them is enough."""

_PIP_MORE = {
    "PIP_EXTRA_INDEX_URL": "--extra-index-url",
    "PIP_FIND_LINKS": "--find-links",
    "PIP_NO_INDEX": "--offline",
}
"""What changes where pip takes torch from, and the option that does so here. To set it is no mending: builds would be
other ones."""


def variables(asked: Asked, given: Mapping[str, str] | None = None) -> Iterator[Check]:
    """Those that are set and matter.

    Args:
        given: In place of this process's.
    """
    names = sorted(name for name, value in (os.environ if given is None else given).items() if value)
    yield from _own(names)
    yield from _of_uv(names)
    yield from _of_pip(names, asked)
    reach = list(filter(reaches_computing, names))
    if reach:
        means = "cells see them on every release alike; what they change, others do not see"
        fix = f"env {' '.join(f'-u {name}' for name in reach)} bisect-torch run …"
        yield Check("variables", Status.WARNING, first_of(reach), means, fix)
    else:
        yield Check("variables", Status.OK, "none that change what cells compute")


def _own(names: list[str]) -> Iterator[Check]:
    for name in names:
        if not name.startswith(PREFIX):
            continue
        if name not in KNOWN:
            near = [known for known in nearest_names(name, KNOWN)[:1] if known not in names]
            fix = f'export {near[0]}="${name}"; unset {name}' if near else f"unset {name}"
            yield Check(name, Status.WARNING, "set", "nothing reads a variable of this name", fix)
        elif KNOWN[name]:
            yield Check(name, Status.OK, "set", KNOWN[name])


def _of_pip(names: list[str], asked: Asked) -> Iterator[Check]:
    for name in names:
        if name in _PIP:
            counts = next((known for known in _PIP[name] if known in names), "")
            if name == "PIP_INDEX_URL" and asked.index.index_url is not None:
                counts = "--index-url"
            if counts:
                yield Check(name, Status.OK, "set", f"pip reads it; uv and this tool go by {counts}")
                continue
            fix = f'export {_PIP[name][0]}="${name}"'
            yield Check(name, Status.WARNING, "set", "pip reads it, uv and this tool do not", fix)
        elif name in _PIP_MORE:
            means = f"pip reads it, uv and this tool do not: builds come from the index; here it is {_PIP_MORE[name]}"
            yield Check(name, Status.OK, "set", means)


def _of_uv(names: list[str]) -> Iterator[Check]:
    ignored = [name for name in names if name in NOT_FOR_UV and name.startswith("UV_")]
    if ignored:
        means = "kept from uv: environments are the same whatever they say"
        yield Check("variables of uv", Status.OK, first_of(ignored), means)
    for name in names:
        if name in _UV:
            costs = name in ("UV_OFFLINE", "UV_LINK_MODE")
            status = Status.WARNING if costs else Status.OK
            yield Check(name, status, "set", _UV[name], f"unset {name}" if costs else "")
