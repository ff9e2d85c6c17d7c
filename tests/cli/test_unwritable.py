"""A place where nothing can be written is refused before anything is asked for, made or run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch import temporary
from bisect_torch.cli.main import main
from tests.support.index import FakeIndex
from tests.support.mounting import mounted
from tests.support.wheels import releases

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
RESULTS = str(Path(__file__).parents[1] / "data" / "real_cases_matrix.parquet")
OTHERS = str(Path(__file__).parents[1] / "data" / "large_index_bmm.parquet")
BOTH = ("--good", "2.4.1", "--bad", "2.5.0", "--python", PYTHON)

LINES = {
    "run": ["run", "repro.py", "--python", PYTHON, "-o", "{}/x.parquet"],
    "run, before it says what it would do": ["run", "repro.py", "--python", PYTHON, "--dry-run", "-o", "{}/x.parquet"],
    "run --profile": ["run", "repro.py", "--python", PYTHON, "--profile", "{}/x.json"],
    "bisect": ["bisect", "repro.py", *BOTH, "-o", "{}/x.parquet"],
    "bisect --profile": ["bisect", "repro.py", *BOTH, "--profile", "{}/x.json"],
    "report": ["report", RESULTS, "-o", "{}/x.md"],
    "merge": ["merge", RESULTS, OTHERS, "-o", "{}/x.parquet"],
    "recheck": ["recheck", RESULTS, "--versions", "2.5.0", "-o", "{}/x.parquet"],
    "recheck --comment": ["recheck", RESULTS, "--versions", "2.5.0", "--comment", "{}/x.md"],
    "recheck --state": ["recheck", RESULTS, "--versions", "2.5.0", "--state", "{}/x.json"],
    "verify": ["verify", RESULTS, "--yes", "-o", "{}/x.parquet"],
    "new": ["new", "report.md", "-o", "{}/x.py"],
    "envs lock": ["envs", "lock", "2.5.0", "--folder", "{}"],
}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    """Asked by nobody, as the tests see to it."""
    (tmp_path / "repro.py").write_text("import torch\n")
    (tmp_path / "report.md").write_text("```python\nimport torch\n```\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))
    with FakeIndex(releases({"2.4.1": "", "2.5.0": ""})) as running:
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def refused(line: str, place: Path, index: FakeIndex, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([word.format(place) for word in LINES[line]]) == 2
    out, err = capsys.readouterr()
    error, hint = err.splitlines()
    assert (out, index.requests) == ("", [])
    assert str(place) in error
    assert hint.startswith("hint: name another file for the results") or f": {LINES[line][-2]} F" in hint
    return error


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
@pytest.mark.parametrize("line", LINES)
def test_where_nothing_takes_files(line: str, index: FakeIndex, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(line, Path("/proc"), index, capsys).endswith(": it takes no files")


@pytest.mark.parametrize("line", LINES)
def test_on_a_file_system_that_is_only_read(
    line: str, index: FakeIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mounted(tmp_path / "ro", "ro,size=1m") as place:
        assert refused(line, place, index, capsys).endswith(": read-only file system")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("line", LINES)
def test_in_a_folder_of_others(line: str, index: FakeIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "others"
    place.mkdir(mode=0o555)
    assert refused(line, place, index, capsys).endswith(": permission denied")


def test_watch_keeps_nothing_and_so_works_where_nothing_can_be_written(
    index: FakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bisect_torch.engine.watch.loop.Watch.execute", lambda watch, interruption: None)
    with mounted(tmp_path / "ro", "ro,size=1m") as place:
        monkeypatch.chdir(place)
        assert main(["watch", str(tmp_path / "repro.py"), "--versions", "2.4.1", "--python", PYTHON]) == 130
        monkeypatch.chdir(tmp_path)
    assert "error" not in capsys.readouterr().err


def test_results_that_are_only_read_can_be_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mounted(tmp_path / "here", "size=9m") as place:
        (place / "x.parquet").write_bytes(Path(RESULTS).read_bytes())
        assert os.system(f"mount -o remount,ro {place}") == 0
        assert main(["judge", str(place / "x.parquet")]) == 1
        assert "sign_nan" in capsys.readouterr().out


def test_looking_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    before = tmp_path.stat().st_mtime_ns
    assert temporary.why_unwritable(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    if sys.platform == "linux":
        assert tmp_path.stat().st_mtime_ns == before
    assert temporary.why_unwritable(tmp_path / "none") == "no such file or directory"
