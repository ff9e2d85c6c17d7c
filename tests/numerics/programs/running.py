"""Rules of running a case, run with a real torch."""

import random
import sys
import tempfile
from pathlib import Path

import torch

from bisect_torch.worker import api

SOURCE = """
import random, torch, numpy
from bisect_torch import case, check, skip
from bisect_torch.numerics import uniform
"""


def load(body):
    folder = Path(tempfile.mkdtemp())
    path = folder / "some_cases.py"
    path.write_text(SOURCE + body)
    return {definition.name: definition for definition in api.load_case_file(path)}


def run(body, name="one", parameters=None, seed=1):
    return api.run_case(load(body)[name], parameters or {}, "cpu", seed)


def rule_checks_count_though_the_case_forgets_to_return_them():
    facts = run("""
@case
def one():
    check(torch.ones(2), torch.ones(2))
    check(torch.ones(2), torch.zeros(2))
    check(torch.ones(3), torch.ones(3))
""")
    assert facts["checks"] == 3
    assert facts["wrong_elements"] == 2
    assert facts["elements"] == 2
    assert facts["returned_false"] is False


def rule_a_mismatch_is_worse_than_any_error():
    facts = run("""
@case
def one():
    check(torch.ones(2), torch.ones(3))
    check(torch.ones(2), torch.zeros(2))
""")
    assert facts["mismatch"] == "shape [2] came, [3] was expected"


def rule_checks_made_apart_do_not_count():
    facts = run("""
from bisect_torch.worker.api import apart
@case
def one():
    check(torch.ones(2), torch.ones(2))
    try:
        with apart() as found:
            check(torch.ones(3), torch.zeros(3))
            raise ValueError
    except ValueError:
        pass
    assert [bool(result) for result in found] == [False]
""")
    assert facts["checks"] == 1
    assert facts["wrong_elements"] == 0


def rule_false_in_any_form_is_recorded():
    for value in ("False", "numpy.bool_(False)", "torch.tensor(False)", "torch.ones(1).sum() > 2"):
        assert run(f"@case\ndef one(): return {value}\n")["returned_false"] is True, value
    for value in ("True", "0", "None", "0.0", "torch.tensor([False])", "torch.tensor(0)", "''", "[]"):
        assert run(f"@case\ndef one(): return {value}\n")["returned_false"] is False, value


def rule_a_bare_value_is_recorded_by_its_digest():
    one = run("@case\ndef one(): return torch.arange(3.0), {'a': 1}\n")
    assert one["digest"] == run("@case\ndef one(): return torch.arange(3.0), {'a': 1}\n")["digest"]
    assert one["digest"] != run("@case\ndef one(): return torch.arange(3.0), {'a': 2}\n")["digest"]
    assert one["checks"] == 0
    assert "digest" not in run("@case\ndef one(): pass\n")
    assert "digest" not in run("@case\ndef one(): return object()\n")


def rule_the_seed_decides_every_random_stream():
    body = "@case\ndef one(): return torch.rand(3), random.random(), numpy.random.rand()\n"
    assert run(body, seed=1)["digest"] == run(body, seed=1)["digest"] != run(body, seed=2)["digest"]
    assert run(body, seed=2)["seed"] == 2
    assert run(body, seed=2**40)["seed"] == 2**40


def rule_inputs_are_recorded():
    body = """
@case
def one(): uniform(3, seed=SEED)

@case
def two(): check(torch.ones(1), torch.ones(1), inputs=(torch.ones(2), 3))
"""
    first = run(body.replace("SEED", "1"))["input_digest"]
    assert first == run(body.replace("SEED", "1"))["input_digest"]
    assert first != run(body.replace("SEED", "2"))["input_digest"]
    assert run(body.replace("SEED", "1"), name="two")["input_digest"]
    assert "input_digest" not in run("@case\ndef one(): pass\n")


def rule_what_was_recorded_before_an_exception_is_kept():
    definition = load("""
@case
def one():
    check(torch.ones(2), torch.zeros(2))
    raise KeyError("x")
""")["one"]
    try:
        api.run_case(definition, {}, "cpu", 1)
    except KeyError:
        facts = api.collected_facts(1)
        assert (facts["checks"], facts["wrong_elements"], facts["seed"]) == (1, 2, 1)
        return
    raise AssertionError("the exception was lost")


def rule_device_is_passed_only_to_those_who_name_it():
    assert run("@case\ndef one(device): check(device, 'cpu')\n")["checks"] == 1
    assert run("@case(n=[2])\ndef one(n): check(n, 2)\n", parameters={"n": 2})["checks"] == 1
    assert run("@case(n=[2])\ndef one(**all): check(all, {'n': 2})\n", parameters={"n": 2})["checks"] == 1


def rule_skip_ends_the_case_whatever_it_catches():
    definition = load("""
@case
def one():
    try:
        skip("no such device")
    except Exception:
        return False
""")["one"]
    reason = None
    try:
        api.run_case(definition, {}, "cpu", 1)
    except api.Skip as skipped:
        reason = skipped.reason
    assert reason == "no such device"


def rule_other_decorators_stay_in_force():
    body = """
@case
@torch.no_grad()
def below(device): return torch.is_grad_enabled()

@torch.no_grad()
@case
def above(device): return torch.is_grad_enabled()
"""
    assert run(body, "below")["returned_false"] is True
    assert run(body, "above")["returned_false"] is True


def rule_neighbours_can_be_imported_but_hide_nothing():
    folder = Path(tempfile.mkdtemp())
    (folder / "neighbour.py").write_text("VALUE = 7\n")
    (folder / "json.py").write_text("raise RuntimeError('hidden')\n")
    path = folder / "with_neighbour.py"
    path.write_text(SOURCE + "import json\nfrom neighbour import VALUE\n@case\ndef one(): check(VALUE, 7)\n")
    (definition,) = api.load_case_file(path)
    assert api.run_case(definition, {}, "cpu", None)["checks"] == 1
    assert sys.path[-1] == str(folder)


def rule_cases_of_a_neighbour_are_not_this_files():
    folder = Path(tempfile.mkdtemp())
    (folder / "others.py").write_text(SOURCE + "@case\ndef theirs(): pass\n")
    path = folder / "mine.py"
    path.write_text(SOURCE + "from others import theirs\n@case\ndef mine(): pass\n")
    assert [definition.name for definition in api.load_case_file(path)] == ["mine"]


def rule_running_leaves_no_state_for_the_next():
    assert run("@case\ndef one(): check(1, 2)\n")["checks"] == 1
    assert run("@case\ndef one(): pass\n") == {"checks": 0, "seed": 1, "returned_false": False}
    random.seed(5)
    torch.manual_seed(5)
    before = random.random()
    run("@case\ndef one(): pass\n", seed=None)
    random.seed(5)
    assert random.random() == before
