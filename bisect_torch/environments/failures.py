"""Why an environment could not be made: the build's own limit, a broken result, or our side.

The three are kept apart because only the first two say anything about the build, and none of them anything about torch.
"""

from __future__ import annotations

from bisect_torch.errors import BisectTorchError, InfrastructureError
from bisect_torch.model import Build, Outcome


class NotInstallable(BisectTorchError):  # noqa: N818 - a word of the design, like the next two
    """The build cannot be installed here: no wheel for this platform or Python, or no set of versions that fits.

    Args:
        reason: One line.
    """

    def __init__(self, reason: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(reason, hint=hint, detail=detail)
        self.reason = reason


def left_the_index(build: Build, why: str = "") -> NotInstallable:
    """A nightly build that its index no longer has, and of which there is no environment here."""
    more = f": {why}" if why else ""
    return NotInstallable(
        f"torch {build.version} has left the index {build.index}, and no such environment of it is here{more}"
    )


class EnvironmentBroken(BisectTorchError):  # noqa: N818
    """The build was installed and a control case failed: nothing that runs in it says anything about torch.

    Args:
        reason: One line.
    """

    def __init__(self, reason: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(reason, hint=hint, detail=detail)
        self.reason = reason


class InUse(BisectTorchError):  # noqa: N818
    """An environment cannot be removed: a run uses it."""


def outcome_of(error: BisectTorchError) -> Outcome:
    """What becomes of the cells of a build whose environment could not be made."""
    if isinstance(error, NotInstallable):
        return Outcome.NOT_INSTALLED
    if isinstance(error, EnvironmentBroken):
        return Outcome.ENVIRONMENT_BROKEN
    return Outcome.LOST


class TransientFailure(InfrastructureError):  # noqa: N818
    """The network failed in a way that may pass: worth another try."""
