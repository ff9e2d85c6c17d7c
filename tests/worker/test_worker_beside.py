"""What a cell reads beside its case file is recorded; what belongs to something else is not."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import Isolation
from bisect_torch.worker import beside
from tests.worker.support import StartWorker

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OLD_NS = 10**18


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def before(path: Path, content: bytes) -> str:
    """Write a file that is older than any cell; gives the SHA-256 of its content."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(_OLD_NS, _OLD_NS))
    return sha256(content)


def read(
    worker: WorkerProcess,
    folder: Path,
    text: str,
    kind: str = "script",
    outcome: str = "returned",
    **options: object,
) -> dict[str, str]:
    """What a script (or ``case`` of a case file) of this text has read beside itself, and what it was when."""
    path = folder / "repro.py"
    path.write_text(textwrap.dedent(text))
    isolation = Isolation.PROCESS if kind == "script" else Isolation.FORK
    request = CellRequest(path, kind, "it", **{"isolation": isolation, "cwd": folder, **options})  # type: ignore[arg-type]
    facts = worker.run(request)
    assert facts["outcome"] == outcome, facts
    found: dict[str, str] = json.loads(str(facts.get("local_modules", "{}")))
    return found


def what(found: dict[str, str]) -> dict[str, str]:
    """Without the times, which are times."""
    assert all(
        _TIME.fullmatch(value.rpartition(" ")[2]) or " own" in value or value == "absent" for value in found.values()
    )
    return {name: value if value == "absent" else value.rpartition(" ")[0] for name, value in found.items()}


def test_files_are_told_by_their_content_however_they_are_opened(worker: WorkerProcess, tmp_path: Path) -> None:
    names = [
        "text.json",
        "by bytes",
        "by path",
        "by os",
        "binary\n.pt",
        "lower/x",
        "via chdir",
        "unbuffered",
        "in thread",
    ]
    content = bytes(range(256))
    digests = {name: before(tmp_path / name, content + name.encode()) for name in names}
    found = read(
        worker,
        tmp_path,
        """
        import io, json, os, pathlib, threading
        here = os.path.dirname(os.path.abspath(__file__))
        open("text.json", "rb").read()
        open(b"by bytes", "rb").close()
        pathlib.Path("by path").read_bytes()
        os.close(os.open("by os", os.O_RDONLY))
        open(here + "/lower/../binary\\n.pt", "rb").read()
        os.chdir("lower")
        open("x", "rb").read()
        open("../via chdir", "rb").read()
        io.FileIO(pathlib.Path(here, "unbuffered")).close()
        thread = threading.Thread(target=lambda: open(here + "/in thread", "rb").close())
        thread.start(); thread.join()
        open(os.open(here + "/text.json", os.O_RDONLY)).close()
        for wrong in (-1, None, 1.5, "nul\\0"):
            try: open(wrong)
            except (OSError, TypeError, ValueError): pass
        """,
    )
    assert what(found) == digests
    assert set(found[name].rpartition(" ")[2] for name in names) == {"2001-09-09T01:46:40Z"}


def test_what_is_no_input_is_left_out(worker: WorkerProcess, tmp_path: Path) -> None:
    """What the cell writes first, what it only appends to, its temporary files, hidden ones, itself, folders."""
    before(tmp_path / "log.txt", b"earlier\n")
    before(tmp_path / "mine.json", b"of another build")
    before(tmp_path / ".cache" / "x", b"hidden")
    found = read(
        worker,
        tmp_path,
        """
        import os, tempfile, torch
        with open("mine.json", "w") as file: file.write("1")
        open("mine.json").read()
        with open("new.txt", "a") as file: file.write("1")
        open("new.txt").read()
        with open("log.txt", "a") as file: file.write("later")
        with tempfile.NamedTemporaryFile("w+") as file: open(file.name).read()
        open(".cache/x").read()
        open(__file__).read()
        open(torch.__file__).read()
        os.close(os.open(".", os.O_RDONLY))
        """,
    )
    assert found == {}


