"""Runs pytest in this process, an interpreter of its own: to tell which tests there are, or to run some of them."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Callable, Dict, List

from bisect_torch.worker import preload

OLDEST_PYTEST = 7
_VARIABLES = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
"""Of a pytest that the tool itself may have been started from."""


def run(request: Dict[str, Any], send: Callable[[Dict[str, Any]], object], folder: str) -> Dict[str, Any]:
    """Run pytest with the words of a request; gives the result message.

    pytest's own settings of the project hold. Nothing is written into the project: no bytecode, and caches go to the
    cell's folder.

    Args:
        folder: The cell's own.
    """
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = os.path.join(folder, "hypothesis")
    os.environ["COVERAGE_FILE"] = os.path.join(folder, "coverage")
    for name in _VARIABLES:
        os.environ.pop(name, None)
    try:
        import pytest

        if int(pytest.__version__.partition(".")[0]) < OLDEST_PYTEST:
            return _broken("pytest %s is too old: --with 'pytest>=%d'" % (pytest.__version__, OLDEST_PYTEST))
        from bisect_torch.worker.pytest_plugin import Collected, Reporter
    except ModuleNotFoundError as missing:
        return _broken("No module named %r" % missing.name)
    collecting = not request["tests"]
    if request["needs_compile"] and not collecting:
        preload.torch_for(request)
    words = [*request["argv"], *_own_words(folder, collecting=collecting)]
    sys.argv = ["pytest", *words]
    if collecting:
        collected = Collected()
        status = pytest.main(words, plugins=[collected])
        return {"rows": collected.rows, "facts": {}, "status": int(status), "exit_status": 0}
    reporter = Reporter([(path, name) for path, name in request["tests"]], send)
    status = pytest.main(words, plugins=[reporter])
    return {"facts": {}, "status": int(status), "exit_status": 0}


def _own_words(folder: str, *, collecting: bool) -> List[str]:
    # Not -p no:cacheprovider: conftest files and plugins that ask for the cache would fail, and --lf in addopts too.
    words = ["-o", "cache_dir=%s" % os.path.join(folder, "pytest-cache"), "--continue-on-collection-errors"]
    words += ["--maxfail=0"]
    if collecting:
        words.append("--collect-only")
    if importlib.util.find_spec("xdist") is not None:
        words.append("-n0")  # processes that only pytest watches could not be blamed
    return words


def _broken(reason: str) -> Dict[str, Any]:
    return {"rows": [], "facts": {"outcome": "environment_broken", "reason": reason}, "status": 4, "exit_status": 0}
