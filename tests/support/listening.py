"""The tool, stopped by Ctrl-C from the moment on at which it can listen.

Before its first line Python itself starts, and dies of the signal or shows where it was: nothing helps against that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = """
import _signal, os, sys
first = _signal.signal
def listens(*words):
    _signal.signal = first
    before = first(*words)
    os.write({ready}, b"x")
    os.close({ready})
    return before
_signal.signal = listens
sys.argv = ["bisect-torch", *sys.argv[1:]]
from bisect_torch.cli.entry import main
sys.exit(main())
"""


def start_listening(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start the tool with these words, and wait until it listens. No stdin; stdout and stderr are pipes."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(ready=writer), *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(writer,),
    )
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    return process
