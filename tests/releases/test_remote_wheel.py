"""Facts are read out of a wheel on a server by ranges; what was installed says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from bisect_torch.errors import InfrastructureError
from bisect_torch.releases.catalogue import load_catalogue
from bisect_torch.releases.local import local_build
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.remote_wheel import torch_wheel_facts, unpacked_bytes
from bisect_torch.releases.served import web_session
from tests.support.index import FakeIndex, Fault
from tests.support.wheels import build_wheel, fake_commit, fake_torch


def test_commit_and_version_are_read_without_the_rest() -> None:
    wheel = fake_torch("2.9.1", imported_version="2.9.1+cu128", cuda="12.8", padding=3_000_000)
    with FakeIndex([wheel]) as server, web_session() as session:
        facts = torch_wheel_facts(server.file_url(wheel), session)
        assert unpacked_bytes(server.file_url(wheel), session) == facts.unpacked_bytes
    assert (facts.version, facts.git_commit, facts.cuda) == ("2.9.1+cu128", fake_commit("2.9.1"), "12.8")
    assert facts.unpacked_bytes > 3_000_000
    assert {request.status for request in server.requests} == {206}
    asked = [request.range.removeprefix("bytes=").split("-") for request in server.requests if request.range]
    assert sum(int(last) - int(first) + 1 for first, last in asked) < 600_000


def test_the_annotated_form_of_version_py_is_read() -> None:
    source = (
        "from typing import Optional\n__all__ = ['__version__']\n__version__ = '2.4.1+cpu'\ndebug = False\n"
        "cuda: Optional[str] = None\ngit_version = 'abc'\nhip: Optional[str] = None\n"
    )
    wheel = fake_torch("2.4.1", files={"torch/version.py": source})
    with FakeIndex([wheel]) as server, web_session() as session:
        facts = torch_wheel_facts(server.file_url(wheel), session)
    assert (facts.version, facts.git_commit, facts.cuda) == ("2.4.1+cpu", "abc", None)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=404), "status 404"),
        (Fault(status=200), "status 200"),
        (Fault(body=b"no zip at all" * 100), "not the wheel that it should be"),
        (Fault(truncate_to=0), "cannot read|damaged answer"),
    ],
    ids=["404", "no ranges", "garbage", "truncated"],
)
def test_a_server_that_fails_is_our_failure(fault: Fault, said: str) -> None:
    wheel = fake_torch("2.9.1")
    with FakeIndex([wheel]) as server, web_session() as session:
        server.fault("/files/*", fault)
        with pytest.raises(InfrastructureError, match=said):
            torch_wheel_facts(server.file_url(wheel), session)


def test_a_server_without_ranges_is_not_made_to_send_everything() -> None:
    wheel = fake_torch("2.9.1", padding=2_000_000)
    server = FakeIndex([wheel], ranges=False)
    with server, web_session() as session, pytest.raises(InfrastructureError, match="range request"):
        torch_wheel_facts(server.file_url(wheel), session)
    assert len(server.requests) == 1


def test_a_wheel_that_is_not_torch_is_refused() -> None:
    wheel = build_wheel("numpy", "2.0")
    with (
        FakeIndex([wheel]) as server,
        web_session() as session,
        pytest.raises(InfrastructureError, match=r"version\.py"),
    ):
        torch_wheel_facts(server.file_url(wheel), session)


@pytest.mark.real_torch
def test_the_catalogue_has_the_commits_that_installed_releases_have(real_torch: Mapping[str, Path]) -> None:
    """The rows were read from remote wheels; real interpreters confirm them."""
    known = {release.version: release.git_commit for release in load_catalogue()}

    found = {version: local_build(python).git_commit for version, python in real_torch.items()}

    assert found == {version: known[version] for version in real_torch}


@pytest.mark.slow
def test_the_real_default_index_says_the_same_as_the_catalogue() -> None:
    """Needs the network; reads less than 2 MB of an 800 MB wheel."""
    release = next(release for release in load_catalogue() if release.version == "2.9.1")
    files = index_files("torch", PYPI_SIMPLE_ENDPOINT)
    assert files is not None
    wheel = next(file for file in files if re.match(r"torch-2\.9\.1-cp310-cp310-manylinux.*x86_64", file.filename))
    with web_session() as session:
        facts = torch_wheel_facts(wheel.url, session)
    assert (facts.git_commit, facts.cuda, facts.unpacked_bytes) == (
        release.git_commit,
        release.cuda,
        release.unpacked_bytes,
    )
