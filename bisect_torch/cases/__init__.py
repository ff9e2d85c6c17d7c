"""Find, read, expand and hash case files without importing torch."""

from bisect_torch.cases.discovery import Discovered, discover, from_expansion
from bisect_torch.cases.imports import hidden_neighbours
from bisect_torch.cases.requirements import unmet
from bisect_torch.cases.selecting import matching
from bisect_torch.cases.suites import SUITES

__all__ = ["SUITES", "Discovered", "discover", "from_expansion", "hidden_neighbours", "matching", "unmet"]
