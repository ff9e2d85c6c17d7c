"""What a wrong line probably meant, as the hint of its refusal; loaded only for one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

from bisect_torch.cli.commands import PROGRAM
from bisect_torch.errors import UsageError
from bisect_torch.nearest import nearest_names

_LIKELY = 0.75
"""How alike an option must be to stand for one of ours, where it could as well be meant for a script."""

_TOLERANCES = ("--rtol", "--atol")

_VERSION = re.compile(r"v?\d+(\.\d+)+\S*")


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser and of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                yield from options_of(nested)


def what_is_missing(parser: argparse.ArgumentParser, names: Sequence[str]) -> str:
    """What to write in place of arguments that are missing: the commands, where one of them is; else an example."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and action.metavar in names:
            return f"the commands are: {', '.join(action.choices)}; `{parser.prog} --help` says what they do"
    return for_example(parser)


def for_example(parser: argparse.ArgumentParser) -> str:
    """The first example of a command's help page, without what is said beside it."""
    lines = [line.strip() for line in (parser.epilog or "").splitlines() if line.startswith(f"  {parser.prog} ")]
    first = re.split(r"\s{2,}", lines[0])[0] if lines else ""
    return f"for example: {first}" if first else f"`{parser.prog} --help` lists what is accepted"


def unknown_command(word: str, words: Sequence[str], commands: Sequence[str]) -> UsageError:
    """The refusal of a first word that is no command.

    Args:
        words: The line before ``--``, with that word.
        commands: Names of those that there are.
    """
    line = shlex.join([PROGRAM, "run", *words])
    path = Path(word.partition("::")[0])
    near = _nearest(word, commands)
    program = _program(words[list(words).index(word) :])
    if path.suffix == ".parquet":
        hint = f"to see what is in it: {shlex.join([PROGRAM, 'judge', word])}"
    elif os.path.isdir(word):
        hint = f"to run what is in a folder: {line}"
    elif path.suffix == ".py" or os.path.exists(word):
        hint = f"to run a file: {line}"
    elif program is not None:
        hint = f"to run a command: {PROGRAM} run -- {program}"
    else:
        hint = f"did you mean {near!r}?" if near else f"the commands are: {', '.join(commands)}"
    return UsageError(f"unknown command {word!r}", hint=hint)


def unknown_words(
    command: str | None,
    words: Sequence[str],
    unknown: Sequence[str],
    known: Sequence[str],
    *,
    runs_commands: bool,
    owners: Callable[[str], Sequence[str]],
) -> UsageError:
    """The refusal of words that a command does not take.

    Args:
        command: Its name; None where none is named.
        words: The line before ``--``.
        unknown: Those of them that nothing takes.
        known: The options that there are.
        runs_commands: It takes words after ``--``.
        owners: Names of the other commands that have an option.
    """
    option = next((word for word in unknown if word.startswith("-")), None)
    own = list(words[list(words).index(command) + 1 :]) if command is not None else []
    for_script = _for_script(command, own, unknown) if runs_commands else None
    if option is None:
        hint = _one_file(command, own, unknown) or _unexpected(command, unknown, for_script)
        return UsageError(f"unexpected word {unknown[0]!r}", hint=hint)
    name = option.partition("=")[0]
    program = _program(own) if runs_commands else None
    others = [other for other in known if other != name]
    likely = _nearest(name, others, _LIKELY)
    near = _nearest(name, others)
    owned_by = owners(name)
    if program is not None:
        hint = f"to run a command: {PROGRAM} {command} -- {program}"
    elif name == "--version" and "--versions" not in known:
        hint = f"{PROGRAM} --version"
    elif owned_by and name != "--version":
        hints = [f"it belongs to {PROGRAM} {', '.join(owned_by[:3])}{', …' if len(owned_by) > 3 else ''}"]
        if name in _TOLERANCES and runs_commands:
            hints = [_judged_later(own, unknown)]
        if command == "bisect" and name == "--versions":
            hints.append("the builds of a search are named by its ends, --good and --bad")
        if for_script:
            hints.append(f"or, for the script itself: {for_script}")
        hint = "; ".join(hints)
    elif likely is not None or (near is not None and for_script is None):
        other = f" Or, for the script itself: {for_script}" if for_script else ""
        hint = f"did you mean {likely or near}?{other}"
    elif for_script is not None:
        hint = f"what is for the script itself: {for_script}"
    else:
        hint = f"`{_help(command)}` lists them"
    return UsageError(f"unknown option {name!r}", hint=hint)


def _judged_later(own: Sequence[str], unknown: Sequence[str]) -> str:
    """What takes the tolerances that a line of ``run`` or ``bisect`` has: the numbers are there once it has run."""
    given = [word for word in unknown if word.partition("=")[0] in _TOLERANCES or not word.startswith("-")]
    results = next((own[place + 1] for place, word in enumerate(own[:-1]) if word in ("-o", "--output")), None)
    line = shlex.join([PROGRAM, "judge", results or "results.parquet", *given])
    names = ", ".join(f"{name.removeprefix('--')}=…" for name in _TOLERANCES if any(w.startswith(name) for w in given))
    return f"run without it, then judge what check() has stored: {line}; or write check(…, {names})"


