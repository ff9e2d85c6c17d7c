"""The loopback index and the fake wheels are good enough for real uv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.support.index import FakeIndex, Fault
from tests.support.wheels import fake_commit, fake_torch, releases, write_wheels

CONTROL = """
import json, torch, torch.testing
a = torch.tensor([[1., 2.], [3., 4.]])
x = torch.tensor([1., 2., 3.])
x.requires_grad_()
(x * x).sum().backward()
torch.manual_seed(0)
torch.set_num_threads(2)
torch.testing.assert_close(a, a)
print(json.dumps([torch.__version__, torch.version.git_version, torch.version.cuda, (a + a).tolist(), (a @ a).tolist(),
                  x.grad.tolist(), torch.get_num_threads(), torch.answer()]))
"""


def install(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, folder / "env"], check=True)
    command = [find_uv_bin(), "pip", "install", "--python", folder / "env", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"form": "json"},
        {"form": "html"},
        {"form": "html", "generic_html": True, "metadata": False, "hashes": False},
    ],
    ids=["negotiated", "json", "html", "bare html"],
)
def test_real_uv_installs_the_behaviour_of_the_asked_version(tmp_path: Path, options: dict[str, object]) -> None:
    bodies = {"2.4.1": "def answer(): return 42", "2.5.0": "def answer(): return 43"}
    with FakeIndex(releases(bodies), **options) as index:  # type: ignore[arg-type]
        done = install(tmp_path, "--index-url", index.url, "torch==2.4.1", "numpy", "setuptools")
    assert done.returncode == 0, done.stderr
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    control = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-c", CONTROL], capture_output=True, text=True, check=True, env=clean
    )
    assert json.loads(control.stdout) == [
        "2.4.1",
        fake_commit("2.4.1"),
        None,
        [[2.0, 4.0], [6.0, 8.0]],
        [[7.0, 10.0], [15.0, 22.0]],
        [2.0, 4.0, 6.0],
        2,
        42,
    ]
    assert not index.requested("*2.5.0*.whl")


def test_upload_times_hold_back_what_is_newer(tmp_path: Path) -> None:
    with FakeIndex(releases({"2.4.1": "", "2.5.0": ""})) as index:
        arguments = ("--index-url", index.url, "--exclude-newer", "2024-09-20T00:00:00Z", "torch")
        done = install(tmp_path, *arguments)
    assert "+ torch==2.4.1" in done.stderr


def test_a_find_links_folder_needs_no_server(tmp_path: Path) -> None:
    links = write_wheels(tmp_path / "wheels", [fake_torch("2.4.1")])
    done = install(tmp_path, "--offline", "--no-index", "--find-links", str(links), "torch")
    assert "+ torch==2.4.1" in done.stderr


@pytest.mark.parametrize(
    "fault", [Fault(status=404), Fault(status=403), Fault(truncate_to=100)], ids=["404", "403", "truncated"]
)
def test_a_fault_of_one_file_fails_the_install(tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with FakeIndex([fake_torch("2.4.1", padding=5000)]) as index:
        index.fault("/files/torch-*.whl", fault)
        done = install(tmp_path, "--index-url", index.url, "torch")
    assert done.returncode != 0


def test_a_fault_that_happens_once_is_retried_by_uv(tmp_path: Path) -> None:
    with FakeIndex([fake_torch("2.4.1")]) as index:
        index.fault("/files/torch-*.whl", Fault(status=503, times=1))
        done = install(tmp_path, "--index-url", index.url, "torch")
    assert done.returncode == 0, done.stderr
    assert [request.status for request in index.requested("/files/*.whl")] == [503, 200]
