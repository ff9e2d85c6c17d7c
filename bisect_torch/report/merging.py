"""What merging several results files came to, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bisect_torch.analysis.columns import ROW, telling
from bisect_torch.model import Observation
from bisect_torch.report.retyped import shell_line, typed
from bisect_torch.report.text import Line, clean, listed, plural, wrap
from bisect_torch.results.merging import Merged, Part

MOST = 20
"""Conflicts, and cells that differ, that are named; the others are counted."""


def merge_lines(
    parts: Sequence[Part],
    merged: Merged,
    output: str,
    width: int,
    *,
    left_out: int | None = None,
    added_to_first: bool = False,
) -> list[Line]:
    """The whole text, in lines of at most ``width`` columns.

    Args:
        left_out: Observations of rows that were not chosen, which are not among the parts; None where there was nothing
            to choose.
        added_to_first: The first part is the file that was written.
    """
    lines: list[Line] = []
    for text in _texts(parts, merged, output, left_out, len(parts[0].observations) if added_to_first else 0):
        indent = " " * (len(text) - len(text.lstrip(" ")))
        words = text.strip().split(" ")
        lines += [((line, ""),) for line in wrap([indent + words[0], *words[1:]], width, indent=indent + "  ")]
    return lines


def _texts(parts: Sequence[Part], merged: Merged, output: str, left_out: int | None, own: int) -> Iterator[str]:
    for part in parts:
        yield f"{clean(part.name)}: {_size(part.observations, len(part.metadata.runs))}"
    if left_out is not None:
        some = f"left out: {plural(left_out, 'observation')} of rows that -k does not choose"
        yield some if left_out else "nothing is left out: -k chooses every row"
    added = f" ({len(merged.observations) - own:,} of them added)" if own else ""
    yield f"{clean(output)}: {_size(merged.observations, len(merged.metadata.runs), added)}" + (
        f"; {plural(merged.repeated, 'record was', 'records were')} in more than one file, kept once"
        if merged.repeated
        else ""
    )
    yield from _conflicts(merged)
    yield from _disagreements(merged)
    if merged.beside:
        yield (
            f"{plural(merged.beside, 'observation is', 'observations are')} kept, but no matrix shows "
            f"{'it, since a newer one stands' if merged.beside == 1 else 'them, since newer ones stand'} for the same: "
            "of a row those with the newest case text, machine and device count, and of a cell the newest key and run"
        )
    yield f"the matrix of all of it: {clean(shell_line(['bisect-torch', 'judge', typed(output)]))}"


def _size(observations: Sequence[Observation], runs: int, added: str = "") -> str:
    """Also in the terms of the matrix, so that it is seen whether parts make a whole."""
    rows = {(each.case_file, each.instance, each.device) for each in telling(observations, ROW)}
    builds = {each.build_name for each in telling(observations, ("build_name",))}
    matrix = f": {plural(len(rows), 'row')} on {plural(len(builds), 'build')}" if rows else ""
    return f"{plural(len(observations), 'observation')}{added} of {plural(runs, 'run')}{matrix}"


def _conflicts(merged: Merged) -> Iterator[str]:
    if merged.conflicts:
        yield f"{plural(len(merged.conflicts), 'conflict')}: the same observation, and not the same facts:"
    for each in merged.conflicts[:MOST]:
        fields = listed(each.fields, most=5)
        yield (
            f"  {_place(each.kept)}, repeat {each.kept.repeat}: {fields}; "
            f"that of {clean(each.kept_of)} is kept, not that of {clean(each.other_of)}"
        )
    yield from _more(len(merged.conflicts) - MOST)
    if merged.other_texts:
        several = "texts have" if len(merged.other_texts) > 1 else "text has"
        hashes = listed([digest[:12] for digest in merged.other_texts])
        yield f"{len(merged.other_texts)} {several} the hash of another one, in a lock or case file: {hashes}"


def _disagreements(merged: Merged) -> Iterator[str]:
    if merged.disagreements:
        count = plural(len(merged.disagreements), "cell differs", "cells differ")
        yield f"{count} between the files, as a flaky one does; of the same repeat the newest run counts:"
    for each in merged.disagreements[:MOST]:
        answers = [f"{listed(said)} in {clean(name)}" for name, said in each.answers.items()]
        yield f"  {_place(each.cell)}: {clean(listed(answers))}"
    yield from _more(len(merged.disagreements) - MOST)


def _place(observation: Observation) -> str:
    return f"{clean(observation.instance)} on {clean(observation.build_name)} ({clean(observation.device)})"


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"  and {number:,} more"
