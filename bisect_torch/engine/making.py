"""The environments of a run: made ready in a thread of their own, group after group where the disk is short."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.rotation import Rotation
from bisect_torch.engine.site import Failed, Ready, Site
from bisect_torch.model import Build, BuildKind, Environment, Outcome
from bisect_torch.threads import map_in_threads


@dataclass(frozen=True)
class Made:
    """All environments of a group have been made, or have failed; an ``error`` is unforeseen."""

    error: BaseException | None


class Making:
    """Which environments are wanted, are ready, have failed.

    All but the making itself happens in the thread of the run.

    Args:
        request: The run.
        rotation: In which order they are made.
        site: Where.
        deliver: Called from other threads with what has been made.
    """

    def __init__(
        self,
        request: RunRequest,
        rotation: Rotation,
        site: Site,
        deliver: Callable[[Ready | Failed | Made], None],
    ) -> None:
        self.ready: dict[str, Environment] = {}
        self.gone: list[Environment] = []
        self.failures: list[Failed] = []
        self.busy = False
        self._planned = {planned.build.name: planned for planned in request.plan.environments}
        self._in_turns = request.plan.budget is not None
        self._rotation = rotation
        self._site = site
        self._deliver = deliver
        self._cancel = threading.Event()
        self._thread: threading.Thread

    @property
    def waiting(self) -> bool:
        """Whether a group is left to be made."""
        return self._rotation.waiting

    @property
    def in_turns(self) -> bool:
        """Whether environments make room for others."""
        return self._in_turns

    def want(self, builds: Sequence[Build]) -> None:
        """Environments of these builds are needed."""
        self._rotation.add(builds)

    def lock_text(self, environment: Environment) -> str:
        """The lock that an environment was made from; where none is known, what is installed in it."""
        lock = self._planned[environment.build.name].lock
        if lock is not None:
            return lock.read_text()
        return "".join(f"{name}=={version}\n" for name, version in sorted(environment.packages.items()))

    def next(self) -> None:
        """Make the next group ready, those that exist already first. Of the one before nothing is left."""
        planned = self._planned
        ordered = sorted(
            self._rotation.next(),
            key=lambda build: build.kind is not BuildKind.LOCAL and planned[build.name].present is None,
        )

        def work() -> None:
            error: BaseException | None = None
            try:
                map_in_threads(self._make, ordered, threads=self._site.makers)
            except BaseException as unforeseen:  # noqa: BLE001
                # Not handled here but handed over: an exception must not vanish with this thread.
                error = unforeseen
            self._deliver(Made(error))

        self.busy = True
        self._thread = threading.Thread(target=work, name="installer", daemon=True)
        self._thread.start()

    def _make(self, build: Build) -> None:
        if self._cancel.is_set():
            return
        reason = self._planned[build.name].reason
        if reason:
            self._deliver(Failed(build, Outcome.NOT_INSTALLED, reason))
        else:
            self._deliver(self._site.make(build, self._cancel))

    def clear(self) -> None:
        """Remove the group that has had its turn."""
        for name in self._rotation.clear():
            gone = self.ready.pop(name, None)
            if gone is not None:
                self.gone.append(gone)

    def cancel(self) -> None:
        """What is being made is given up."""
        self._cancel.set()

    def end(self, grace_s: float) -> None:
        """Wait for what is being given up, and let go of the environments."""
        if self.busy:
            self._thread.join(timeout=grace_s)
        self._rotation.uses.close()
