"""Find, read, expand and hash case files without importing torch."""

from bisect_torch.cases.command import called, together
from bisect_torch.cases.discovered import Discovered
from bisect_torch.cases.discovery import LeftOut, discover, from_expansion
from bisect_torch.cases.imports import hidden_neighbours
from bisect_torch.cases.no_code import refuse_idle_command
from bisect_torch.cases.pytest_suite import PYTEST_REQUIREMENTS, Collection, collection_of, read_suite
from bisect_torch.cases.requirements import unmet
from bisect_torch.cases.selecting import chooser, fitting, matching, none_fits
from bisect_torch.cases.sources import sources, text_of
from bisect_torch.cases.suites import SUITES

__all__ = [
    "PYTEST_REQUIREMENTS",
    "SUITES",
    "Collection",
    "Discovered",
    "LeftOut",
    "called",
    "chooser",
    "collection_of",
    "discover",
    "fitting",
    "from_expansion",
    "hidden_neighbours",
    "matching",
    "none_fits",
    "read_suite",
    "refuse_idle_command",
    "sources",
    "text_of",
    "together",
    "unmet",
]
