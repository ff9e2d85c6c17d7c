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
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from bisect_torch.cli import output
from bisect_torch.cli.commands import COMMANDS, PROGRAM, Command
from bisect_torch.cli.parser import build_parser, chosen_by, parser_of, with_late_names
from bisect_torch.cli.words import before_dashes, before_pytest
from bisect_torch.errors import BisectTorchError, InfrastructureError, UsageError

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Words after the program's name; those of the process when None.

    Returns:
        The exit code: see :data:`~bisect_torch.cli.commands.EXAMPLES`.
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
    chosen = chosen_by(own)
    parser, module = build_parser(chosen)
    if pytest_words and chosen is not None and chosen[3]:
        from bisect_torch.cli.pytest_words import refuse_ours

        refuse_ours(parser_of(parser, chosen[0]) or parser, own, pytest_words)
    args, unknown = parser.parse_known_args(own)
    unknown = with_late_names(parser, args, unknown)
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


def _late_options(parser: argparse.ArgumentParser, command: str, words: Sequence[str]) -> list[str]:
    """Words for another program that look like options of the command."""
    if not words:
        return []
    from bisect_torch.cli import meant

    return meant.late_options(meant.options_of(parser_of(parser, command) or parser), words)


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

    return set(meant.options_of(build_parser(command)[0]))