def no_such_file(command: str, words: Sequence[str], files: Sequence[str]) -> UsageError | None:
    """The refusal of words that stand where files must, if it is plain that no file was meant.

    Args:
        words: The line before ``--``.
        files: Those that stand there; some do not exist.
    """
    own = list(words[list(words).index(command) + 1 :])
    missing = [name for name in files if not os.path.exists(name.partition("::")[0])]
    first = missing[0]
    for_script = _for_script(command, own, missing)
    if first == files[0] and _program([first]) and not Path(first).suffix and not os.path.isfile(f"{first}.py"):
        line = shlex.join([PROGRAM, command, *_without(own, files), "--", *files])
        hint = f"a command stands after --: {line}"
    elif _VERSION.fullmatch(first):
        hint = f"builds are named by options, several with commas: --versions {','.join(_versions_at(own, first))}"
    elif for_script is not None and not first.endswith(".py"):
        hint = f"what is for the script itself: {for_script}"
    else:
        return None
    return UsageError(f"{first}: no such file", hint=hint)


def _versions_at(own: Sequence[str], word: str) -> list[str]:
    """The word, with the versions that stand directly before and behind it."""
    begin = end = list(own).index(word)
    while begin > 0 and _VERSION.fullmatch(own[begin - 1]):
        begin -= 1
    while end + 1 < len(own) and _VERSION.fullmatch(own[end + 1]):
        end += 1
    return list(own[begin : end + 1])


def no_command(command: str, words: Sequence[str], command_words: Sequence[str], known: Container[str]) -> UsageError:
    """The refusal of ``--`` before an option: nothing that can be started has such a name.

    Args:
        known: The command's own options.
    """
    own = list(words[list(words).index(command) + 1 :])
    for_script = _for_script(command, own, command_words)
    hints = []
    if command_words[0].partition("=")[0] in known:
        hints.append(f"leave -- out: {shlex.join([PROGRAM, command, *own, *command_words])}")
    if for_script:
        hints.append(f"for the script itself: {for_script}")
    return UsageError(
        f"after -- stands a command, and {command_words[0]} is an option",
        hint="; or, ".join(hints) or f"`{_help(command)}` lists what {command} takes",
    )


def late_options(options: Iterable[str], words: Sequence[str]) -> list[str]:
    """Words for another program that look like one of the command's own options, each once.

    Short ones are not looked at: too many programs have a ``-k`` or ``-o``.
    """
    own = {option for option in options if option.startswith("--")}
    names = (word.partition("=")[0] for word in words)
    return list(dict.fromkeys(name for name in names if name in own))


def _one_file(command: str | None, own: Sequence[str], unknown: Sequence[str]) -> str | None:
    """Where further files are named for a command that takes one: that it does, and the line for the first."""
    files = [word.partition("::")[0] for word in unknown]
    if command not in ("bisect", "watch") or not all(name.endswith(".py") and os.path.isfile(name) for name in files):
        return None
    return f"{command} takes one file at a time: {shlex.join([PROGRAM, command, *_without(own, unknown)])}"


def _unexpected(command: str | None, unknown: Sequence[str], for_script: str | None) -> str:
    if command == "bisect" and all(map(_VERSION.fullmatch, unknown)) and len(unknown) == 2:
        return f"the ends have names: --good {unknown[0]} --bad {unknown[1]}"
    if for_script is not None:
        return f"what is for the script itself: {for_script}"
    return f"`{_help(command)}` shows examples"


def _nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    return next(iter(nearest_names(word, known, cutoff=cutoff)), None)


def _help(command: str | None) -> str:
    return f"{PROGRAM} {command} --help" if command else f"{PROGRAM} --help"


def _for_script(command: str | None, own: Sequence[str], unknown: Sequence[str]) -> str | None:
    """The line that gives the words that nothing takes to the script that is named; None where there is none."""
    script = next((word for word in own if word.endswith(".py") and os.path.isfile(word)), None)
    if script is None or command is None:
        return None
    before = own[: own.index(script)][-1:]
    python = before[0] if before and before[0] in ("python", "python3") else "python"
    left = _without(own, [script, *unknown, *(before if before == [python] else ())])
    return shlex.join([PROGRAM, command, *left, "--", python, script, *unknown])


def _without(words: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """Each of the others is taken out once."""
    kept = list(words)
    for word in left_out:
        if word in kept:
            kept.remove(word)
    return kept


def _program(words: Sequence[str]) -> str | None:
    """The words, if the first of them is no file here, but a program: a command without its ``--``."""
    import shutil

    if not words or words[0].startswith("-") or os.path.exists(words[0]) or not shutil.which(words[0]):
        return None
    return shlex.join(words)
