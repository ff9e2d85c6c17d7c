"""What a run will take is said before anything is downloaded, and refused when it cannot be had."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.cli.envs import _say_plan
from bisect_torch.environments import EnvironmentOptions, Store, completed, plan_environments, pythons, remove
from bisect_torch.environments.pythons import Available, Choice, choose
from bisect_torch.environments.uv import Uv
from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases import IndexOptions
from bisect_torch.releases.index import catalogue_builds
from tests.environments.conftest import Workshop
from tests.support.index import Fault
from tests.support.wheels import fake_torch

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_plan_says_what_is_there_and_what_has_to_come(workshop: Workshop) -> None:
    workshop.serve(fake_torch("2.7.0", padding=1_000_000, upload_time="2025-01-01"))
    workshop.ensure("2.4.1")
    before = len(workshop.index.requested("/files/*.whl"))
    plan = plan_environments([workshop.build("2.4.1"), workshop.build("2.7.0")], workshop.options)
    assert [planned.present is not None for planned in plan.environments] == [True, False]
    assert [planned.build.version for planned in plan.missing] == ["2.7.0"]
    assert {planned.python for planned in plan.environments} == {OWN}
    # numpy and setuptools are in the cache already: only torch is to come.
    assert 1_000_000 < plan.download_bytes < 1_020_000
    assert plan.disk_bytes > plan.download_bytes
    assert plan.unknown == ()
    assert plan.notes == ()
    assert plan.minutes > 0
    assert "MB/s" in plan.basis
    assert len(workshop.index.requested("/files/*.whl")) == before


def test_locks_that_are_not_asked_for_now_are_left_open_and_made_later(workshop: Workshop) -> None:
    """A search of many builds: two are looked at, and what one more of their kind adds is counted for the others."""
    for version in ("2.7.0", "2.8.0"):
        workshop.serve(fake_torch(version, padding=1_000_000, upload_time="2025-01-01"))
    workshop.ensure("2.4.1")
    builds = [workshop.build(version) for version in ("2.4.1", "2.5.0", "2.6.0", "2.7.0", "2.8.0")]
    plan = plan_environments(builds, workshop.options, at_most=3, now={"2.8.0"})
    assert [planned.open for planned in plan.environments] == [False, True, True, True, False]
    assert len(list(workshop.store.locks.glob("*.lock"))) == 2
    assert [planned.build.version for planned in plan.missing] == ["2.5.0", "2.6.0", "2.7.0", "2.8.0"]
    assert plan.counted == 3
    assert 3_000_000 < plan.download_bytes < 3_060_000

    done = completed(plan.environments, workshop.options)

    assert not any(planned.open for planned in done)
    assert len({planned.lock_hash for planned in done}) == 5
    assert len(list(workshop.store.locks.glob("*.lock"))) == 5
    assert not plan_environments(builds, workshop.options, now=()).environments[1].open, "it is there now"


def test_what_nobody_has_looked_up_yet_is_said(workshop: Workshop) -> None:
    """Of builds that a search may never come to, and where Python itself is fetched first."""
    builds = [workshop.build(version) for version in ("2.4.1", "2.5.0", "2.6.0")]
    options = replace(workshop.options, extras=("setuptools>1; python_version >= '3.9'",))
    later = "that is looked up when an environment is made"

    assert plan_environments(builds, options, now={"2.6.0"}).notes == (
        f"not resolved yet: --with setuptools>1 on 2 builds from 2.4.1 to 2.5.0; {later}",
    )
    assert plan_environments(builds, options).notes == ()
    assert plan_environments(builds, workshop.options, now=()).notes == ()


def test_an_index_without_sizes_leaves_them_unknown(workshop: Workshop) -> None:
    workshop.index.sizes = False
    plan = plan_environments([workshop.build("2.4.1")], workshop.options)
    assert plan.unknown == ("numpy", "setuptools", "torch")
    assert plan.download_bytes == 0


def test_a_disk_that_is_too_small_is_refused_with_numbers(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "free_bytes", lambda self: 30_000_000)
    with pytest.raises(InfrastructureError, match=r"1 environments need 0\.1 GB, .* has 0\.0 GB free") as caught:
        plan_environments([workshop.build("2.4.1")], workshop.options)
    assert "--store" in (caught.value.hint or "")


def test_a_build_without_a_wheel_for_the_python_is_said_in_the_plan(workshop: Workshop) -> None:
    odd = replace(workshop.build("2.5.0"), pythons=("3.7",))
    plan = plan_environments([workshop.build("2.4.1"), odd], workshop.options)
    assert [bool(planned.reason) for planned in plan.environments] == [False, True]
    assert plan.missing == (plan.environments[0],)


def test_one_build_that_cannot_be_locked_does_not_stop_the_others(workshop: Workshop) -> None:
    first, second = workshop.build("2.4.1"), workshop.build("2.5.0")
    workshop.ensure(first)
    workshop.index.fault("/simple/torch/", Fault(status=403))
    plan = plan_environments([first, second], workshop.options)
    assert plan.environments[0].present is not None
    assert [planned.build for planned in plan.missing] == [second]
    assert any("locking torch 2.5.0: the index refused access" in note for note in plan.notes)
    with pytest.raises(InfrastructureError, match=r"locking torch 2\.5\.0: the index refused access"):
        plan_environments([second], workshop.options)


def test_a_lock_that_does_not_fit_the_disk_does_not_stop_the_others(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = workshop.build("2.4.1"), workshop.build("2.5.0")
    workshop.ensure(first)

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "lock")

    monkeypatch.setattr("bisect_torch.environments.resolving.make", full)
    plan = plan_environments([first, second], workshop.options)
    assert [planned.build for planned in plan.missing] == [second]
    assert plan.notes == ("locking torch 2.5.0: No space left on device: lock",)


def test_leftovers_that_cannot_be_removed_are_a_note(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(store: Store) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Store, "sweep_leftovers", denied)
    plan = plan_environments([workshop.build("2.4.1")], workshop.options)
    assert plan.notes == ("what earlier runs left half made could not all be removed: Read-only file system",)


def test_offline_the_plan_says_at_once_what_is_missing_and_asks_nobody(workshop: Workshop) -> None:
    """One is there, one was removed and lies in the cache, one was only locked, one has no lock."""
    there, cached, locked, unknown = (workshop.build(name) for name in ("2.4.1", "2.5.0", "2.6.0", "2.4.1"))
    unknown = replace(unknown, version="2.7.0", name="2.7.0")
    workshop.ensure(there)
    remove(workshop.ensure(cached)[0], workshop.store)
    plan_environments([locked], workshop.options)
    workshop.options = replace(workshop.options, index=replace(workshop.options.index, offline=True))
    workshop.index.requests.clear()

    plan = plan_environments([there, cached, locked, unknown], workshop.options)

    assert [planned.impossible for planned in plan.environments] == [
        "",
        "",
        "offline, and 1 of its packages is not in the store's cache",
        "locking torch 2.7.0: offline, and the index did not show it last",
    ]
    assert [planned.build.version for planned in plan.missing] == ["2.5.0"]
    assert plan.download_bytes == 0
    assert workshop.index.requests == []
    assert workshop.ensure(cached)[1] is False
    assert workshop.index.requests == []


def test_a_changed_environment_is_planned_as_there_and_made_anew_when_it_is_used(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    next(environment.root.glob("lib/python*/site-packages/torch/version.py")).unlink()
    plan = plan_environments([workshop.build("2.4.1")], workshop.options)
    assert plan.missing == ()
    made, reused = workshop.ensure("2.4.1")
    assert not reused
    assert list(made.root.glob("lib/python*/site-packages/torch/version.py"))


def test_the_committed_locks_have_known_sizes_and_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the real releases on Linux x86_64 the plan needs no server at all, and hints at the smaller backend."""
    monkeypatch.setattr(
        "bisect_torch.environments.plan_words.smaller", lambda options, joiner: joiner + " --torch-backend cpu"
    )
    monkeypatch.setattr(Store, "free_bytes", lambda self: 10**12)
    builds = [build for build in catalogue_builds() if build.version in ("2.4.1", "2.14.0")]
    fitting = [python for python in builds[0].pythons if python in builds[1].pythons]
    _know(monkeypatch, (), tuple(fitting))
    monkeypatch.setattr(pythons, "own_interpreter", lambda: None)
    options = EnvironmentOptions(Store.open(tmp_path), index=IndexOptions("http://127.0.0.1:9/simple/"))
    plan = plan_environments(builds, options)
    assert plan.unknown == ()
    assert 3e9 < plan.download_bytes < 8e9
    assert 5e9 < plan.disk_bytes < 16e9
    assert any("--torch-backend cpu" in hint for hint in plan.hints)
    assert any("uv will fetch Python" in note for note in plan.notes)


