"""Where the shipped case files and locks lie: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """The folder ``cases`` or ``envs``.

    Raises:
        FileNotFoundError: The installation is incomplete.
    """
    for folder in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder {name!r} that ships with bisect-torch is missing beside {_PACKAGE}")


def tool_version() -> str:
    """The version of bisect-torch that is installed; ``0+unknown`` when it runs from a tree that is not installed."""
    from importlib import metadata

    try:
        return metadata.version("bisect-torch")
    except metadata.PackageNotFoundError:
        return "0+unknown"
