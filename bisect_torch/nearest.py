"""What a name that does not exist may have meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


def nearest_names(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Those of the known names that are most like it, the likest first; none where none is like it.

    Args:
        cutoff: How alike they must be, of 1: see :func:`difflib.get_close_matches`.
    """
    import difflib  # for a refusal alone

    return difflib.get_close_matches(name, list(dict.fromkeys(known)), n=most, cutoff=cutoff)


def likest_first(name: str, known: Iterable[str]) -> list[str]:
    """All known names, each once, the one most like ``name`` first; those that are as like in the order given."""
    import difflib  # for a refusal alone

    likeness = difflib.SequenceMatcher(b=name)

    def unlike(other: str) -> float:
        likeness.set_seq1(other)
        return -likeness.ratio()

    return sorted(dict.fromkeys(known), key=unlike)


def nearest_path(missing: Path, fits: Callable[[Path], bool]) -> Path | None:
    """The file or folder that a path which does not exist may have meant: of the name most like it, in its folder, or
    in the one that this folder may have meant.

    Endings do not count, since all that fits may end alike: ``x.parquet`` is not meant by ``results.parquet``.

    Args:
        fits: Whether something is of the kind that is wanted.

    Returns:
        It as the path was given, from the same folder; None where nothing there is like it.

    Raises:
        OSError: A folder may not be read.
    """
    folder: Path | None = missing.parent
    if not missing.parent.is_dir():
        folder = nearest_path(missing.parent, Path.is_dir) if missing.parent.name else None
    if folder is None:
        return None
    there = [each for each in sorted(folder.iterdir()) if each.name[0] != "." and fits(each)]
    there.sort(key=lambda each: each.suffix != missing.suffix)  # of those with one stem, that with the same ending
    for stem in nearest_names(missing.stem, (each.stem for each in there)):
        return next(each for each in there if each.stem == stem)
    return None


def which_one(missing: Path, fits: Callable[[Path], bool]) -> str | None:
    """:func:`nearest_path` as a question; None where there is nothing to ask about."""
    found = nearest_path(missing, fits)
    return None if found is None else f"did you mean {found}?"


def is_python(path: Path) -> bool:
    """Whether it is Python by its name, or a folder, which may hold some."""
    return path.suffix == ".py" or path.is_dir()
