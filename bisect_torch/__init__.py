"""bisect-torch: the public names for case files."""

from bisect_torch.worker.api import Skip, case, check, skip

__all__ = ["Skip", "case", "check", "skip"]
