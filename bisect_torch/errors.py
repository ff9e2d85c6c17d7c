"""The errors that the tool raises on purpose. Each carries the exit code that the command line ends with."""

from __future__ import annotations


class BisectTorchError(Exception):
    """Base of every expected error.

    Args:
        message: One line for the user: what is wrong, with the name of the thing.
        hint: What to do about it, printed on a line of its own after ``hint:``.
        detail: All that another program said about it, for files and ``--debug``; never printed as a line.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


class UsageError(BisectTorchError):
    """The request cannot be understood or carried out as given: command line, case file, range, version."""

    exit_code = 2


class InfrastructureError(BisectTorchError):
    """Our side failed: disk, network, a tool that is missing, a worker that was lost. Says nothing about torch."""

    exit_code = 3


class Interrupted(BisectTorchError):  # noqa: N818 - named like KeyboardInterrupt
    """The user stopped the run. What had finished is kept."""

    exit_code = 130
