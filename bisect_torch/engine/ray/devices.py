"""Which kind of a device the cells of a run get, where nodes differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bisect_torch.engine.host import Device


def chosen_devices(names: Sequence[str], nodes: Sequence[Mapping[str, Device]]) -> dict[str, Device]:
    """Of each device of a run the kind that most nodes have, with the least memory that one of these has.

    A kind is a name, a driver and a machine class. An accelerator that no node can name may be there all the same.
    """
    chosen = {}
    for name in names:
        there = [node[name] for node in nodes]
        known = [device for device in there if device.name] or there
        kind, _ = Counter(replace(device, memory_bytes=None) for device in known).most_common(1)[0]
        sizes = [device.memory_bytes for device in known if same(device, kind) and device.memory_bytes is not None]
        chosen[name] = replace(kind, memory_bytes=min(sizes, default=None))
    return chosen


def same(one: Device, other: Device) -> bool:
    """Whether results of two devices may stand side by side; how much memory they have does not matter."""
    return (one.machine, one.name, one.driver) == (other.machine, other.name, other.driver)
