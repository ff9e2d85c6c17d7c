"""Each look of the doctor against a real fault: what it says, and that the fix is a fix."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch import uv_program
from bisect_torch.doctor import Asked, Check, Status, machine, network, places, programs, variables
from bisect_torch.doctor.probing import file_system, probe
from bisect_torch.engine import host
from bisect_torch.environments import Store, plan_environments
from bisect_torch.environments.disk import gb
from bisect_torch.releases import IndexOptions, load_catalogue
from bisect_torch.releases.index import catalogue_builds
from bisect_torch.releases.nightly_words import nightly_word
from bisect_torch.releases.selection import Selection, select
from tests.support.index import FakeIndex, Fault
from tests.support.mounting import mounted
from tests.support.wheels import releases

ROOT = Path(__file__).parents[2]
OK, WARNING, FAULT = Status.OK, Status.WARNING, Status.FAULT


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(Store(tmp_path / "store"), tmp_path / "results.parquet", IndexOptions(), "pypi")


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    with FakeIndex(releases({"2.4.1": ""})) as index:
        yield index


def with_index(asked: Asked, **options: object) -> Asked:
    return Asked(asked.store, asked.results, IndexOptions(**options), asked.backend)  # type: ignore[arg-type]


def statuses(checks: Iterator[Check]) -> dict[str, Status]:
    return {check.name: check.status for check in checks}


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# --- uv, Python, compiler


def test_uv_is_that_of_the_package_whatever_is_on_the_path(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (check,) = programs.uv_program(asked)
    assert check.status is OK
    assert uv_program.binary() in check.found


@pytest.mark.parametrize(
    ("said", "status"),
    [("echo uv 0.12.0", FAULT), ("echo uv 0.12.1", OK), ("echo hello", FAULT), ("exit 1", FAULT)],
)
def test_a_uv_that_is_too_old_or_no_uv(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: Status
) -> None:
    monkeypatch.setattr(programs, "binary", lambda: str(script(tmp_path / "uv", said)))
    (check,) = programs.uv_program(asked)
    assert check.status is status
    assert (f"'uv>={uv_program.OLDEST_UV}'" in check.fix) is (status is FAULT)


def test_the_oldest_uv_is_that_of_the_project() -> None:
    assert f'"uv>={uv_program.OLDEST_UV}"' in (ROOT / "pyproject.toml").read_text()


def test_a_python_that_no_release_has(asked: Asked) -> None:
    old = Asked(asked.store, asked.results, IndexOptions(offline=True), "pypi", python="3.7")
    (check,) = programs.python_interpreters(old)
    assert check.status is FAULT
    assert re.fullmatch(rf"{re.escape(sys.executable)} -m uv python install 3\.\d+", check.fix)


def test_a_python_that_fits_and_may_not_be_fetched(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no interpreter on PATH and none of its own, all that is left is one to fetch."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("bisect_torch.environments.pythons.own_interpreter", lambda: None)
    (check,) = programs.python_interpreters(asked)
    assert (check.status, check.found) == (WARNING, "installed: none that uv finds")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    (check,) = programs.python_interpreters(asked)
    assert check.status is FAULT
    assert " -m uv python install 3." in check.fix


def test_no_compiler(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = programs.compiler(asked)
    assert check.status is WARNING
    assert check.found.startswith("no ")
    assert "`broken`" in check.means


def test_a_compiler_without_the_headers_of_the_language(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(script(tmp_path / "c++", "echo 'x: fatal error: vector: No such file' >&2; exit 1")))
    (check,) = programs.compiler(asked)
    assert (check.status, check.found) == (WARNING, f"{tmp_path}/c++: x: fatal error: vector: No such file")


def test_a_python_without_headers(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(script(tmp_path / "c++", "exit 0")))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    (check,) = programs.compiler(asked)
    assert check.status is WARNING
    assert f"{tmp_path}/include" in check.found


# --- index and clock


def test_an_index_that_has_torch_is_asked_once(asked: Asked, index: FakeIndex) -> None:
    found = statuses(network.indexes(with_index(asked, index_url=index.url)))
    assert found == {"index": OK, "clock": OK}
    assert [request.path for request in index.requests] == ["/simple/torch/"]


def test_nothing_is_asked_offline(asked: Asked, index: FakeIndex) -> None:
    checks = list(network.indexes(with_index(asked, index_url=index.url, offline=True)))
    assert [check.status for check in checks] == [OK, OK]
    assert index.requests == []


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault(status=404), "answers status 404 for torch"),
        (Fault(status=403), "answers status 403 for torch"),
        (Fault(body=b"<html>Please log in</html>", content_type="text/html"), "does not answer like a package index"),
        (Fault(redirect_to_itself=True), "cannot be reached"),
    ],
)
def test_an_index_that_answers_wrongly(asked: Asked, index: FakeIndex, fault: Fault, found: str) -> None:
    index.fault("*", fault)
    check, *_ = network.indexes(with_index(asked, index_url=index.url))
    assert check.status is FAULT
    assert found in check.found
    assert check.fix


def test_an_address_where_nobody_listens(asked: Asked, index: FakeIndex) -> None:
    url = index.url
    index.stop()
    check, *_ = network.indexes(with_index(asked, index_url=url))
    assert check.status is FAULT
    assert "cannot be reached" in check.found


def test_an_index_that_is_silent_is_left_soon(asked: Asked, index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "TIMEOUT_S", 0.2)
    index.fault("*", Fault(delay_s=3))
    check, *_ = network.indexes(with_index(asked, index_url=index.url))
    assert (check.status, "does not answer in time" in check.found) == (FAULT, True)


def test_a_folder_that_is_no_index(asked: Asked, tmp_path: Path) -> None:
    places_of = with_index(asked, index_url=str(tmp_path / "no"), find_links=(str(tmp_path / "nor this"),))
    assert [check.status for check in network.indexes(places_of)][:2] == [FAULT, FAULT]
    assert [check.status for check in network.indexes(with_index(asked, index_url=str(tmp_path)))][:1] == [FAULT]


@pytest.mark.parametrize(
    ("served", "status"),
    [(0, OK), (200, OK), (400, WARNING), (-86400, WARNING)],
)
def test_a_clock_that_is_not_the_index_s(served: float, status: Status) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    (check,) = network.clock(now + datetime.timedelta(seconds=served))
    assert check.status is status


def test_a_clock_before_the_newest_release(monkeypatch: pytest.MonkeyPatch) -> None:
    release = load_catalogue()[-1]
    tomorrow = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=2)
    later = type(release)(release.version, tomorrow, release.git_commit, release.pythons, release.cuda)
    monkeypatch.setattr(network, "load_catalogue", lambda: (later,))
    (check,) = network.clock(None)
    assert check.status is WARNING


# --- folders


def test_a_store_that_is_not_there_is_looked_for_above(asked: Asked, tmp_path: Path) -> None:
    (check,) = places.store_folder(asked)
    assert (check.status, check.found) == (OK, f"{tmp_path}/store; it is made below {tmp_path}")


def test_a_store_that_cannot_be_written(asked: Asked, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "ro") as disk:
        (check,) = places.store_folder(Asked(Store(disk / "store"), asked.results, asked.index, "pypi"))
    assert (check.status, check.found) == (FAULT, f"{disk}/store: read-only file system")
    assert check.fix.startswith("bisect-torch run --store ")


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="Linux shows itself in /proc and /sys")
@pytest.mark.parametrize("root", ["/proc/store", "/sys/a/store", "/dev/store", "/dev/null/store"])
def test_a_store_among_what_the_system_shows_of_itself(asked: Asked, root: str) -> None:
    """Root may write there, so permissions do not tell."""
    elsewhere = dataclasses.replace(asked, store=Store(Path(root)))

    (check,) = places.store_folder(elsewhere)

    assert (check.status, check.fix) == (FAULT, "bisect-torch run --store /a/folder/that/can/be/written")
    assert check.found.startswith(f"{root}: ")
    assert list(places.disk(elsewhere)) == []
    assert not Path(root).exists()


def test_shared_memory_is_a_place_for_files() -> None:
    assert probe(Path("/dev/shm/store")).problem == ""


def test_a_folder_of_the_store_that_cannot_be_written(asked: Asked) -> None:
    asked.store.root.mkdir()
    with mounted(asked.store.envs, "ro"):
        (check,) = places.store_folder(asked)
    assert (check.status, check.found) == (FAULT, f"{asked.store.envs}: read-only file system")


def test_a_file_in_the_store_s_place(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    (check,) = places.store_folder(asked)
    assert (check.status, check.found) == (FAULT, f"{tmp_path}/store: store is not a folder")


@pytest.mark.parametrize("look", [places.results_folder, places.temporary_folder])
def test_a_full_file_system(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: object) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        (disk / "filler").write_bytes(b"x" * 2**20)
        monkeypatch.setenv("TMPDIR", str(disk))
        (check,) = look(Asked(asked.store, disk / "results.parquet", asked.index, "pypi"))  # type: ignore[operator]
    assert (check.status, check.found) == (FAULT, f"{disk}: no space left on device")


def test_a_small_file_system(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room enough to write a little: a warning for temporary files, a fault for environments of 3 GB and more."""
    with mounted(tmp_path / "disk", "size=100m") as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        small = Asked(Store(disk / "store"), asked.results, asked.index, "pypi")
        (temporary,) = places.temporary_folder(small)
        room = statuses(places.disk(small))
    assert temporary.status is WARNING
    assert room == {"disk": FAULT, "file system": OK}


