"""Whatever may change what is observed changes the key, and nothing else does."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from bisect_torch.model import Build, BuildKind, Case, CaseFile, CaseKind, Environment, Instance
from bisect_torch.results import cell_key, further_key

BUILD = Build(BuildKind.RELEASE, "2.9.1", "2.9.1")
ENVIRONMENT = Environment(
    build=BUILD,
    root=Path("/store/envs/a"),
    python=Path("/store/envs/a/bin/python"),
    python_version="3.11.7",
    lock_hash="lock",
    packages={"torch": "2.9.1"},
    torch_version="2.9.1+cpu",
    git_commit="abc",
    cuda=None,
    backend="cpu",
)
FILE = CaseFile(Path("/home/one/cases.py"), "hash", CaseKind.CASE, {"near.py": "hash of near"})
CASE = Case(FILE, "bmm")
INSTANCE = Instance(CASE, (("batch", 2),))
SAME: dict[str, object] = {
    "build": BUILD,
    "environment": ENVIRONMENT,
    "instance": INSTANCE,
    "device": "cpu",
    "timeout_s": 60.0,
    "machine": "linux x86_64 avx512",
    "device_name": "cpu",
    "driver": None,
    "threads": 2,
}


def key(**changes: object) -> str:
    return cell_key(**{**SAME, **changes})  # type: ignore[arg-type]


def case(**changes: object) -> Instance:
    return Instance(dataclasses.replace(CASE, **changes), INSTANCE.parameters)  # type: ignore[arg-type]


def file(**changes: object) -> Instance:
    return case(file=dataclasses.replace(FILE, **changes))


def environment(**changes: object) -> Environment:
    return dataclasses.replace(ENVIRONMENT, **changes)  # type: ignore[arg-type]


DIFFERENT = {
    "guard": {"guard": "mps:4294967296"},
    "variable": {"variables": {"OMP_NUM_THREADS": "1"}},
    "torch code of the tool": {"numerics": "hash"},
    "version": {"build": dataclasses.replace(BUILD, version="2.9.0")},
    "name": {"build": dataclasses.replace(BUILD, name="/usr/bin/python")},
    "kind of build": {"build": dataclasses.replace(BUILD, kind=BuildKind.LOCAL)},
    "no environment": {"environment": None},
    "lock": {"environment": environment(lock_hash="other")},
    "python": {"environment": environment(python_version="3.12.1")},
    "local part": {"environment": environment(torch_version="2.9.1+cu128")},
    "commit": {"environment": environment(git_commit="def")},
    "cuda": {"environment": environment(cuda="12.8")},
    "backend": {"environment": environment(backend="pypi")},
    "file": {"instance": file(sha256="other")},
    "file's name": {"instance": file(path=Path("/home/one/other.py"))},
    "kind of case": {"instance": file(kind=CaseKind.SCRIPT)},
    "local module": {"instance": file(local_modules={"near.py": "other"})},
    "no local module": {"instance": file(local_modules={})},
    "case": {"instance": case(name="mm")},
    "parameter": {"instance": Instance(CASE, (("batch", 3),))},
    "type of a parameter": {"instance": Instance(CASE, (("batch", "2"),))},
    "words of a command": {"instance": case(argv=("python", "x.py"))},
    "bad_if_output": {"instance": case(bad_if_output="nan")},
    "device": {"device": "cuda"},
    "device's name": {"device_name": "H100"},
    "driver": {"driver": "550.1"},
    "threads": {"threads": 1},
    "timeout": {"timeout_s": 61.0},
    "no timeout": {"timeout_s": None},
    "thorough": {"thorough": True},
    "machine": {"machine": "linux aarch64"},
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_key(name: str) -> None:
    assert key(**DIFFERENT[name]) != key()


def test_all_these_keys_differ_from_each_other() -> None:
    assert len({key(**changes) for changes in DIFFERENT.values()}) == len(DIFFERENT)


ALIKE = {
    "day of the build": {"build": dataclasses.replace(BUILD, day=datetime.date(2025, 11, 12), download_bytes=5)},
    "place of the environment": {"environment": environment(root=Path("/x"), python=Path("/x/bin/python"))},
    "order of local modules": {"instance": file(local_modules=dict(FILE.local_modules))},
    "folder of the file": {"instance": file(path=Path("/home/two/cases.py"))},
    "line of the case": {"instance": case(line=99)},
    "issue": {"instance": case(issue="https://example.org/1")},
    "not thorough": {"thorough": False},
    "timeout as an integer": {"timeout_s": 60},
}


@pytest.mark.parametrize("name", ALIKE)
def test_the_same_key(name: str) -> None:
    assert key(**ALIKE[name]) == key()


def test_a_command_counts_its_working_directory() -> None:
    first, then = (
        case(argv=("make",), file=dataclasses.replace(FILE, path=Path(place), kind=CaseKind.COMMAND))
        for place in ("/a/work", "/b/work")
    )
    assert key(instance=first) != key(instance=then)


def test_a_key_of_this_version_is_never_computed_otherwise() -> None:
    """Else every result on every disk would be run again."""
    assert key() == "392782a5e17c9d8d94f7cd71831179a3c4043985140945d1ea93de6b590c1b3d"


def test_a_key_goes_on_with_what_the_files_are_that_a_cell_reads() -> None:
    further = further_key("key", {"a": "1", "b": "2"})
    assert further == further_key("key", {"b": "2", "a": "1"})
    others = [further_key("other", {"a": "1", "b": "2"}), further_key("key", {"a": "2", "b": "1"}), "key"]
    assert further not in others


def test_the_torch_code_of_the_tool_counts_for_case_files_only() -> None:
    script = file(kind=CaseKind.SCRIPT)
    assert key(instance=script, numerics="hash") == key(instance=script)
    assert key(numerics="hash") != key(numerics="another")
