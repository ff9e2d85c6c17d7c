"""What lies in the store: whole environments, changed ones, and what killed runs left."""

from __future__ import annotations

from collections.abc import Iterator

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.doctor.probing import probe
from bisect_torch.environments import Store
from bisect_torch.environments.health import store_health as look
from bisect_torch.first_names import first_of


def store_health(asked: Asked) -> Iterator[Check]:
    """Whether the environments are as they were stamped."""
    line = f"bisect-torch run --dry-run{asked.store.option}"
    if not asked.store.envs.is_dir():
        if probe(asked.store.root).problem:  # the store's own line says why none can be made
            return
        yield Check("environments", Status.OK, "none yet", "the first run makes them", line)
        return
    found = look(asked.store)
    in_use = f"; {len(found.in_use)} used by a run at this moment" if found.in_use else ""
    yield Check("environments", Status.OK, f"{len(found.whole)} whole{in_use}")
    for name, why in found.damaged.items():
        means = "it is put aside, and made anew by the next run that needs it"
        yield Check(
            "environments",
            Status.WARNING,
            f"{name}: {why}",
            means,
            _build_again(name, asked.store),
        )
    if found.left:
        means = "half made or put aside; it takes room until the next run, or its plan, removes it"
        yield Check("leftovers", Status.WARNING, first_of(found.left), means, line)
    if found.building:
        yield Check("locks", Status.OK, f"held by a run that builds: {first_of(found.building)}")


def _build_again(name: str, store: Store) -> str:
    """The line that makes an environment anew, told by its folder's name: ``2.5.0-py3.11-pypi-0123456789ab``."""
    version, _, rest = name.partition("-py")
    python, _, backend = rest.rpartition("-")[0].partition("-")
    return f"bisect-torch envs build --versions {version} --python {python} --torch-backend {backend}{store.option}"
