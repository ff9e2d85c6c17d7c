"""A change in an environment is found at the next start, in every environment that shares the file, and never used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.environments import remove, stamp
from bisect_torch.environments.stamp import STAMP_NAME
from bisect_torch.model import Environment
from tests.environments.conftest import Workshop, site_packages


def _writable(path: Path) -> Path:
    """Read-only keeps accidents out; these tests mean it."""
    path.chmod(0o644)
    return path


def _deleted(packages: Path) -> None:
    (packages / "torch" / "version.py").unlink()


def _replaced(packages: Path) -> None:
    path = packages / "torch" / "version.py"
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace("debug = False", "debug = True "))


def _written_through_the_link(packages: Path) -> None:
    os.truncate(_writable(packages / "torch" / "version.py"), 40)


def _same_size(packages: Path) -> None:
    path = _writable(packages / "torch" / "version.py")
    text = path.read_text()
    path.write_text(text.replace("debug = False", "debug = True "))


def _shadowed(packages: Path) -> None:
    (packages / "math.py").write_text("")


def _hooked(packages: Path) -> None:
    (packages / "evil.pth").write_text("import sys\n")


def _shadowed_in_torch(packages: Path) -> None:
    (packages / "torch" / "version.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")


def _folder_gone(packages: Path) -> None:
    shutil.rmtree(packages / "torch")


def _link_to_python_gone(packages: Path) -> None:
    (packages.parent.parent.parent / "bin" / "python").unlink()


CHANGES: list[Callable[[Path], None]] = [
    _deleted, _replaced, _written_through_the_link, _same_size, _shadowed, _hooked, _shadowed_in_torch, _folder_gone,
    _link_to_python_gone,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_environment_is_made_anew(workshop: Workshop, change: Callable[[Path], None]) -> None:
    environment, _ = workshop.ensure("2.4.1")
    before = stamp.read_files(environment.root)
    change(site_packages(environment))
    again, reused = workshop.ensure("2.4.1")
    assert reused is False
    assert again.torch_version == "2.4.1"
    assert any("quarantined: changed since it was made" in message for message in workshop.messages)
    after = stamp.read_files(again.root)
    assert {folder: sorted(names) for folder, names in after.items()} == {
        folder: sorted(names) for folder, names in before.items()
    }
    version = (site_packages(again) / "torch" / "version.py").read_text()
    assert "debug = False" in version
    assert "hip = None" in version
    assert workshop.ensure("2.4.1")[1] is True
    assert workshop.left_behind() == []


def _pair(workshop: Workshop) -> tuple[Environment, Environment]:
    """Two environments of different builds that share numpy's files through the cache."""
    first, _ = workshop.ensure("2.4.1")
    second, _ = workshop.ensure("2.5.0")
    one, other = (site_packages(environment) / "numpy" / "__init__.py" for environment in (first, second))
    assert one.samefile(other)
    return first, second


def test_what_is_written_through_a_link_is_found_in_both_environments(workshop: Workshop) -> None:
    first, second = _pair(workshop)
    os.truncate(_writable(site_packages(first) / "numpy" / "__init__.py"), 0)
    for version, environment in (("2.5.0", second), ("2.4.1", first)):
        again, reused = workshop.ensure(version)
        assert (again.root, reused) == (environment.root, False)
        assert (site_packages(again) / "numpy" / "__init__.py").read_text().startswith("__version__ = '2.1.1'\n")
    assert [workshop.ensure(version)[1] for version in ("2.4.1", "2.5.0")] == [True, True]


@pytest.mark.parametrize("same_size", [False, True], ids=["truncated", "same size"])
def test_a_damaged_cache_does_not_get_into_a_new_environment(workshop: Workshop, same_size: bool) -> None:
    """The file is changed through an environment that is not looked at again; the next one links it from the cache."""
    first, _ = _pair(workshop)
    damaged = _writable(site_packages(first) / "numpy" / "__init__.py")
    damaged.write_text(damaged.read_text().replace("2.1.1", "6.6.6") if same_size else "")
    third, _ = workshop.ensure("2.6.0")
    assert (site_packages(third) / "numpy" / "__init__.py").read_text().startswith("__version__ = '2.1.1'\n")
    assert any("the cache was damaged" in message for message in workshop.messages)


def test_removing_a_changed_environment_takes_the_damaged_cache_along(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    _writable(site_packages(environment) / "numpy" / "__init__.py").write_text("__version__ = '6.6.6'\n")
    remove(environment, workshop.store)
    again, _ = workshop.ensure("2.4.1")
    assert (site_packages(again) / "numpy" / "__init__.py").read_text().startswith("__version__ = '2.1.1'\n")


def test_only_the_packages_that_changed_are_downloaded_again(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    _written_through_the_link(site_packages(environment))
    before = len(workshop.index.requested("/files/*.whl"))
    workshop.ensure("2.4.1")
    fetched = {request.path for request in workshop.index.requested("/files/*.whl")[before:]}
    assert fetched == {"/files/torch-2.4.1-py3-none-any.whl"}


def test_bytecode_may_come_and_go(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    packages = site_packages(environment)
    shutil.rmtree(packages / "torch" / "__pycache__")
    subprocess.run([environment.python, "-I", "-c", "import numpy"], check=True)
    assert list((packages / "numpy" / "__pycache__").iterdir())
    assert workshop.ensure("2.4.1")[1] is True


def test_a_file_that_cannot_be_imported_is_no_change(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    (site_packages(environment) / "torch" / "kernels.cache").write_text("")
    assert workshop.ensure("2.4.1")[1] is True


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"format": 0}'])
def test_an_environment_without_a_readable_stamp_is_made_anew(workshop: Workshop, text: str | None) -> None:
    environment, _ = workshop.ensure("2.4.1")
    path = environment.root / STAMP_NAME
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert workshop.ensure("2.4.1")[1] is False
    assert workshop.ensure("2.4.1")[1] is True


def test_an_environment_is_found_again_with_the_build_as_it_is_asked_for_now(workshop: Workshop) -> None:
    build = workshop.build("2.4.1")
    workshop.ensure(build)
    renamed = replace(build, name="oldest")
    environment, reused = workshop.ensure(renamed)
    assert (environment.build.name, reused) == ("oldest", True)


def test_the_environment_of_a_stamp_is_read_without_its_files(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    path = environment.root / STAMP_NAME
    whole = stamp.read(environment.root)
    assert whole is not None
    assert stamp.read_environment(environment.root) == whole.environment
    sound = path.read_bytes()
    place = len(sound) // 2
    path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
    assert stamp.read_environment(environment.root) is None, "one bit among the files"
    path.write_bytes(json.dumps({k: v for k, v in json.loads(sound).items() if k != "digest"}).encode())
    assert stamp.read_environment(environment.root) == whole.environment, "an older version wrote no digest"
