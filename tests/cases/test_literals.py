"""What is evaluated by reading has the value that running it would give; what could be large is left alone."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.cases.literals import NotLiteral, evaluate

NAMES = {"small": 3, "SIZES": [1, 2], "pair": (4, 5)}


def value_of(text: str) -> object:
    return evaluate(ast.parse(text, mode="eval").body, NAMES)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%", "**", "<<", ">>", "|", "&", "/"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda parts: "({} {} {})".format(*parts)),
        st.tuples(st.sampled_from(["-", "+", "~", "not "]), inner).map(lambda parts: "({}{})".format(*parts)),
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        inner.map("[*[{}], 1]".format),
        inner.map("list(range({}))".format),
    )


atoms = st.one_of(st.integers(0, 40).map(str), st.sampled_from(["2.5", "'a'", "None", "True", *NAMES]))


@given(st.recursive(atoms, combined, max_leaves=5))
def test_what_is_evaluated_agrees_with_python(text: str) -> None:
    try:
        found = value_of(text)
    except NotLiteral:
        return
    expected = eval(text, {"__builtins__": {"list": list, "range": range}}, dict(NAMES))
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "1 << 10**9",
        "'a' * 10**9",
        "[0] * 10**6",
        "('a' * 9999) * 9999",
        "'%1000000000d' % 1",
        "list(range(10**12))",
        "[*range(10**12)]",
        "range(0.5)",
        "1 / 0",
        "2.0**99999",
        "-'a'",
        "unknown",
        "print(1)",
        "open('x')",
        "{**{}}",
        "f'{small}'",
        "SIZES[0]",
        "small.real",
        "lambda: 1",
        "[x for x in SIZES]",
        "1 if small else 2",
    ],
)
def test_the_rest_is_left_to_a_run(text: str) -> None:
    with pytest.raises(NotLiteral):
        value_of(text)
