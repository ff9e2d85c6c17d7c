"""A Ray cluster: the one that ``RAY_ADDRESS`` names, or one of this machine alone for as long as the run lasts."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

from bisect_torch import temporary
from bisect_torch.engine.run import Run
from bisect_torch.errors import UsageError


@contextlib.contextmanager
def connected() -> Iterator[type[Run]]:
    """Be connected; gives the kind of run that runs there.

    Neither dashboard nor usage statistics are started. A cluster of our own listens on loopback only, and its files lie
    in a temporary folder of this process, which goes with it or is swept by a later run.

    Raises:
        UsageError: Ray is not installed, or there is no such cluster.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    address = os.environ.get("RAY_ADDRESS")
    if address is None or address.startswith(("127.0.0.1:", "localhost:")):
        # Else Ray takes the address by which other machines reach this one, also where 127.0.0.1 was
        # named. It reads this when it is imported.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UsageError(
            "--executor ray needs ray, which is not installed", hint='pip install "bisect-torch[ray]"'
        ) from error
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is not None:
            ray.init(address=address, **common)
            _restore(handlers)
            yield _kind(own_cluster=False)
            return
        with temporary.folder() as folder:
            ray.init(
                address="local", include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=str(folder), **common
            )
            _restore(handlers)
            try:
                yield _kind(own_cluster=True)
            finally:
                ray.shutdown()  # before its folder goes
    except ConnectionError as error:
        raise UsageError(f"no Ray cluster at {address}: {error}", hint="ray start --head begins one") from error
    finally:
        ray.shutdown()


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    """Ray takes signals for itself; the run keeps what has finished when one comes."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _kind(*, own_cluster: bool) -> type[Run]:
    from bisect_torch.engine.ray.run import ClusterRun, LocalClusterRun

    return LocalClusterRun if own_cluster else ClusterRun