@pytest.mark.parametrize(
    ("free", "status", "said"),
    [
        (500e9, OK, ""),
        (20e9, WARNING, r"in \d turns"),
        (1.2e9, FAULT, "not even one fits"),
    ],
)
def test_room_for_a_matrix(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, free: float, status: Status, said: str
) -> None:
    monkeypatch.setattr(places.shutil, "disk_usage", lambda folder: Usage(free))
    check = next(places.disk(asked))
    assert check.status is status
    assert re.search(said, check.means)
    number = len(load_catalogue())
    assert f"; {number} of {number} environments to make (2.4.1 to " in check.found


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("free", [500e9, 20e9])
@pytest.mark.parametrize("chosen", [Selection(), Selection(versions=("2.6.0", "2.7.0", "2.9.1")), Selection("2.9.0")])
def test_room_is_counted_as_a_run_counts_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, chosen: Selection, free: float, cached: bool
) -> None:
    """The same builds, the same numbers: what is to be made, downloaded, on the disk, and in how many turns."""
    monkeypatch.setattr(places.shutil, "disk_usage", lambda folder: Usage(free))
    monkeypatch.setattr(Store, "free_bytes", lambda store: int(free))
    asked = dataclasses.replace(asked, store=Store.open(asked.store.root), selection=chosen)
    if cached:
        (asked.store.uv_cache / "wheels-v5" / "pypi" / "numpy" / "2.1.2-cp311-cp311").mkdir(parents=True)
    plan = plan_environments(select(catalogue_builds(), chosen), asked.options(), in_groups=True)

    check = next(places.disk(asked))

    made = f"{len(plan.missing)} of {len(plan.environments)} environments to make"
    said = f"{check.found} {check.means}"
    assert made in said
    assert plan.unknown == ()
    assert f"{gb(plan.download_bytes)} to download" in said
    assert (gb(plan.disk_bytes) + (" on disk" if plan.budget is None else ", each removed")) in said
    if plan.budget is not None:
        assert f"made in {len(plan.budget.groups(list(plan.budget.parts)))} turns" in said