def test_a_file_that_changes_meanwhile_equals_nothing(worker: WorkerProcess, tmp_path: Path) -> None:
    before(tmp_path / "log.txt", b"1\n")
    before(tmp_path / "count", b"1")
    before(tmp_path / "once", b"1")
    found = read(
        worker,
        tmp_path,
        """
        import os
        with open("log.txt", "a") as file: file.write("2")
        open("log.txt").read()
        with open("count", "r+") as file: file.write("22")
        open("once").read()
        os.remove("once")
        """,
    )
    assert what(found) == {"log.txt": "changed", "count": "changed", "once": "changed"}
    assert "2001-09-09T01:46:40Z" in found["log.txt"], "as it was before the cell wrote to it"


def test_files_that_are_looked_for_and_made_by_others_are_marked(worker: WorkerProcess, tmp_path: Path) -> None:
    """Native code and children write unseen: what is newer than the cell may be its own."""
    found = read(
        worker,
        tmp_path,
        """
        import subprocess
        try: open("none.json")
        except FileNotFoundError: pass
        subprocess.run("echo 1 > made; echo 2 > gone", shell=True, check=True)
        open("made").read(); open("gone").read()
        subprocess.run("rm gone", shell=True, check=True)
        """,
    )
    assert found["made"].startswith(f"{sha256(b'1' + bytes([10]))} own@")
    assert {**found, "made": ""} == {"none.json": "absent", "made": ""}


def test_a_crash_has_read_its_inputs_too(worker: WorkerProcess, tmp_path: Path) -> None:
    digest = before(tmp_path / "inputs.pt", b"\x80\x02")
    found = read(
        worker,
        tmp_path,
        "import os\nopen('inputs.pt').read(1) if 0 else open('inputs.pt', 'rb')\nos.abort()",
        outcome="signalled",
    )
    assert what(found) == {"inputs.pt": digest}


def test_a_case_reads_beside_itself_in_a_fork_and_in_its_children(worker: WorkerProcess, tmp_path: Path) -> None:
    digests = {name: before(tmp_path / name, name.encode()) for name in ("a", "b")}
    found = read(
        worker,
        tmp_path,
        """
        import builtins, os
        from bisect_torch import case
        class Opened:
            def __init__(self, path): self.descriptor = os.open(path, os.O_RDONLY)
        here = os.path.dirname(__file__)
        @case
        def it(device):
            real, builtins.open = builtins.open, Opened
            open(here + "/a")
            builtins.open = real
            child = os.fork()
            if child == 0:
                open(here + "/b")
                os._exit(0)
            os.waitpid(child, 0)
        """,
        kind="case",
    )
    assert what(found) == digests


