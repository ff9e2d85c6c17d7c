"""Where the program begins and ends. Ctrl-C at any moment between ends it with exit code 130 and one line.

Python's own way is an exception between any two instructions: in an import, where a traceback follows; in a destructor,
where it is printed and forgotten; in the interpreter's last steps, where the signal kills. So here it is answered by
what the program is doing:

- It begins, or is about to end: there is nothing to clean up, and it leaves at once.
- A command runs: KeyboardInterrupt, for which commands are written. ``bisect_torch.interruption`` sees to that.
- It has ended: its exit code stands.

This imports what every interpreter has loaded by itself, since nothing can be done before it listens.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what ``signal`` wraps, which itself loads enum: milliseconds
import atexit
import gc
import os
import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command that the process was started with; gives its exit code. For the main thread."""
    if _signal.getsignal(_signal.SIGINT) is _signal.SIG_IGN:  # started in the background of a script
        return _command()
    _signal.signal(_signal.SIGINT, _leave)
    # Registered first and so done last: after it Python takes its handlers away, and the signal would kill.
    atexit.register(_signal.signal, _signal.SIGINT, _signal.SIG_IGN)
    sys.unraisablehook = _unraisable
    code = _command()
    _signal.signal(_signal.SIGINT, lambda number, frame: os._exit(code))
    gc.freeze()  # the interpreter's last steps would look for garbage among all modules, twice: 35 ms
    return code


def _command() -> int:
    from bisect_torch.cli.main import main

    return main()


def _leave(number: int, frame: object) -> None:
    try:
        os.write(2, b"error: interrupted\n")
    finally:  # also where nobody reads that
        os._exit(INTERRUPTED)


def _unraisable(report: sys.UnraisableHookArgs) -> None:
    if report.exc_type is KeyboardInterrupt:
        from bisect_torch.interruption import comes_again

        comes_again()
    else:
        sys.__unraisablehook__(report)
