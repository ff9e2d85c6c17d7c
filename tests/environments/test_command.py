"""``bisect-torch envs``: data on stdout, progress on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.cli.main import main
from bisect_torch.environments import stamp
from bisect_torch.model import Build, BuildKind, Environment, Variant
from tests.environments.conftest import Workshop
from tests.support.wheels import fake_torch


def _envs(workshop: Workshop, *words: str) -> int:
    where = ["--store", str(workshop.store.root)]
    return main(["envs", *words, *where])


def _build(workshop: Workshop, *words: str) -> int:
    return _envs(workshop, "build", "--python", sys.executable, "--index-url", workshop.index.url, *words)


def test_build_list_path_remove(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    assert _build(workshop, "--versions", "2.4.1,2.5.0") == 0
    built = capsys.readouterr()
    lines = [line.split("\t") for line in built.out.splitlines()]
    assert [version for version, _ in lines] == ["2.4.1", "2.5.0"]
    assert "2 environments to build" in built.err
    assert "2.5.0: checking" in built.err

    assert _envs(workshop, "list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["torch_version"], row["python"]) for row in rows] == [
        ("2.4.1", "2.4.1", lines[0][1]),
        ("2.5.0", "2.5.0", lines[1][1]),
    ]
    assert _envs(workshop, "list") == 0
    assert capsys.readouterr().out.count("\n") == 2

    assert _envs(workshop, "path", "2.5.0") == 0
    assert capsys.readouterr().out == f"{lines[1][1]}\n"

    assert _envs(workshop, "remove", "2.4.1") == 0
    assert not Path(lines[0][1]).exists()
    assert Path(lines[1][1]).exists()
    capsys.readouterr()
    assert _envs(workshop, "path", "2.4.1") == 2
    assert "hint: there are: 2.5.0" in capsys.readouterr().err


def test_one_build_that_fails_does_not_stop_the_others(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    workshop.serve(fake_torch("2.4.2", "raise ImportError('no good')", upload_time="2024-09-10"))
    assert _build(workshop, "--from", "2.4.1", "--to", "2.5.0") == 3
    shown = capsys.readouterr()
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["2.4.1", "2.5.0"]
    assert "2.4.2: import torch: ImportError: no good" in shown.err
    assert "error: 1 of 3 environments could not be built" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remove"], "name the versions to remove, or --all"),
        (["remove", "2.4.1", "--all"], "name the versions to remove, or --all"),
        (["build", "--with", "not a requirement!"], "not a requirement"),
        (["build", "--with", "torch==2.0"], "each environment has its own torch"),
        (["build", "--with-editable", "/nowhere"], "no project there"),
        (["build", "--python", "three"], "not a version such as 3.12"),
        (["build", "--python", "/bin/false"], "not a Python interpreter that can be started"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert _envs(workshop, *words) == 2
    assert said in capsys.readouterr().err


def test_help_of_the_command_loads_nothing_heavy() -> None:
    program = (
        "import sys; from bisect_torch.cli.main import main; main(['envs', 'build', '--help']);"
        "print([name for name in ('rich', 'pyarrow', 'requests', 'filelock', 'uv') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"


def _stamped(workshop: Workshop, name: str, *, age_s: float = 0.0, **changes: object) -> Environment:
    """An environment that is there by its stamp alone, as far as these commands look."""
    like = _LIKE if not changes else replace(_LIKE, **changes)  # type: ignore[arg-type]
    root = workshop.store.envs / name
    inside = root / "lib" / "python3.11" / "site-packages"
    for package in like.packages:
        info = inside / f"{package}-1.dist-info"
        info.mkdir(parents=True)
        required = "".join(f"Requires-Dist: {each}\n" for each in _REQUIRED.get(package, ()))
        (info / "METADATA").write_text(f"Name: {package}\n{required}\nRequires-Dist: no\n")
    made = replace(like, root=root, python=root / "bin" / "python")
    stamp.write(made, "0")
    os.utime(root, (1e9 - age_s, 1e9 - age_s))
    return made


_REQUIRED = {
    "torch": ["sympy", "toolkit[cublas, cufft]==13 ; sys_platform == 'linux'"],
    "toolkit": ["cufft==12.* ; extra == 'cufft'"],
    "torchvision": ["numpy", "pillow", 'pytest; extra == "test"'],
}
_PLAIN = {"torch": "2.9.1", "sympy": "1.14.0", "numpy": "2.3.4", "toolkit": "13", "cufft": "12.1"}
_LIKE = Environment(
    build=Build(BuildKind.RELEASE, "2.9.1", "2.9.1"),
    root=Path(),
    python=Path(),
    python_version="3.11.7",
    lock_hash="0" * 64,
    packages=_PLAIN,
    torch_version="2.9.1",
    git_commit=None,
    cuda=None,
    backend="pypi",
)
_VISION = {**_PLAIN, "torchvision": "0.24.1", "pillow": "12.0.0"}


def test_environments_of_one_release_are_told_apart_and_each_can_be_picked(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = _stamped(workshop, "plain", age_s=50)
    vision = _stamped(workshop, "vision", packages=_VISION)
    tests = _stamped(workshop, "tests", packages={**_PLAIN, "pytest": "8.4.2"})
    newer = _stamped(workshop, "newer", python_version="3.12.4", age_s=100)
    older = _stamped(workshop, "older", packages={**_PLAIN, "numpy": "1.26.4"}, age_s=100)

    assert _envs(workshop, "path", "2.9.1") == 0
    shown = capsys.readouterr()
    assert shown.out == f"{plain.python}\n"
    assert shown.err.splitlines() == [
        "note: 5 environments of 2.9.1 fit; this is the first of them",
        "  Python 3.11.7, pypi, with numpy 2.3.4",
        "  Python 3.11.7, pypi, with numpy 1.26.4: picked by --with numpy==1.26.4",
        "  Python 3.11.7, pypi, with pytest 8.4.2: picked by --with pytest",
        "  Python 3.11.7, pypi, with torchvision 0.24.1: picked by --with torchvision",
        "  Python 3.12.4, pypi: picked by --python 3.12",
    ]
    for options, picked in [
        (["--with", "numpy==1.26.4"], older),
        (["--with", "pytest"], tests),
        (["--with", "torchvision>=0.24"], vision),
        (["--python", "3.12"], newer),
    ]:
        assert _envs(workshop, "path", "2.9.1", *options) == 0
        assert capsys.readouterr().out == f"{picked.python}\n"

    assert _envs(workshop, "path", "2.9.1", "--with", "scipy") == 2
    refused = capsys.readouterr().err
    assert "no environment of 2.9.1 is the one that was asked for" in refused
    assert "Python 3.12.4, pypi" in refused


def test_of_many_environments_few_are_told(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    many = {f"extra{number}": "1" for number in range(7)}
    for number in range(9):
        _stamped(workshop, f"{number}", python_version=f"3.{9 + number}.1", packages={**_PLAIN, **many})
        version = f"2.{number}.0"
        _stamped(workshop, f"build {number}", build=Build(BuildKind.RELEASE, version, version))

    assert _envs(workshop, "path", "2.9.1") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    assert max(map(len, lines)) < 120
    assert lines[1].endswith(", pypi, with extra0 1, extra1 1, extra2 1, extra3 1 and 3 more")
    assert lines[-1] == "  and 3 more: `bisect-torch envs list` has all"
    assert _envs(workshop, "path", "2.9.1", "--python", "3.99") == 2
    assert " and 3 more: `bisect-torch envs list` has all\n" in capsys.readouterr().err
    assert _envs(workshop, "path", "2.8") == 2
    assert "hint: there are: 2.8.0, 2.0.0, 2.1.0, 2.2.0, 2.3.0, 2.4.0 and 4 more; " in capsys.readouterr().err
    _stamped(workshop, "patch", build=Build(BuildKind.RELEASE, "2.2.1", "2.2.1"))  # less like it than 2.3.0
    assert _envs(workshop, "path", "2.88.0") == 2
    assert "hint: there are: 2.8.0, 2.0.0, 2.1.0, 2.2.0, 2.2.1, 2.3.0 and 5 more; " in capsys.readouterr().err
    hybrid = Build(BuildKind.RELEASE, "2.0.0", "2.0.0").with_variant(Variant("numpy==2.3.4"))
    _stamped(workshop, "hybrid", build=hybrid)
    assert _envs(workshop, "path", "x") == 2
    assert "hint: there are: 2.0.0, 2.1.0, 2.2.0, 2.2.1, 2.3.0, 2.4.0 and 6 more; " in capsys.readouterr().err


def test_environments_are_listed_by_release_then_by_what_tells_them_apart(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    def release(version: str) -> Build:
        return Build(BuildKind.RELEASE, version, version)

    _stamped(workshop, "a", build=release("2.10.0"))
    _stamped(workshop, "b", packages=_VISION)
    _stamped(workshop, "c", python_version="3.9.2")
    _stamped(workshop, "d", backend="cpu")
    _stamped(workshop, "e")
    assert _envs(workshop, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [Path(line.partition("  with ")[0].split()[-1]).name for line in lines] == ["c", "d", "e", "b", "a"]
    assert [line.partition("  with ")[2] for line in lines] == ["", "", "", "torchvision 0.24.1", ""]
    assert _envs(workshop, "list", "--json") == 0
    assert [Path(row["root"]).name for row in json.loads(capsys.readouterr().out)] == ["c", "d", "e", "b", "a"]
