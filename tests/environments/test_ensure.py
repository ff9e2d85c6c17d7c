"""An environment exists whole or not at all, and is the one that was asked for."""

from __future__ import annotations

import datetime
import errno
import os
import stat
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.child_processes import Completed
from bisect_torch.environments import (
    EnvironmentBroken,
    NotInstallable,
    ensure,
    list_environments,
    remove,
)
from bisect_torch.environments.stamp import STAMP_NAME
from bisect_torch.environments.uv import Uv
from bisect_torch.errors import InfrastructureError, Interrupted, UsageError
from tests.environments.conftest import Workshop, site_packages
from tests.support.index import Fault
from tests.support.project import editable_project
from tests.support.wheels import build_wheel, fake_commit, fake_torch


def test_an_environment_is_made_once_and_then_reused(workshop: Workshop) -> None:
    made, reused = workshop.ensure("2.4.1")
    again, reused_again = workshop.ensure("2.4.1")
    assert (reused, reused_again) == (False, True)
    assert again == made
    assert made.torch_version == "2.4.1"
    assert made.git_commit == fake_commit("2.4.1")
    assert dict(made.packages) == {"numpy": "2.1.1", "setuptools": "74.1.2", "torch": "2.4.1"}
    assert made.root.parent == workshop.store.envs
    assert workshop.left_behind() == []
    version = subprocess.run(
        [made.python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True
    )
    assert version.stdout == "2.4.1\n"


def test_files_are_read_only_and_shared_with_the_cache(workshop: Workshop) -> None:
    environment, _ = workshop.ensure("2.4.1")
    status = (site_packages(environment) / "torch" / "__init__.py").stat()
    assert stat.S_IMODE(status.st_mode) & 0o222 == 0
    assert status.st_nlink == 2


def test_the_control_case_writes_the_bytecode_even_where_a_variable_forbids_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment, _ = workshop.ensure("2.4.1")
    assert list((site_packages(environment) / "torch" / "__pycache__").glob("__init__.*.pyc"))


def test_dependencies_are_those_of_the_release_day_unless_today_is_asked_for(workshop: Workshop) -> None:
    workshop.serve(build_wheel("numpy", "9.0", upload_time="2026-01-01"))
    assert workshop.ensure("2.4.1")[0].packages["numpy"] == "2.1.1"
    workshop.options = replace(workshop.options, locks="today")
    environment, reused = workshop.ensure("2.4.1")
    assert (environment.packages["numpy"], reused) == ("9.0", False)


def test_an_index_without_upload_times_is_locked_all_the_same(workshop: Workshop) -> None:
    workshop.index.upload_times = False
    build = replace(workshop.build("2.4.1"), day=datetime.date(2024, 9, 4))
    assert workshop.ensure(build)[0].packages["numpy"] == "2.1.1"


def test_a_bare_extra_follows_the_day_and_a_fixed_one_is_fixed(workshop: Workshop) -> None:
    for version, day in (("0.19.1", "2024-09-04"), ("0.20.0", "2024-12-01")):
        workshop.serve(build_wheel("torchvision", version, upload_time=day))
    workshop.options = replace(workshop.options, extras=("torchvision",))
    assert workshop.ensure("2.4.1")[0].packages["torchvision"] == "0.19.1"
    workshop.options = replace(workshop.options, extras=("torchvision==0.20.0",))
    assert workshop.ensure("2.4.1")[0].packages["torchvision"] == "0.20.0"


def test_extras_are_resolved_together_with_torch(workshop: Workshop) -> None:
    """The newest torchvision of the day wants another torch: the one in step is taken."""
    for version, torch in (("0.19.1", "2.4.1"), ("0.19.2", "2.5.0")):
        workshop.serve(build_wheel("torchvision", version, requires=[f"torch=={torch}"], upload_time="2024-09-04"))
    workshop.options = replace(workshop.options, extras=("torchvision",))
    assert workshop.ensure("2.4.1")[0].packages["torchvision"] == "0.19.1"


def test_an_editable_project_is_installed_beside_torch(workshop: Workshop, tmp_path: Path) -> None:
    project = editable_project(tmp_path / "mine")
    workshop.options = replace(workshop.options, editable=(project,))
    environment, _ = workshop.ensure("2.4.1")
    (project / "mine_module.py").write_text("answer = 42\n")
    shown = subprocess.run(
        [environment.python, "-c", "import mine_module; print(mine_module.answer)"], capture_output=True, text=True
    )
    assert (shown.stdout, shown.stderr) == ("42\n", "")
    assert environment.packages["mine"] == "1.0"
    assert workshop.ensure("2.4.1")[1] is True


# --- what must not become an environment


def test_a_torch_that_cannot_be_imported_is_broken_and_leaves_nothing(workshop: Workshop) -> None:
    workshop.serve(
        fake_torch("2.7.0", "raise ImportError('libtorch_cpu.so: file too short')", upload_time="2025-01-01")
    )
    with pytest.raises(EnvironmentBroken, match="file too short"):
        workshop.ensure("2.7.0")
    assert list(workshop.store.envs.iterdir()) == []
    assert workshop.left_behind() == []


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        (fake_torch("2.7.0", imported_version="2.6.0", upload_time="2025-01-01"), "wrong version inside"),
        (
            fake_torch("2.7.0", "Tensor.__matmul__ = lambda self, other: self", upload_time="2025-01-01"),
            "matmul gives wrong numbers",
        ),
        (fake_torch("2.7.0", "import os; os.abort()", upload_time="2025-01-01"), "killed by signal 6"),
        (fake_torch("2.7.0", "import os; os._exit(0)", upload_time="2025-01-01"), "no answer"),
        (fake_torch("2.7.0", "import no_such_thing", upload_time="2025-01-01"), "no_such_thing"),
    ],
    ids=["other version", "wrong numbers", "abort", "silent exit", "missing module"],
)
def test_a_failing_control_case_is_broken_with_its_reason(workshop: Workshop, torch: object, reason: str) -> None:
    workshop.serve(torch)  # type: ignore[arg-type]
    with pytest.raises(EnvironmentBroken, match=reason):
        workshop.ensure("2.7.0")
    assert list(workshop.store.envs.iterdir()) == []


