"""The command line: find the command, import only its module, turn errors into exit codes.

A command's module has ``add_parser(subparsers) -> None``, which adds one parser under the command's own name, and
``command(args) -> int``. What follows ``--`` never reaches argparse, whose treatment of it differs between Pythons: it
arrives as ``args.command_words`` (a list; None without ``--``), and so does what follows ``--pytest``, as
``args.pytest_words``. ``args.own_words`` (what stands before), ``args.late_options`` (what of the rest looks like an
option of the command) and ``args.debug`` are there for every command.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from bisect_torch.cli import output
from bisect_torch.cli.words import before_dashes, before_pytest
from bisect_torch.errors import BisectTorchError, InfrastructureError, UsageError

PROGRAM = "bisect-torch"

_OBJECTS_BETWEEN_COLLECTIONS = 100_000

Command = tuple[str, str, str, bool]
"""Name, module, one line of help, whether words after ``--`` make sense."""

COMMANDS: tuple[Command, ...] = (
    ("run", "bisect_torch.cli.run", "run cases on every release and say what changed where", True),
    ("bisect", "bisect_torch.cli.bisect", "find the release that changed it, with few installs", True),
    ("recheck", "bisect_torch.cli.recheck", "does a new build fix what was bad in earlier results?", False),
    ("verify", "bisect_torch.cli.verify", "run the claims of somebody's results here", False),
    ("watch", "bisect_torch.cli.watch", "run a file again on every save, on workers that stay warm", False),
    ("new", "bisect_torch.cli.new", "a script or case file from the text of a bug report", False),
    ("judge", "bisect_torch.cli.judge", "judge results again with other tolerances, without running", False),
    ("report", "bisect_torch.cli.report", "a bug report, a page, a picture or data from results", False),
    ("compare", "bisect_torch.cli.compare", "two machines, devices or days: what differs, what is equal", False),
    ("merge", "bisect_torch.cli.merge", "one results file from several", False),
    ("attribute", "bisect_torch.cli.attribute", "torch, or one of its dependencies?", False),
    ("decoding", "bisect_torch.cli.decoding", "what changes the greedy output of a language model", False),
    ("doctor", "bisect_torch.cli.doctor", "what is missing on this machine, and how to mend it", False),
    ("completion", "bisect_torch.cli.completion", "let the shell complete commands, options and names", False),
    ("releases", "bisect_torch.cli.releases", "list the torch builds that can be installed here", False),
    ("envs", "bisect_torch.cli.envs", "build, list, check and remove the environments of releases", False),
)

EXAMPLES = """\
examples:
  bisect-torch doctor                                     is all here that a run needs?
  bisect-torch run                                        the shipped cases on every release since 2.4.1
  bisect-torch run repro.py --from 2.6.0 --to 2.9.1       your script, from the last good to the first bad release
  bisect-torch run cases.py -k bmm --versions 2.8.0,2.9.1,/opt/venv/bin/python
  bisect-torch run --from 2.6.0 -- python train.py --steps 3
  bisect-torch bisect repro.py --good 2.6.0 --bad 2.9.0   which release broke it, with few installs
  bisect-torch judge results.parquet --rtol 1e-3          other tolerances, no re-run
  bisect-torch report results.parquet repro               a bug report for GitHub; also html, png, json, csv, junit
  bisect-torch attribute results.parquet repro            torch, or one of its dependencies?

exit codes: 0 all good at the newest build, 1 something is bad there, 2 usage, 3 could not be judged, 130 interrupted
next: bisect-torch run --help    each command has examples of its own
"""


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
            raise UsageError(f"{' and '.join(names)} {are} missing", hint=meant.for_example(self))
        hint = f"`{self.prog} --help` lists what is accepted"
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = nearest_names(wrong[1], re.findall(r"[\w-]+", wrong[2])) if wrong else []
        raise UsageError(message, hint=f"did you mean {near[0]!r}?" if near else hint)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Words after the program's name; those of the process when None.

    Returns:
        The exit code: see :data:`EXAMPLES`.
    """
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could stand at the cursor
        from bisect_torch.cli.completing import complete

        complete()
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # this process is the tool's own
        # Nearly all objects of a short command are modules' own, and stay: looking for garbage among them while they
        # are loaded is a tenth of the time that a second run takes.
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        from bisect_torch.cli.left_out import UNUSED, LeftOut

        # matplotlib, for pictures of a report, does need numpy.
        sys.meta_path.insert(0, LeftOut(UNUSED - {"numpy"} if words[:1] == ["report"] else UNUSED))
    debug = "--debug" in before_dashes(words)[0] or os.environ.get("BISECT_TORCH_DEBUG", "") not in ("", "0")
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BisectTorchError as error:
        if debug:
            output.print_traceback(error)
        return output.print_expected(error)
    except KeyboardInterrupt:
        output.print_error("interrupted")
        return 130
    except BrokenPipeError:
        output.drop_stdout()
        return 141  # what a shell shows for a program that SIGPIPE ended
    except OSError as error:
        # Always the machine's: a disk that fails, a folder that may not be entered. What is met often says more.
        if debug:
            output.print_traceback(error)
        return output.print_expected(_of_the_machine(error))
    except SystemExit as stop:  # argparse, after --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:  # noqa: BLE001 - the outermost edge: nothing above could say it better
        if _comes_of_an_interrupt(error):
            output.print_error("interrupted")
            return 130
        return output.print_unexpected(error, debug=debug)


