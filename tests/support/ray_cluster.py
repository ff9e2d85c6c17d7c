"""A program: a Ray cluster of several node processes on loopback, until its stdin ends.

    python -m tests.support.ray_cluster TEMPORARY_FOLDER STORE STORE ...

Each store makes a node; the head, to which the tool connects, has no CPU to give and so takes no part. A line of JSON
on stdout has the address, and the process of each node's raylet.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(folder: str, stores: list[str]) -> None:
    # Without the last one Ray takes the address by which other machines reach this one, also where loopback is named.
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
    Path(folder, "ray").mkdir(parents=True)
    from ray.cluster_utils import Cluster

    common = {"object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster()
    cluster.add_node(num_cpus=0, node_ip_address="127.0.0.1", **common)
    own = [{"BISECT_TORCH_STORE": store} for store in stores]
    nodes = [cluster.add_node(wait=False, num_cpus=2, env_vars=variables, **common) for variables in own]
    cluster.wait_for_nodes()
    pids = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": pids}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
