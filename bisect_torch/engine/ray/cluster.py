"""Being connected to a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bisect_torch.engine import events
from bisect_torch.engine.ray.luggage import Luggage, packed
from bisect_torch.engine.request import RunRequest
from bisect_torch.errors import UsageError
from bisect_torch.model import CaseKind
from bisect_torch.uv_program import install_line

if TYPE_CHECKING:
    from bisect_torch.engine.ray.site import RaySite

_REACH_S = 5.0
_HINT = (
    "ray start --head makes a cluster of this machine alone, and ray stop ends it; "
    "RAY_ADDRESS=HOST:6379 before the line names a cluster of which this machine is a node"
)
_ADDRESS = re.compile(r"[\w.-]+:\d+")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def connected(
    request: RunRequest, observer: events.Observer, *, jobs: int | None, memory_bytes: int | None
) -> Iterator[tuple[RunRequest, RaySite]]:
    """Be connected to the cluster that ``RAY_ADDRESS`` names, or to the one that this machine is a node of.

    Args:
        request: The run.
        observer: Told which nodes are left out.
        jobs: Cells at once on a node; None for as many as Ray has CPUs there, and one for each accelerator.
        memory_bytes: For all cells of a node; None for what its system says.

    Gives the request as the nodes can carry it out, and the site of its run.

    Raises:
        UsageError: Ray is not installed, there is no cluster, or something cannot travel there.
        InfrastructureError: No node can take part.
    """
    luggage = _luggage(request)
    address = os.environ.get("RAY_ADDRESS") or "auto"
    ray = _ray(address)
    _reach(address)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _unusable(address, error) from error
        finally:
            # Ray takes signals for itself; a run keeps what has finished when one comes.
            for number, handler in handlers.items():
                signal.signal(number, handler)
        from bisect_torch.engine.ray.joining import join

        yield join(request, observer, luggage, jobs=jobs, memory_bytes=memory_bytes)
    finally:
        ray.shutdown()


def _ray(address: str) -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address.startswith(("127.0.0.1:", "localhost:")):
        # Else Ray takes the address by which other machines reach this one, and finds no node of the cluster there.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UsageError("--executor ray needs ray, which is not installed", hint=install_line("ray")) from error
    return ray


def _unusable(address: str, error: Exception) -> UsageError:
    """The refusal of a cluster that Ray could not connect to. What Ray says of one that it looked for by itself names
    an option of its own."""
    said = str(error)
    if address == "auto" and isinstance(error, ConnectionError):
        if "multiple" in said:
            there = ", ".join(sorted(set(_ADDRESS.findall(said))))
            hint = "RAY_ADDRESS=HOST:PORT before the line names one of them" + (f": {there}" if there else "")
            return UsageError("this machine is a node of several Ray clusters", hint=hint)
        return UsageError("there is no Ray cluster: this machine is a node of none that answers", hint=_HINT)
    where = "" if address == "auto" else f" at RAY_ADDRESS={address}"
    return UsageError(f"no Ray cluster can be used{where}: {said.partition(chr(10))[0]}", hint=_HINT)


def _reach(address: str) -> None:
    """Ray itself would try for minutes to reach a cluster that is not there.

    Raises:
        UsageError: Nobody answers at the address.
    """
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdigit():
        raise UsageError(f"RAY_ADDRESS={address} is no HOST:PORT", hint=_HINT)
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster answers at RAY_ADDRESS={address}: {error}", hint=_HINT) from None


def _luggage(request: RunRequest) -> Luggage:
    if any(item.file.kind is CaseKind.PYTEST for item in request.discovered) or request.environment_options.editable:
        raise UsageError(
            "--pytest and --with-editable need the project's folder, which the nodes of a cluster do not see",
            hint="run parts of the matrix with --shard on machines that have it",
        )
    return packed(request.discovered, request.working_directory)
