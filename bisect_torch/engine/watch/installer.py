"""The environments of ``watch``: made ready one after another, in a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from bisect_torch import environments
from bisect_torch.engine.request import RunRequest
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, Environment, Outcome


@dataclass(frozen=True)
class Ready:
    """An environment is there, or cannot be made.

    Args:
        environment: None where it failed.
        reason: Why it failed.
        outcome: What that makes of the build's cells.
    """

    build: Build
    environment: Environment | None
    reason: str = ""
    outcome: Outcome = Outcome.LOST


class Installer:
    """Makes the environments of a request ready, those that exist first.

    Args:
        deliver: Called from the installer's thread with every build that is ready or has failed, or with the exception
            that ended it.
    """

    def __init__(self, request: RunRequest, deliver: Callable[[Ready | BaseException], None]) -> None:
        self._options = request.environment_options
        self._planned = {planned.build.name: planned for planned in request.plan.environments}
        self._builds = sorted(request.builds, key=lambda build: self._planned[build.name].present is None)
        self._deliver = deliver
        self._uses = environments.Uses(request.environment_options.store)
        self._cancel = threading.Event()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        threading.Thread(target=self._install, name="installer", daemon=True).start()

    def cancel(self) -> None:
        """No environment is begun any more, and one that is being made is given up."""
        self._cancel.set()

    def _install(self) -> None:
        try:
            for build in self._builds:
                if self._cancel.is_set():
                    return
                self._deliver(self._make(build))
        except BaseException as failure:  # noqa: BLE001
            # Not handled here but handed over: an exception must not vanish with this thread.
            self._deliver(failure)

    def _make(self, build: Build) -> Ready:
        planned = self._planned[build.name]
        if planned.reason:
            return Ready(build, None, planned.reason, Outcome.NOT_INSTALLED)
        try:
            environment, _ = environments.ensure(
                build,
                self._options,
                cancel=self._cancel,
                python=planned.request,
                uses=self._uses,
            )
        except BisectTorchError as error:
            return Ready(build, None, error.message, environments.outcome_of(error))
        return Ready(build, environment)