# --- which Python


def _build(version: str, *fits: str) -> Build:
    return Build(BuildKind.RELEASE, version, version, pythons=fits)


@pytest.fixture
def options(tmp_path: Path) -> EnvironmentOptions:
    return EnvironmentOptions(Store.open(tmp_path / "store"))


def _know(monkeypatch: pytest.MonkeyPatch, installed: tuple[str, ...], downloadable: tuple[str, ...] = ()) -> None:
    monkeypatch.setattr(pythons, "available", lambda options: Available(installed, downloadable))


def test_one_python_for_the_whole_range_is_preferred(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    _know(monkeypatch, ("3.99", "3.98", "3.97"))
    builds = [_build("2.4.1", "3.97", "3.98"), _build("2.9.0", "3.98", "3.99"), _build("2.10.0")]
    assert set(choose(builds, options).values()) == {Choice("3.98", "3.98", True)}


def test_the_python_that_runs_the_tool_comes_first(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pythons, "available", None)  # not asked for
    assert choose([_build("2.4.1", OWN, "3.99")], options)["2.4.1"].minor == OWN


def test_a_python_for_all_is_fetched_rather_than_several_used(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    _know(monkeypatch, ("3.97", "3.99"), ("3.98",))
    builds = [_build("2.4.1", "3.97", "3.98"), _build("2.9.0", "3.98", "3.99")]
    assert set(choose(builds, options).values()) == {Choice("3.98", "3.98", False)}


def test_where_none_fits_all_each_build_has_its_own_and_the_plan_says_so(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _know(monkeypatch, (), ("3.97", "3.99"))
    options = replace(workshop.options, python=None)
    builds = [_build("2.4.1", "3.97"), _build("2.9.0", "3.99"), _build("2.10.0", "3.50")]
    assert {name: choice.minor for name, choice in choose(builds, options).items()} == {
        "2.4.1": "3.97",
        "2.9.0": "3.99",
    }
    plan = plan_environments(builds, options)
    assert "no one Python fits every build: Python 3.97: 2.4.1; Python 3.99: 2.9.0" in plan.notes
    assert "no Python that has a wheel" in plan.environments[2].reason


def test_what_nobody_knows_the_size_of_is_not_told_as_nothing(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Python is fetched first, no lock of an index of one's own can be made before."""
    _know(monkeypatch, (), ("3.99",))
    plan = plan_environments([_build("2.4.1", "3.99"), _build("2.5.0", "3.99")], replace(workshop.options, python=None))
    assert (plan.download_bytes, plan.sized, plan.unsized) == (0, False, ("2.4.1", "2.5.0"))
    _say_plan(plan)
    said = capsys.readouterr().err
    assert "2 environments to build: to download: a size that is not known yet, at least 1 min" in said
    assert "not known yet, and not counted: what is installed for 2.4.1 and 2.5.0\n" in said
    known = plan_environments([workshop.build("2.4.1")], workshop.options)
    assert known.sized
    assert known.unsized == ()


def test_a_named_interpreter_that_does_not_start_is_a_usage_error(options: EnvironmentOptions) -> None:
    with pytest.raises(UsageError, match="not a Python interpreter"):
        choose([_build("2.4.1")], replace(options, python="/bin/false"))


# --- backends


def test_another_backend_is_taken_from_its_own_index(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend is called ``simple`` here, so that the index's own address is that of the backend."""
    workshop.serve(fake_torch("2.7.0", upload_time="2025-01-01"), fake_torch("2.7.0+simple", upload_time="2025-01-01"))
    monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", workshop.index.base)
    workshop.options = replace(workshop.options, backend="simple")
    environment, _ = workshop.ensure("2.7.0")
    assert (environment.torch_version, environment.backend) == ("2.7.0+simple", "simple")
    assert environment.local_version == "simple"


@pytest.mark.skipif(sys.platform != "linux", reason="wheels for macOS do not say which backend they are of")
def test_a_backend_is_never_fallen_back_from(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from bisect_torch.environments import EnvironmentBroken

    monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", workshop.index.base)
    workshop.serve(fake_torch("2.7.0+cu1", upload_time="2025-01-01"))
    workshop.options = replace(workshop.options, backend="simple")
    with pytest.raises(EnvironmentBroken, match=r"asked for simple, imported torch 2\.7\.0\+cu1"):
        workshop.ensure("2.7.0")


def test_nightlies_come_from_the_nightly_index_of_the_backend(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", "http://mirror.invalid/whl/")
    nightly = Build(BuildKind.NIGHTLY, "2.16.0.dev20261128", "nightly")
    words = Uv(replace(options, backend="cpu")).source_arguments(nightly)
    assert words == ["--index", "http://mirror.invalid/whl/nightly/cpu", "--index-strategy", "unsafe-best-match"]
    monkeypatch.delenv("BISECT_TORCH_BACKEND_INDEX")
    assert Uv(replace(options, backend="cpu")).source_arguments(_build("2.9.0")) == ["--torch-backend", "cpu"]
    assert Uv(options).source_arguments(_build("2.9.0")) == []


def test_find_links_are_the_users_folders_although_uv_runs_elsewhere(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", "theirs")
    index = IndexOptions(find_links=("mine", "http://host.invalid/links"))
    words = Uv(replace(options, index=index)).source_arguments(_build("2.9.0"))
    places = [word for word in words if word != "--find-links"]
    assert places == [str(Path.cwd() / "mine"), "http://host.invalid/links", str(Path.cwd() / "theirs")]
