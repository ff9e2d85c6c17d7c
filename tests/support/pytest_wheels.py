"""pytest and what it needs as wheels, made from the files of the pytest that runs these tests."""

from __future__ import annotations

import functools
import importlib.metadata

from tests.support.wheels import Wheel, build_wheel

PYTEST_VERSION = importlib.metadata.version("pytest")
_BELOW_IT = ("pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "typing-extensions")
_DAY = "2024-08-01"
_COLOURS = {
    "pygments/__init__.py": "",
    "pygments/formatters/__init__.py": "",
    "pygments/formatters/terminal.py": "class TerminalFormatter: ...\n",
    "pygments/lexer.py": "class Lexer: ...\n",
    "pygments/lexers/__init__.py": "",
    "pygments/lexers/diff.py": "class DiffLexer: ...\n",
    "pygments/lexers/python.py": "class PythonLexer: ...\n",
}
"""pytest imports pygments and uses it only for a terminal with colours; it is a hundred times larger than the rest."""


@functools.cache
def pytest_wheels(called: str = PYTEST_VERSION) -> tuple[Wheel, ...]:
    """Wheels for an index.

    Args:
        called: Version of the wheel of pytest; that of the files inside stays.
    """
    below = [name for name in _BELOW_IT if _is_installed(name)]
    wheels = [_repacked(name, importlib.metadata.version(name)) for name in below]
    colours = build_wheel("pygments", "2.18.0", _COLOURS, upload_time=_DAY)
    return (_repacked("pytest", called, requires=[*below, "pygments"]), *wheels, colours)


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _repacked(name: str, version: str, requires: list[str] | None = None) -> Wheel:
    files = {}
    for file in importlib.metadata.files(name) or ():
        path = str(file)
        if path.endswith((".py", ".typed")) and ".dist-info" not in path and not path.startswith(".."):
            files[path] = file.locate().read_bytes()
    return build_wheel(name, version, files, requires=requires or (), upload_time=_DAY)
