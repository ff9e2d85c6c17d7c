"""Entry of every process of a worker: ``worker FD STAGE ID FOLDER`` or ``cell FD LIFELINE FOLDER``."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Become what the first word says."""
    # An isolated interpreter has no folder of the tool on its path; the staged copy comes before an installed one.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from bisect_torch.worker import bytecode

    bytecode.keep_to_the_environment()
    role, descriptor, *rest = sys.argv[1:]
    if role == "cell":
        from bisect_torch.worker import cell

        sys.exit(cell.run_own_process(int(descriptor), int(rest[0]), rest[1]))
    _worker(int(descriptor), *rest)


def _worker(descriptor: int, stage: str, worker_id: str, base: str) -> NoReturn:
    import socket

    from bisect_torch.worker import preload, system
    from bisect_torch.worker.outcome import message_of, type_name
    from bisect_torch.worker.server import Worker

    requests = socket.socket(fileno=descriptor)
    requests.set_inheritable(False)
    failure = ""
    # Until the worker listens, nothing but the end of the orchestrator happens on the socket.
    system.arm_lifeline(descriptor)
    if system.peer_has_gone(requests):
        os._exit(3)
    if stage != "none":
        preload.compile_in_this_process(os.environ)
        try:
            preload.torch_and_checks()
        except BaseException as problem:  # noqa: BLE001 - the worker's outermost edge
            failure = "%s: %s" % (type_name(problem), message_of(problem))
        preload.freeze()
    system.disarm_lifeline(descriptor)
    worker = Worker(requests, stage, worker_id, base, failure)
    worker.hello()
    worker.serve()
    worker.leave(0)


if __name__ == "__main__":
    main()
