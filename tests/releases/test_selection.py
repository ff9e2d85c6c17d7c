"""Ranges, lists and exclusions of builds, and what is said when they cannot be met."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.local import local_build
from bisect_torch.releases.selection import Selection, select
from tests.support.wheels import fake_commit


def build(version: str, pythons: str = "3.10 3.11 3.12", *, yanked: bool = False) -> Build:
    kind = BuildKind.NIGHTLY if ".dev" in version else BuildKind.RELEASE
    return Build(kind, version, version, pythons=tuple(pythons.split()), yanked=yanked)


BUILDS = (
    build("2.3.0", "3.8 3.9 3.10"),
    build("2.4.0", "3.8 3.9 3.10 3.11", yanked=True),
    build("2.4.1", "3.8 3.9 3.10 3.11"),
    build("2.5.0"),
    build("2.5.1"),
    build("2.6.0"),
    build("2.7.0rc1"),
    build("2.9.0"),
    build("2.9.1"),
    build("2.10.0", "3.11 3.12 3.13"),
)


def names(selection: Selection, *, python: str | None = None, builds: tuple[Build, ...] = BUILDS) -> list[str]:
    return [chosen.name for chosen in select(builds, selection, python=python)]


@pytest.mark.parametrize(
    ("selection", "python", "expected"),
    [
        (Selection(), None, "2.4.1 2.5.0 2.5.1 2.6.0 2.9.0 2.9.1 2.10.0"),
        (Selection("2.3.0", "2.3.0"), None, "2.3.0"),
        (Selection("2.5.0", "2.9.0"), None, "2.5.0 2.5.1 2.6.0 2.9.0"),
        (Selection("2.5", "2.6"), None, "2.5.0 2.5.1 2.6.0"),
        (Selection("2.9.0", "2.9.0"), None, "2.9.0"),
        (Selection("2.9.1"), None, "2.9.1 2.10.0"),
        (Selection("2.3.0", "2.4.1"), None, "2.3.0 2.4.1"),
        (Selection("2.4.0", "2.4.1"), None, "2.4.0 2.4.1"),
        (Selection("2.6.0", "2.7.0rc1"), None, "2.6.0 2.7.0rc1"),
        (Selection(versions=("2.9.0", "2.4.1", "2.9.0")), None, "2.4.1 2.9.0"),
        (Selection(versions=("2.4.0",)), None, "2.4.0"),
        (Selection(versions=("2.7.0rc1",)), None, "2.7.0rc1"),
        (Selection("2.9.0", versions=("2.5.0",)), None, "2.5.0 2.9.0 2.9.1 2.10.0"),
        (Selection(exclude=("2.9.0", "2.5.1"), first="2.5.0"), None, "2.5.0 2.6.0 2.9.1 2.10.0"),
        (Selection(minor_only=True), None, "2.4.1 2.5.1 2.6.0 2.9.1 2.10.0"),
        (Selection("2.5.0", "2.9.0", minor_only=True), None, "2.5.1 2.6.0 2.9.0"),
        (Selection(minor_only=True, exclude=("2.9.1",)), None, "2.4.1 2.5.1 2.6.0 2.9.0 2.10.0"),
        (Selection(), "3.8", "2.4.1"),
        (Selection(), "3.10", "2.4.1 2.5.0 2.5.1 2.6.0 2.9.0 2.9.1"),
        (Selection(), "3.13", "2.10.0"),
    ],
)
def test_what_takes_part(selection: Selection, python: str | None, expected: str) -> None:
    assert names(selection, python=python) == expected.split()


def test_dots_in_other_places_are_seen() -> None:
    """2.4.1 typed as 2.41, which is far from it by number."""
    for typed in ("2.41.0", "2.41", "24.1", "v2.41.0"):
        with pytest.raises(UsageError) as caught:
            names(Selection(versions=(typed,)))
        assert caught.value.hint == "did you mean 2.4.1? `bisect-torch releases` lists all"
    with pytest.raises(UsageError) as caught:
        names(Selection(versions=("2.99.0",)))
    assert caught.value.hint == "`bisect-torch releases` lists all"


@pytest.mark.parametrize(
    ("selection", "python", "said"),
    [
        (Selection("2.8.0"), None, ["2.8.0 does not exist", "2.6.0 and 2.9.0"]),
        (Selection(last="2.99"), None, ["2.99 does not exist", "nearest that exist: 2.10.0"]),
        (Selection("1.0"), None, ["1.0 does not exist", "nearest that exist: 2.3.0"]),
        (Selection(versions=("2.7.0",)), None, ["2.7.0 does not exist", "2.6.0 and 2.9.0"]),
        (Selection(exclude=("2.7.0",)), None, ["2.7.0 does not exist"]),
        (Selection(versions=("latest-ish",)), None, ["'latest-ish' is not a version"]),
        (Selection(versions=("2.9.0+cu128",)), None, ["names a backend", "2.9.0"]),
        (Selection("2.9.0", "2.5.0"), None, ["reversed", "2.9.0 is newer than 2.5.0"]),
        (Selection("2.10.0", "2.9.1"), None, ["reversed"]),
        (Selection(last="2.3.0"), None, ["reversed: without --from it begins at 2.4.1, which is newer than 2.3.0"]),
        (Selection("2.9.0", "2.9.1", exclude=("2.9.0", "2.9.1")), None, ["empty", "2.9.0 to 2.9.1"]),
        (Selection(versions=("2.9.0",), exclude=("2.9.0",)), None, ["no build is left"]),
        (Selection(versions=("2.4.1",)), "3.12", ["2.4.1 has no wheel for Python 3.12", "2.5.0"]),
        (Selection("2.4.1", "2.9.1"), "3.12", ["2.4.1 has no wheel for Python 3.12", "2.5.0"]),
        (Selection("2.5.0", "2.10.0"), "3.10", ["2.10.0 has no wheel for Python 3.10", "2.9.1"]),
        (Selection("2.9.0", "2.9.1"), "3.7", ["2.9.0 has no wheel for Python 3.7", "no other has one"]),
        (Selection("2.9.0"), "3.7", ["no torch in the range has a wheel for Python 3.7"]),
        (Selection(), "3.7", ["no torch in the range has a wheel for Python 3.7"]),
    ],
)
def test_a_refusal_is_one_line_that_names_the_nearest(
    selection: Selection, python: str | None, said: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        names(selection, python=python)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    assert [part for part in said if part not in caught.value.message] == []
    assert caught.value.hint is None or "\n" not in caught.value.hint


def test_the_hint_of_a_reversed_range_is_the_range_that_works() -> None:
    with pytest.raises(UsageError) as caught:
        names(Selection("2.9.0", "2.5.0"))
    assert caught.value.hint == "--from 2.5.0 --to 2.9.0"


@pytest.mark.parametrize(
    ("selection", "hint"),
    [
        (Selection(last="2.3.0"), "--from 2.0.0 --to 2.3.0"),
        (Selection(last="1.13.0"), "--from 1.13.0 --to 1.13.0"),
        (Selection(last="2.3.0", versions=("2.3.0",)), "--from 2.0.0"),  # bisect --bad 2.3.0
    ],
)
def test_a_range_that_ends_before_the_default_beginning_is_refused_with_one_that_does_not(
    selection: Selection, hint: str
) -> None:
    with pytest.raises(UsageError, match=r"without --from it begins at 2\.4\.1") as caught:
        names(selection, builds=(build("1.13.0"), build("2.0.0"), *BUILDS))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        (Selection(versions=("2.9",)), ["2.9 means 2.9.0 alone; there is 2.9.1 too"]),
        (Selection("2.5", "2.9"), ["2.9 means 2.9.0 alone; there is 2.9.1 too"]),
        (Selection(exclude=("2.5",)), ["2.5 means 2.5.0 alone; there is 2.5.1 too"]),
        (Selection("2.9"), []),
        (Selection(versions=("2.9.0", "2.6", "2.10")), []),
    ],
)
def test_a_name_without_a_patch_is_said_to_be_one_release(selection: Selection, told: list[str]) -> None:
    notes: list[str] = []
    select(BUILDS, selection, note=notes.append)
    assert notes == told


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("2.4-2.6", "a range is --from 2.4 --to 2.6; several builds are 2.4,2.6"),
        ("2.4.1..2.6.0", "a range is --from 2.4.1 --to 2.6.0; several builds are 2.4.1,2.6.0"),
        (">=2.6", "a range is --from 2.6"),
        ("<2.6", "a range is --to 2.6"),
        ("2.4.1 2.6.0", "several builds are separated by commas: 2.4.1,2.6.0"),
        ("latest", "without --to a range goes up to the newest release; `nightly` is the latest nightly build"),
        ("torch==2.6.0", "versions look like 2.9.1; an interpreter is named by its path, with a slash"),
        ("2.5\n.1", "versions look like 2.9.1; an interpreter is named by its path, with a slash"),
    ],
)
def test_what_a_name_that_is_no_version_may_have_meant(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not a version") as caught:
        names(Selection(versions=(name,)))
    assert caught.value.hint == hint


def test_builds_that_a_named_python_leaves_out_are_said() -> None:
    notes: list[str] = []
    assert [each.name for each in select(BUILDS, Selection(), python="3.10", note=notes.append)][-1] == "2.9.1"
    assert notes == ["no wheel for Python 3.10, and so left out: 2.10.0"]
    select(BUILDS, Selection(), python=None, note=notes.append)
    select(BUILDS, Selection("2.5.0", "2.9.1"), python="3.10", note=notes.append)
    assert len(notes) == 1


def test_nightlies_alone_are_a_range() -> None:
    nightlies = tuple(build(f"2.16.0.dev202611{day:02}") for day in range(1, 6))
    chosen = names(Selection("2.16.0.dev20261102", "2.16.0.dev20261104"), builds=nightlies)
    assert chosen == ["2.16.0.dev20261102", "2.16.0.dev20261103", "2.16.0.dev20261104"]
    assert len(names(Selection(), builds=nightlies)) == 5


def test_an_interpreter_stands_after_the_release_that_it_equals() -> None:
    def read(path: Path) -> Build:
        return Build(BuildKind.LOCAL, "2.9.0", str(path), python=path)

    chosen = select(BUILDS, Selection(versions=("/opt/venv/bin/python", "2.9.0", "2.9.1")), read_local=read)
    assert [one.name for one in chosen] == ["2.9.0", "/opt/venv/bin/python", "2.9.1"]


def test_interpreters_alone_need_no_list_of_builds() -> None:
    assert not Selection(versions=("/a/python", "./b/python")).needs_listing
    assert Selection(versions=("/a/python", "2.9.0")).needs_listing
    assert Selection(versions=("/a/python",), first="2.9.0").needs_listing


@pytest.fixture
def python_with(tmp_path: Path) -> Callable[[str | None], Path]:
    """An interpreter that finds the given ``torch/version.py``, or no torch at all."""

    def make(version_source: str | None) -> Path:
        modules = tmp_path / "modules"
        (modules / "torch").mkdir(parents=True)
        if version_source is not None:
            (modules / "torch" / "__init__.py").write_text("raise SystemExit('torch must not be imported')")
            (modules / "torch" / "version.py").write_text(version_source)
        else:
            (modules / "torch").rmdir()
        script = tmp_path / "python"
        code = f"import sys; sys.path.insert(0, {str(modules)!r}); exec(sys.argv[1])"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S -c "{code}" "$2"\n')
        script.chmod(0o755)
        return script

    return make


def test_a_local_torch_is_known_without_importing_it(python_with: Callable[[str | None], Path]) -> None:
    commit = fake_commit("x")
    path = python_with(f"__version__ = '2.16.0a0+gitabc'\ngit_version = {commit!r}\n")
    found = local_build(path)
    assert (found.kind, found.version, found.name) == (BuildKind.LOCAL, "2.16.0a0", str(path))
    assert (found.git_commit, found.python) == (commit, path)
    assert found.pythons == (f"{sys.version_info[0]}.{sys.version_info[1]}",)


def test_a_path_that_is_no_interpreter_with_torch_is_refused(
    tmp_path: Path, python_with: Callable[[str | None], Path]
) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python here\n")
    broken.chmod(0o755)
    refused = {
        tmp_path / "absent": "no Python interpreter",
        text: "no Python interpreter",
        tmp_path: "is a folder",
        broken: "does not run as a Python interpreter",
        python_with(None): "has no torch",
    }
    for path, said in refused.items():
        with pytest.raises(UsageError, match=said):
            local_build(path)


# --- properties

versions = st.builds(lambda minor, patch: f"2.{minor}.{patch}", st.integers(0, 12), st.integers(0, 3))


@st.composite
def listings(draw: st.DrawFn) -> tuple[Build, ...]:
    chosen = draw(st.lists(versions, min_size=1, max_size=12, unique=True))
    return tuple(
        build(version, draw(st.sampled_from(["3.8 3.9", "3.9 3.10", "3.8 3.9 3.10"])), yanked=draw(st.booleans()))
        for version in chosen
    )


@given(listings(), st.data())
def test_a_closed_range_is_what_brute_force_says(builds: tuple[Build, ...], data: st.DataObject) -> None:
    first, last = (data.draw(st.sampled_from([one.version for one in builds])) for _ in range(2))
    minor_only = data.draw(st.booleans())
    python = data.draw(st.sampled_from([None, "3.8", "3.9", "3.10"]))
    low, high = Version(first), Version(last)
    inside = sorted(
        (
            one
            for one in builds
            if low <= Version(one.version) <= high and (not one.yanked or one.version in (first, last))
        ),
        key=lambda one: Version(one.version),
    )
    selection = Selection(first, last, minor_only=minor_only)
    if low > high or any(python is not None and python not in one.pythons for one in inside):
        with pytest.raises(UsageError):
            select(builds, selection, python=python)
        return
    if minor_only:
        newer = {Version(one.version).release[:2]: one for one in inside}
        inside = list(newer.values())
    assert select(builds, selection, python=python) == tuple(inside)


@given(listings(), versions)
def test_a_missing_version_is_answered_with_its_true_neighbours(builds: tuple[Build, ...], wanted: str) -> None:
    if wanted in {one.version for one in builds}:
        assert names(Selection(versions=(wanted,)), builds=builds) == [wanted]
        return
    with pytest.raises(UsageError) as caught:
        names(Selection(versions=(wanted,)), builds=builds)
    offered = [Version(one.version) for one in builds if not one.yanked] or [Version(one.version) for one in builds]
    near = [max((v for v in offered if v < Version(wanted)), default=None)]
    near += [min((v for v in offered if v > Version(wanted)), default=None)]
    assert caught.value.message.endswith(" and ".join(str(v) for v in near if v is not None))
