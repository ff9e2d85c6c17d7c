"""``bisect-torch completion``: the script by which a shell completes this program's words."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")

_DESCRIPTION = """\
Print the script with which a shell completes commands, options, their values, files, releases, and the
cases of a results file. The words themselves come from the program, so that the script need not be
made anew with a new version.
"""

_EXAMPLES = """\
examples:
  eval "$(bisect-torch completion bash)"      in ~/.bashrc
  eval "$(bisect-torch completion zsh)"       in ~/.zshrc, after autoload -U compinit && compinit
  bisect-torch completion fish > ~/.config/fish/completions/bisect-torch.fish

Typed in a shell, the line for bash or zsh is for that shell alone. Where bash has the package bash-completion, a file
does too, and shells start quicker:
  bisect-torch completion bash > ~/.local/share/bash-completion/completions/bisect-torch
next: bisect-torch --help    in a new shell, where TAB completes it
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``completion`` command."""
    parser = subparsers.add_parser(
        "completion",
        usage="%(prog)s SHELL",
        help="let the shell complete commands, options and names",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def command(args: argparse.Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    from bisect_torch.cli.commands import PROGRAM

    script = shellcode([PROGRAM], shell=args.shell).strip()
    if args.shell != "zsh":  # argcomplete has one text for bash and zsh; only zsh's compinit reads this line
        script = script.removeprefix(f"#compdef {PROGRAM}\n")
    print(script)
    return 0
