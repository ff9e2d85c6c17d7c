"""The parser: every command by its name, the options of the one that is meant, and errors in the tool's own words."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from bisect_torch.cli.commands import COMMANDS, EXAMPLES, PROGRAM, Command
from bisect_torch.cli.words import before_dashes, before_pytest
from bisect_torch.errors import UsageError


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps a text unless it has lines of its own, and names a value once: ``-o, --output FILE``."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=_columns() - 2)

    def add_argument(self, action: argparse.Action) -> None:
        """As argparse's, with room for the names of commands."""
        super().add_argument(action)
        # argparse forgets that the names of commands stand further in than options.
        names = [self._format_action_invocation(each) for each in self._iter_indented_subactions(action)]
        inside = self._current_indent + self._indent_increment
        self._action_max_length = max([self._action_max_length, *(len(name) + inside for name in names)])

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def _columns() -> int:
    """As shutil.get_terminal_size tells, which loads four compression libraries for it."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, whose errors are :class:`UsageError`."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs["allow_abbrev"] = False
        kwargs.setdefault("formatter_class", Formatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise what the outermost edge prints, instead of printing it here.

        Raises:
            UsageError: Always.
        """
        from bisect_torch.cli import meant
        from bisect_torch.nearest import nearest_names

        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            # argparse counts those in that may be left out, where another one is missing.
            spare = {str(action.metavar) for action in self._actions if action.nargs in ("*", "?")}
            names = [name for name in missing.split(", ") if name not in spare]
            are = "is" if len(names) == 1 else "are"
            raise UsageError(f"{' and '.join(names)} {are} missing", hint=meant.what_is_missing(self, names))
        hint = f"`{self.prog} --help` lists what is accepted"
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = nearest_names(wrong[1], re.findall(r"[\w-]+", wrong[2])) if wrong else []
        raise UsageError(message, hint=f"did you mean {near[0]!r}?" if near else hint)


def build_parser(chosen: Command | None) -> tuple[Parser, ModuleType | None]:
    """The program's parser and the module of a command, whose options it has; of the others it has the names alone."""
    parser = Parser(
        prog=PROGRAM,
        description="Which PyTorch release broke it, which one fixed it: the same cases in an isolated, locked "
        "environment for each release.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version and stop")
    _add_debug(parser)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command_name")
    module: ModuleType | None = None
    for command in COMMANDS:
        if command is chosen:
            module = importlib.import_module(command[1])
            module.add_parser(subparsers)
            _add_debug(subparsers.choices[command[0]])
        else:
            subparsers.add_parser(command[0], help=command[2])
    return parser, module


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks (also BISECT_TORCH_DEBUG=1)"
    )


class _PrintVersion(argparse.Action):
    """Looks the version up only when it is asked for: the look-up is slower than all the rest of --help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            version = metadata.version(PROGRAM)
        except metadata.PackageNotFoundError:
            version = "(not installed: running from a checkout)"
        sys.stdout.write(f"{PROGRAM} {version}\n")
        parser.exit()


def parser_of(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser | None:
    """The parser of a command."""
    commands = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((choices[name] for choices in commands if name in choices), None)


def with_late_names(parser: argparse.ArgumentParser, args: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Give names that stand behind an option to the argument that takes any number of them: argparse has closed it.

    Returns:
        What is still unknown.
    """
    named = parser_of(parser, getattr(args, "command_name", None) or "")
    many = [action for action in named._actions if action.nargs in ("*", "+")] if named is not None else []
    if len(many) != 1 or any(word.startswith("-") for word in unknown):
        return unknown
    convert = many[0].type if callable(many[0].type) else str
    setattr(args, many[0].dest, [*(getattr(args, many[0].dest) or []), *map(convert, unknown)])
    return []


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of an earlier command line, as a results file keeps it.

    Raises:
        UsageError: It cannot be understood, or not any more.
    """
    kept, pytest_words = before_pytest(words)
    own, command_words = before_dashes(kept)
    chosen = chosen_by(own)
    if chosen is None:
        raise UsageError(
            f"there is no command in {' '.join(words)!r}", hint="run the cases again, with a line of your own"
        )
    parser = build_parser(chosen)[0]
    args, unknown = parser.parse_known_args(own)
    unknown = with_late_names(parser, args, unknown)
    if unknown:
        raise UsageError(
            f"unknown words in an earlier command line: {' '.join(unknown)}",
            hint="it was written by another version of bisect-torch: use that, or run the cases again",
        )
    args.command_words = command_words
    args.pytest_words = pytest_words
    return args


def chosen_by(words: Sequence[str]) -> Command | None:
    """The command that the first word names; options of the program itself may stand before it.

    Raises:
        UsageError: There is no such command.
    """
    word = next((word for word in words if not word.startswith("-")), None)
    if word is None:
        return None
    for command in COMMANDS:
        if command[0] == word:
            return command
    from bisect_torch.cli.meant import unknown_command

    raise unknown_command(word, words, [command[0] for command in COMMANDS])
