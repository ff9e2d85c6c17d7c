"""What an index offers becomes builds: the same for every form of index, and only what fits this platform."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.tags import platform_tags
from uv import find_uv_bin

from bisect_torch.child_processes import run_process
from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases import served
from bisect_torch.releases.catalogue import load_catalogue
from bisect_torch.releases.choosing import choose_builds
from bisect_torch.releases.index import (
    BACKEND_INDEX_VARIABLE,
    IndexOptions,
    backend_index_url,
    catalogue_builds,
    effective_options,
    list_builds,
    uv_index_arguments,
)
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.selection import Selection
from tests.support.index import FakeIndex, Fault
from tests.support.wheels import Wheel, fake_torch, releases, write_wheels

HERE = next(iter(platform_tags()))
WHEELS = [
    fake_torch("2.4.1", tags=f"cp310-cp310-{HERE}", upload_time="2024-09-04"),
    fake_torch("2.4.1", tags=f"cp311-cp311-{HERE}", upload_time="2024-09-05"),
    fake_torch("2.5.0", tags=f"cp311-cp311-{HERE}", upload_time="2024-10-17", yanked="it was broken"),
    fake_torch("2.6.0", tags=f"cp311-none-{HERE}", upload_time="2025-01-29", requires_python=">=3.11"),
    fake_torch("2.10.0", tags="py3-none-any", upload_time="2026-01-21", requires_python=">=3.10,<3.13"),
    fake_torch("2.11.0", tags="cp311-cp311-win_amd64", upload_time="2026-03-01"),
    fake_torch("2.12.0rc1", tags=f"cp312-cp312-{HERE}", upload_time="2026-03-02"),
    fake_torch("2.12.0.dev20260101+cu130", tags=f"cp312-cp312-{HERE}", upload_time="2026-01-01"),
]


@pytest.fixture
def server() -> Iterator[FakeIndex]:
    with FakeIndex(WHEELS) as index:
        yield index


def builds_at(server: FakeIndex, **more: object) -> tuple[Build, ...]:
    return list_builds(IndexOptions(index_url=server.url), **more)  # type: ignore[arg-type]


def versions(builds: tuple[Build, ...]) -> list[str]:
    return [build.version for build in builds]


def test_builds_come_in_release_order_with_what_the_index_knows(server: FakeIndex) -> None:
    builds = {build.version: build for build in builds_at(server, python="3.11")}
    assert list(builds) == ["2.4.1", "2.5.0", "2.6.0", "2.10.0", "2.12.0.dev20260101", "2.12.0rc1"]
    assert builds["2.4.1"].pythons == ("3.10", "3.11")
    assert builds["2.4.1"].day == datetime.date(2024, 9, 4)
    assert builds["2.4.1"].download_bytes == len(WHEELS[1].content)
    assert builds["2.6.0"].pythons == ("3.11",)
    assert builds["2.10.0"].pythons == ("3.10", "3.11", "3.12")
    assert builds["2.12.0rc1"].download_bytes is None
    assert {build.version for build in builds.values() if build.yanked} == {"2.5.0"}
    assert builds["2.12.0.dev20260101"].kind is BuildKind.NIGHTLY


def test_json_and_html_give_the_same_builds(server: FakeIndex) -> None:
    from_json = builds_at(server)
    for generic in (False, True):
        with FakeIndex(WHEELS, form="html", generic_html=generic) as other:
            from_html = builds_at(other)
        # HTML has no place for sizes and upload times; the day then is the catalogue's, where it has the version.
        known = {release.version: release.day for release in load_catalogue()}
        expected = [replace(build, download_bytes=None, day=known.get(build.version)) for build in from_json]
        assert list(from_html) == expected


def test_two_indexes_and_a_folder_are_one_list(tmp_path: Path) -> None:
    links = write_wheels(tmp_path / "wheels", [fake_torch("2.7.0"), fake_torch("2.5.0")])
    with FakeIndex([fake_torch("2.4.1")]) as one, FakeIndex([fake_torch("2.5.0"), fake_torch("2.6.0")]) as two:
        options = IndexOptions(one.url, (two.url,), (str(links),))
        assert versions(list_builds(options)) == ["2.4.1", "2.5.0", "2.6.0", "2.7.0"]
        one.remove(fake_torch("2.4.1"))
        assert versions(list_builds(options)) == ["2.5.0", "2.6.0", "2.7.0"]


def test_a_strategy_that_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """uv looks into extra indexes first; with its own default strategy it stops at the first that has torch."""
    monkeypatch.setenv("UV_INDEX_STRATEGY", "first-index")
    with FakeIndex([fake_torch("2.4.1")]) as main, FakeIndex([fake_torch("2.5.0")]) as extra:
        options = IndexOptions(main.url, (extra.url,))
        assert versions(list_builds(options)) == ["2.5.0"]
        assert "--index-strategy" not in uv_index_arguments(options)
        extra.remove(fake_torch("2.5.0"))
        assert versions(list_builds(options)) == ["2.4.1"]


def test_uv_finds_every_listed_build_of_two_indexes(tmp_path: Path) -> None:
    """The arguments for uv go with the list: without a strategy uv would stop at the first index that has torch."""
    with FakeIndex([fake_torch("2.4.1")]) as one, FakeIndex([fake_torch("2.5.0")]) as two:
        options = IndexOptions(one.url, (two.url,))
        for version in versions(list_builds(options)):
            wanted = tmp_path / "wanted.in"
            wanted.write_text(f"torch=={version}\n")
            done = run_process([find_uv_bin(), "pip", "compile", "-q", *uv_index_arguments(options), wanted])
            assert done.returncode == 0, done.stderr


def test_a_folder_that_is_an_index_is_read(tmp_path: Path) -> None:
    page = tmp_path / "index" / "torch" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text('<a href="torch-2.4.1-py3-none-any.whl">torch-2.4.1-py3-none-any.whl</a>')
    for url in (str(tmp_path / "index"), (tmp_path / "index").as_uri()):
        assert versions(list_builds(IndexOptions(url))) == ["2.4.1"]


def test_a_page_of_links_is_read() -> None:
    with FakeIndex([fake_torch("2.4.1")], form="html") as main, FakeIndex([fake_torch("2.5.0")], form="html") as page:
        options = IndexOptions(main.url, find_links=(f"{page.url}torch/",))
        assert versions(list_builds(options)) == ["2.4.1", "2.5.0"]


def test_facts_of_the_catalogue_are_for_the_same_wheels_only(server: FakeIndex) -> None:
    """A torch of the same version with other hashes may be another build: no commit, no lock."""
    build = builds_at(server)[0]
    assert (build.version, build.git_commit, build.lock) == ("2.4.1", None, None)
    release = load_catalogue()[0]
    known = next(wheel for wheel in catalogue_files(release.version) if Path(wheel).suffix == ".whl")
    digest = catalogue_files(release.version)[known]
    same = Wheel(known, b"", "torch", release.version, b"", claimed_sha256=digest)
    with FakeIndex([same]) as mirror:
        mirrored = builds_at(mirror)[0]
    assert (mirrored.git_commit, mirrored.day) == (release.git_commit, release.day)
    assert mirrored.lock is not None
    assert mirrored.lock.name == "2.4.1.lock"


def catalogue_files(version: str) -> dict[str, str]:
    """Names of torch wheels that fit here to their hashes."""
    from bisect_torch.releases.platforms import Target
    from bisect_torch.releases.sizes import known_wheels

    return {
        wheel.filename: wheel.sha256
        for wheel in known_wheels().values()
        if wheel.project == "torch" and wheel.version == version and Target("3.11").fits(wheel.filename)
    }


def test_of_equal_versions_the_later_local_part_is_sized_as_installers_choose() -> None:
    plain, local = fake_torch("2.4.1"), fake_torch("2.4.1+cpu", padding=1000)
    with FakeIndex([local, plain]) as server:
        (build,) = builds_at(server)
    assert build.download_bytes == len(local.content)


def test_uv_s_environment_variables_count_and_options_outrank_them() -> None:
    variables = {
        "UV_DEFAULT_INDEX": "main=http://default/simple",
        "UV_INDEX_URL": "http://old/simple",
        "UV_INDEX": "corp=http://one/simple http://two/simple?a=b",
        "UV_EXTRA_INDEX_URL": "http://three/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_OFFLINE": "1",
    }
    found = effective_options(IndexOptions(find_links=("/mine",)), variables)
    assert found == IndexOptions(
        "http://default/simple",
        ("http://one/simple", "http://two/simple?a=b", "http://three/simple"),
        ("/mine", "/wheels", "/more"),
        offline=True,
    )
    assert effective_options(IndexOptions("http://x"), variables).index_url == "http://x"
    assert effective_options(IndexOptions(), {"UV_INDEX_URL": "http://old/simple"}).index_url == "http://old/simple"
    assert effective_options(IndexOptions(), {}) == IndexOptions()


def test_an_index_of_the_environment_is_asked(server: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", server.url)
    assert "2.10.0" in versions(list_builds(IndexOptions()))


def test_a_backend_has_an_index_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeIndex([fake_torch("2.5.0+cpu")]) as server:
        monkeypatch.setenv(BACKEND_INDEX_VARIABLE, server.base)
        assert backend_index_url("cpu") == f"{server.base}/cpu"
        # The fake index serves below /simple, so that is the name of its backend.
        assert versions(list_builds(IndexOptions(), backend="simple")) == ["2.5.0"]
        with pytest.raises(InfrastructureError, match="/cpu has no torch"):
            list_builds(IndexOptions(), backend="cpu")
    assert backend_index_url("pypi") is None
    for unclear in ("rocm", "auto", "cpu/../x", ""):
        with pytest.raises(UsageError, match="does not say which index"):
            backend_index_url(unclear)


def test_answers_are_kept_for_ten_minutes(server: FakeIndex, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = builds_at(server, cache_dir=cache)
    assert builds_at(server, cache_dir=cache) == first
    assert len(server.requested("/simple/torch/")) == 1
    (kept,) = cache.iterdir()
    for spoil in (lambda: kept.write_text("{"), lambda: kept.write_text('[{"a": 1}]'), lambda: _make_old(kept)):
        before = len(server.requested("/simple/torch/"))
        spoil()
        assert builds_at(server, cache_dir=cache) == first
        assert len(server.requested("/simple/torch/")) == before + 1


def test_a_cache_that_cannot_be_written_costs_nothing_else(server: FakeIndex, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert builds_at(server, cache_dir=blocked / "cache") == builds_at(server)


def _make_old(path: Path) -> None:
    os.utime(path, (time.time() - 601, time.time() - 601))


FAULTS = {
    "forbidden": (Fault(status=403), "status 403", "user name"),
    "server error": (Fault(status=500), "status 500", "later"),
    "overloaded": (Fault(status=503), "status 503|cannot be reached", ""),
    "no such project": (Fault(status=404), "has no torch", "--extra-index-url"),
    "garbage": (Fault(body=b"\x00\x01 not json {"), "does not answer like a package index", "Simple API"),
    "other json": (Fault(body=b'{"meta": {"api-version": "9.0"}, "files": 3}'), "does not answer like", "Simple API"),
    "empty": (Fault(body=b""), "does not answer like", "Simple API"),
    "truncated": (Fault(truncate_to=50), "cannot be reached|does not answer like", ""),
    "silent": (Fault(delay_s=1.0), "does not answer in time", "--offline"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_index_that_fails_is_our_failure_and_says_what_to_do(name: str) -> None:
    fault, said, hint = FAULTS[name]
    with FakeIndex(WHEELS) as server:
        server.fault("/simple/*", fault)
        address = server.url.replace("http://", "http://user:secret@")
        with pytest.raises(InfrastructureError, match=said) as caught:
            list_builds(IndexOptions(index_url=address), timeout_s=0.3)
    assert caught.value.exit_code == 3
    assert hint in (caught.value.hint or "")
    assert "secret" not in caught.value.message


def test_an_overloaded_index_is_asked_again(server: FakeIndex) -> None:
    server.fault("/simple/*", Fault(status=503, times=2))
    assert builds_at(server)
    assert [request.status for request in server.requests] == [503, 503, 200]


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/simple/", "http://no-such-host.invalid/simple/"])
def test_an_index_that_cannot_be_reached(address: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = address.format(port=closed.getsockname()[1])
        with pytest.raises(InfrastructureError, match="cannot be reached") as caught:
            list_builds(IndexOptions(index_url=url))
    assert "--offline" in (caught.value.hint or "")


def test_a_find_links_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        list_builds(IndexOptions(find_links=(str(tmp_path / "no"),), offline=True))


def test_offline_asks_no_server_and_has_the_catalogue_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise AssertionError("no connection may be made offline")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    links = write_wheels(tmp_path / "wheels", [fake_torch("2.99.0")])
    builds = list_builds(IndexOptions("http://never/simple", ("http://nor/simple",), (str(links),), offline=True))
    expected = [build.version for build in catalogue_builds()]
    assert versions(builds) == [*expected, "2.99.0"]
    assert all(build.git_commit and build.lock and build.day for build in builds[:-1])


def test_without_the_default_index_the_catalogue_stands_in_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeIndex(WHEELS) as server:
        server.fault("*", Fault(status=500))
        monkeypatch.setattr(served, "PYPI_SIMPLE_ENDPOINT", server.url)
        notes: list[str] = []
        wanted = Selection("2.5.0", "2.6.0")
        builds = choose_builds(wanted, IndexOptions(), note=notes.append)
        assert versions(builds) == ["2.5.0", "2.5.1", "2.6.0"]
        assert len(notes) == 1
        assert "using the catalogue" in notes[0]
        assert "status 500" in notes[0]
        # What the catalogue does not have, it cannot stand in for.
        with pytest.raises(InfrastructureError):
            choose_builds(Selection("2.5.0", "2.99.0"), IndexOptions())
        # Another index may have other builds: no stand-in.
        with pytest.raises(InfrastructureError):
            choose_builds(wanted, IndexOptions(index_url=server.url))


def test_interpreters_alone_ask_no_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("no index is needed")

    monkeypatch.setattr("bisect_torch.releases.choosing.list_builds", refuse)
    with pytest.raises(UsageError, match="no Python interpreter"):
        choose_builds(Selection(versions=(str(tmp_path / "python"),)), IndexOptions())


def test_a_whole_choice_from_a_real_index() -> None:
    with FakeIndex(releases({"2.4.1": "", "2.5.0": "", "2.5.1": "", "2.6.0": ""})) as server:
        builds = choose_builds(Selection("2.5.0", minor_only=True), IndexOptions(index_url=server.url))
    assert versions(builds) == ["2.5.1", "2.6.0"]


def test_a_project_that_an_index_lacks_is_no_error() -> None:
    with FakeIndex(WHEELS) as server:
        assert index_files("numpy", server.url) is None
