"""Which builds exist: the committed catalogue and locks, package indexes, find-links folders, local interpreters."""

from bisect_torch.releases.catalogue import Release, load_catalogue
from bisect_torch.releases.choosing import choose_builds
from bisect_torch.releases.index import IndexOptions, list_builds
from bisect_torch.releases.locks import lock_path
from bisect_torch.releases.selection import Selection, select

__all__ = [
    "IndexOptions",
    "Release",
    "Selection",
    "choose_builds",
    "list_builds",
    "load_catalogue",
    "lock_path",
    "select",
]
