"""Runs the functions ``rule_…`` of a program and prints, as JSON, the traceback of each that fails."""

import importlib.util
import json
import sys
import traceback
import warnings


def main():
    root, path = sys.argv[1:]
    sys.path.insert(0, root)
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    sys.modules["program"] = program
    spec.loader.exec_module(program)
    outcome = {}
    for name, rule in list(vars(program).items()):
        if name.startswith("rule_"):
            try:
                outcome[name] = rule()
            except BaseException:  # noqa: BLE001 - every failure is reported
                outcome[name] = {"failed": traceback.format_exc()}
    print(json.dumps(outcome))


main()
