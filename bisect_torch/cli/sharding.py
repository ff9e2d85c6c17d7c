"""``--shard`` of ``run``: a part of the matrix for one of several machines."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_torch.engine.events import Observer
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.engine.shard import Shard
    from bisect_torch.engine.site import Site

_SHARD = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)


def add_shard_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`shard_of` reads."""
    group = parser.add_argument_group("several machines")
    group.add_argument(
        "--shard", type=_shard, metavar="N/COUNT", help="only part N of COUNT; `bisect-torch merge` puts them together"
    )
    group.add_argument(
        "--shard-by",
        choices=("case", "build"),
        help="what a part is: some cases on every build (default), or all cases on neighbouring builds, for machines "
        "of one kind",
    )
    group.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="where cells run: here (default), or on the nodes of the Ray cluster at RAY_ADDRESS",
    )


@contextlib.contextmanager
def placed(
    args: argparse.Namespace, request: RunRequest, observer: Observer
) -> Iterator[tuple[RunRequest, Site | None]]:
    """The request as the place that ``--executor`` names can carry it out, and that place; None for this machine.

    Raises:
        BisectTorchError: Ray is not installed, there is no cluster, or something cannot be had there.
    """
    if args.executor == "local":
        yield request, None
        return
    from bisect_torch.engine.ray import connected

    with connected(request, observer, jobs=args.jobs, memory_bytes=args.max_memory) as found:
        yield found


def _shard(text: str) -> tuple[int, int]:
    match = _SHARD.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 3/8")
    number, count = map(int, match.groups())
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(
            f"{text!r}: the parts are 1/{count} to {count}/{count}"
            if count
            else f"{text!r}: there is at least one part, 1/1"
        )
    return number, count


def shard_of(args: argparse.Namespace) -> Shard | None:
    """What the options say; None for a command that has no such options.

    Raises:
        UsageError: ``--shard-by`` stands alone.
    """
    from bisect_torch.engine.shard import Shard, ShardBy
    from bisect_torch.errors import UsageError

    words = vars(args)
    part, by = words.get("shard"), words.get("shard_by")
    if part is None:
        if by is not None:
            raise UsageError("--shard-by without --shard", hint=f"for example --shard 1/8 --shard-by {by}")
        return None
    number, count = part
    return Shard(number, count, ShardBy(by or ShardBy.CASE))


def empty_line(request: RunRequest) -> str:
    """Says that a part has nothing to run."""
    assert request.shard is not None
    what = "builds" if not request.builds else "instances"
    return f"shard {request.shard} is empty: none of the {what} is in it"