def test_a_script_reads_in_its_working_directory_too(worker: WorkerProcess, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    digest = before(tmp_path / "inputs.pt", b"1")
    link = tmp_path / "scripts" / "linked"
    link.symlink_to(tmp_path / "inputs.pt")
    found = read(worker, tmp_path / "scripts", "open('inputs.pt'); open('scripts/linked')", cwd=tmp_path)
    assert what(found) == {"../inputs.pt": digest, "linked": digest}


def test_modules_are_told_once_and_code_that_is_read_as_text_too(worker: WorkerProcess, tmp_path: Path) -> None:
    helper, read_as_text = before(tmp_path / "helper.py", b"X = 1\n"), before(tmp_path / "more.py", b"Y = 2\n")
    found = read(worker, tmp_path, "import importlib; importlib.import_module('helper'); exec(open('more.py').read())")
    assert found == {"helper.py": helper, "more.py": f"{read_as_text} 2001-09-09T01:46:40Z"}


def test_of_large_and_many_files_less_is_known(
    monkeypatch: pytest.MonkeyPatch, worker: WorkerProcess, tmp_path: Path
) -> None:
    path = tmp_path / "cell"
    path.mkdir()
    large = tmp_path / "large.bin"
    before(large, b"12345")
    monkeypatch.setattr(beside, "LARGE_BYTES", 4)
    (path / ".opened").write_bytes(b"%d %d %d %s\0" % (*(beside.looks_of(str(large)) or ()), str(large).encode()))
    (tmp_path / "repro.py").touch()
    contents = beside.Contents()
    found = beside.read_files(str(path), str(tmp_path / "repro.py"), _OLD_NS * 2, contents)
    assert found == {"large.bin": "5 bytes 2001-09-09T01:46:40Z"} == {"large.bin": contents.of(str(large))}
    text = """
        for n in range(1001):
            try: open(str(n))
            except FileNotFoundError: pass
        """
    assert read(worker, tmp_path, text) == {"(more than 1000 files)": "many"}


def test_a_case_that_writes_into_the_list_makes_it_say_nothing(worker: WorkerProcess, tmp_path: Path) -> None:
    text = """
        import os
        with open(os.path.join(os.environ["TMPDIR"], ".opened"), "a") as notes:
            notes.write("1 2 three /x\\0")
    """
    assert read(worker, tmp_path, text) == {"(not known)": beside.MANY}


def test_the_hook_raises_nothing_of_its_own_and_swallows_nothing_of_others(tmp_path: Path) -> None:
    """An exception of a signal's handler that comes while the hook runs must reach the code under test."""
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(beside.__file__).parents[2])!r})
from bisect_torch.worker import beside
os.chdir({str(tmp_path)!r}); os.mkdir("own"); os.mkdir("gone")
beside.Openings(os.path.abspath("repro.py"), ["."], "own").begin("own")
class Strange:
    def __fspath__(self): raise KeyError("its own")
try: open(Strange())
except KeyError: print("KeyError")
def deep():
    try: return deep()
    except RecursionError: return open(os.devnull)
deep().close()
os.rmdir("own"); open("x", "w").close(); open("y", "w").close(); os.rename("x", "z"); open("z").close()
os.chdir("gone"); os.rmdir("../gone")
try: open("x")
except FileNotFoundError: print("FileNotFoundError")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("KeyError\nFileNotFoundError\n", "")


def test_what_runs_inside_the_code_under_test_is_not_traced_with_it() -> None:
    """``torch.compile`` passes over code of this file name, and would count others among the frames of a cell."""
    functions = [
        beside.looks_of,
        *(vars(beside.Openings)[name] for name in ("heard", "_opened", "_is_hidden", "_note")),
    ]
    assert {each.__code__.co_filename for each in functions} == {"<frozen importlib: bisect_torch>"}
    assert not any(inspect.iscode(each) for function in functions for each in function.__code__.co_consts)


def test_elsewhere_what_has_changed_lately_counts(worker: WorkerProcess, tmp_path: Path) -> None:
    """A cell of another build may have left it: in ~/.cache, in /tmp, wherever."""
    folder, elsewhere = tmp_path / "own", tmp_path / "elsewhere" / ".cache"
    folder.mkdir()
    elsewhere.mkdir(parents=True)
    old, new = elsewhere / "old.pt", elsewhere / "new.pt"
    before(old, b"old")
    new.write_bytes(b"new")
    text = f"for name in ({str(old)!r}, {str(new)!r}, '/proc/self/stat'): open(name, 'rb').read()"
    assert read(worker, folder, text) == {}
    found = read(worker, folder, text, since_ns=_OLD_NS + 1)
    assert list(found) == ["../elsewhere/.cache/new.pt"]
    assert found["../elsewhere/.cache/new.pt"].startswith(f"{sha256(b'new')} ")
    assert list(read(worker, folder, text, since_ns=1)) == ["../elsewhere/.cache/new.pt", "../elsewhere/.cache/old.pt"]
