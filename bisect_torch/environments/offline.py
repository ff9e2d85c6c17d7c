"""What can be made while no server may be asked."""

from __future__ import annotations

import threading

from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.wanted import Wanted
from bisect_torch.releases.index import effective_options


def is_offline(options: EnvironmentOptions) -> bool:
    """Whether no server may be asked: the option says so, or uv's own variable."""
    return effective_options(options.index).offline


def missing_offline(want: Wanted, cancel: threading.Event | None = None) -> str:
    """Why an environment cannot be made without asking a server; empty where its wheels are in the store's cache.

    uv is asked, since it alone knows its cache: what it would have to download is missing. Nothing is installed.
    """
    import re

    from bisect_torch import temporary
    from bisect_torch.environments.locking import hashed_part
    from bisect_torch.environments.uv import Uv
    from bisect_torch.environments.uv_said import in_short

    with temporary.folder() as folder:
        requirements = folder / "lock.txt"
        requirements.write_text(hashed_part(want.lock), encoding="utf-8")
        uv = Uv(want.options, cancel)
        python = ["--python", str(want.interpreter.path), "--target", str(folder / "nowhere")]
        words = ["pip", "install", "--dry-run", *python, "--require-hashes", "-r", str(requirements)]
        done = uv.attempt([*words, *uv.source_arguments(want.build)])
    if done.returncode != 0:
        return f"offline, and what it is made from is not in the store's cache: {in_short(done.stderr)}"
    found = re.search(r"Would download (\d+) package", done.stderr)
    if found is None:
        return ""
    return f"offline, and {found[1]} of its packages {'is' if found[1] == '1' else 'are'} not in the store's cache"