def test_what_only_an_index_knows_is_said_not_to_be_counted(asked: Asked) -> None:
    for chosen, named in (
        (Selection(nightly=(nightly_word("latest"),)), "nightly latest"),
        (Selection(versions=("nightly", "2.99.0")), "nightly, 2.99.0"),
        (Selection("2.99.0"), "2.99.0"),
    ):
        some = dataclasses.replace(asked, selection=chosen)
        assert f"not counted: {named};" in next(places.disk(some)).means
        assert list(programs.python_interpreters(some)) == []
    both = next(places.disk(dataclasses.replace(asked, selection=Selection("2.9.0", "nightly"))))
    assert "environments to make (2.9.0 to " in both.found
    assert "not counted: nightly;" in both.means


class Usage:
    """As ``shutil.disk_usage`` answers."""

    def __init__(self, free: float) -> None:
        self.free = int(free)


def test_cache_and_environments_on_two_file_systems(asked: Asked, tmp_path: Path) -> None:
    asked.store.root.mkdir()
    asked.store.uv_cache.mkdir()
    with mounted(asked.store.envs, "size=1m"):
        check = list(places.disk(asked))[1]
    assert (check.status, "two file systems" in check.found) == (WARNING, True)


def test_results_in_no_folder_and_in_a_folder_s_place(asked: Asked, tmp_path: Path) -> None:
    (gone,) = places.results_folder(Asked(asked.store, tmp_path / "no" / "x.parquet", asked.index, "pypi"))
    (folder,) = places.results_folder(Asked(asked.store, tmp_path, asked.index, "pypi"))
    assert (gone.status, gone.fix) == (FAULT, f"mkdir -p {tmp_path}/no")
    assert folder.status is FAULT


