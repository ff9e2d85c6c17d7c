"""Making an environment: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisect_torch.environments import control, pythons, stamp
from bisect_torch.environments.failures import EnvironmentBroken, InUse, NotInstallable, left_the_index
from bisect_torch.environments.locking import hashed_part
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.progress import DownloadMeter
from bisect_torch.environments.store import Store, remove_tree
from bisect_torch.environments.uses import Uses, forget, unused
from bisect_torch.environments.uv import Uv
from bisect_torch.environments.wanted import Wanted, wanted
from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.first_names import first_of
from bisect_torch.model import Build, BuildKind, BuildProgress, Environment
from bisect_torch.shipped import tool_version

Progress = Callable[[BuildProgress], None]


def ensure(
    build: Build,
    options: EnvironmentOptions,
    *,
    progress: Progress = lambda event: None,
    cancel: threading.Event | None = None,
    python: str | None = None,
    uses: Uses | None = None,
) -> tuple[Environment, bool]:
    """The environment of a build, made if it is not there or has changed since it was made.

    Args:
        progress: Called with each step, from this thread or one that ends before this function does.
        cancel: Stops the work when set.
        python: What :func:`pythons.choose` chose for this build; chosen for this build alone when None.
        uses: Marks it as used, before anybody could remove it.

    Returns:
        The environment, and whether it was there already.

    Raises:
        NotInstallable: The build cannot be installed here.
        EnvironmentBroken: It was installed, and its control case failed.
        InfrastructureError: Our side failed.
        Interrupted: ``cancel`` was set.
    """
    if build.kind is BuildKind.LOCAL:
        return probe_interpreter(_local_python(build), build=build), True
    try:
        return _ensure(build, options, progress, cancel, python, uses)
    except OSError as error:
        # Of our own writing: what uv and the control case meet has been classified.
        raise InfrastructureError(
            f"making the environment of torch {build.version}: {error.strerror or error}"
            + (f": {error.filename}" if error.filename else ""),
            hint=f"`bisect-torch doctor{options.store.option}` looks at the store and the disk",
        ) from error


def _ensure(
    build: Build,
    options: EnvironmentOptions,
    progress: Progress,
    cancel: threading.Event | None,
    python: str | None,
    uses: Uses | None,
) -> tuple[Environment, bool]:
    progress(BuildProgress(build, "locking"))
    if python is None:
        choices = pythons.choose([build], options)
        if build.name not in choices:
            raise UsageError(f"no Python is known for torch {build.version}", hint="name one with --python")
        python = choices[build.name].request
    want = wanted(build, options, python, cancel=cancel)
    progress(BuildProgress(build, "waiting"))
    with options.store.guard(want.name, cancel=cancel):
        environment = _present(want, progress, cancel)
        reused = environment is not None
        if environment is None:
            if uses is not None:
                uses.begin(want.name)
            environment = _make(want, progress, cancel)
        if uses is not None:
            try:
                uses.take(want.name)
            except OSError as error:
                why = f"not marked as used, so that envs prune may remove it meanwhile: {error.strerror or error}"
                progress(BuildProgress(build, "waiting", message=why))
    progress(BuildProgress(build, "ready"))
    return environment, reused


def _present(want: Wanted, progress: Progress, cancel: threading.Event | None) -> Environment | None:
    if not want.root.exists():
        return None
    environment, changes = stamp.sweep(want.root)
    if environment is not None:
        return replace(environment, build=want.build)
    why = f"changed since it was made: {first_of(changes, 1)}" if changes else "it has no stamp"
    progress(BuildProgress(want.build, "waiting", message=f"quarantined: {why}"))
    quarantine(want.options, want.root, changes, cancel=cancel)
    return None


def quarantine(
    options: EnvironmentOptions, root: Path, changes: list[stamp.Change], *, cancel: threading.Event | None = None
) -> None:
    """Move a changed environment out of use, with the cache entries of the packages whose files changed.

    The cache goes first: killed in between, the environment is still found to be changed the next time.
    """
    Uv(options, cancel).forget(stamp.owners(root, changes))
    moved = options.store.own(options.store.quarantine / f"{root.name}~{time.monotonic_ns():x}")
    os.rename(options.store.own(root), moved)
    remove_tree(moved)


def _make(want: Wanted, progress: Progress, cancel: threading.Event | None) -> Environment:
    """Install in a temporary folder, check, stamp, rename. Whatever goes wrong, the folder is removed."""
    store = want.options.store
    made = store.new_tmp(want.name)
    try:
        try:
            _install(want, made, progress, cancel)
        except (NotInstallable, InfrastructureError) as error:
            raise error if not want.build.gone else left_the_index(want.build, error.message) from error
        wrong = stamp.verify_shared(made, store.envs.iterdir())
        if wrong:
            # What uv linked from its cache was changed through another environment: once more, downloaded anew.
            progress(BuildProgress(want.build, "waiting", message=f"the cache was damaged: {wrong[0][1]}"))
            Uv(want.options, cancel).forget(sorted({name for name, _ in wrong}))
            remove_tree(made)
            _install(want, made, progress, cancel)
        progress(BuildProgress(want.build, "checking"))
        stamp.make_read_only(made)
        answer = control.base(made / "bin" / "python", cancel=cancel)
        control.check_identity(want.build, answer)
        environment = _environment(want, made, answer)
        stamp.write(environment, tool_version())
        os.rename(made, want.root)
    finally:
        # Whatever went wrong, nothing stays. But who interrupts does not want to wait until gigabytes are deleted: the
        # next start does that.
        if made.exists() and not (cancel is not None and cancel.is_set()):
            remove_tree(made)
            store.sweep_downloads()
    return replace(environment, root=want.root, python=want.root / "bin" / "python")


def _install(want: Wanted, made: Path, progress: Progress, cancel: threading.Event | None) -> None:
    uv = Uv(want.options, cancel)
    doing = f"installing torch {want.build.version}"
    uv.run(
        ["venv", "--quiet", "--no-project", "--relocatable", "--python", want.interpreter.path, made],
        f"making the environment of torch {want.build.version}",
    )
    # The part with hashes is written outside the environment-to-be: nothing but what uv installs may lie there.
    hashed = made.with_name(f"{made.name}.txt") if want.options.editable else want.lock.path
    if want.options.editable:
        hashed.write_text(hashed_part(want.lock), encoding="utf-8")
    where = uv.source_arguments(want.build)
    python = ["--python", os.fspath(made / "bin" / "python")]
    progress(BuildProgress(want.build, "installing"))
    try:
        cache, slowest = want.options.store.uv_cache, want.options.slowest
        with DownloadMeter(want.build, cache, progress, slowest, made) as meter:
            uv.run(
                ["pip", "install", *python, "--require-hashes", "-r", hashed, *where],
                doing,
                on_line=meter.line,
                hopeless=lambda: meter.too_slow,
            )
            for folder in want.options.editable:
                uv.run(["pip", "install", *python, "--no-deps", "--editable", folder, *where], doing)
    finally:
        if want.options.editable:
            hashed.unlink(missing_ok=True)


def _environment(want: Wanted, root: Path, answer: dict[str, Any]) -> Environment:
    return Environment(
        build=want.build,
        root=root,
        python=root / "bin" / "python",
        python_version=str(answer["python"]),
        lock_hash=want.lock.hash,
        packages=answer["packages"],
        torch_version=str(answer["torch"]),
        git_commit=answer["git_commit"],
        cuda=answer["cuda"],
        backend=control.check_backend(want.options.backend_of(want.build), answer),
    )


def probe_interpreter(path: Path, *, build: Build | None = None) -> Environment:
    """The environment behind an interpreter that is not ours: a source build, conda, a container.

    It gets no stamp and no sweep, and nothing is written into it.

    Args:
        build: What was asked for; made from what is found when None.

    Raises:
        UsageError: There is no interpreter at ``path``, or no torch in it.
        EnvironmentBroken: Its control case failed.
    """
    path = Path(os.path.expanduser(path)).absolute()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise UsageError(f"{path}: no interpreter that can be started", hint="give the path of a python program")
    try:
        answer = control.base(path, local=True)
    except EnvironmentBroken as broken:
        if broken.reason == "torch is not installed":
            raise UsageError(f"{path}: torch is not installed there", hint=f"{path} -m pip install torch") from None
        raise
    packages: dict[str, str] = answer["packages"]
    listing = "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))
    version = str(answer["torch"]).partition("+")[0]
    found = build or Build(BuildKind.LOCAL, version, os.fspath(path), git_commit=answer["git_commit"], python=path)
    return Environment(
        build=found if found.version else replace(found, version=version),
        root=Path(answer["prefix"]),
        python=path,
        python_version=str(answer["python"]),
        lock_hash=hashlib.sha256(listing.encode()).hexdigest(),
        packages=packages,
        torch_version=str(answer["torch"]),
        git_commit=answer["git_commit"],
        cuda=answer["cuda"],
        backend=control.LOCAL,
    )


def _local_python(build: Build) -> Path:
    if build.python is None:
        raise UsageError(
            f"{build.name}: a local build without an interpreter", hint="name the path of a python program"
        )
    return build.python


def list_environments(store: Store) -> list[Environment]:
    """Every environment of a store that has a stamp, by name. They are not swept."""
    found = (stamp.read_environment(root) for root in sorted(store.envs.iterdir()) if root.is_dir())
    return [environment for environment in found if environment is not None]


def remove(environment: Environment, store: Store) -> None:
    """Remove an environment: only what lies in the store's own folder of environments and has a stamp.

    A changed one takes the cache entries of what changed with it.

    Raises:
        UsageError: It is not an environment of this store.
        InUse: A run uses it.
        Interrupted: Never; it waits for a run that builds it.
    """
    root = store.own(environment.root)
    if root.parent != store.envs.resolve() or stamp.read_environment(root) is None:
        raise UsageError(
            f"{environment.root} is not an environment of the store {store.root}",
            hint="`bisect-torch envs list` shows those that are",
        )
    with store.guard(root.name), unused(store, root.name) as free:
        if not free:
            raise InUse(f"{root.name} is used by a run at this moment", hint="try again when it has ended")
        _, changes = stamp.sweep(root)
        if changes:
            quarantine(EnvironmentOptions(store), root, changes)
            return
        moved = store.tmp / f"{root.name}~removed-{time.monotonic_ns():x}"
        os.rename(root, moved)
        forget(store, root.name)
        remove_tree(moved)
