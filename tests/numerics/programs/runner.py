"""Runs the functions ``rule_…`` of programs; prints, as JSON, what each returns or the traceback of its failure."""

import importlib.util
import json
import os
import sys
import traceback
import warnings


def main():
    root, *paths = sys.argv[1:]
    sys.path.insert(0, root)
    warnings.simplefilter("ignore")
    print(json.dumps({os.path.basename(path)[: -len(".py")]: outcomes(path) for path in paths}))


def outcomes(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    found = {}
    for name, rule in list(vars(program).items()):
        if name.startswith("rule_"):
            try:
                found[name] = rule()
            except BaseException:  # noqa: BLE001 - every failure is reported
                found[name] = {"failed": traceback.format_exc()}
    return found


main()
sys.stdout.flush()
os._exit(0)  # torch 2.4.1 sometimes aborts in its own last steps, which no rule is about
