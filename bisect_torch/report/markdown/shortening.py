"""How far a report is shortened so that GitHub takes it, step by step, in an order that is stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

LIMIT = 65_536
"""GitHub refuses an issue or comment with more characters: "body is too long (maximum is 65536 characters)"."""

ROOM = LIMIT - 1_536
"""What a report takes at most, counted in bytes of UTF-8, of which there are never fewer than characters."""

LINE = 120
"""Characters of a usual line."""


@dataclass(frozen=True)
class Detail:
    """What a report has.

    Args:
        neighbours: The modules that a case file imports.
        older_environment: The environment of the older end as well.
        output_lines: Of each traceback, stack and output.
        code_lines: Of each case file.
        full: Findings that have more than their sentence.
        rows: Of the matrix, where it is folded to ranges, and of other lists.
    """

    neighbours: bool = True
    older_environment: bool = True
    output_lines: int = 400
    code_lines: int = 500
    full: int = 100
    rows: int = 100


@dataclass
class Cuts:
    """What was left out while a report was written, in the order in which it was."""

    words: dict[str, None] = field(default_factory=dict)

    def note(self, what: str) -> None:
        """Remember that something was left out.

        Args:
            what: In plain words; once is enough.
        """
        self.words[what] = None

    def told(self) -> list[str]:
        """The paragraph that says so; none where nothing was left out."""
        words = "; ".join(self.words)
        return [f"*Left out to fit GitHub's limit: {words}. The results file has all of it.*"] if words else []


def steps(findings: int) -> Iterator[Detail]:
    """From everything to least.

    1. the texts of modules that a case file imports
    2. the environment of the older end (what differs stays)
    3. the middle of tracebacks and output, down to 60 lines, then 20
    4. of the code, what is beyond 200 lines, then 60
    5. everything but the sentence of the least severe findings, half of those that are left each time
    6. all code and output of the last one
    7. the rows of the matrix and the sentences beyond 20, then 5, then 1
    """
    detail = Detail()
    yield detail
    for change in (
        {"neighbours": False},
        {"older_environment": False},
        {"output_lines": 60},
        {"output_lines": 20},
        {"code_lines": 200},
        {"code_lines": 60},
    ):
        detail = replace(detail, **change)
        yield detail
    full = min(findings, detail.full)
    while full > 1:
        full //= 2
        yield (detail := replace(detail, full=full))
    yield (detail := replace(detail, output_lines=5, code_lines=0))
    for rows in (20, 5, 1):
        yield replace(detail, rows=rows, full=0)


def shortened(text: str, lines: int) -> tuple[str, bool]:
    """The first third and the last two thirds of a text, and whether something between them was left out.

    Args:
        lines: At most, and no more characters than so many lines of :data:`LINE` have.
    """
    most = lines * LINE
    cut = len(text) > most
    if cut:
        head = most // 3
        left = f"[… {len(text) - most} characters left out …]"
        text = f"{text[:head]}\n{left}\n{text[head - most :]}"
    parts = text.split("\n")
    if len(parts) <= lines:
        return text, cut
    head = lines // 3
    left = f"[… {len(parts) - lines} lines left out …]"
    return "\n".join([*parts[:head], left, *parts[len(parts) - (lines - head) :]]), True
