"""A run leaves nothing beside a user's files, and the environments keep their bytecode."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.cases import PYTEST_REQUIREMENTS
from tests.support.index import FakeIndex
from tests.support.pytest_wheels import pytest_wheels
from tests.support.tool import Tool
from tests.support.wheels import releases

USES = """
import importlib.util, multiprocessing, os, subprocess, sys
import torch, helper, package.inside

def work(path):
    spec = importlib.util.spec_from_file_location("plugin", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert helper.ANSWER == package.inside.ANSWER
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, os.path.join(here, "starts.py")], check=True)
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=helper.imports_more)
    child.start()
    child.join()
    assert child.exitcode == 0
"""
CASE = "from bisect_torch import case\n@case\ndef f(device):\n    work({plugin!r})\n"
HELPER = "ANSWER = 42\ndef imports_more():\n    import more\n"


def beside(tool: Tool) -> list[str]:
    """All that lies in the user's folder."""
    return sorted(str(path.relative_to(tool.folder)) for path in (tool.folder / "user").rglob("*"))


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    pinned = PYTEST_REQUIREMENTS[0].partition(";")[0].partition("==")[2]
    user = tmp_path / "user"
    (user / "package").mkdir(parents=True)
    (user / "elsewhere").mkdir()
    plugin = str(user / "elsewhere" / "plugin.py")
    for name, text in {
        "cases.py": USES + CASE.format(plugin=plugin),
        "script.py": USES + f"if __name__ == '__main__':\n    work({plugin!r})\n",
        "test_all.py": USES + f"def test_all():\n    work({plugin!r})\n",
        "helper.py": HELPER,
        "more.py": "",
        "starts.py": "import more\n",
        "package/__init__.py": "",
        "package/inside.py": "ANSWER = 42\n",
        "elsewhere/plugin.py": "",
    }.items():
        (user / name).write_text(text)
    with FakeIndex([*releases({"2.1.0": ""}), *pytest_wheels(pinned)]) as index:
        yield Tool(tmp_path, index)


@pytest.mark.parametrize(
    "words",
    [
        ["user/cases.py"],
        ["user/cases.py", "--isolation", "process"],
        ["user/script.py"],
        ["--pytest", "user"],
        ["--", "python", "user/script.py"],
    ],
    ids=["case", "case in its own process", "script", "pytest", "command"],
)
def test_nothing_is_made_beside_a_user_s_files(tool: Tool, words: list[str]) -> None:
    before = beside(tool)

    answer = tool.run("--from", "2.1.0", "--json", *words)

    assert [cell for row in answer.data["series"] for cell in row["cells"].values() if cell["signature"] != "ok"] == []
    assert answer.code == 0, answer.stderr
    assert beside(tool) == before


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_bytecode_of_torch_is_written_as_ever(tool: Tool, isolation: str) -> None:
    """Of parts that nothing had imported before: here it is taken away, as if this run were the first to need it."""
    (tool.folder / "user" / "cases.py").write_text(
        "import torch\nfrom bisect_torch import case\n@case\ndef f(): pass\n"
    )
    words = ["user/cases.py", "--from", "2.1.0", "--isolation", isolation]
    assert tool.run(*words).code == 0
    (package,) = (tool.folder / "store" / "envs").glob("*/lib/python*/site-packages/torch")
    kept = {path.name for path in (package / "__pycache__").iterdir()}
    assert kept
    shutil.rmtree(package / "__pycache__")

    assert tool.run(*words, "--fresh").code == 0

    assert {path.name for path in (package / "__pycache__").iterdir()} == kept
