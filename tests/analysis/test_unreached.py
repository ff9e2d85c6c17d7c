"""What is ok although what failed before may not have run is not known to be fixed."""

from __future__ import annotations

import json

import pytest

from bisect_torch.analysis.unreached import why_unreached
from bisect_torch.model import Observation
from tests.report.histories import instance, observation

TRACEBACK = """\
Traceback (most recent call last):
  File "<cwd>/other.py", line 90, in helper
  File "<cwd>/cases.py", line 7, in <module>
    assert x
AssertionError
"""


def seen(build: str, **facts: object) -> Observation:
    measured = facts.pop("measured", {})
    return observation(instance("f"), build, measurements=json.dumps(measured), **facts)


def failed(**facts: object) -> Observation:
    return seen("2.6.0", traceback=TRACEBACK, **facts)


def test_the_test_that_failed_is_skipped() -> None:
    before = failed(measured={"failed_tests": ["__main__.T.test_a", "__main__.T.test_b"]})
    skipped = [["__main__.T.test_b", "not for 2.7"], ["__main__.T.test_c", ""]]
    why = "T.test_b, which failed, is skipped: not for 2.7"
    assert why_unreached([before], [seen("2.7.0", measured={"skipped_tests": skipped})]) == why
    assert why_unreached([before], [seen("2.7.0", measured={"skipped_tests": skipped[1:]})]) == ""


@pytest.mark.parametrize("kept", ["x", [1], [["a"]], [[1, "x"]], {"a": 1}])
def test_what_a_case_has_recorded_under_such_a_name_is_no_sign(kept: object) -> None:
    after = seen("2.7.0", measured={"skipped_tests": kept})
    assert why_unreached([failed(measured={"failed_tests": kept})], [after]) == ""


@pytest.mark.parametrize(
    ("line", "why"), [(6, "it leaves at line 6, above line 7, which failed"), (7, ""), (8, ""), ("6", ""), (None, "")]
)
def test_the_script_leaves_above_the_line_that_failed(line: object, why: str) -> None:
    assert why_unreached([failed()], [seen("2.7.0", measured={"left_at_line": line})]) == why
    assert why_unreached([seen("2.6.0")], [seen("2.7.0", measured={"left_at_line": line})]) == "", "no line is known"


@pytest.mark.parametrize(
    "line", ["SKIPPED: no x in 2.7.0", "test skip", "this is not supported", "Unsupported here", "nothing tested"]
)
def test_it_prints_that_it_skips(line: str) -> None:
    after = [seen("2.7.0", stdout_tail=f"begin\n{line}\n") for _ in range(3)]
    assert why_unreached([failed(stdout_tail="begin\n")], after) == f'it prints "{line}"'
    assert why_unreached([failed(stdout_tail=f"{line.replace('2.7.0', '2.6.0')}\n")], after) == "", "as before"
    assert why_unreached([failed()], [*after, seen("2.7.0", stdout_tail="")]) == "", "one of the runs did not"


def test_other_words_are_no_sign() -> None:
    assert why_unreached([failed()], [seen("2.7.0", stdout_tail="ok\nskipper\nsupported\n")]) == ""
    assert why_unreached([failed()], [seen("2.7.0")]) == ""


SOURCE = """\
import torch


def f():
    if torch.__version__ >= "2.7":
        return
    assert x
"""


def test_the_line_that_failed_stands_behind_a_condition_on_the_version() -> None:
    before, after = failed(), seen("2.7.0")
    why = 'line 7, which failed, stands behind line 5: if torch.__version__ >= "2.7"'
    assert why_unreached([before], [after], {before.case_file_hash: SOURCE}) == why
    assert why_unreached([before], [after], {"another": SOURCE}) == ""
    other = {before.case_file_hash: SOURCE.replace(">=", "<")}
    goes = 'it goes by torch\'s version or names at line 5: if torch.__version__ < "2.7":'
    assert why_unreached([before], [after], other) == goes, "what runs may be another"
    plain = {before.case_file_hash: SOURCE.replace("torch.__version__ >=", "x ==")}
    assert why_unreached([before], [after], plain) == ""


def test_a_caller_that_stands_behind_such_a_condition_is_enough() -> None:
    calls = "def f():\n    assert x\n\n\nif not hasattr(torch, 'x'):\n    f()\n"
    trace = TRACEBACK.replace("line 7", "line 6").replace("    assert x", '  File "<cwd>/cases.py", line 2, in f')
    before = seen("2.6.0", traceback=trace)
    why = "line 6, which failed, stands behind line 5: if not hasattr(torch, 'x')"
    assert why_unreached([before], [seen("2.7.0")], {before.case_file_hash: calls}) == why


def test_nothing_is_compared_any_more() -> None:
    before = seen("2.6.0", checks=2)
    assert why_unreached([before], [seen("2.7.0", checks=0)]) == "it compares nothing there"
    assert why_unreached([before], [seen("2.7.0", checks=1)]) == ""
    assert why_unreached([seen("2.6.0", checks=0)], [seen("2.7.0", checks=0)]) == ""


def test_so_does_a_file_beside_it_that_was_imported() -> None:
    text = "import functools, torch\n@functools.cache\ndef old():\n    if torch.__version__ < '2.7': return 1\n"
    before = failed(local_modules=json.dumps({"lib/compat.py": "a" * 64, "inputs.pt": "b" * 64 + " 2026"}))
    why = "lib/compat.py goes by torch's version or names at line 4: if torch.__version__ < '2.7': return 1"
    assert why_unreached([before], [seen("2.7.0")], {"a" * 64: text}) == why
    assert why_unreached([before], [seen("2.7.0")], {"b" * 64: text}) == "", "a file that is only read runs nothing"
