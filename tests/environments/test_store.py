"""Where the store lies, and who may hold the lock of an environment."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bisect_torch.environments.store import Store, default_root
from bisect_torch.errors import Interrupted


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG's folders are those of Linux")
@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"BISECT_TORCH_STORE": "~/torches", "XDG_DATA_HOME": "/data"}, "/home/me/torches"),
        ({"BISECT_TORCH_STORE": "", "XDG_DATA_HOME": "/data"}, "/data/bisect-torch"),
        ({"BISECT_TORCH_STORE": ""}, "/home/me/.local/share/bisect-torch"),
    ],
)
def test_where_the_store_lies(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], root: str) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    assert default_root() == Path(root)


def test_a_guard_is_held_by_one(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    with store.guard("a"):
        assert store.try_guard("a") is None
        other = store.try_guard("b")
        assert other is not None
        other.release()
    free = store.try_guard("a")
    assert free is not None
    free.release()


def test_who_waits_for_a_guard_can_be_interrupted(tmp_path: Path) -> None:
    store, cancel = Store.open(tmp_path / "store"), threading.Event()
    threading.Timer(0.1, cancel.set).start()
    with store.guard("a"), pytest.raises(Interrupted), store.guard("a", cancel=cancel):
        pytest.fail("two hold it")


def test_a_killed_process_gives_its_guard_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    program = "import sys, time; from pathlib import Path; from bisect_torch.environments import Store\n"
    program += "with Store(Path(sys.argv[1])).guard('a'):\n    print('held', flush=True); time.sleep(60)"
    words = [sys.executable, "-c", program, str(store.root)]
    with subprocess.Popen(words, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert store.try_guard("a") is None
        process.kill()
        process.wait()
        with store.guard("a"):
            pass
