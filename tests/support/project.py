"""A project that can be installed as editable, with a build backend of its own: offline, in a fraction of a second."""

from __future__ import annotations

import subprocess
from pathlib import Path

_PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "mine"
version = "1.0"
"""

_BACKEND = """
import pathlib, zipfile
METADATA = "Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n"
def get_requires_for_build_editable(config_settings=None): return []
def get_requires_for_build_wheel(config_settings=None): return []
def prepare_metadata_for_build_editable(folder, config_settings=None):
    info = pathlib.Path(folder) / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    return info.name
prepare_metadata_for_build_wheel = prepare_metadata_for_build_editable
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("mine.pth", str(pathlib.Path(__file__).parent) + "\\n")
        wheel.writestr("mine-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("mine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.0.dist-info/RECORD", "")
    return name
build_wheel = build_editable
"""


def editable_project(folder: Path) -> Path:
    """A project called ``mine`` whose folder is on the path of an environment that has it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(_PYPROJECT)
    (folder / "backend.py").write_text(_BACKEND)
    return folder


def commit_all(folder: Path, message: str = "all") -> str:
    """Commit everything in a folder, which becomes a repository if it is none; gives the commit."""

    def git(*words: str) -> str:
        identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    if not (folder / ".git").exists():
        git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", message)
    return git("rev-parse", "HEAD")
