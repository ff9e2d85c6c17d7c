"""A run on the nodes of a Ray cluster. Only this folder imports Ray."""

from bisect_torch.engine.ray.cluster import connected

__all__ = ["connected"]
