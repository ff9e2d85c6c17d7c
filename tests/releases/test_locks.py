"""The committed locks, and the commands that make and check locks, with real uv against a loopback index."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.releases.catalogue import Release, envs_folder, load_catalogue, write_catalogue
from bisect_torch.releases.index import IndexOptions
from bisect_torch.releases.locking import check_locks, lock_releases
from bisect_torch.releases.locks import lock_path, make_lock, parse_lock
from bisect_torch.releases.platforms import LOCKED_PLATFORMS, Target
from bisect_torch.releases.sizes import known_wheels, lock_size, locked_wheels
from tests.support.index import FakeIndex
from tests.support.wheels import Wheel, build_wheel, fake_commit, fake_torch

CATALOGUE = load_catalogue()
VERSIONS = [release.version for release in CATALOGUE]
PLATFORM_TAGS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_14_0_arm64")


# --- what is committed


def test_every_release_from_the_first_on_is_there_in_order() -> None:
    assert VERSIONS[0] == "2.4.1"
    assert sorted(VERSIONS, key=Version) == VERSIONS
    assert {"2.14.1", "2.15.0"} <= set(VERSIONS)
    assert {path.stem for path in envs_folder().glob("*.lock")} == set(VERSIONS)


def test_rows_are_complete_and_days_ascend() -> None:
    assert [release.day for release in CATALOGUE] == sorted(release.day for release in CATALOGUE)
    for release in CATALOGUE:
        assert re.fullmatch("[0-9a-f]{40}", release.git_commit)
        assert release.cuda is not None
        assert re.fullmatch(r"1\d\.\d", release.cuda)
        assert len(release.pythons) >= 5
        assert release.unpacked_bytes is not None
        assert release.unpacked_bytes > 10**9
    assert len({release.git_commit for release in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_committed_lock_is_hashed_for_every_platform_and_names_no_place(version: str) -> None:
    path = lock_path(version)
    assert path is not None
    text = path.read_text()
    pins = parse_lock(text)
    assert all(pin.hashes for pin in pins)
    assert [pin.version for pin in pins if pin.project == "torch"] == [version]
    assert not re.search(r"http|/|index|find-links|# ", text)
    release = next(release for release in CATALOGUE if release.version == version)
    for platform in LOCKED_PLATFORMS:
        wheels = [wheel for wheel in known_wheels().values() if wheel.project == "torch" and wheel.version == version]
        pythons = [name for name in release.pythons if any(Target(name, platform).fits(w.filename) for w in wheels)]
        assert len(pythons) >= 4
        for python in (pythons[0], pythons[-1]):
            locked = locked_wheels(pins, Target(python, platform), known_wheels())
            assert {"torch", "numpy", "setuptools"} <= {one.pin.project for one in locked}
            assert [one.pin.project for one in locked if one.wheel is None] == []
            # One version of each package: the markers of a fork do not overlap.
            assert len({one.pin.project for one in locked}) == len(locked)
            size = lock_size(locked)
            assert size.unknown == ()
            assert 10**7 < size.download_bytes < size.unpacked_bytes < 12 * 10**9


def test_each_platform_has_a_size_of_its_own() -> None:
    """CUDA libraries come with Linux x86_64 only in old releases; macOS has none ever."""
    path = lock_path("2.4.1")
    assert path is not None
    pins = parse_lock(path.read_text())
    linux, arm, mac = (
        lock_size(locked_wheels(pins, Target("3.11", platform), known_wheels())).download_bytes
        for platform in LOCKED_PLATFORMS
    )
    assert linux > 2 * 10**9
    assert max(arm, mac) < 2 * 10**8


def test_wheels_that_two_releases_share_are_counted_once() -> None:
    def wheels(version: str) -> list[object]:
        path = lock_path(version)
        assert path is not None
        target = Target("3.11", LOCKED_PLATFORMS[0])
        return list(locked_wheels(parse_lock(path.read_text()), target, known_wheels()))

    one, two = wheels("2.9.0"), wheels("2.9.1")
    both = lock_size([*one, *two])  # type: ignore[list-item]
    alone = [lock_size(part) for part in (one, two)]  # type: ignore[arg-type]
    assert both.download_bytes < 0.7 * sum(size.download_bytes for size in alone)
    present = frozenset(part.wheel.sha256 for part in one)  # type: ignore[attr-defined]
    rest = lock_size(two, present)  # type: ignore[arg-type]
    assert rest.download_bytes == both.download_bytes - alone[0].download_bytes


# --- reading


def test_a_lock_is_read_with_markers_and_all_hashes() -> None:
    a, b = "a" * 64, "b" * 64
    text = (
        f"# comment\nnumpy==1.24.4 ; python_full_version < '3.9' \\\n    --hash=sha256:{a} \\\n    --hash=sha256:{b}\n"
        f"Typing.Extensions==4.1 \\\n    --hash=sha256:{a}\n    # via torch\n"
    )
    numpy, typing = parse_lock(text)
    assert (numpy.project, numpy.version, numpy.hashes) == ("numpy", "1.24.4", (a, b))
    assert numpy.applies(Target("3.8", "linux-x86_64"))
    assert not numpy.applies(Target("3.9", "linux-x86_64"))
    assert (typing.project, typing.marker) == ("typing-extensions", None)


@pytest.mark.parametrize("line", ["torch>=2.4", "torch", "torch==2.4,!=2.4.0", "-r other.txt", "==="])
def test_a_line_that_is_no_exact_version_is_refused(line: str) -> None:
    with pytest.raises(InfrastructureError, match="no exact version"):
        parse_lock(line)


def test_markers_follow_the_target_and_not_this_machine() -> None:
    (pin,) = parse_lock("cudnn==9.1 ; platform_machine == 'x86_64' and sys_platform == 'linux'")
    assert [pin.applies(Target("3.11", platform)) for platform in LOCKED_PLATFORMS] == [True, False, False]


def test_a_catalogue_is_written_as_it_is_read(tmp_path: Path) -> None:
    rows = (
        Release("2.9.0", datetime.date(2025, 10, 15), "a" * 40, ("3.9", "3.10"), "12.8", 5, 'a "note" with \\'),
        Release("2.10.0", datetime.date(2026, 1, 21), "b" * 40, ("3.10",), None),
    )
    write_catalogue(reversed(rows), tmp_path)
    assert load_catalogue(tmp_path) == rows


@pytest.mark.parametrize("text", ["", "[[release]]\nversion = '1'", "not toml", "release = 3"])
def test_a_damaged_catalogue_is_our_failure(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalogue.toml").write_text(text)
    with pytest.raises(InfrastructureError, match="catalogue of releases cannot be read"):
        load_catalogue(tmp_path)


@pytest.mark.parametrize("text", ["", '{"schema": 99, "wheels": {}}', '{"schema": 1}'])
def test_a_damaged_table_of_sizes_is_our_failure(tmp_path: Path, text: str) -> None:
    (tmp_path / "wheels.json").write_text(text)
    with pytest.raises(InfrastructureError, match="table of wheel sizes cannot be read"):
        known_wheels(tmp_path)


# --- making and checking


def company(version: str, day: str) -> list[Wheel]:
    """A release with one dependency on Linux x86_64 only, for two Pythons on every platform."""
    needs = ["gpulib==1.0 ; sys_platform == 'linux' and platform_machine == 'x86_64'", "helper"]
    torch = [
        fake_torch(version, cuda="12.1", tags=f"{python}-{python}-{tag}", requires=needs, upload_time=day)
        for python in ("cp310", "cp311")
        for tag in PLATFORM_TAGS
    ]
    return [*torch, build_wheel("gpulib", "1.0", tags="py3-none-manylinux_2_28_x86_64", upload_time="2024-01-01")]


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    plain = [
        build_wheel(name, version, upload_time=day, requires_python=requires)
        for name, version, day, requires in [
            ("numpy", "1.0", "2024-01-01", ">=3.9"),
            ("numpy", "2.0", "2024-02-01", ">=3.11"),
            ("numpy", "3.0", "2025-01-01", ">=3.9"),
            ("setuptools", "74.0", "2024-01-01", None),
            ("helper", "1.0", "2024-01-01", None),
            ("helper", "2.0", "2025-01-01", None),
        ]
    ]
    with FakeIndex([*plain, *company("2.5.0", "2024-10-17"), *company("2.4.1", "2024-09-04")]) as index:
        index.add(fake_torch("2.6.0rc1"), fake_torch("2.3.0"), fake_torch("2.5.0.dev20240901"))
        yield index


def check(server: FakeIndex, folder: Path, *versions: str) -> dict[str, list[str]]:
    options = IndexOptions(index_url=server.url)
    return {version: problems for version, _, problems in check_locks(versions, options, folder)}


def test_locks_are_made_true_to_their_day_and_pass_their_check(server: FakeIndex, tmp_path: Path) -> None:
    notes: list[str] = []
    options = IndexOptions(index_url=server.url)
    assert lock_releases((), options, tmp_path, notes.append) == ("2.4.1", "2.5.0")
    assert [note.split(":")[0] for note in notes] == ["locked 2.4.1", "locked 2.5.0", "sizes of 17 wheels"]
    pins = parse_lock((tmp_path / "2.4.1.lock").read_text())
    assert {(pin.project, pin.version) for pin in pins} == {
        ("torch", "2.4.1"),
        ("numpy", "1.0"),
        ("numpy", "2.0"),
        ("setuptools", "74.0"),
        ("helper", "1.0"),
        ("gpulib", "1.0"),
    }
    assert str(server.base) not in (tmp_path / "2.4.1.lock").read_text()
    release = load_catalogue(tmp_path)[0]
    assert (release.version, release.day) == ("2.4.1", datetime.date(2024, 9, 4))
    assert (release.git_commit, release.cuda, release.pythons) == (fake_commit("2.4.1"), "12.1", ("3.10", "3.11"))
    known = known_wheels(tmp_path)
    size = lock_size(locked_wheels(pins, Target("3.11", "linux-x86_64"), known))
    expected = [wheel for wheel in server._wheels.values() if wheel.sha256 in known]
    names = {"torch-2.4.1-cp311-cp311-manylinux_2_28_x86_64.whl", "numpy-2.0-py3-none-any.whl"}
    names |= {"setuptools-74.0-py3-none-any.whl", "helper-1.0-py3-none-any.whl"}
    names |= {"gpulib-1.0-py3-none-manylinux_2_28_x86_64.whl"}
    assert size.download_bytes == sum(len(wheel.content) for wheel in expected if wheel.filename in names)
    # No wheel was downloaded whole for that: uv read metadata, the tool read ranges.
    assert {request.status for request in server.requested("/files/*.whl")} == {206}
    assert check(server, tmp_path) == {"2.4.1": [], "2.5.0": []}
    # Nothing is left to do; what is named is done again, and notes written by hand stay.
    row = load_catalogue(tmp_path)[1]
    write_catalogue([load_catalogue(tmp_path)[0], Release(**{**row.__dict__, "notes": "by hand"})], tmp_path)
    assert lock_releases((), options, tmp_path, notes.append) == ()
    assert lock_releases(("2.5.0",), options, tmp_path, notes.append) == ("2.5.0",)
    assert load_catalogue(tmp_path)[1].notes == "by hand"


def test_the_check_finds_what_is_wrong(server: FakeIndex, tmp_path: Path) -> None:
    options = IndexOptions(index_url=server.url)
    lock_releases(("2.4.1",), options, tmp_path, lambda text: None)
    path = tmp_path / "2.4.1.lock"
    good = path.read_text()
    blocks = re.split(r"(?m)^(?=\S)", good)

    def problems(text: str) -> str:
        path.write_text(text)
        return "\n".join(check(server, tmp_path, "2.4.1")["2.4.1"])

    without_helper = "".join(block for block in blocks if not block.startswith("helper"))
    assert "uv cannot resolve it" in problems(without_helper)
    without_setuptools = "".join(block for block in blocks if not block.startswith("setuptools"))
    assert "setuptools is missing" in problems(without_setuptools)
    assert "does not pin torch==2.4.1" in problems(good.replace("torch==2.4.1", "torch==2.5.0"))
    other_hash = re.sub(r"(gpulib(?:.|\n)*?sha256:)[0-9a-f]{8}", r"\g<1>00000000", good, count=1)
    said = problems(other_hash)
    assert "on linux-x86_64 with Python 3.10 no wheel of gpulib==1.0 with a locked hash" in said
    assert "aarch64" not in said
    assert "has no hashes" in problems(re.sub(r"helper==1.0 \\\n    --hash=\S+", "helper==1.0", good))
    wheel = next(w for w in server._wheels.values() if w.filename.startswith("torch-2.4.1-cp311-cp311-macosx"))
    server.remove(wheel)
    # The newest Python of macOS is then 3.10, so the lock is good again for what there is.
    assert problems(good) == ""
    server.remove(next(w for w in server._wheels.values() if w.filename.startswith("torch-2.4.1-cp310-cp310-macosx")))
    assert problems(good) == "the index has no wheel of torch 2.4.1 for macos-arm64"


def test_what_cannot_be_locked_is_said(server: FakeIndex, tmp_path: Path) -> None:
    options = IndexOptions(index_url=server.url)
    with pytest.raises(UsageError, match=r"no release 2\.9\.9"):
        lock_releases(("2.9.9",), options, tmp_path, lambda text: None)
    with pytest.raises(UsageError, match="has no lock"):
        check(server, tmp_path, "2.5.0")
    with pytest.raises(InfrastructureError, match=r"torch 2\.5\.0 cannot be locked.*(torch|solution)"):
        make_lock(
            "2.5.0",
            day=datetime.date(2024, 1, 1),
            oldest_python="3.10",
            uv_arguments=["--default-index", server.url],
        )
    server.upload_times = False
    with pytest.raises(InfrastructureError, match="no upload time"):
        lock_releases(("2.5.0",), options, tmp_path, lambda text: None)


@pytest.mark.slow
@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_a_committed_lock_passes_its_check_on_the_real_index(version: str) -> None:
    """Needs the network. ``bisect-torch envs check`` does the same for all."""
    ((_, targets, problems),) = check_locks((version,), IndexOptions(), envs_folder())
    assert len(targets) == 6
    assert problems == []
