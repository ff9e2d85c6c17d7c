"""``bisect-torch releases`` and ``envs lock|check`` as commands."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_torch.cli import envs_lock
from bisect_torch.cli import releases as releases_command
from bisect_torch.errors import UsageError
from bisect_torch.releases.catalogue import load_catalogue
from tests.support.index import FakeIndex
from tests.support.wheels import fake_torch, releases


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    releases_command.add_parser(subparsers)
    envs_lock.add_lock_parser(subparsers)
    envs_lock.add_check_parser(subparsers)
    args = parser.parse_args(words)
    code = args.command(args)
    assert isinstance(code, int)
    return code


def test_declaring_the_commands_loads_nothing_heavy() -> None:
    code = (
        "import sys, bisect_torch.cli.releases, bisect_torch.cli.envs_lock;"
        "print(sorted({'requests', 'pypi_simple', 'packaging', 'rich', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_table_has_a_line_per_build_and_no_invented_values(capsys: pytest.CaptureFixture[str]) -> None:
    wheels = [*releases({"2.4.1": "", "2.99.0": ""}), fake_torch("2.98.0", yanked="bad")]
    with FakeIndex(wheels) as server:
        assert run("releases", "--index-url", server.url, "--versions", "2.4.1,2.98.0", "--versions", "2.99.0") == 0
    out, err = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.split()[:3] == ["version", "day", "Pythons"]
    assert [line.split()[0] for line in lines] == ["2.4.1", "2.98.0", "2.99.0"]
    # These are not the wheels of the catalogue: no commit, no CUDA, no lock.
    assert lines[0].split()[3:5] == ["-", "-"]
    assert lines[0].endswith("made on the fly")
    assert "(yanked)" in lines[1]
    assert err == ""


def test_json_is_the_same_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("releases", "--offline", "--from", "2.9.0", "--to", "2.10.0", "--python", "3.11", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    known = {release.version: release for release in load_catalogue()}
    assert [row["version"] for row in rows] == ["2.9.0", "2.9.1", "2.10.0"]
    for row in rows:
        assert row["git_commit"] == known[row["version"]].git_commit
        assert row["day"] == known[row["version"]].day.isoformat()
        assert row["locked"] is True
        assert "3.11" in row["pythons"]
        assert 0 < row["torch_bytes"] <= row["download_bytes"]
    assert rows[2]["notes"] == known["2.10.0"].notes != ""


def test_a_python_is_named_by_its_minor_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("releases", "--offline", "--python", "3.8.18") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["2.4.1"]
    for text in ("312", "three", "/usr/bin/python3", "2.7"):
        with pytest.raises(UsageError, match="is not a Python version"):
            run("releases", "--offline", "--python", text)


def test_a_range_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(UsageError, match=r"2\.9\.5 does not exist here; the nearest that exist: 2\.9\.1 and 2\.10\.0"):
        run("releases", "--offline", "--from", "2.9.5")


def test_lock_and_check_in_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheels = [
        fake_torch("2.4.1", tags=f"cp311-cp311-{tag}", upload_time="2024-09-04")
        for tag in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_14_0_arm64")
    ]
    with FakeIndex([*releases({}), *wheels]) as server:
        where = ("--folder", str(tmp_path / "envs"), "--index-url", server.url)
        assert run("lock", *where) == 0
        out, err = capsys.readouterr()
        assert out == "2.4.1\n"
        assert "locked 2.4.1" in err
        assert run("check", *where) == 0
        assert capsys.readouterr().out == "2.4.1: good on 3 targets\n"
        server.remove(wheels[2])
        assert run("check", *where, "--json") == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["problems"] == ["the index has no wheel of torch 2.4.1 for macos-arm64"]
