"""Where uv is: the program of the package ``uv``, whatever PATH has; and how this tool's own Python gets a library."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from importlib.util import find_spec

from packaging.version import Version

from bisect_torch.errors import InfrastructureError

OLDEST_UV = Version("0.12.1")
"""The oldest that knows all options in use, the last of them ``--prerelease-package``; as in pyproject.toml."""


@functools.cache
def binary() -> str:
    """The path of uv.

    Raises:
        InfrastructureError: The package is missing, or is there without its program.
    """
    try:
        import uv  # only here: what reads releases or results must not need it

        return os.fspath(uv.find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        raise InfrastructureError(
            f"the uv program is missing: {error}", hint=install_line(f"uv>={OLDEST_UV}", "--force-reinstall")
        ) from None


def install_line(requirement: str, *options: str) -> str:
    """The command that installs a library for the interpreter that runs this tool, wherever that is.

    Args:
        options: Of ``pip install``.
    """
    if find_spec("pip") is not None or requirement.startswith("uv"):
        return shlex.join([sys.executable, "-m", "pip", "install", *options, requirement])
    return shlex.join([binary(), "pip", "install", "--python", sys.executable, *options, requirement])
