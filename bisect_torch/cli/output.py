"""Errors on stderr: one line that says what is wrong, then a ``hint:`` line that says what to do."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable

from bisect_torch.errors import BisectTorchError

TYPE_CHECKING = False  # as in typing, which --help does without
if TYPE_CHECKING:
    from pathlib import Path

    from bisect_torch.interruption import Interruption


def printable(text: str) -> str:
    """The text with control characters, except line ends, written as escapes: it may quote what a case printed."""
    return "".join(char if char == "\n" or char.isprintable() else repr(char)[1:-1] for char in text)


def print_error(message: str, hint: str | None = None) -> None:
    """Write ``error: …`` and, where there is one, ``hint: …``. A closed stderr is no error."""
    from bisect_torch.redaction import this_machine

    hide = this_machine().hide_secrets  # an address or a command line may hold a password
    lines = [f"error: {printable(hide(message))}"]
    if hint:
        lines.append(f"hint: {printable(hide(hint))}")
    _write_to_stderr(lines)


def print_note(text: str) -> None:
    """Write ``note: …``: something to know that is no error. A closed stderr is none either."""
    from bisect_torch.redaction import this_machine

    _write_to_stderr([f"note: {printable(this_machine().hide_secrets(text))}"])


def _write_to_stderr(lines: list[str]) -> None:
    try:
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        text = "\n".join(lines) + "\n"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def print_expected(error: BisectTorchError) -> int:
    """Print an error that the tool raised on purpose. Returns its exit code."""
    print_error(error.message, error.hint)
    return error.exit_code


def print_traceback(error: BaseException) -> None:
    """For ``--debug``; what another program said about it comes last."""
    import traceback

    traceback.print_exception(error)
    if isinstance(error, BisectTorchError) and error.detail:
        from bisect_torch.redaction import this_machine

        _write_to_stderr(["", printable(this_machine().hide_secrets(error.detail)).rstrip("\n"), ""])


def print_unexpected(error: BaseException, *, debug: bool) -> int:
    """Print an error that nobody foresaw: one line, with the traceback only when asked for. Returns 3."""
    import traceback

    if debug:
        print_traceback(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    first_line = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    told = "please report it with the traceback above" if debug else "run again with --debug for the traceback"
    print_error(f"unexpected {what}{where}", f"this is a fault of bisect-torch, not of torch; {told}")
    return 3


def until_interrupted(
    work: Callable[[Interruption], int],
    hint: Callable[[], str] | None,
    *,
    kept: str = "what had finished is kept",
) -> int:
    """Do the work of a command that runs cells; 130 when it was cut off before it could say so itself.

    Args:
        work: Gives the exit code; it is told of an interruption.
        hint: How to go on; None for what runs nothing, and so keeps nothing.
        kept: What becomes of cells, once they have begun to run.
    """
    from bisect_torch.interruption import Interruption

    interruption = Interruption()
    with interruption.watched():
        try:
            return work(interruption)
        except KeyboardInterrupt:
            said = f"interrupted; {kept}" if interruption.began else "interrupted before anything was run"
            print_error("interrupted" if hint is None else said, hint=None if hint is None else hint())
            return 130


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that was asked for, whole or not at all: what stood there before stays until the new one is there.
    A pipe or a device takes it as it comes.

    Raises:
        OSError: It cannot be written.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    _replace(target, content)


def _replace(target: Path, content: bytes, kept: Path | None = None) -> None:
    """Put a file in a place at once, with the rights of what stood there.

    Args:
        kept: The name that this is given; None for none.
    """
    from bisect_torch import temporary

    made = target.with_name(f".{target.name[:100]}.{temporary.owner()}.part")
    try:
        made.write_bytes(content)
        if target.exists():
            os.chmod(made, stat.S_IMODE(target.stat().st_mode))
        if kept is not None:
            os.replace(target, kept)
        os.replace(made, target)
    finally:
        made.unlink(missing_ok=True)


def write_and_keep(path: Path, content: bytes) -> str:
    """As :func:`write_whole`, for what somebody may have edited: a file with other content that stood there is kept
    beside it as ``NAME~``, in place of an earlier one of that name.

    Returns:
        The end of a sentence that says so; empty where nothing else stood there.

    Raises:
        OSError: It cannot be written; what stood there is at its place, or is ``NAME~``.
    """
    target = path.resolve()
    if not target.is_file() or target.read_bytes() == content:
        write_whole(path, content)
        return ""
    kept = target.with_name(f"{target.name}~")
    _replace(target, content, kept)
    return f"; what was there is now {kept if path.is_symlink() else f'{path}~'}"


def refuse_unwritable(option: str, path: Path) -> None:
    """Before anything is done: a place where no file can be written. A pipe or a device is none of these.

    Args:
        option: That names it, for the message.

    Raises:
        UsageError: Nothing can be written there.
    """
    from bisect_torch import temporary
    from bisect_torch.errors import UsageError

    hint = f"name a file in a folder where you may write: {option} FILE"
    try:
        target = path.resolve()
        if target.is_dir():
            raise UsageError(f"{option} {path} is a folder", hint=hint)
        if target.exists() and not target.is_file():
            return
        if not target.parent.is_dir():
            raise UsageError(f"{option} {path}: the folder {target.parent} does not exist", hint=hint)
        why = temporary.why_unwritable(target.parent)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name that is too long
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise UsageError(f"{option} {path}: nothing can be written there: {why}", hint=hint)


def drop_stdout() -> None:
    """After a broken pipe: send what is still buffered nowhere, so that Python's own exit does not fail on it."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError):
        return
