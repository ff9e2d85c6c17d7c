"""A data file of the user's own that is not there says nothing about a build; a file that is torch's own does."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.model import Isolation
from bisect_torch.worker import outcome
from tests.worker.support import StartWorker

TORCH = {
    "torch": "",
    "torch.serialization": "def load(path):\n    with open(path, 'rb') as file: return file.read()\n"
    "def save(value, path): pass\n",
    "torch.cuda.memory": "def _dump_snapshot(filename='dump.pickle'): pass\n",
    "torch._inductor.cpp_builder": "import subprocess\n"
    "def build(): subprocess.run(['no-such-compiler'])\n"
    "def cached(path): return open(path)\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the script, and the working directory; a fake torch opens files as the real one does."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path.parent / "kept"))
    for name, text in TORCH.items():
        module = types.ModuleType(name)
        exec(text, vars(module))
        monkeypatch.setitem(sys.modules, name, module)
    vars(sys.modules["torch"]).update(vars(sys.modules["torch.serialization"]), __name__="torch")
    for last in ("cuda", "_inductor"):
        monkeypatch.setitem(sys.modules, f"torch.{last}", types.ModuleType(f"torch.{last}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TMPDIR", raising=False)
    return tmp_path


def reason(text: str, folder: Path, name: str = "repro.py") -> object:
    """What is said of a script that raises."""
    path = folder / name
    path.write_text(text)
    with pytest.raises((OSError, RuntimeError)) as caught:
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    facts = outcome.facts_of(caught.value, str(path))
    assert facts["outcome"] == "raised"
    return facts.get("reason")


WANTED = "it wants the file inputs.pt, which is not "


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.load('inputs.pt')",
        "import torch\ntorch.load('inputs.pt')['x']",
        "import torch\nw = {'w': 1, 'a': 2}.get('w')\ntorch.load('inputs.pt')",
        "import torch\nPATH = 'inputs.pt'\ndef f():\n    print(PATH)\n    return torch.load(PATH)\nf()",
        "import torch\nfor name in ('inputs.pt', 'other.pt'):\n    torch.load(name)",
        "import torch\nfrom pathlib import Path\ntorch.load(Path(__file__).with_name('inputs.pt'))",
        "import os, torch\nhere = os.path.dirname(__file__)\ntorch.load(os.path.join(here, 'inputs.pt'))",
        "from pathlib import Path\nPath('inputs.pt').read_bytes()",
        "'''Reads inputs.pt.'''\nimport pickle\nwith open('inputs.pt', 'rb') as file:\n    pickle.load(file)",
        "import numpy\nnumpy.load('inputs.pt')",
        "import torch\ndef load(path):\n    return torch.load(path)\nload('inputs.pt')",
    ],
)
def test_a_file_that_is_only_read_is_wanted(text: str, folder: Path) -> None:
    assert reason(text, folder) == WANTED + ("there" if "__file__" in text else "in the working directory")


@pytest.mark.parametrize(
    "text",
    [
        # What something was told to write, and is not there: torch may not have written it.
        "import torch\ntorch.save(1, 'inputs.pt')\ntorch.load('inputs.pt')",
        "import torch\nPATH = 'inputs.pt'\ntorch.save(1, PATH)\ntorch.load(PATH)",
        "import torch\nmodel = lambda f: None\nmodel('inputs.pt')\ntorch.load('inputs.pt')",
        "import torch\ntorch.save(1, 'out.pt')\ntorch.load('inputs.pt')",
        "import torch\nname = 'inputs'\ntorch.save(1, f'{name}.pt')\ntorch.load('inputs.pt')",
        "import torch\nwhere = 'inputs' + '.pt'\ntorch.save(1, where)\ntorch.load('inputs.pt')",
        "import os, torch\nos.system('true')\ntorch.load('inputs.pt')",
        "import torch\ntorch.load(open('x/inputs.pt', 'w'))",
        "import torch\nmode = 'w'\nopen('x/inputs.pt', mode)",
        "from torch.cuda.memory import _dump_snapshot\n_dump_snapshot()\nopen('dump.pickle')",
        # What torch looks for itself.
        "from torch._inductor.cpp_builder import build\nbuild()",
        "from torch._inductor.cpp_builder import cached\ncached('inputs.pt')",
        "import subprocess\nsubprocess.run(['inputs.pt'])",
        "import torch\nprint('/')\ntorch.load('/no/such/folder/' + 'in' + 'puts.pt')",
        "import os, torch\nprint('inputs.pt')\ntorch.load(os.environ['TORCH_HOME'] + '/inputs.pt')",
        "import os, sys, torch\ntorch.load(os.path.join(sys.prefix, 'inputs.pt'))",
        # What is no such file, or not known to be one.
        "raise FileNotFoundError('inputs.pt')",
        "name = chr(120) + '.pt'\nopen(name)",
        "open('')",
        "open('/no/such/folder/')",
        "try:\n    open('inputs.pt')\nexcept OSError as error:\n    raise RuntimeError('no') from error",
        "import os\nos.rename('inputs.pt', 'other.pt')",
    ],
)
def test_all_other_files_stay_an_error_of_the_build(text: str, folder: Path) -> None:
    assert reason(text, folder) is None


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("'/no/such/folder/inputs.pt'", "/no/such/folder/inputs.pt"),
        ("pathlib.Path('/no/such/folder') / 'inputs.pt'", "/no/such/folder/inputs.pt"),
        ("os.path.expanduser('~/no/inputs.pt')", "/home/someone/no/inputs.pt"),
        ("pathlib.Path('~').expanduser() / 'no/inputs.pt'", "/home/someone/no/inputs.pt"),
    ],
)
def test_so_is_one_whose_path_the_code_gives(
    path: str, file: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    said = f"it wants the file {file}, which is not there"
    assert reason(f"import os, pathlib, torch\ntorch.load({path})", folder) == said


def test_where_it_lies_beside_the_script_that_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "inputs.pt").touch()
    text = "import torch\ntorch.load('inputs.pt')"
    said = "it wants the file inputs.pt, which is not in the working directory, but beside the script"
    assert reason(text, folder, "x/repro.py") == said


@pytest.mark.parametrize("isolation", [Isolation.FORK, Isolation.PROCESS])
def test_a_case_has_a_folder_of_its_own(start: StartWorker, tmp_path: Path, isolation: Isolation) -> None:
    (tmp_path / "inputs.txt").touch()
    path = tmp_path / "cases.py"
    path.write_text(
        "from bisect_torch import case\n@case\ndef reads(): open('inputs.txt')\n@case\ndef wants(): open('gone.txt')\n"
    )
    worker = start()
    own = "in the folder of its own in which a case runs"
    seen = worker.run(CellRequest(path, "case", "reads", isolation=isolation))
    assert seen["reason"] == f"it wants the file inputs.txt, which is not {own}, but beside the case file"
    seen = worker.run(CellRequest(path, "case", "wants", isolation=isolation))
    assert seen["reason"] == f"it wants the file gone.txt, which is not beside the case file, nor {own}"
