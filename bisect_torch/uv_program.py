"""Where uv is: the program of the package ``uv``, whatever PATH has."""

from __future__ import annotations

import functools
import os

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
            f"the uv program is missing: {error}", hint=f'pip install --force-reinstall "uv>={OLDEST_UV}"'
        ) from None
