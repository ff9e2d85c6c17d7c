"""Running uv to make environments: the one place that does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.child_processes import Completed, run_process
from bisect_torch.environments.failures import TransientFailure
from bisect_torch.environments.options import DEFAULT_BACKEND, EnvironmentOptions
from bisect_torch.environments.uv_said import classify
from bisect_torch.errors import InfrastructureError, Interrupted
from bisect_torch.model import Build, BuildKind
from bisect_torch.redaction import variables_for_uv
from bisect_torch.releases.index import BACKEND_INDEX_VARIABLE, backend_index_url, own_index_url, uv_index_arguments
from bisect_torch.releases.nightly_words import NIGHTLY
from bisect_torch.uv_program import binary

TRIES = 3
_PAUSES_S = (1.0, 4.0)
_TIME_LIMIT_S = 4 * 3600.0
_BEST_MATCH = ["--index-strategy", "unsafe-best-match"]

# What would change which environment is made, or where. Addresses, credentials, certificates, proxies, link mode,
# time limits and numbers of connections stay: they are how this machine reaches its index.
NOT_FOR_UV = frozenset(
    {
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_BREAK_SYSTEM_PACKAGES",
        "UV_EXCLUDE_NEWER", "UV_TORCH_BACKEND", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE", "UV_BUILD_CONSTRAINT",
        "UV_REQUIRE_HASHES", "UV_NO_VERIFY_HASHES", "UV_RESOLUTION", "UV_PRERELEASE", "UV_FORK_STRATEGY", "UV_NO_CACHE",
        "UV_CACHE_DIR", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_ENV_FILE",
        "UV_VENV_SEED", "UV_VENV_CLEAR", "UV_VENV_RELOCATABLE", "UV_COMPILE_BYTECODE", "UV_NO_BINARY", "UV_NO_BUILD",
        "UV_NO_EDITABLE", "UV_FROZEN", "UV_LOCKED", "UV_CUSTOM_COMPILE_COMMAND",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Uv:
    """uv with the store's own cache, in a working directory without settings of any project.

    Args:
        options: Store, indexes and backend.
        cancel: Ends a running command when set.
    """

    options: EnvironmentOptions
    cancel: threading.Event | None = None

    def variables(self) -> dict[str, str]:
        """The whole environment of a uv that is started."""
        kept = {
            name: value
            for name, value in variables_for_uv(os.environ, self.options.pass_env).items()
            if name not in NOT_FOR_UV and not name.startswith("PYTHON")
        }
        kept.update(UV_CACHE_DIR=str(self.options.store.uv_cache), NO_COLOR="1", UV_NO_WRAP="1")
        return kept

    def source_arguments(self, build: Build) -> list[str]:
        """Where a build and its company come from: the indexes, and the backend's own for what belongs to torch."""
        words = uv_index_arguments(self.options.index)
        # uv does not run where the user does.
        arguments = [
            _absolute(word) if before == "--find-links" else word
            for before, word in zip(["", *words], words, strict=False)
        ]
        backend = self.options.backend_of(build)
        if backend == DEFAULT_BACKEND:
            return arguments
        url = self.own_index(build)
        if url is None:
            return [*arguments, "--torch-backend", backend]
        # uv knows neither nightlies nor mirrors of the backends: their index is one more, and the best version counts,
        # since it also has some old versions of packages that are not torch's.
        return [*arguments, "--index", url, *([] if "--index-strategy" in arguments else _BEST_MATCH)]

    def own_index(self, build: Build) -> str | None:
        """The address of PyTorch's own index that a build comes from, where uv does not find it by itself."""
        backend = self.options.backend_of(build)
        if build.index is not None or (build.kind is BuildKind.NIGHTLY and backend != DEFAULT_BACKEND):
            return own_index_url(build.index or f"{NIGHTLY}/{backend}")
        return backend_index_url(backend) if os.environ.get(BACKEND_INDEX_VARIABLE) else None

    def run(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        doing: str,
        *,
        on_line: Callable[[str], None] | None = None,
        hopeless: Callable[[], str] = lambda: "",
    ) -> Completed:
        """Run uv; network failures that may pass are tried again.

        Args:
            doing: What for, for error messages: ``installing torch 2.9.1``.
            on_line: Called with each line of stderr.
            hopeless: Says why it is of no use to wait any longer; uv is then stopped, and not tried again.

        Raises:
            Interrupted: ``cancel`` was set.
            NotInstallable: There is no set of versions or no wheel that fits.
            InfrastructureError: Anything else that failed.
        """
        for pause in (*_PAUSES_S[: TRIES - 1], None):
            completed = self.attempt(arguments, on_line=on_line, hopeless=hopeless)
            if completed.returncode == 0:
                return completed
            if self.cancel is not None and self.cancel.is_set():
                raise Interrupted(f"interrupted while {doing}")
            if hopeless():
                raise InfrastructureError(f"{doing}: {hopeless()}")
            error = classify(completed, doing)
            if not isinstance(error, TransientFailure) or pause is None:
                raise error
            if on_line is not None:
                on_line(f"retrying: {error.message}")
            (self.cancel or threading.Event()).wait(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def attempt(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        on_line: Callable[[str], None] | None = None,
        hopeless: Callable[[], str] = lambda: "",
        limit_s: float = _TIME_LIMIT_S,
    ) -> Completed:
        """Run uv once, whatever its exit status.

        Args:
            limit_s: Seconds after which it is stopped.
        """
        try:
            return run_process(
                [binary(), *arguments],
                env=self.variables(),
                cwd=self.options.store.neutral,
                timeout_s=limit_s,
                on_stderr_line=on_line,
                cancel=self.cancel,
                hopeless=lambda: bool(hopeless()),
            )
        except OSError as error:
            raise InfrastructureError(
                f"uv cannot be started: {error}", hint="`bisect-torch doctor` looks at uv"
            ) from error

    def forget(self, packages: Sequence[str]) -> None:
        """Remove the cache entries of packages, so that they are downloaded anew."""
        if packages:
            self.run(["cache", "clean", "--quiet", *packages], "cleaning the cache")


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(os.path.expanduser(place)).absolute())
