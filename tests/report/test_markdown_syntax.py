"""Whatever a name, a message or an output holds, it stays text: read by a CommonMark parser with tables and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bisect_torch.report.markdown.syntax import block_text, code, details, fence, html_code, marked, prose, table
from bisect_torch.report.text import clean

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OWN_HTML = {"<!-- -->", "<span>", "</span>"}
LINKED = re.compile(r"@\w|#\d|\bGH-\d|://|www\.|:\w+:", re.IGNORECASE)
"""What GitHub looks for in text that is not code: mentions, issues, addresses, emoji."""

HOSTILE = [
    "@torvalds", "fixes #1", "pytorch/pytorch#1", "GH-1", "https://github.com/pytorch/pytorch/issues/1", "www.a.de",
    "a@b.de", "</details><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "-->", "&lt;b&gt;",
    "&#64;user", "[link](javascript:alert(1))", "![x](http://x)", "`code`", "```", "``` x ```", "~~~", "a|b", "\\|",
    "\\", "\\\\|", "# head", "- item", "1. item", "1)", "> quote", "---", "===", "***bold***", "__x__", "~~gone~~",
    "$x$ $$y$$", ":tada:", "\u202eevil", "\u2066x\u2069", "\ufeff", "\x1b[31mred\x1b[0m", "a\r\nb", "\x00",
    "    indented", "[^1]: note", "[a]: b",
]  # fmt: skip
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*HOSTILE, *"@#:/`|\\<>&[]()!*_~$-+=.1 ax\n\t"]), max_size=12).map("".join),
    st.text(max_size=60),
)


def flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or [])


def check_inline(tokens: list[Token], expected: str) -> None:
    """One paragraph of nothing but this text, with nothing in it that GitHub would link."""
    assert {each.type for each in flat(tokens)} <= {
        "paragraph_open", "inline", "text", "text_special", "html_inline", "paragraph_close",
    }  # fmt: skip
    assert {each.content for each in flat(tokens) if each.type == "html_inline"} <= OWN_HTML
    words = [each.content if each.type != "html_inline" else "\0" for each in flat(tokens) if not each.children]
    shown = "".join(words)
    assert shown.replace("\0", "") == expected
    assert not any(LINKED.search(part) for part in shown.split("\0"))


@given(texts)
@example("a:b:c")
@example("://")
@example(":white_check_mark:")
def test_prose_is_only_text(text: str) -> None:
    expected = clean(text).strip()
    if expected:
        check_inline(MARKDOWN.parse(prose(text)), expected)
        check_inline(MARKDOWN.parse("x " + prose(text)), "x " + expected)


@given(texts)
@example("a `b` c")
@example("`a``b` @me `<b>`")
@example("`a``b")
@example("``a`")
@example("`a` ``<script>``")
def test_of_marked_text_commands_are_code_and_nothing_else_is_more_than_text(text: str) -> None:
    tokens = list(flat(MARKDOWN.parse("x " + marked(text))))

    assert {each.type for each in tokens} <= {
        "paragraph_open", "inline", "text", "text_special", "html_inline", "code_inline", "paragraph_close",
    }  # fmt: skip
    assert {each.content for each in tokens if each.type == "html_inline"} <= OWN_HTML
    shown = "".join(
        "\0" if each.type in ("html_inline", "code_inline") else each.content for each in tokens if not each.children
    )
    assert not any(LINKED.search(part) for part in shown.split("\0"))


def test_a_command_in_marked_text_can_be_copied() -> None:
    assert marked("a_b: `run a_b.py` tells") == "a\\_b: `run a_b.py` tells"


@given(texts)
def test_a_code_span_is_one_whatever_is_in_it(text: str) -> None:
    (_, inline, _) = MARKDOWN.parse(f"a{code(text, most=10_000)}b")

    assert [(each.type, each.content) for each in inline.children or []] == [
        ("text", "a"), ("code_inline", clean(text) or " "), ("text", "b"),
    ]  # fmt: skip


@given(texts, texts)
def test_a_table_has_the_cells_that_it_was_given(first: str, second: str) -> None:
    tokens = MARKDOWN.parse(table(["a", "b"], [[code(first), prose(second)]]))

    inside = [each for each in tokens if each.type == "inline"][2:]
    assert [each.type for each in tokens].count("td_open") == 2
    assert [each.content for each in inside[0].children or []] == [clean(first) or " "]
    shown = "".join(each.content for each in inside[1].children or [] if each.type != "html_inline")
    assert shown == clean(second).strip()


@given(texts)
def test_a_fence_is_one_block_whatever_is_in_it(text: str) -> None:
    tokens = MARKDOWN.parse(details(html_code(text), fence(text, "python")) + "\n\nafter")

    assert [each.type for each in tokens] == [
        "html_block", "fence", "html_block", "paragraph_open", "inline", "paragraph_close",
    ]  # fmt: skip
    assert tokens[1].content == block_text(text) + "\n"
    assert re.fullmatch(r"<details><summary><code>[^<>]*</code></summary>\n?", tokens[0].content)


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\ufeff", "\x1b", "\x07", "\x9b", "\u2028"])
def test_what_cannot_be_seen_is_an_escape_everywhere(mark: str) -> None:
    for written in (prose(mark), code(mark), fence(mark + "x"), html_code(mark)):
        assert mark not in written
        assert f"{ord(mark):02x}" in written


def test_colours_go_and_tabs_stay_in_a_block() -> None:
    assert block_text("\x1b[1;31mE\x1b[0m\tx\r\ny\n") == "E\tx\ny"
