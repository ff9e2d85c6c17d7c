"""What children inside an environment see: variables, the staged package, control cases, local interpreters."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.environments import (
    EnvironmentBroken,
    Store,
    capability,
    clean_environment_variables,
    ensure,
    probe_interpreter,
    staged_package,
)
from bisect_torch.environments.control import PROGRAM
from bisect_torch.environments.stamp import read_files
from bisect_torch.environments.uv_said import redact
from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from tests.environments.conftest import Workshop, site_packages
from tests.support.wheels import fake_torch


def test_children_get_no_variable_that_makes_them_find_other_modules() -> None:
    given = {
        "PYTHONPATH": "/x", "PYTHONHOME": "/x", "PYTHONSTARTUP": "/x", "PYTHONUSERBASE": "/x", "VIRTUAL_ENV": "/x",
        "CONDA_PREFIX": "/x", "HOME": "/home/me", "OPENBLAS_NUM_THREADS": "2", "PATH": "/usr/bin:/env/bin:/bin",
    }  # fmt: skip
    assert clean_environment_variables(Path("/env/bin/python"), given) == {
        "HOME": "/home/me",
        "OPENBLAS_NUM_THREADS": "2",
        "PATH": "/env/bin:/usr/bin:/bin",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def test_a_hostile_shell_does_not_reach_the_control_case(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = workshop.store.root.parent / "hostile"
    hostile.mkdir()
    (hostile / "torch.py").write_text("raise SystemExit('the wrong torch')\n")
    (hostile / "sitecustomize.py").write_text("raise SystemExit('hooked')\n")
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    monkeypatch.setenv("VIRTUAL_ENV", str(hostile))
    assert workshop.ensure("2.4.1")[0].torch_version == "2.4.1"


def test_the_staged_package_is_whole_made_once_and_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path / "store")
    staged = staged_package(store)
    assert staged.name == "bisect_torch"
    assert (staged / "worker" / "control.py").read_bytes() == PROGRAM.read_bytes()
    assert sorted(path.name for path in staged.iterdir()) == ["__init__.py", "numerics", "worker"]
    before = staged.stat().st_mtime_ns
    assert staged_package(store) == staged
    assert staged.stat().st_mtime_ns == before
    (staged / "worker" / "control.py").unlink()
    assert (staged_package(store) / "worker" / "control.py").is_file()
    assert [path.name for path in store.staged.iterdir()] == [staged.parent.name]


def test_the_control_program_is_python_3_8_and_imports_only_the_standard_library() -> None:
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= set(sys.stdlib_module_names)


def test_a_capability_that_fails_says_why_and_leaves_the_environment_alone(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    assert capability(environment, "cuda") == "no cuda device"
    assert capability(environment, "mps") == "no mps device"
    assert workshop.ensure("2.4.1")[1] is True


def test_without_a_compiler_on_the_path_compile_says_so(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, _ = workshop.ensure("2.4.1")
    empty = workshop.store.root.parent / "empty"
    empty.mkdir()
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(empty))
    assert capability(environment, "compile") == "no C++ compiler"
    (empty / "g++").symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", f"{empty}{os.pathsep}")
    assert capability(environment, "compile") is None


def test_a_capability_gives_the_innermost_reason(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", sys.executable)
    body = (
        "def compile(function=None, **_options):\n"
        "    try:\n        raise ModuleNotFoundError(\"No module named 'setuptools'\")\n"
        "    except ModuleNotFoundError as error:\n        raise RuntimeError('backend failed') from error\n"
    )
    workshop.serve(fake_torch("2.7.0", body, upload_time="2025-01-01"))
    environment, _ = workshop.ensure("2.7.0")
    assert capability(environment, "compile") == "ModuleNotFoundError: No module named 'setuptools'"


# --- local interpreters


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A virtual environment that is not ours, without anything in it."""
    venv.create(tmp_path / "mine", symlinks=True, with_pip=False)
    return tmp_path / "mine" / "bin" / "python"


def test_a_local_interpreter_is_taken_as_it_is(workshop: Workshop, local: Path) -> None:
    made, _ = workshop.ensure("2.4.1")
    folder = next(local.parent.parent.glob("lib/python*/site-packages"))
    shutil.copytree(site_packages(made), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    before = read_files(local.parent.parent)
    build = Build(BuildKind.LOCAL, "2.4.1", str(local), python=local)
    environment, reused = ensure(build, workshop.options)
    assert reused is True
    assert environment == replace(probe_interpreter(local), build=build)
    assert (environment.backend, environment.torch_version, environment.python) == ("local", "2.4.1", local)
    assert environment.packages["numpy"] == "2.1.1"
    assert read_files(local.parent.parent) == before
    (folder / "numpy-2.1.1.dist-info").rename(folder / "numpy-2.2.0.dist-info")
    metadata = folder / "numpy-2.2.0.dist-info" / "METADATA"
    metadata.chmod(0o644)
    metadata.write_text(metadata.read_text().replace("2.1.1", "2.2.0"))
    assert probe_interpreter(local).lock_hash != environment.lock_hash


def test_a_local_interpreter_without_torch_or_none_at_all_is_a_usage_error(local: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="torch is not installed there"):
        probe_interpreter(local)
    with pytest.raises(UsageError, match="no interpreter"):
        probe_interpreter(tmp_path / "nowhere")


def test_a_broken_local_torch_is_broken(local: Path) -> None:
    folder = next(local.parent.parent.glob("lib/python*/site-packages")) / "torch"
    folder.mkdir()
    with pytest.raises(EnvironmentBroken, match=r"__init__\.py is missing"):
        probe_interpreter(local)
    (folder / "__init__.py").write_text("import ctypes; ctypes.CDLL('/nowhere/libtorch_cpu.so')")
    with pytest.raises(EnvironmentBroken, match=r"libtorch_cpu\.so"):
        probe_interpreter(local)


def test_credentials_are_taken_out_of_addresses() -> None:
    said = "error: https://me:pw@host/simple/ and http://tok@host/x?access_token=abc&page=2 failed"
    assert redact(said) == (
        "error: https://<redacted>@host/simple/ and http://<redacted>@host/x?access_token=<redacted>&page=2 failed"
    )


# --- real releases


@pytest.mark.real_torch
@pytest.mark.slow
def test_control_cases_hold_on_real_torch(real_torch: Mapping[str, Path]) -> None:
    for version, python in real_torch.items():
        environment = probe_interpreter(python)
        assert environment.build.version == version
        assert len(environment.git_commit or "") == 40
        assert "setuptools" in environment.packages
        compiler = any(shutil.which(name) for name in ("g++", "clang++"))
        assert capability(environment, "compile") == (None if compiler else "no C++ compiler")


@pytest.mark.real_torch
@pytest.mark.slow
def test_a_truncated_library_of_a_real_torch_is_broken(real_torch: Mapping[str, Path], tmp_path: Path) -> None:
    """A copy of links; the one library that is truncated is a file of its own."""
    python = real_torch["2.14.0"]
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-rl", str(python.parent.parent), str(copy)], check=True)
    library = next(copy.glob("lib/python*/site-packages/torch/lib/libtorch_cpu.so"))
    library.unlink()
    library.write_bytes(b"\x7fELF")
    with pytest.raises(EnvironmentBroken, match=r"libtorch_cpu\.so"):
        probe_interpreter(copy / "bin" / "python")
