"""Tracebacks, output and measurements: cleaned, and cut where all of them together would make the page too big."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bisect_torch.report.text import clean_lines, plural

BUDGET = 6_000_000
"""Characters of all different long texts together."""

_STEPS = (100_000, 30_000, 10_000, 4_000, 1_500, 600, 250)


def limit_for(texts: Iterable[str | None]) -> int:
    """How many characters of each text are kept, so that the different ones fit into :data:`BUDGET`; the last step
    where none fits."""
    sizes = [len(text) for text in {text for text in texts if text}]
    return next((step for step in _STEPS if sum(min(size, step) for size in sizes) <= BUDGET), _STEPS[-1])


def shortened(limit: int) -> Callable[[str | None], str | None]:
    """What is shown of a text: its first third and its end, where the error usually stands."""

    def of(text: str | None) -> str | None:
        if text is None or len(text) <= limit:
            return text and clean_lines(text)
        head = limit // 3
        left_out = plural(len(text) - limit, "character")
        return (
            f"{clean_lines(text[:head])}\n… {left_out} left out here; the results file has all …\n"
            f"{clean_lines(text[len(text) - limit + head :])}"
        )

    return of
