"""Results that a results file holds and no matrix shows: of a row only its newest text or command counts. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.columns import telling
from bisect_torch.cases.pytest_suite import COLLECTION
from bisect_torch.model import Observation, beside
from bisect_torch.report.files import COMMANDS, short_names
from bisect_torch.report.rerun import split_words, words_of
from bisect_torch.report.text import clean, listed

_FACTS = ("case_file", "case", "case_file_hash", "run_id")
_MOST_NAMES = 4
_MOST_COMMANDS = 3


@dataclass(frozen=True)
class EarlierText:
    """What rows of a case were seen with before they were seen with something else.

    Args:
        command: The line, where it was another one; empty where a file was.
        file: The file that had another text: the case file, or one that a command names.
    """

    case_file: str
    case: str
    command: str = ""
    file: str = ""


def earlier_texts(
    observations: Sequence[Observation], shown: Sequence[Observation], runs: Sequence[Mapping[str, object]]
) -> tuple[EarlierText, ...]:
    """What is in a results file and stands in no series, in the order in which it was recorded, each once.

    Of columns each combination of a few facts is looked at, and no row.

    Args:
        observations: All that the file holds.
        shown: Those that stand in a series (:func:`~bisect_torch.analysis.counted`).
        runs: Manifests of the runs that made them.
    """
    if len(shown) == len(observations):
        return ()
    texts = {(each.case_file, each.case, each.case_file_hash) for each in telling(shown, _FACTS)}
    every = [each for each in telling(observations, _FACTS) if each.case != COLLECTION]
    lines = {run.get("run_id"): split_words(words_of(run))[1][1:] for run in runs}
    found = [
        EarlierText(each.case_file, each.case, command=shlex.join(lines.get(each.run_id, ())))
        if each.case_file == COMMANDS
        else EarlierText(each.case_file, each.case, file=each.case_file)
        for each in every
        if (each.case_file, each.case, each.case_file_hash) not in texts
    ]
    if any(each.case_file == COMMANDS for each in every):
        found += _edited_scripts(observations, shown)
    return tuple(dict.fromkeys(each for each in found if each.command or each.file))


def _edited_scripts(observations: Sequence[Observation], shown: Sequence[Observation]) -> list[EarlierText]:
    """Files that a command names and that had another text when the same command ran before."""

    def texts(of: Sequence[Observation]) -> dict[tuple[str, str, str], EarlierText]:
        return {
            (each.case_file_hash, name, digest): EarlierText(each.case_file, each.case, file=name)
            for each in telling(of, ("case_file", "case", "case_file_hash", "local_modules"))
            if each.case_file == COMMANDS
            for name, digest in beside(each.local_modules).modules.items()
        }

    now = texts(shown)
    same_words = {(words, name) for words, name, _ in now}
    return [told for key, told in texts(observations).items() if key not in now and key[:2] in same_words]


def earlier_words(found: Sequence[EarlierText]) -> list[str]:
    """A sentence for each case with an earlier command, and one for all files."""
    commands: dict[str, list[str]] = {}
    for each in found:
        if each.command:
            commands.setdefault(each.case, []).append(f"`{clean(each.command)}`")
    told = [
        f"{clean(case)}: results of {'an earlier command' if len(lines) == 1 else 'earlier commands'} "
        f"({listed(lines, most=_MOST_COMMANDS)}) are in the results file and not shown; another file (-o) keeps both."
        for case, lines in commands.items()
    ]
    files = list(dict.fromkeys(each.file for each in found if each.file))
    if files:
        names = short_names(files)
        those = listed([clean(names[file]) for file in files], most=_MOST_NAMES)
        told.append(f"Results of an earlier text of {those} are in the results file and not shown.")
    return told
