"""What makes a cell the same cell, so that it is not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from bisect_torch.model import Build, CaseKind, Environment, Instance
from bisect_torch.results.schema import SAME_FACTS_SINCE


def cell_key(
    *,
    build: Build,
    environment: Environment | None,
    instance: Instance,
    device: str,
    timeout_s: float | None,
    machine: str,
    device_name: str | None = None,
    driver: str | None = None,
    threads: int | None = None,
    thorough: bool = False,
    guard: str | None = None,
    numerics: str | None = None,
    projects: Sequence[str] = (),
    pass_env: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> str:
    """SHA-256 (hex) over the canonical JSON of everything that may change what is observed.

    Args:
        build: Kind, name and version count; its day and download size do not.
        environment: None for a build that could not be installed. Lock hash, Python, torch's full version (the local
            part tells backends apart: they share a lock) and commit count; where it lies does not.
        instance: Parameters, the case's name and kind, hash and base name of its file, hashes of the neighbouring
            modules, a command's words and ``bad_if_output`` count. The folder of the file does not, so that it may be
            moved; of a command the working directory counts.
        device: ``cpu``, ``cuda:0``.
        timeout_s: A longer time may end otherwise.
        machine: Machine class; results of another one are not reused.
        device_name: As torch gives it.
        driver: Version of the device's driver.
        threads: Threads that torch is given; None for its own choice.
        thorough: Counts only when it is set, so that it did not change the keys of what was known before it existed.
        guard: The guard that is on in every cell, as ``mps:4294967296``; None for none. As above.
        numerics: Hash of the tool's torch code (comparison, inputs, fault models, LayerCast). It counts for case files,
            which may use it; scripts and commands do not see it.
        projects: State of each project that is installed as editable: its code is not in the lock. As above.
        pass_env: Names of the secrets that the cells get: what needs one ends otherwise without. Their values do not
            count, and are written nowhere. As above.
        variables: Environment variables that may change what the case computes, with their values. As above.

    What a cell reads beside its case file is not known before it has run once: :func:`further_key` adds it afterwards.
    How a repeat was isolated does not count: it belongs to the repeat, not to the cell. The kind of the case does, and
    decides the class of isolation. The version of the schema of observations counts where an older one says less (see
    :data:`~bisect_torch.results.schema.SAME_FACTS_SINCE`).
    """
    case, file = instance.case, instance.case.file
    parts = {
        "schema": SAME_FACTS_SINCE,
        "build": [build.kind.value, build.name, build.version],
        "environment": None if environment is None else _environment(environment),
        "kind": file.kind.value,
        "file": [str(file.path) if case.argv else file.path.name, file.sha256],
        "local_modules": dict(file.local_modules),
        "instance": instance.name,
        "parameters": [list(pair) for pair in instance.parameters],
        "argv": list(case.argv),
        "bad_if_output": case.bad_if_output,
        "device": [device, device_name, driver],
        "threads": threads,
        "timeout_s": None if timeout_s is None else float(timeout_s),
        "machine": machine,
        **({"thorough": True} if thorough else {}),
        **({"guard": guard} if guard else {}),
        **({"numerics": numerics} if numerics and file.kind is CaseKind.CASE else {}),
        **({"projects": list(projects)} if projects else {}),
        **({"pass_env": sorted(set(pass_env))} if pass_env else {}),
        **({"variables": dict(variables)} if variables else {}),
    }
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def further_key(key: str, files: Mapping[str, str]) -> str:
    """The key of a cell of which results are known that read other files than lie there now.

    Args:
        key: Under which those are kept.
        files: Name of each file that they read, to what it is now.
    """
    return hashlib.sha256(json.dumps([key, dict(files)], sort_keys=True).encode()).hexdigest()


def _environment(environment: Environment) -> list[str | None]:
    return [
        environment.lock_hash,
        environment.python_version,
        environment.torch_version,
        environment.git_commit,
        environment.cuda,
        environment.backend,
    ]
