"""Which nodes of a cluster take part in a run: those whose results may stand side by side."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bisect_torch.engine import events
from bisect_torch.engine.plan import accelerators
from bisect_torch.engine.ray.devices import chosen_devices, same
from bisect_torch.engine.ray.dispatch import Node
from bisect_torch.engine.ray.luggage import Luggage
from bisect_torch.engine.ray.messages import Introduction, NodeOptions
from bisect_torch.engine.ray.node import Node as NodeProcess
from bisect_torch.engine.ray.site import Member, RaySite
from bisect_torch.engine.ray.variables import steering
from bisect_torch.engine.request import RunRequest
from bisect_torch.environments import staged_package
from bisect_torch.errors import InfrastructureError
from bisect_torch.shipped import tool_version

_START_S = 120.0
_THREADS = 4
"""Of the process on a node: one listens, the others take orders and look at environments."""


@dataclass(frozen=True)
class _Started:
    """A node with our process on it."""

    name: str
    slots: int
    actor: Any
    introduction: Introduction


def join(
    request: RunRequest,
    observer: events.Observer,
    luggage: Luggage,
    *,
    jobs: int | None,
    memory_bytes: int | None,
) -> tuple[RunRequest, RaySite]:
    """Start a process of ours on every node that has a CPU to give.

    A cell's device and machine are part of what its result is kept under. So for each device the nodes that have the
    same one, in machines of the same class, take its cells; where there are several kinds, those of which there are
    most. The others are named.

    Args:
        jobs: Cells at once on a node; None for its CPUs and one for each accelerator.
        memory_bytes: For all cells of a node; None for what its system says.

    Raises:
        InfrastructureError: No node can take part.
    """

    def say(text: str) -> None:
        observer(events.Note(text))

    started = _start(request, luggage, jobs, memory_bytes, say)
    chosen = chosen_devices(request.devices, [each.introduction.devices for each in started])
    members = []
    for each in started:
        there = each.introduction.devices
        usable = frozenset(name for name in request.devices if same(there[name], chosen[name]))
        for name in sorted(set(request.devices) - usable):
            had = f"{there[name].name or 'none'} in a machine of class {there[name].machine}"
            say(f"node {each.name} runs no cells of {name}, for it has {had}")
        facts = {**each.introduction.host, "devices": sorted(usable), "slots": each.slots}
        members.append(Member(Node(each.name, usable, each.slots), each.actor, facts))
        if not usable:
            ray.kill(each.actor)
    nodes = [dict(member.facts) for member in members]
    members = [member for member in members if member.node.devices]
    described = {"host": dict(members[0].facts), "nodes": nodes}
    # The least that one has, so that nothing depends on the node on which a cell runs.
    memory = min(each.introduction.memory_bytes for each in started)
    ray.get([member.actor.begin.remote(memory) for member in members], timeout=_START_S)
    fitted = replace(request, memory_bytes=memory)
    return fitted, RaySite(members, chosen, described)


def _start(
    request: RunRequest, luggage: Luggage, jobs: int | None, memory_bytes: int | None, say: Callable[[str], None]
) -> list[_Started]:
    options = ray.put(_options(request, luggage, memory_bytes))
    code = (tool_version(), staged_package(request.environment_options.store).parent.name)
    asked = []
    for number, node in enumerate(ray.nodes(), 1):
        cpus = int(node["Resources"].get("CPU", 0))
        if node["Alive"] and cpus:
            slots = jobs or cpus + len(accelerators(request.devices))
            affinity = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            process = ray.remote(NodeProcess).options(
                num_cpus=0, max_concurrency=_THREADS, scheduling_strategy=affinity
            )
            actor = process.remote(options, slots)
            asked.append((f"{number} ({node['NodeManagerAddress']})", slots, actor, actor.introduce.remote()))
    started = []
    for name, slots, actor, answer in asked:
        try:
            introduction: Introduction = ray.get(answer, timeout=_START_S)
        except RayError as error:
            say(f"node {name} is left out: {_gist(error)}")
            continue
        if introduction.code == code:
            started.append(_Started(name, slots, actor, introduction))
        else:
            say(f"node {name} is left out: bisect-torch {introduction.code[0]} there is not the one here, {code[0]}")
            ray.kill(actor)
    if not started:
        raise InfrastructureError(
            "no node of the Ray cluster can take part",
            hint="each needs CPUs (ray start --num-cpus), and the bisect-torch that is installed here",
        )
    return started


def _options(request: RunRequest, luggage: Luggage, memory_bytes: int | None) -> NodeOptions:
    planned = request.plan.environments
    return NodeOptions(
        environments=request.environment_options,
        locks={each.build.name: each.lock.read_text(encoding="utf-8") for each in planned if each.lock is not None},
        pythons={each.build.name: each.request for each in planned},
        luggage=luggage,
        variables=steering(os.environ),
        devices=request.devices,
        timeout_s=request.timeout_s,
        threads=request.threads,
        memory_bytes=memory_bytes,
        seed=request.seed,
        thorough=request.thorough,
    )


def _gist(error: RayError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
