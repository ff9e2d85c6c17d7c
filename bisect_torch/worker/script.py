"""Run a whole file as ``python file.py`` does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import sysconfig
import types
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, TextIO, Type, Union

from bisect_torch.worker import api, circumstances, outcome, preload, recording
from bisect_torch.worker.ignored import Ignored
from bisect_torch.worker.origin import Places
from bisect_torch.worker.own_tests import OwnTests

_SETS_VARIABLES = re.compile(rb"\benviron\b|\bputenv\b")


def run(request: Dict[str, Any], send: Callable[[Dict[str, Any]], object], passed_over: Ignored) -> Dict[str, Any]:
    """Run the script of a request; gives the result message.

    torch is imported first, so that its loading is not the script's time and nothing beside the script can take its
    name, unless the script sets environment variables: torch and the libraries below it read many of these only when
    they are loaded.

    Args:
        passed_over: Takes exceptions that the script does not see.
    """
    path = os.path.abspath(request["file"])
    facts: Dict[str, Any] = {"phase": "load"}
    noted: List[str] = []
    clock = circumstances.Clock()
    status = 0
    tests = OwnTests(path)
    known = len(sys.modules)
    try:
        with open(path, "rb") as file:
            source = file.read()
        if not _SETS_VARIABLES.search(source):
            preload.torch_for(request)
        known = len(sys.modules)
        code = compile(source, path, "exec", dont_inherit=True)
        namespace = _become_main(path)
        tests.watch(source)
        facts["phase"] = "run"
        clock.start()
        send({"event": "ready"})
        with _noted_warnings(noted):
            exec(code, namespace)
        facts.update(api.collected_facts(), outcome="returned")
        facts.update(tests.facts(None, passed_over))
    except api.Skip as skip:
        facts.update(api.collected_facts(), outcome="skipped", reason=skip.reason)
    except SystemExit as left:
        facts.update(api.collected_facts())
        facts.update(outcome.facts_of(left, path))
        status = outcome.exit_status(left)
        facts.update(_without_arguments(left), **tests.facts(status, passed_over))
        if status == 0 and (line := _left_at(left, path)) is not None:
            facts.update(recording.also(left_at_line=line))
        if left.code is not None and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
    except BaseException as raised:  # noqa: BLE001 - the worker's outermost edge
        facts.update(api.collected_facts())
        facts.update(outcome.facts_of(raised, path))
        if facts["outcome"] != "skipped":
            _print(raised, path)
            status = 1
    clock.stop(facts)
    facts["warnings"] = json.dumps(shadowing(path) + noted)
    circumstances.add(facts, path, known)
    return {"facts": facts, "exit_status": status}


def _without_arguments(left: SystemExit) -> Dict[str, Any]:
    """Of a script that argparse has ended since an argument lacks: that this says nothing about torch."""
    trace = left.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "error" and frame.f_globals.get("__name__") == "argparse":
            reason = "it wants arguments: %s" % frame.f_locals.get("message", "")
            return {"outcome": "environment_broken", "reason": reason[:500]}
        trace = trace.tb_next
    return {}


_LEAVING = "_sitebuiltins"
"""The module of ``exit`` and ``quit``."""


def _left_at(left: SystemExit, path: str) -> Optional[int]:
    """The line of the script that called ``sys.exit`` or ``exit`` itself; None where something else has left."""
    line = None
    trace = left.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == path:
            line = trace.tb_lineno
        elif frame.f_globals.get("__name__") != _LEAVING:
            line = None
        trace = trace.tb_next
    return line


def _become_main(path: str) -> Dict[str, Any]:
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [path]
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    return vars(main)


def _print(raised: BaseException, path: str) -> None:
    shown = Places(path).first_of_case(raised.__traceback__)
    sys.excepthook(type(raised), raised.with_traceback(shown), shown)
    circumstances.flush()


@contextlib.contextmanager
def _noted_warnings(noted: List[str]) -> Iterator[None]:
    """Note each warning that the script lets through; it is printed as ever."""
    shown = warnings.showwarning

    def note(
        message: Union[Warning, str],
        category: Type[Warning],
        filename: str,
        lineno: int,
        file: Optional[TextIO] = None,
        line: Optional[str] = None,
    ) -> None:
        circumstances.note_warning(noted, category, message)
        shown(message, category, filename, lineno, file, line)

    warnings.showwarning = note
    yield


def shadowing(path: str) -> List[str]:
    """A remark for each file in the script's folder that has the name of torch or of a standard module in use.

    ``python script.py`` would import it; here it is passed over.
    """
    folder, own = os.path.split(path)
    standard = _standard_names()
    found = []
    for name in sorted(os.listdir(folder)):
        stem, suffix = os.path.splitext(name)
        is_package = not suffix and os.path.isfile(os.path.join(folder, name, "__init__.py"))
        if stem not in sys.modules or not (suffix == ".py" or is_package):
            continue
        if stem != "torch" and stem not in standard:
            continue
        if name == own:
            said = "bisect-torch: python %s would import it as %s; here it gets the real one: rename the script"
            found.append(said % (name, stem))
        else:
            found.append("bisect-torch: %s beside the script is passed over; the real %s is used" % (name, stem))
    return found


def _standard_names() -> "frozenset[str]":
    names = getattr(sys, "stdlib_module_names", None)  # Python 3.10 and newer
    if names is None:
        files = os.listdir(sysconfig.get_paths()["stdlib"])
        names = {*sys.builtin_module_names, *(file[:-3] if file.endswith(".py") else file for file in files)}
    return frozenset(names) - {"__main__", "site-packages", "test"}