def _comes_of_an_interrupt(error: BaseException) -> bool:
    """Python makes a RuntimeError of whatever is raised while a class is made, and C code a SystemError."""
    before = error.__cause__ or error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or _comes_of_an_interrupt(before))


def _of_the_machine(error: OSError) -> InfrastructureError:
    said = error.strerror or str(error).partition("\n")[0] or type(error).__name__
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return InfrastructureError(f"{where}{said}", hint="run again with --debug for the traceback")


def _dispatch(words: Sequence[str]) -> int:
    words, pytest_words = before_pytest(words)
    own, command_words = before_dashes(words)
    chosen = _chosen(own)
    parser, module = _build_parser(chosen)
    args, unknown = parser.parse_known_args(own)
    unknown = _with_late_names(parser, args, unknown)
    if unknown:
        raise _unknown_words(parser, chosen, own, unknown)
    if chosen is None or module is None:
        if command_words is not None:
            raise UsageError("a command is missing before --", hint=f"{PROGRAM} run -- COMMAND ARGS…")
        parser.print_help()
        return 0
    if command_words is not None and not chosen[3]:
        raise UsageError(f"{chosen[0]} takes no command after --", hint=f"`{PROGRAM} run -- COMMAND` runs one")
    if command_words is not None and not command_words:
        raise UsageError("there is no command after --", hint=f"{PROGRAM} {chosen[0]} -- COMMAND ARGS…")
    if command_words is not None and command_words[0].startswith("-"):
        from bisect_torch.cli.meant import no_command, options_of

        raise no_command(chosen[0], own, command_words, frozenset(options_of(parser)))
    if pytest_words is not None and not chosen[3]:
        raise UsageError(f"{chosen[0]} takes no --pytest", hint=f"`{PROGRAM} run --pytest tests` runs a suite")
    args.own_words = own
    args.late_options = _late_options(parser, chosen[0], command_words or pytest_words or [])
    args.command_words = command_words
    args.pytest_words = pytest_words
    args.debug = getattr(args, "debug", False)
    return _command(module, args)


def _command(module: ModuleType, args: argparse.Namespace) -> int:
    from bisect_torch.interruption import interruptible
    from bisect_torch.redaction import conceal

    with interruptible():
        conceal()
        return int(module.command(args))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of an earlier command line, as a results file keeps it.

    Raises:
        UsageError: It cannot be understood, or not any more.
    """
    kept, pytest_words = before_pytest(words)
    own, command_words = before_dashes(kept)
    chosen = _chosen(own)
    if chosen is None:
        raise UsageError(
            f"there is no command in {' '.join(words)!r}", hint="run the cases again, with a line of your own"
        )
    parser = _build_parser(chosen)[0]
    args, unknown = parser.parse_known_args(own)
    unknown = _with_late_names(parser, args, unknown)
    if unknown:
        raise UsageError(
            f"unknown words in an earlier command line: {' '.join(unknown)}",
            hint="it was written by another version of bisect-torch: use that, or run the cases again",
        )
    args.command_words = command_words
    args.pytest_words = pytest_words
    return args


def _chosen(words: Sequence[str]) -> Command | None:
    """The command that the first word names; options of the program itself may stand before it."""
    word = next((word for word in words if not word.startswith("-")), None)
    if word is None:
        return None
    for command in COMMANDS:
        if command[0] == word:
            return command
    from bisect_torch.cli.meant import unknown_command

    raise unknown_command(word, words, [command[0] for command in COMMANDS])


def _build_parser(chosen: Command | None) -> tuple[Parser, ModuleType | None]:
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


def _with_late_names(parser: argparse.ArgumentParser, args: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Give names that stand behind an option to the argument that takes any number of them: argparse has closed it.

    Returns:
        What is still unknown.
    """
    named = _named(parser, getattr(args, "command_name", None) or "")
    many = [action for action in named._actions if action.nargs in ("*", "+")] if named is not None else []
    if len(many) != 1 or any(word.startswith("-") for word in unknown):
        return unknown
    convert = many[0].type if callable(many[0].type) else str
    setattr(args, many[0].dest, [*(getattr(args, many[0].dest) or []), *map(convert, unknown)])
    return []


def _named(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser | None:
    """The parser of a command."""
    commands = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((choices[name] for choices in commands if name in choices), None)


def _late_options(parser: argparse.ArgumentParser, command: str, words: Sequence[str]) -> list[str]:
    """Words for another program that look like options of the command."""
    if not words:
        return []
    from bisect_torch.cli import meant

    return meant.late_options(meant.options_of(_named(parser, command) or parser), words)


def _unknown_words(
    parser: argparse.ArgumentParser, chosen: Command | None, own: Sequence[str], unknown: Sequence[str]
) -> UsageError:
    from bisect_torch.cli import meant

    def owners(option: str) -> list[str]:
        return [each[0] for each in COMMANDS if each is not chosen and option in _options_of(each)]

    return meant.unknown_words(
        chosen[0] if chosen is not None else None,
        own,
        unknown,
        list(meant.options_of(parser)),
        runs_commands=chosen is not None and chosen[3],
        owners=owners,
    )


def _options_of(command: Command) -> set[str]:
    from bisect_torch.cli import meant

    return set(meant.options_of(_build_parser(command)[0]))
