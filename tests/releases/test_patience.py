"""A failure that may pass is met with three tries, any other with one; and no server is waited for without end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from bisect_torch.errors import InfrastructureError
from bisect_torch.releases import patience
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.patience import patiently
from bisect_torch.releases.remote_wheel import torch_wheel_facts
from bisect_torch.releases.served import web_session
from tests.support.index import FakeIndex, Fault
from tests.support.wheels import fake_torch

WHEEL = fake_torch("2.9.1")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; nothing is."""
    waited: list[float] = []
    monkeypatch.setattr(patience.time, "sleep", waited.append)
    return waited


def failing(error: Exception, times: int) -> Callable[[], str]:
    left = [error] * times

    def ask() -> str:
        if left:
            raise left.pop()
        return "answer"

    return ask


def status(code: int, **headers: str) -> requests.HTTPError:
    answer = requests.Response()
    answer.status_code = code
    answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return requests.HTTPError(response=answer)


PASSES = [requests.ConnectionError(), requests.exceptions.ChunkedEncodingError(), status(500), status(503), status(429)]
STAYS = [status(404), status(403), requests.exceptions.SSLError(), requests.ReadTimeout(), requests.TooManyRedirects()]


@pytest.mark.parametrize("error", PASSES, ids=repr)
def test_what_may_pass_is_asked_three_times(error: requests.RequestException, pauses: list[float]) -> None:
    assert patiently(failing(error, 2)) == "answer"
    assert pauses == [0.2, 1.0]
    with pytest.raises(type(error)):
        patiently(failing(error, 3))


@pytest.mark.parametrize("error", STAYS, ids=repr)
def test_what_stays_is_asked_once(error: requests.RequestException, pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        patiently(failing(error, 1))
    assert pauses == []


@pytest.mark.parametrize(("asked", "waited"), [("3", 3.0), ("3600", 10.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.2)])
def test_a_server_that_asks_for_a_pause_gets_it_within_reason(asked: str, waited: float, pauses: list[float]) -> None:
    assert patiently(failing(status(429, Retry_After=asked), 1)) == "answer"
    assert pauses == [waited]


def test_what_takes_too_long_is_left_behind() -> None:
    with pytest.raises(requests.Timeout, match="not answered within"):
        patiently(lambda: time.sleep(5), total_s=0.05)


def test_a_server_that_sends_a_byte_now_and_then_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never silent for long, so that no limit on silence ends it."""
    monkeypatch.setattr(patience, "TOTAL_S", 0.3)
    with FakeIndex([WHEEL]) as server:
        server.fault("/simple/*", Fault(bytes_per_second=20))
        with pytest.raises(InfrastructureError, match="does not answer in time"):
            index_files("torch", server.url)


@pytest.mark.parametrize(
    "fault", [Fault(status=500, times=1), Fault(truncate_to=1, reset=True, times=2)], ids=["500", "reset"]
)
def test_a_range_request_is_asked_again_too(fault: Fault, pauses: list[float]) -> None:
    with FakeIndex([WHEEL]) as server, web_session() as session:
        server.fault("/files/*", fault)
        assert torch_wheel_facts(server.file_url(WHEEL), session).version == "2.9.1"


def test_a_page_without_files_is_not_remembered(tmp_path: Path) -> None:
    """It may be an error page with a good status: ten minutes later the index would still have no torch."""
    with FakeIndex([WHEEL]) as server:
        server.fault("/simple/*", Fault(body=b"<html><body>Down</body></html>", content_type="text/html", times=1))
        assert index_files("torch", server.url, cache_dir=tmp_path) == ()
        found = index_files("torch", server.url, cache_dir=tmp_path)
        assert [file.filename for file in found or ()] == [WHEEL.filename]
        assert index_files("torch", server.url, cache_dir=tmp_path) == found
        assert len(server.requests) == 2


def test_name_and_password_are_told_to_their_own_server_alone() -> None:
    with FakeIndex([WHEEL], user=("user", "pass word")) as server, FakeIndex([WHEEL]) as other:
        with web_session(server.url_with_password) as session:
            assert torch_wheel_facts(server.file_url(WHEEL), session).version == "2.9.1"
            answer = session.get(other.file_url(WHEEL))
            assert "Authorization" not in answer.request.headers
        with web_session() as session, pytest.raises(InfrastructureError, match="status 401"):
            torch_wheel_facts(server.file_url(WHEEL), session)
        files = index_files("torch", server.url_with_password)
        assert "pass" not in str(files)
