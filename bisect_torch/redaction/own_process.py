"""What other programs of the same user, such as a case, may see of this process: nothing that is secret.

``/proc/PID/environ`` and ``/proc/PID/cmdline`` show the memory in which the kernel put both when the process began,
whatever it does to ``os.environ`` later. So secrets are written over there. ``os.environ`` keeps them, for uv and for
downloads.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from bisect_torch.redaction.names import holds_credentials, secret_words

_PR_SET_DUMPABLE = 4
_ARGUMENTS, _VARIABLES = 45, 47
"""Addresses of the blocks among the fields behind the name in ``/proc/self/stat``: 48 and 50 of proc(5)."""


def conceal() -> None:
    """Write over the secrets in this process's environment block and command line, and let no process of the same user
    look into it: its memory, its descriptors, its environment. root can. Linux only; elsewhere nothing is done.

    To be called before another thread may read a variable.
    """
    if not sys.platform.startswith("linux"):
        return
    for name, value in list(os.environ.items()):
        if holds_credentials(name, value):
            os.environ[name] = value  # the C library takes a copy, and looks into the block no more
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        variables, arguments = (Path("/proc/self", name).read_bytes() for name in ("environ", "cmdline"))
    except (FileNotFoundError, PermissionError):
        return  # where there is no /proc, nothing shows them; what is closed to ourselves is closed already
    _write_over(int(fields[_VARIABLES]), variables, _secret_variables(variables))
    _write_over(int(fields[_ARGUMENTS]), arguments, _secret_arguments(arguments))
    # Last: from here on these files are root's, and not to be opened by this process either.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _secret_variables(block: bytes) -> Iterator[tuple[int, int]]:
    """Place and length of each value that is a secret."""
    place = 0
    for entry in block.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if value and holds_credentials(os.fsdecode(name), os.fsdecode(value)):
            yield place + len(name) + 1, len(value)
        place += len(entry) + 1


def _secret_arguments(block: bytes) -> Iterator[tuple[int, int]]:
    """Place and length of each password in an address, and of what ``--password`` and the like give."""
    for secret in secret_words([os.fsdecode(word) for word in block.split(b"\0")]):
        wanted = os.fsencode(secret)
        place = block.find(wanted)
        while place >= 0:
            yield place, len(wanted)
            place = block.find(wanted, place + len(wanted))


def _write_over(address: int, block: bytes, secrets: Iterable[tuple[int, int]]) -> None:
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        if memory.read(len(block)) != block:
            return  # a system that gives no true address, as some sandboxes do
    for place, length in secrets:
        ctypes.memset(address + place, ord("*"), length)