def test_a_control_case_that_hangs_is_broken(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bisect_torch.environments.control.BASE_LIMIT_S", 1.0)
    workshop.serve(fake_torch("2.7.0", "import time; time.sleep(60)", upload_time="2025-01-01"))
    with pytest.raises(EnvironmentBroken, match="did not end within 1 s"):
        workshop.ensure("2.7.0")


def test_another_commit_than_the_catalogue_says_is_broken(workshop: Workshop) -> None:
    build = replace(workshop.build("2.4.1"), git_commit="0" * 40)
    with pytest.raises(EnvironmentBroken, match="wrong commit inside"):
        workshop.ensure(build)


def test_torch_printing_to_stdout_does_not_hide_the_answer(workshop: Workshop) -> None:
    noise = 'import os; print(\'{"control": "base", "ok": false}\'); os.write(1, b\'no newline\')'
    workshop.serve(fake_torch("2.7.0", noise, upload_time="2025-01-01"))
    assert workshop.ensure("2.7.0")[0].torch_version == "2.7.0"


def test_no_wheel_for_the_python_is_not_installable(workshop: Workshop) -> None:
    build = replace(workshop.build("2.4.1"), pythons=("3.7",))
    with pytest.raises(
        NotInstallable, match=r"torch 2\.4\.1 has no wheel for Python 3\.\d+ on this platform \(it has: 3\.7\)"
    ):
        workshop.ensure(build)


def test_no_set_of_versions_is_not_installable(workshop: Workshop) -> None:
    workshop.serve(fake_torch("2.7.0", requires=["numpy<1"], upload_time="2025-01-01"))
    with pytest.raises(NotInstallable, match=r"numpy<1"):
        workshop.ensure("2.7.0")
    assert workshop.left_behind() == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(status=404), "404"),
        (Fault(status=403), "refused access"),
        (Fault(truncate_to=100), "network failed"),
        (Fault(body=b"PK\x03\x04 this is no wheel"), "torch"),
    ],
    ids=["404", "403", "truncated", "garbage"],
)
def test_a_failing_download_is_our_side_and_leaves_nothing(
    workshop: Workshop, fault: Fault, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bisect_torch.environments.uv._PAUSES_S", (0.0, 0.0))
    build = workshop.build("2.4.1")
    workshop.index.fault("*/torch-2.4.1-*.whl", fault)
    with pytest.raises(InfrastructureError, match=reason):
        workshop.ensure(build)
    assert list(workshop.store.envs.iterdir()) == []
    assert workshop.left_behind() == []


def test_a_server_error_is_tried_again(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bisect_torch.environments.uv._PAUSES_S", (0.0, 0.0))
    workshop.index.fault("*/torch-2.4.1-*.whl", Fault(status=503, times=2))
    assert workshop.ensure("2.4.1")[1] is False
    workshop.index.fault("*/torch-2.5.0-*.whl", Fault(status=503))
    with pytest.raises(InfrastructureError, match="network failed"):
        workshop.ensure("2.5.0")


@pytest.mark.parametrize("damage", ["a digit", "its second half"])
def test_a_kept_lock_that_was_damaged_is_made_anew(workshop: Workshop, damage: str) -> None:
    """Else it would name other versions, and the release would be called uninstallable for good."""
    made, _ = workshop.ensure("2.4.1")
    (lock,) = workshop.store.locks.iterdir()
    text = lock.read_text()
    remove(made, workshop.store)
    damaged = text.replace("numpy==2.1.1", "numpy==2.1.2") if damage == "a digit" else text[: len(text) // 2]
    assert damaged != text
    lock.write_text(damaged)
    again, _ = workshop.ensure("2.4.1")
    assert lock.read_text() == text
    assert again.lock_hash == made.lock_hash


def test_a_file_other_than_the_locked_one_is_our_side(workshop: Workshop) -> None:
    build = workshop.build("2.4.1")
    lock = workshop.store.root / "2.4.1.lock"
    digits = "0" * 64
    lock.write_text(
        f"numpy==2.1.1 --hash=sha256:{digits}\nsetuptools==74.1.2 --hash=sha256:{digits}\n"
        f"torch==2.4.1 --hash=sha256:{digits}\n"
    )
    with pytest.raises(InfrastructureError, match="not the one in the lock"):
        workshop.ensure(replace(build, lock=lock))
    assert list(workshop.store.envs.iterdir()) == []


def test_a_full_disk_is_our_side() -> None:
    from bisect_torch.child_processes import Completed
    from bisect_torch.environments.uv_said import classify

    said = "error: Failed to install: torch.whl\n  cause: failed to write: No space left on device (os error 28)\n"
    assert "disk is full" in classify(Completed(2, "", said), "installing").message
    assert "killed by signal 9" in classify(Completed(-9, "", ""), "installing").message


def test_a_disk_that_fills_up_at_the_stamp_is_our_side_too(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "stamp")

    monkeypatch.setattr("bisect_torch.environments.stamp.write", full)
    with pytest.raises(InfrastructureError, match="No space left on device: stamp"):
        workshop.ensure("2.4.1")
    assert list(workshop.store.envs.iterdir()) == []
    assert workshop.left_behind() == []


def test_passwords_in_addresses_are_not_shown(workshop: Workshop) -> None:
    secret = workshop.index.url.replace("http://", "http://user:hunter2@")
    build = workshop.build("2.4.1")
    workshop.options = replace(workshop.options, index=replace(workshop.options.index, index_url=secret))
    workshop.index.fault("*.whl", Fault(status=404))
    with pytest.raises(InfrastructureError) as caught:
        workshop.ensure(build)
    assert "hunter2" not in str(caught.value)
    assert "404" in str(caught.value)


def test_offline_works_from_the_cache_and_says_so_when_it_cannot(workshop: Workshop) -> None:
    first, second = workshop.build("2.4.1"), workshop.build("2.5.0")
    made, _ = workshop.ensure(first)
    remove(made, workshop.store)
    workshop.options = replace(workshop.options, index=replace(workshop.options.index, offline=True))
    with pytest.raises(InfrastructureError, match="offline, and not all of it is in the store's cache"):
        workshop.ensure(second)
    asked = len(workshop.index.requests)
    assert ensure(first, workshop.options, progress=workshop.events.append)[1] is False
    assert len(workshop.index.requests) == asked


def test_cancelling_stops_a_download_and_leaves_nothing(workshop: Workshop) -> None:
    workshop.serve(fake_torch("2.7.0", padding=2_000_000, upload_time="2025-01-01"))
    build = workshop.build("2.7.0")
    workshop.index.fault("*/torch-2.7.0-*.whl", Fault(bytes_per_second=100_000))
    cancel = threading.Event()
    threading.Timer(1.0, cancel.set).start()
    with pytest.raises(Interrupted):
        workshop.ensure(build, cancel=cancel)
    workshop.store.sweep_leftovers()
    assert list(workshop.store.envs.iterdir()) == []
    assert workshop.left_behind() == []


def test_progress_tells_bytes_while_a_wheel_comes_in(workshop: Workshop) -> None:
    workshop.serve(fake_torch("2.7.0", padding=3_000_000, upload_time="2025-01-01"))
    workshop.index.fault("*/torch-2.7.0-*.whl", Fault(bytes_per_second=1_000_000))
    workshop.ensure("2.7.0")
    done = [
        event.done_bytes for event in workshop.events if event.phase == "downloading" and event.done_bytes is not None
    ]
    totals = {event.total_bytes for event in workshop.events if event.phase == "downloading"}
    assert done == sorted(done)
    assert any(0 < bytes_ < 3_000_000 for bytes_ in done)
    assert len(totals) == 1
    assert abs((totals.pop() or 0) - 3_000_000) < 100_000
    assert workshop.phases[0] == "locking"
    assert workshop.phases[-1] == "ready"


def test_a_python_that_is_not_there_is_said(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("UV_PYTHON_SEARCH_PATH", str(workshop.store.tmp))
    workshop.options = replace(workshop.options, python="3.99")
    with pytest.raises(UsageError, match=r"Python 3\.99 is not installed"):
        workshop.ensure(replace(workshop.build("2.4.1"), pythons=()))


def test_a_python_that_cannot_be_fetched_is_tried_for_once_and_not_for_each_build(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def attempt(self: Uv, arguments: Sequence[str], **_: object) -> Completed:
        asked.append(arguments[1])
        return Completed(1, "[]", "error: Failed to download it\n  Caused by: no route in 7.8s")

    monkeypatch.setattr(Uv, "attempt", attempt)
    workshop.options = replace(workshop.options, python="3.99")
    builds = [replace(workshop.build(version), pythons=()) for version in ("2.4.1", "2.5.0", "2.6.0")]
    said = set()
    for build in builds:
        with pytest.raises(UsageError, match=r"Python 3\.99 is not installed and could not be fetched") as caught:
            workshop.ensure(build)
        said.add(caught.value.message)
    assert asked.count("install") == 1
    assert asked.count("list") == 1
    assert len(said) == 1


def test_settings_of_a_project_around_the_store_do_not_leak_in(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "uv.toml").write_text('index-url = "http://127.0.0.1:9/nowhere"\nno-index = true\n')
    assert workshop.ensure("2.4.1")[1] is False


def test_listing_and_removing(workshop: Workshop, tmp_path: Path) -> None:
    first, _ = workshop.ensure("2.4.1")
    second, _ = workshop.ensure("2.5.0")
    assert [environment.root for environment in list_environments(workshop.store)] == [first.root, second.root]
    remove(first, workshop.store)
    assert [environment.root for environment in list_environments(workshop.store)] == [second.root]
    assert workshop.left_behind() == []


def test_nothing_without_a_stamp_and_nothing_outside_the_store_is_removed(workshop: Workshop, tmp_path: Path) -> None:
    environment, _ = workshop.ensure("2.4.1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / STAMP_NAME).write_bytes((environment.root / STAMP_NAME).read_bytes())
    with pytest.raises(InfrastructureError, match="not inside the store"):
        remove(replace(environment, root=outside), workshop.store)
    with pytest.raises(InfrastructureError, match="not inside the store"):
        remove(replace(environment, root=workshop.store.envs / ".." / ".." / "outside"), workshop.store)
    link = workshop.store.envs / "link"
    os.symlink(outside, link)
    with pytest.raises(InfrastructureError, match="not inside the store"):
        remove(replace(environment, root=link / "x"), workshop.store)
    with pytest.raises(UsageError, match="not an environment"):
        remove(replace(environment, root=workshop.store.envs), workshop.store)
    plain = workshop.store.envs / "plain"
    plain.mkdir()
    with pytest.raises(UsageError, match="not an environment"):
        remove(replace(environment, root=plain), workshop.store)
    assert outside.is_dir()
    assert plain.is_dir()
