"""A guard that stops torch operations on tensors too large for a device's kernels (arXiv 2609.22991).

``from bisect_torch.numerics import Guard``. Imports torch, so it is only imported on use.
"""

from __future__ import annotations

from bisect_torch.numerics.guard.errors import GuardError, GuardWarning
from bisect_torch.numerics.guard.switch import Guard

__all__ = ["Guard", "GuardError", "GuardWarning"]
