"""The whole command: exit codes, what it prints, and that the disk is as it was."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.uv_program import install_line
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import releases


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    with FakeIndex(releases({"2.4.1": "", "2.5.0": ""})) as index:
        yield index


@pytest.fixture(scope="module")
def built(index: FakeIndex, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """A store with two environments."""
    tool = Tool(tmp_path_factory.mktemp("built"), index)
    words = ["envs", "build", "--index-url", index.url, "--python", tool.python, "--store", str(tool.folder / "store")]
    made = tool.call(tool.words(*words))
    assert made.code == 0, made.stderr
    return tool


def examined(tool: Tool, *words: str, **variables: str) -> Answer:
    own = ["doctor", "--index-url", tool.index.url, "--store", str(tool.folder / "store")]
    return tool.call(tool.words(*own, *words), **variables)


def checks(answer: Answer) -> dict[str, dict[str, str]]:
    """By name; of several with one name the last."""
    return {check["name"]: check for check in answer.data["checks"]}


def state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything below a folder, with sizes, permissions and times of change."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_a_build_that_does_not_exist_is_a_wrong_line(built: Tool) -> None:
    answer = examined(built, "--versions", "2.4.9")
    assert (answer.code, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: torch 2.4.9 does not exist here")


def test_the_run_that_comes_next_is_the_one_that_was_asked_about(built: Tool) -> None:
    answer = examined(built, "--from", "2.9.0", "-o", "a b.parquet")
    words = f"--index-url {built.index.url} --store {built.folder / 'store'} --from 2.9.0 -o 'a b.parquet' --dry-run"
    assert answer.stdout.splitlines()[-1].endswith(f"Next: bisect-torch run {words}")


def test_nothing_on_the_disk_is_changed(built: Tool, tmp_path: Path) -> None:
    left = built.folder / "store" / "tmp" / "2.5.0-py3.11-pypi-0123456789ab~1-1"
    left.mkdir()
    before = state(built.folder)
    answer = examined(built, "--json")
    assert answer.code in (0, 3), answer.stderr
    assert state(built.folder) == before
    assert checks(answer)["leftovers"]["found"] == left.name
    left.rmdir()


def test_nothing_is_made_before_the_first_run(index: FakeIndex, tmp_path: Path) -> None:
    answer = examined(Tool(tmp_path, index), "--json")
    assert list(tmp_path.iterdir()) == []
    assert checks(answer)["environments"]["found"] == "none yet"


def test_the_exit_code_says_whether_a_run_would_work(built: Tool) -> None:
    well = examined(built, "--json")
    faults = [name for name, check in checks(well).items() if check["status"] == "fault"]
    assert (well.code, well.data["ok"]) == ((0, True) if not faults else (3, False))
    assert set(faults) <= {"disk"}, "a machine on which tests run has all but, perhaps, the room for real releases"
    ill = examined(built, "-o", "nowhere/results.parquet")
    assert ill.code == 3
    assert "fault    results" in ill.stdout
    assert f"fix: mkdir -p {built.folder}/nowhere\n" in ill.stdout
    assert ill.stdout.splitlines()[-1].startswith("A run would not work: ")


def test_a_uv_without_its_program(built: Tool, tmp_path: Path) -> None:
    package = tmp_path / "uv"
    package.mkdir()
    (package / "__init__.py").write_text("def find_uv_bin():\n    raise FileNotFoundError('/x/uv')\n")
    root = Path(__file__).parents[2]
    answer = examined(built, "--json", PYTHONPATH=f"{tmp_path}:{root}")
    assert answer.code == 3
    assert checks(answer)["uv"] == {
        "name": "uv",
        "status": "fault",
        "found": "the uv program is missing: /x/uv",
        "means": "no environment can be made",
        "fix": install_line("uv>=0.12.1", "--force-reinstall"),
    }
    assert checks(answer)["store"]["status"] == "ok", "the other looks go on"


def test_credentials_are_never_shown(built: Tool) -> None:
    port = built.index.base.rpartition(":")[2]
    secret = f"http://me:hunter22@127.0.0.1:{port}/none/"
    for words in (["--json"], []):
        answer = examined(built, "--extra-index-url", secret, *words, HTTPS_PROXY="http://me:hunter22@127.0.0.1:1")
        assert answer.code == 3
        assert f"http://127.0.0.1:{port}/none/ answers status 404" in answer.stdout
        assert "https: http://127.0.0.1:1" in answer.stdout
        assert "hunter22" not in answer.stdout + answer.stderr


def test_a_damaged_stamp_and_a_changed_file(built: Tool) -> None:
    first, second = sorted((built.folder / "store" / "envs").iterdir())
    stamp, module = first / "bisect-torch.json", next(second.rglob("torch/version.py"))
    kept, text, times = stamp.read_bytes(), module.read_bytes(), module.stat()
    module.chmod(0o644)
    stamp.write_bytes(kept[: len(kept) // 2])
    module.write_bytes(text[:-1])
    try:
        said = [check for check in examined(built, "--json").data["checks"] if check["name"] == "environments"]
    finally:
        stamp.write_bytes(kept)
        module.write_bytes(text)
        os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [check["found"] for check in said] == [
        "0 whole",
        f"{first.name}: its stamp is missing or damaged",
        f"{second.name}: {module.relative_to(second)} is changed",
    ]
    assert [check["status"] for check in said] == ["ok", "warning", "warning"]
    options = f"--python {built.python} --torch-backend pypi --store {built.folder / 'store'}"
    assert said[1]["fix"] == f"bisect-torch envs build --versions {first.name.partition('-')[0]} {options}"


def test_locks_of_living_runs(built: Tool) -> None:
    store = built.folder / "store"
    name = sorted((store / "envs").iterdir())[0].name
    with (
        (store / "guards" / "2.6.0-py3.11-pypi-x.lock").open("ab") as guard,
        (store / "uses" / f"{name}.use").open("ab") as use,
    ):
        fcntl.flock(guard, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_SH)
        found = checks(examined(built, "--json"))
    assert found["locks"]["found"] == "held by a run that builds: 2.6.0-py3.11-pypi-x"
    assert "1 used by a run at this moment" in found["environments"]["found"]
    assert "locks" not in checks(examined(built, "--json"))


def test_a_store_without_permission(built: Tool, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root; a file system that is read-only is tried elsewhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    answer = built.call(built.words("doctor", "--offline", "--json", "--store", str(tmp_path / "locked" / "store")))
    assert checks(answer)["store"]["status"] == "fault"
