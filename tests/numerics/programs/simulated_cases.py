"""Runs instances of the shipped simulated cases and of the classifier; prints what each recorded, as JSON.

Arguments: the repository, and JSON with runs: name to ``file``, ``step`` (every how many-th instance), ``words`` (one
of which is in the instance) and ``broken``: ``models`` (there are none) or ``judge`` (it finds nothing wrong).
"""

import contextlib
import json
import sys
from unittest import mock

import torch

sys.path.insert(0, sys.argv[1])
torch.set_num_threads(1)


def broken(what):
    from bisect_torch.numerics import check as checking
    from bisect_torch.numerics.large_index import bodies

    if what == "models":
        return mock.patch.object(bodies, "fault_models", return_value={})
    if what == "judge":
        nothing = checking.CheckResult({"wrong_elements": 0})
        return mock.patch.object(checking, "compare", return_value=nothing)
    return contextlib.nullcontext()


def cells(file, step, words, what):
    from bisect_torch.worker import api, recording

    found = {}
    for definition in api.load_case_file(f"{sys.argv[1]}/cases/{file}"):
        for number, choice in enumerate(api.expand(definition.parameters)):
            name = definition.name + json.dumps(choice)
            if number % step or not any(word in name for word in words):
                continue
            recording.forget_records()
            verdict = "ok"
            with broken(what):
                try:
                    facts = api.run_case(definition, choice, "cpu", 1)
                    if facts.get("mismatch") or facts.get("wrong_elements"):
                        verdict = "wrong"
                except AssertionError:
                    verdict = "wrong"
            found[name] = {"verdict": verdict, "choice": choice, **json.loads(recording.recorded())}
    return found


runs = json.loads(sys.argv[2])
print(
    json.dumps({name: cells(run["file"], run["step"], run["words"], run.get("broken")) for name, run in runs.items()})
)
