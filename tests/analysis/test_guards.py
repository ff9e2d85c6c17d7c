"""Which conditions may keep a line that failed on an older release from running on a newer one."""

from __future__ import annotations

import textwrap

import pytest

from bisect_torch.analysis.guards import condition_in, guard_of

NEWER = [
    'Version(torch.__version__) >= Version("2.6")',
    'Version("2.6") <= Version(torch.__version__)',
    'tuple(map(int, torch.__version__.split(".")[:2])) > (2, 5)',
    'not torch.__version__ < "2.6"',
    'hasattr(torch, "x")',
    '"x" in dir(torch)',
    'torch.version.__version__ > "2.6"',
    'version.parse(version("torch")) >= version.parse("2.6")',
    "NEW",
    "is_new()",
    "flag or NEW",
]
EITHER = [
    'torch.__version__.startswith("2.7")',
    'torch.__version__ != "2.6.0"',
    '"2.6" <= torch.__version__ < "2.8"',
]
OLDER = [
    'torch.__version__ < "2.6"',
    'not hasattr(torch, "x")',
    '"x" not in dir(torch)',
    "not NEW",
    "not is_new()",
    "flag and not NEW",
]
OTHER = [
    "x > 3",
    "not torch.cuda.is_available()",
    "torch.version.cuda is None",
    "sys.version_info >= (3, 12)",
    'numpy.__version__ >= "2"',
    'platform.python_version() >= "3.12"',
    "CHANGED_TWICE",
]

HEAD = """\
NEW = Version(torch.__version__) >= Version("2.6")
CHANGED_TWICE = hasattr(torch, "x")
CHANGED_TWICE = 1

def is_new():
    return NEW
"""


def text_of(body: str, condition: str) -> tuple[str, int, int]:
    """The whole text, the line of the condition and the one that fails."""
    source = HEAD + textwrap.dedent(body).replace("CONDITION", condition)
    lines = [line.strip() for line in source.splitlines()]
    return source, lines.index(f"if {condition}:") + 1, lines.index("fails()") + 1


LEAVES = """
def test():
    setup()
    if CONDITION:
        LEAVE
    with torch.no_grad():
        for i in range(3):
            fails()
"""

LEFT_UNLESS = """
def test():
    if CONDITION:
        setup()
    else:
        return
    fails()
"""

WITHIN = """
class Test:
    def test(self):
        if CONDITION:
            try:
                fails()
            finally:
                pass
"""

WITHIN_ELSE = """
if CONDITION:
    pass
else:
    fails()
"""


@pytest.mark.parametrize(
    "leave", ["return", "return 1", 'raise unittest.SkipTest("x")', "sys.exit(0)", "pytest.skip()"]
)
@pytest.mark.parametrize("condition", [*NEWER, *EITHER])
def test_what_leaves_on_newer_releases_may_keep_it_from_running(condition: str, leave: str) -> None:
    source, at, fails = text_of(LEAVES.replace("LEAVE", leave), condition)
    assert guard_of(source, fails) == at


@pytest.mark.parametrize("condition", [*OLDER, *OTHER])
def test_what_leaves_on_older_releases_alone_does_not(condition: str) -> None:
    source, _, fails = text_of(LEAVES.replace("LEAVE", "return"), condition)
    assert guard_of(source, fails) is None


@pytest.mark.parametrize("body", [LEFT_UNLESS, WITHIN])
@pytest.mark.parametrize("condition", [*OLDER, *EITHER])
def test_what_lets_it_run_on_older_releases_may_keep_it_from_running(body: str, condition: str) -> None:
    source, at, fails = text_of(body, condition)
    assert guard_of(source, fails) == at


@pytest.mark.parametrize("body", [LEFT_UNLESS, WITHIN])
@pytest.mark.parametrize("condition", [*NEWER, *OTHER])
def test_what_lets_it_run_on_newer_releases_does_not(body: str, condition: str) -> None:
    source, _, fails = text_of(body, condition)
    assert guard_of(source, fails) is None


def test_the_other_branch_counts_the_other_way() -> None:
    for condition in NEWER + EITHER:
        source, at, fails = text_of(WITHIN_ELSE, condition)
        assert guard_of(source, fails) == at
    for condition in OLDER + OTHER:
        source, _, fails = text_of(WITHIN_ELSE, condition)
        assert guard_of(source, fails) is None


@pytest.mark.parametrize("nothing", ["pass", "print('new')", "raise ValueError", "x = 1"])
def test_a_condition_that_leaves_nothing_out_does_not(nothing: str) -> None:
    source, _, fails = text_of(LEAVES.replace("LEAVE", nothing), NEWER[0])
    assert guard_of(source, fails) is None


def test_the_condition_itself_and_what_stands_before_it_run() -> None:
    source = (
        'def test():\n    fails()\n    if torch.accelerator.is_available() and hasattr(torch, "x"):\n        return\n'
    )
    assert [guard_of(source, line) for line in (2, 3)] == [None, None]


@pytest.mark.parametrize("source", ["def f(:\n", "", "a = b\nb = a\nif a:\n    fails()\n"])
def test_a_text_of_which_nothing_is_known(source: str) -> None:
    assert guard_of(source, 4) is None


@pytest.mark.parametrize(
    "text",
    [
        "DT = torch.uint16 if not hasattr(torch, 'x') else torch.int32",
        "if torch.__version__ >= '2.9':\n    print(1)",
        "x = getattr(torch, 'uint16', torch.int32)",
        "try:\n    import torch.nn.attention.varlen\nexcept ImportError:\n    pass",
        "@case\ndef mine():\n    if torch.__version__ > '2':\n        pass",
    ],
)
def test_a_text_goes_by_what_torch_is(text: str) -> None:
    source = f"import torch\n{text}\n"
    assert condition_in(source, "mine") == (4 if "mine" in text else 2)


@pytest.mark.parametrize(
    "text",
    [
        "if x > 3:\n    pass",
        "x = getattr(torch, 'uint16')",
        "try:\n    f(torch)\nexcept RuntimeError:\n    pass",
        "try:\n    import numpy\nexcept ImportError:\n    pass",
        "@case\ndef another():\n    if torch.__version__ > '2':\n        pass",
        "def f(:",
    ],
)
def test_a_text_does_not(text: str) -> None:
    assert condition_in(f"import torch\n{text}\n", "mine") is None
