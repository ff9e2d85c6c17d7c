"""Temporary folders whose owner has gone are removed, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_torch import temporary
from bisect_torch.environments.store import remove_tree


def test_a_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    made = temporary.make_folder(tmp_path)
    temporary.sweep(tmp_path)
    assert made.is_dir()


def test_a_folder_goes_with_its_process(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from bisect_torch import temporary; "
    program += "made = temporary.make_folder(Path(sys.argv[1])); (made / 'c').mkdir(); (made / 'c').chmod(0)"
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, cwd=Path(__file__).parents[1])
    assert len(list(tmp_path.iterdir())) == 1
    temporary.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_was_given_again_is_not_the_same_process(tmp_path: Path) -> None:
    """In a container the next run often has the very number of the one that was killed."""
    assert not temporary.is_gone(temporary.owner())
    assert temporary.is_gone(f"{os.getpid()}.1")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("bt-notes-1", "bt-", "bt-x.y-z"):
        (tmp_path / name).mkdir()
    (tmp_path / f"bt-{os.getpid()}.1-file").touch()
    temporary.sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_two_may_remove_one_folder_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two runs do that start together after one was killed."""
    root = tmp_path / "killed"
    for name in ("a", "b", "c"):
        (root / name / "inner").mkdir(parents=True)
    chmod = os.chmod
    others = [lambda: shutil.rmtree(root / "b"), lambda: shutil.rmtree(root)]

    def slower_than_the_other(path: str | Path, mode: int) -> None:
        if others and Path(path).name in ("b", "c"):
            others.pop(0)()
        chmod(path, mode)

    monkeypatch.setattr(os, "chmod", slower_than_the_other)
    remove_tree(root)
    assert others == []
    assert not root.exists()


PROGRAM = """
import os, signal, sys
from bisect_torch import temporary
first, second = temporary.make_folder(), temporary.make_folder()
print(first)
(first / "of a cell").mkdir()
print(os.path.realpath(second))
sys.stdout.flush()
if "killed" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def in_a_long_place(place: Path, *words: str) -> list[str]:
    variables = {**os.environ, "TMPDIR": str(place)}
    words = (sys.executable, "-c", PROGRAM, *words)
    done = subprocess.run(words, env=variables, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_long_place_has_a_short_name(tmp_path: Path) -> None:
    """torch cannot share tensors where the folder of a cell has more than 73 characters."""
    place = tmp_path / ("long" * 20)
    place.mkdir()
    named, real = in_a_long_place(place)
    assert len(f"{named}/c12345678/torch-shm-dir-123456/manager.sock") <= 103
    assert Path(real).parent == place
    assert len(list(place.iterdir())) == 2
    assert not Path(named).parent.is_symlink(), "it goes with the process"


def test_the_short_name_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 20)
    place.mkdir()
    named, _ = in_a_long_place(place, "killed")
    assert Path(named).parent.is_symlink()
    temporary.sweep(place)
    assert not Path(named).parent.is_symlink()
    assert list(place.iterdir()) == []
