"""What the user's and the machine's ``uv.toml`` say about indexes, so that the list shows what uv will install from.

Settings of a project do not count: environments are made outside of any project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisect_torch.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


@dataclass(frozen=True)
class UvSettings:
    """Index settings, in uv's order of precedence.

    Args:
        index_url: The default index, where one is set.
        extra_index_urls: The others, without those marked ``explicit``.
        find_links: Folders or pages.
        index_strategy: Where one is set.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    index_strategy: str | None = None


def read_uv_settings(environment: Mapping[str, str]) -> UvSettings:
    """Read the files that uv itself reads outside of a project.

    Args:
        environment: For ``UV_CONFIG_FILE``, ``UV_NO_CONFIG``, ``XDG_CONFIG_HOME``, ``XDG_CONFIG_DIRS`` and ``HOME``.

    Raises:
        UsageError: A file is there and is not valid.
    """
    found = [_read(path) for path in _files(environment)]
    return UvSettings(
        index_url=_first(part.index_url for part in found),
        extra_index_urls=tuple(url for part in found for url in part.extra_index_urls),
        find_links=tuple(place for part in found for place in part.find_links),
        index_strategy=_first(part.index_strategy for part in found),
    )


def _files(environment: Mapping[str, str]) -> list[Path]:
    """The user's file, then the machine's; or just the one that a variable names."""
    if environment.get("UV_CONFIG_FILE"):
        return [Path(environment["UV_CONFIG_FILE"])]
    if environment.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes"):
        return []
    home = environment.get("HOME")
    own = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    shared = [*(environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"), "/etc"]
    candidates = [Path(folder) / "uv" / "uv.toml" for folder in shared if folder]
    machine = [path for path in candidates if path.is_file()][:1]
    user = [Path(own) / "uv" / "uv.toml"] if own else []
    return [path for path in (*user, *machine) if path.is_file()]


def _read(path: Path) -> UvSettings:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        # ``uv pip`` reads its own table first.
        settings: dict[str, Any] = {**table, **table.get("pip", {})}
        indexes = [index for index in settings.get("index", []) if not index.get("explicit")]
        return UvSettings(
            index_url=_first([*(one["url"] for one in indexes if one.get("default")), settings.get("index-url")]),
            extra_index_urls=(
                *(str(one["url"]) for one in indexes if not one.get("default")),
                *settings.get("extra-index-url", []),
            ),
            find_links=tuple(settings.get("find-links", [])),
            index_strategy=settings.get("index-strategy"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"uv's settings cannot be read: {path}: {error}", hint="mend the file, or set UV_NO_CONFIG=1"
        ) from None


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
