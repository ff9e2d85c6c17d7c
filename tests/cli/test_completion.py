"""The TAB key in real shells: bash, zsh and fish, each skipped where it is not installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_torch.cli.arguments import backend
from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.completing import BACKENDS
from bisect_torch.cli.completion import SHELLS
from bisect_torch.cli.main import main
from bisect_torch.cli.parser import build_parser, parser_of

ROOT = Path(__file__).parents[2]
RESULTS = "decoding.parquet"

COMPLETED: dict[str, set[str]] = {
    "bisect-torch rep": {"report"},
    "bisect-torch re": {"recheck", "releases", "report"},
    "bisect-torch envs pr": {"prune"},
    "bisect-torch run --suite de": {"default", "decoding"},
    "bisect-torch run --isolation ": {"fork", "process"},
    "bisect-torch run --max-": {"--max-memory", "--max-disk"},
    "bisect-torch run --torch-backend x": {"xpu"},
    "bisect-torch run --from 2.4": {"2.4.1"},
    "bisect-torch run --versions 2.4.1,2.5": {"2.4.1,2.5.0", "2.4.1,2.5.1"},
    "bisect-torch run --device m": {"mps"},
    "bisect-torch run --jobs ": set(),
    "bisect-torch run --index-url de": set(),
    "bisect-torch run rep": {"repro.py"},
    "bisect-torch run --from 2.6.0 -- python rep": {"repro.py"},
    "bisect-torch run --pytest --maxfail rep": {"repro.py"},
    "bisect-torch bisect rep": {"repro.py"},
    "bisect-torch report dec": {RESULTS},
    f"bisect-torch report {RESULTS} --format j": {"json", "junit"},
    f"bisect-torch report {RESULTS} two_": {"two_processes", "two_threads"},
    "bisect-torch report missing.parquet two_": set(),
    "bisect-torch completion ": {"bash", "zsh", "fish"},
}
"""A line with the cursor at its end, and the words that the shell offers there."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, a script and results."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "bin").mkdir()
    installed = folder / "bin" / "bisect-torch"
    installed.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m bisect_torch \"$@\"\n")
    installed.chmod(0o755)
    (folder / "repro.py").write_text("")
    shutil.copy(ROOT / "tests" / "data" / RESULTS, folder / RESULTS)
    return folder


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def variables(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BISECT_TORCH_")}
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(place), "TERM": "dumb"}


def said(place: Path, words: list[str]) -> str:
    done = subprocess.run(words, cwd=place, env=variables(place), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_only_zsh_gets_the_line_that_zsh_looks_for(capsys: pytest.CaptureFixture[str]) -> None:
    tagged = []
    for name in SHELLS:
        assert main(["completion", name]) == 0
        tagged += [name] if "#compdef" in capsys.readouterr().out else []
    assert tagged == ["zsh"]


@pytest.mark.parametrize("line", COMPLETED)
def test_bash(place: Path, line: str) -> None:
    """As bash itself calls the function that ``complete`` has been told."""
    program = """
        eval "$(bisect-torch completion bash)"
        function=$(complete -p bisect-torch | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
        COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
        read -ra COMP_WORDS <<< "$1"; [[ $1 == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "$function" bisect-torch "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
        for each in "${COMPREPLY[@]}"; do echo "$each"; done
    """
    offered = said(place, [shell("bash"), "--norc", "-c", program, "bash", line]).splitlines()
    assert {word.strip() for word in offered} == COMPLETED[line]


@pytest.mark.parametrize("line", COMPLETED)
def test_fish(place: Path, line: str) -> None:
    program = 'bisect-torch completion fish | source; complete -C "$argv[1]"'
    offered = said(place, [shell("fish"), "--no-config", "-c", program, line]).splitlines()
    assert {row.partition("\t")[0].strip() for row in offered} == COMPLETED[line]


PREPARED = {
    "bash": """bind -x '"\\C-g": echo "<<$READLINE_LINE>>"'; eval "$(bisect-torch completion bash)"; echo rea""dy\n""",
    "zsh": 'autoload -U compinit && compinit -D -u; shown() { print -r -- "<<$BUFFER>>" }; zle -N shown; '
    """bindkey '^G' shown; eval "$(bisect-torch completion zsh)"; echo rea""dy\n""",
}
"""Sets up the completion, and a key that shows the line as it stands."""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("rep\t", "bisect-torch report"),
        ("run --torch-backend x\t", "bisect-torch run --torch-backend xpu"),
        ("run rep\t", "bisect-torch run repro.py"),
        (f"report {RESULTS} two_t\t", f"bisect-torch report {RESULTS} two_threads"),
    ],
)
@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_keys_in_a_terminal(place: Path, name: str, typed: str, completed: str) -> None:
    """A shell at a terminal is typed to; a key of its own then shows what its line has become."""
    words = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}[name]
    master, slave = pty.openpty()
    with subprocess.Popen(
        [shell(name), *words], cwd=place, env=variables(place), stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        try:
            os.write(master, PREPARED[name].encode())
            read_until(master, "\nready")
            os.write(master, f"bisect-torch {typed}".encode())
            # A key that comes meanwhile would end the completion.
            read_until(master, completed.removeprefix(f"bisect-torch {typed.rstrip()}"))
            os.write(master, b"\x07")
            shown = read_until(master, ">>")
        finally:
            process.kill()
            os.close(master)
    assert shown.rpartition("<<")[2].partition(">>")[0].strip() == completed


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_the_line_of_the_help_page_needs_nothing_else_installed(name: str) -> None:
    """What is set up here without the package bash-completion, and completes, is what the page says first."""
    parser = build_parser(next(each for each in COMMANDS if each[0] == "completion"))[0]
    page = parser_of(parser, "completion")
    assert page is not None
    line = next(line.strip() for line in str(page.epilog).splitlines() if f"completion {name}" in line)
    assert re.split(r"\s{2,}", line)[0] in PREPARED[name]


def read_until(master: int, mark: str, limit_s: float = 30.0) -> str:
    """What the terminal shows, until a text stands in it."""
    shown, end = "", time.monotonic() + limit_s
    while mark not in shown:
        ready, _, _ = select.select([master], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{mark!r} was not shown: {shown[-500:]!r}"
        shown += os.read(master, 4096).decode(errors="replace").replace("\r", "")
    return shown


def test_every_command_is_offered(place: Path) -> None:
    program = 'bisect-torch completion fish | source; complete -C "bisect-torch "'
    offered = said(place, [shell("fish"), "--no-config", "-c", program]).splitlines()
    assert {row.partition("\t")[0] for row in offered} == {name for name, *_ in COMMANDS}


def test_versions_of_environments_that_are_there(place: Path) -> None:
    for name in ("2.9.1-py3.11-pypi-0123456789ab", "2.16.0.dev20261128-py3.12-cpu-0123456789ab"):
        (place / "store" / "envs" / name).mkdir(parents=True, exist_ok=True)
    program = f'set -x BISECT_TORCH_STORE {place}/store; bisect-torch completion fish | source; complete -C "$argv[1]"'
    offered = said(place, [shell("fish"), "--no-config", "-c", program, "bisect-torch envs path "]).splitlines()
    assert offered == ["2.9.1", "2.16.0.dev20261128"]


def test_backends_that_are_offered_are_taken() -> None:
    assert [backend(name) for name in BACKENDS] == list(BACKENDS)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
