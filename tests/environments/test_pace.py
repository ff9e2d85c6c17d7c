"""A download that makes no real progress is given up; a slow and steady one is left alone, and so is what builds."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_torch.environments import clean_cache, outcome_of, remove
from bisect_torch.environments.options import SlowestPace
from bisect_torch.environments.progress import DownloadMeter
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, BuildKind, Outcome
from tests.environments.conftest import Workshop
from tests.support.index import Fault
from tests.support.wheels import fake_torch

PACE = SlowestPace(bytes_per_s=20_000, over_s=4)


def big(workshop: Workshop, bytes_per_second: int, *, padding: int = 1_500_000) -> Build:
    workshop.serve(fake_torch("2.7.0", padding=padding, upload_time="2025-01-01"))
    workshop.options = replace(workshop.options, slowest=PACE)
    build = workshop.build("2.7.0")
    workshop.index.fault("/files/torch-2.7.0-*.whl", Fault(bytes_per_second=bytes_per_second))
    return build


def test_a_wheel_that_trickles_is_given_up_with_the_numbers_and_made_by_the_next_run(workshop: Workshop) -> None:
    build = big(workshop, bytes_per_second=1)
    begin = time.monotonic()

    with pytest.raises(InfrastructureError) as caught:
        workshop.ensure(build)

    assert caught.value.message == ("installing torch 2.7.0: the download makes no progress: 0.0 MB in 4 s, of 1.5 MB")
    assert outcome_of(caught.value) is Outcome.LOST
    assert time.monotonic() - begin < 60, "it was tried again"
    assert len(workshop.index.asked("/files/torch-2.7.0-*.whl")) == 1
    assert workshop.left_behind() == []
    workshop.index.clear_faults()
    assert workshop.ensure(build)[1] is False


def test_a_connection_that_is_slow_and_steady_is_left_alone(workshop: Workshop) -> None:
    """It takes longer than the time over which the pace is measured. uv writes in pieces of 1 MiB."""
    build = big(workshop, bytes_per_second=1_500_000, padding=10_000_000)
    begin = time.monotonic()
    assert workshop.ensure(build)[1] is False
    assert time.monotonic() - begin > PACE.over_s


def test_an_index_page_that_trickles_while_installing_is_given_up_too(workshop: Workshop) -> None:
    build = big(workshop, bytes_per_second=10_000_000)
    remove(workshop.ensure(build)[0], workshop.store)
    clean_cache(workshop.store)
    workshop.index.fault("/simple/torch/", Fault(bytes_per_second=1))
    with pytest.raises(InfrastructureError, match=r"no progress: 0\.0 MB in 4 s$"):
        workshop.ensure(build)


def test_the_rule_for_real_leaves_three_gigabytes_at_300_kb_per_second_alone() -> None:
    """And no smallest torch that it gives up could have been installed in the time that an install has."""
    from bisect_torch.environments.uv import _TIME_LIMIT_S

    pace = SlowestPace()
    assert pace.bytes_per_s * 10 < 300_000
    assert _TIME_LIMIT_S > 3e9 / 300_000
    assert 200e6 / pace.bytes_per_s > _TIME_LIMIT_S


def meter(folder: Path, pace: SlowestPace) -> DownloadMeter:
    build = Build(BuildKind.RELEASE, "2.7.0", "2.7.0")
    (folder / "cache").mkdir()
    return DownloadMeter(build, folder / "cache", lambda event: None, pace, folder / "env")


@pytest.mark.parametrize("state", ["builds", "prepared", "linked"])
def test_what_builds_or_links_takes_its_time(tmp_path: Path, state: str) -> None:
    watched = meter(tmp_path, SlowestPace(bytes_per_s=1000, over_s=2))
    lines = {"builds": "   Building flash-attn==2.8.3", "prepared": "Prepared 3 packages in 2.00s"}
    if state == "linked":
        (tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "torch-2.7.0.dist-info").mkdir(parents=True)
    with watched:
        if state in lines:
            watched.line(lines[state])
        threading.Event().wait(3.5)
        assert watched.too_slow == ""
        if state == "builds":  # and then it waits for bytes again
            watched.line("      Built flash-attn==2.8.3")
            threading.Event().wait(3.5)
            assert watched.too_slow == "the download makes no progress: 0.0 MB in 2 s"