def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    before = os.stat(tmp_path)
    assert probe(tmp_path).problem == ""
    after = os.stat(tmp_path)
    assert (list(tmp_path.iterdir()), after.st_mtime_ns, after.st_ctime_ns) == (
        [], before.st_mtime_ns, before.st_ctime_ns,
    )  # fmt: skip


def test_the_kind_of_a_file_system(tmp_path: Path) -> None:
    with mounted(tmp_path / "a b", "size=1m") as disk:
        assert file_system(disk) == "tmpfs"
    assert file_system(Path("/proc/self")) == "proc"


# --- machine


@pytest.mark.parametrize(
    ("said", "status", "means"),
    [
        ("echo NVIDIA H200, 580.65.06, 143771", OK, "--device cuda` uses it"),
        ("echo NVIDIA A100, 550.54.15, 81920", WARNING, "too old for the CUDA of torch 2.11.0"),
        ("echo Tesla K80, 470.10, 11441", WARNING, "too old for the CUDA of torch 2.4.1"),
        ("echo no devices were found; exit 6", OK, "--device cpu is the default"),
    ],
)
def test_a_gpu_and_its_driver(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: Status, means: str
) -> None:
    host._nvidia.cache_clear()
    monkeypatch.setattr(machine, "_has_nvidia", lambda: "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script(tmp_path / "nvidia-smi", said)
    (check,) = machine.gpu(asked)
    host._nvidia.cache_clear()
    assert check.status is status
    assert means in check.means


def test_a_driver_without_an_answer(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host._nvidia.cache_clear()
    monkeypatch.setattr(machine, "_has_nvidia", lambda: "NVIDIA driver 535.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = machine.gpu(asked)
    host._nvidia.cache_clear()
    assert (check.status, check.found) == (WARNING, "NVIDIA driver 535.1, but nvidia-smi is missing")


def test_every_cuda_of_the_catalogue_has_its_oldest_driver() -> None:
    majors = {int(release.cuda.partition(".")[0]) for release in load_catalogue() if release.cuda}
    assert majors <= machine.OLDEST_DRIVER.keys()


def test_little_memory(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 10**9)
    (check,) = machine.memory(asked)
    assert check.status is WARNING


# --- variables


def test_variables_are_named_and_never_shown(asked: Asked) -> None:
    given = {
        "BISECT_TORCH_STOR": "/x",
        "PIP_INDEX_URL": "https://me:hunter22@example.org/simple",
        "UV_PYTHON": "3.9",
        "UV_OFFLINE": "1",
        "LD_PRELOAD": "/lib/libhunter22.so",
        "UV_LINK_MODE": "",
    }
    checks = list(variables.variables(asked, given))
    assert [(check.name, check.status) for check in checks] == [
        ("BISECT_TORCH_STOR", WARNING),
        ("variables of uv", OK),
        ("UV_OFFLINE", WARNING),
        ("PIP_INDEX_URL", WARNING),
        ("variables", WARNING),
    ]
    assert "hunter22" not in str(checks)
    assert checks[0].fix == 'export BISECT_TORCH_STORE="$BISECT_TORCH_STOR"; unset BISECT_TORCH_STOR'
    assert checks[3].fix == 'export UV_DEFAULT_INDEX="$PIP_INDEX_URL"'
    assert checks[4].fix == "env -u LD_PRELOAD bisect-torch run …"


@pytest.mark.parametrize(
    "given",
    [
        {"BISECT_TORCH_STOR": "/x"},
        {"BISECT_TORCH_STOR": "/x", "BISECT_TORCH_STORE": "/y"},
        {"BISECT_TORCH_NOTHING_LIKE_IT": "1"},
        {"PIP_INDEX_URL": "https://example.org/simple"},
        {"PIP_CERT": "/c.pem"},
        {"PIP_PROXY": "http://proxy:3128"},
        {"UV_OFFLINE": "1"},
        {"UV_LINK_MODE": "copy"},
        {"LD_PRELOAD": "", "OMP_NUM_THREADS": "1", "TORCH_LOGS": "+dynamo"},
    ],
    ids=lambda given: " ".join(given),
)
def test_a_fix_of_a_variable_once_executed_makes_its_warning_go(asked: Asked, given: dict[str, str]) -> None:
    before = [check for check in variables.variables(asked, given) if check.status is WARNING]
    assert before
    for check in before:
        line = check.fix.replace("bisect-torch run …", "env -0")
        done = subprocess.run(
            ["/bin/bash", "-c", line if "env -0" in line else f"{line}; env -0"],
            env={"PATH": os.environ["PATH"], **given},
            capture_output=True,
            text=True,
            check=True,
        )
        after = dict(row.split("=", 1) for row in done.stdout.split("\0") if row)
        assert check.name not in {each.name for each in variables.variables(asked, after) if each.status is WARNING}


def test_what_uv_knows_by_a_name_of_its_own_is_no_warning(asked: Asked) -> None:
    given = {"PIP_CERT": "/c.pem", "SSL_CERT_FILE": "/c.pem", "PIP_INDEX_URL": "https://example.org/simple"}
    here = dataclasses.replace(asked, index=IndexOptions(index_url="https://example.org/simple"))
    assert {check.status for check in variables.variables(here, given)} == {OK}


def test_what_would_change_where_torch_comes_from_is_not_advised(asked: Asked) -> None:
    given = dict.fromkeys(("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"), "1")
    checks = list(variables.variables(asked, given))
    assert {(check.status, check.fix) for check in checks} == {(OK, "")}
    assert "builds come from the index; here it is --find-links" in checks[1].means


@pytest.mark.parametrize("by_option", [True, False])
def test_the_fix_of_a_store_is_one_that_counts(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_option: bool
) -> None:
    """The option outranks the variable, and what is not exported reaches nobody."""
    if not by_option:
        monkeypatch.setenv("BISECT_TORCH_STORE", str(asked.store.root))
    monkeypatch.setattr(places, "file_system", lambda folder: "nfs")
    fix = next(check.fix for check in places.disk(asked) if check.name == "file system")
    begin = "bisect-torch run --store " if by_option else "export BISECT_TORCH_STORE="
    assert fix == f"{begin}/a/folder/on/a/local/disk"


def test_the_fix_of_a_compiler_that_is_named_wrongly_is_to_name_it_no_more(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "g++", "true")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CXX", "nowhere++")
    (check,) = programs.compiler(asked)
    assert (check.status, check.fix) == (WARNING, "unset CXX")
    monkeypatch.delenv("CXX")
    assert all("nowhere++" not in each.found for each in programs.compiler(asked))


def test_every_variable_of_the_tool_is_known() -> None:
    read = set()
    for path in [*(ROOT / "bisect_torch").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        if path != Path(__file__):
            read |= set(re.findall(r'"(BISECT_TORCH_[A-Z_]+)"', path.read_text()))
    assert read == variables.KNOWN.keys()
