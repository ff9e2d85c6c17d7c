"""Secrets of every kind are planted; a real run of fake releases writes and prints none of them."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from bisect_torch.cli.report import FORMATS
from tests.engine.conftest import MakeTool
from tests.support.tool import Answer, Tool

TOKEN = "tok-5f0c1d2e3a4b"
PASSWORD = "hunter2/and+more"
UV_PASSWORD = "uv-index-pass-77"
GITHUB = "ghp_" + "Ab1C" * 9
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwcml2YXRlIn0.c2lnbmF0dXJlLW9mLWl0"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----"
USER = "carolinebyron"
CLIENT = "acme-secret-client"
URL_PASSWORD = "pa55-in-url"
QUERY = "sigQ1w2E3r4"
WORD = "cli-word-secret-9"

SAID = (
    TOKEN, PASSWORD, quote(PASSWORD, safe=""), UV_PASSWORD, GITHUB, JWT, KEY, USER, f"/home/{USER}/x",
    f"https://me:{URL_PASSWORD}@host/x?sig={QUERY}",
)  # fmt: skip
"""What the cases say wherever they can."""

PLANTED = (*SAID[:6], KEY.splitlines()[1], USER, CLIENT, URL_PASSWORD, QUERY, WORD)
"""What must be found nowhere."""

# The case knows what it plants only from a file beside it: its own text must hold the secrets too, but as a comment.
CASES = f"""
# by {USER}, see /home/{USER}/notes and https://me:{URL_PASSWORD}@git.example.org/x
import json, os, sys, warnings
from bisect_torch import case, record
import torch

PLANTED = json.loads(open(os.path.join({{folder!r}}, "planted.json")).read())
TEXT = " ".join(PLANTED) + " " + {{folder!r}}

@case
def says_it_all():
    print("stdout", TEXT)
    print("stderr", TEXT, file=sys.stderr)
    warnings.warn("warned of " + TEXT[:400])
    record(note=TEXT[:400], nested={{{{TEXT[:20]: [TEXT[:400]]}}}})
    if torch.answer() == 41:
        raise RuntimeError("no " + TEXT) from ValueError("cause " + TEXT)

@case(path=["/home/{USER}/w.pt", "/home/other/w.pt"])
def has_a_path(path):
    assert torch.answer() == 42, "in " + path

@case
def prints_long():
    print(("x" * 100 + TEXT + "\\n") * 2000)
    assert torch.answer() == 42

@case
def skips():
    from bisect_torch import skip
    skip("not for " + TEXT[:200])
"""


@pytest.fixture
def project(make_tool: MakeTool, tmp_path: Path) -> Tool:
    tool = make_tool({"2.4.1": "def answer(): return 42", "2.5.0": "def answer(): return 41"})
    folder = tmp_path / CLIENT
    folder.mkdir()
    (folder / "planted.json").write_text(json.dumps(SAID))
    (folder / "cases.py").write_text(CASES.format(folder=str(folder)))
    return Tool(folder, tool.index)


def secrets(tool: Tool) -> dict[str, str]:
    """Variables of a user whose environment is full of them."""
    return {
        "HOME": f"/home/{USER}",
        "USER": USER,
        "MY_API_TOKEN": TOKEN,
        "DB_PASSWORD": PASSWORD,
        "UV_INDEX_CORP_PASSWORD": UV_PASSWORD,
        "XDG_DATA_HOME": str(tool.folder / "share"),
        "UV_NO_CONFIG": "1",
    }


def run(tool: Tool, *words: str) -> Answer:
    index = tool.index.url.replace("://", f"://me:{URL_PASSWORD}@")
    return tool.call([*tool.words(words[0]), "--index-url", index, *words[1:]], **secrets(tool))


def nothing_private(text: str, where: str) -> None:
    found = [each for each in PLANTED if each in text]
    hosts = [name for name in (socket.gethostname(),) if len(name) >= 5 and name in text]
    assert (found, hosts) == ([], []), f"{where} holds {found + hosts}"


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """Every value of a Parquet file and its metadata, uncompressed."""
    table = pq.read_table(path)
    for name in table.column_names:
        yield f"column {name}", "\n".join(str(value) for value in table.column(name).to_pylist())
    for key, value in (table.schema.metadata or {}).items():
        yield f"metadata {key.decode()}", value.decode()


def formats() -> tuple[str, ...]:
    """Every format of ``report`` that is there."""
    return tuple(name for name, made in FORMATS.items() if importlib.util.find_spec(made.module) is not None)


def unpacked(content: bytes) -> Iterator[str]:
    """The text of a report, and of what is packed in it: a page may carry its data compressed, in base64."""
    yield content.decode("utf-8", "replace")
    for packed in re.findall(rb"[A-Za-z0-9+/]{200,}={0,2}", content):
        plain = base64.b64decode(packed + b"=" * (-len(packed) % 4))
        yield plain.decode("utf-8", "replace")
        for bits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):
            with contextlib.suppress(zlib.error):
                yield zlib.decompress(plain, bits).decode("utf-8", "replace")


def test_nothing_private_is_written_or_printed(project: Tool) -> None:
    own = ["--python", project.python, "--store", str(project.folder / "store")]
    ran = run(project, "run", "cases.py", *own, "-o", "r.parquet")
    assert ran.code == 1, ran.stderr
    nothing_private(ran.stdout, "stdout of run")
    nothing_private(ran.stderr.replace(str(project.folder), ""), "stderr of run")  # where the user knows that he is

    for where, text in texts_of(project.folder / "r.parquet"):
        nothing_private(text, where)
    raw = (project.folder / "r.parquet").read_bytes().decode("latin-1")
    nothing_private(raw, "the bytes")
    values = dict(texts_of(project.folder / "r.parquet"))
    assert "<redacted>" in values["column stdout_tail"]
    assert "<cwd>/cases.py" in values["column traceback"]
    rows = set(values["column instance"].splitlines())
    assert len([row for row in rows if row.startswith("has_a_path[path=<home>/w.pt]~")]) == 2

    again = run(project, "run", "cases.py", *own, "-o", "r.parquet", "--json")
    assert {each["instance"] for each in again.data["series"]} == rows
    changed = [each for each in again.data["findings"] if "has_a_path" in str(each)]
    assert changed, "both paths changed, each in its own row"
    nothing_private(again.stdout, "--json")
    kept = [each for each in json.loads(values["metadata bisect_torch.runs"])]
    assert len(kept) == 1

    for words in (("judge", "r.parquet"), ("judge", "r.parquet", "--json")):
        judged = project.call(project.words(*words), **secrets(project))
        nothing_private(judged.stdout, " ".join(words))

    for name in formats():
        made = project.call(
            project.words("report", "r.parquet", "--format", name, "-o", f"made.{name}"), **secrets(project)
        )
        assert made.code in (0, 1), made.stderr
        for text in unpacked((project.folder / f"made.{name}").read_bytes()):
            nothing_private(text, f"the report as {name}")

    recheck = ["--versions", "2.5.0", *own, "--comment", "-", "-o", "again.parquet"]
    rechecked = run(project, "recheck", "r.parquet", *recheck)
    assert rechecked.code == 1, rechecked.stderr
    nothing_private(rechecked.stdout, "the comment")
    assert "still" in rechecked.stdout


def test_the_journal_of_a_killed_run_holds_nothing_private(project: Tool) -> None:
    (project.folder / "cases.py").write_text(
        (project.folder / "cases.py").read_text() + "\n@case\ndef zz_hangs():\n    import time\n    time.sleep(600)\n"
    )
    own = ["--python", project.python, "--store", str(project.folder / "store"), "--jobs", "1"]
    words = [*project.words("run"), "--index-url", project.index.url, "cases.py", *own, "--versions", "2.5.0"]
    process = subprocess.Popen(
        words, cwd=project.folder, env=project.variables(**secrets(project)), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    journal = project.folder / "results.parquet.journal"
    assert process.stderr is not None
    while not (journal.exists() and "skips" in journal.read_text()):
        assert process.poll() is None, process.stderr.read()
        os.sched_yield()
    text = journal.read_text()
    process.kill()
    process.wait()
    process.stderr.close()
    assert "says_it_all" in text
    nothing_private(text, "journal")


def test_words_of_commands_and_what_they_print(project: Tool) -> None:
    (project.folder / "prints.py").write_text(
        "import os, sys, torch\nprint(sorted(os.environ.items()), sys.argv)\nassert torch.answer() == 42\n"
    )
    own = ["--python", project.python, "--store", str(project.folder / "store"), "--pass-env", "MY_API_TOKEN"]
    ran = run(project, "run", *own, "--", "python", "prints.py", "--password", WORD, f"/home/{USER}/x")
    assert ran.code == 1, ran.stderr
    nothing_private(ran.stdout, "stdout")
    values = dict(texts_of(project.folder / "results.parquet"))
    for where, text in values.items():
        nothing_private(text, where)
    assert "('MY_API_TOKEN', '<redacted>')" in values["column stdout_tail"]
    (manifest,) = json.loads(values["metadata bisect_torch.runs"])
    assert manifest["pass_env"] == ["MY_API_TOKEN"]
    assert manifest["arguments"][-3:] == ["--password", "<redacted>", "<home>/x"]


SEES = """
import os, sys
from bisect_torch import case, record

@case
def sees():
    import json, torch
    shown = {name: os.environ[name] for name in sorted(os.environ)}
    record(names=" ".join(shown), user_site=os.environ.get("PYTHONPATH", ""), torch=torch.__file__, json=json.__file__)
    assert "hooked" not in sys.modules
"""


def test_secrets_reach_no_cell_unless_named(project: Tool) -> None:
    """Names are asserted, not values: a value would be redacted anyway."""
    (project.folder / "sees.py").write_text(SEES)
    own = ["--python", project.python, "--store", str(project.folder / "store"), "--versions", "2.4.1"]
    for passed in ((), ("--pass-env", "MY_API_TOKEN")):
        ran = run(project, "run", "sees.py", *own, *passed)
        assert ran.code == 0, ran.stderr
        row = pq.read_table(project.folder / "results.parquet").to_pylist()[-1]
        names = json.loads(row["measurements"])["names"].split()
        assert ("MY_API_TOKEN" in names) == bool(passed)
        assert not {"DB_PASSWORD", "UV_INDEX_CORP_PASSWORD"} & set(names)
        assert {"HOME", "PATH"} <= set(names)


def test_nothing_of_the_surroundings_leaks_into_an_environment(project: Tool) -> None:
    """PYTHONPATH, the user's site, sitecustomize, .pth files, and a torch.py or json.py in the working directory."""
    hostile = project.folder / "hostile"
    hostile.mkdir()
    trap = "import pathlib\npathlib.Path({!r}).touch()\nraise SystemExit('the wrong module')\n"
    for name in ("torch.py", "json.py", "numpy.py"):
        for folder in (project.folder, hostile):
            (folder / name).write_text(trap.format(str(project.folder / f"sprung-{name}")))
    for name in ("sitecustomize.py", "usercustomize.py"):
        (hostile / name).write_text(trap.format(str(project.folder / f"sprung-{name}")))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    user_site = project.folder / "base" / "lib" / f"python{version}" / "site-packages"
    user_site.mkdir(parents=True)
    (user_site / "hooked.pth").write_text(
        f"import pathlib; pathlib.Path({str(project.folder / 'sprung-pth')!r}).touch()\n"
    )
    (user_site / "torch.py").write_text(trap.format(str(project.folder / "sprung-user-torch")))
    (project.folder / "sees.py").write_text(SEES)
    words = ["--index-url", project.index.url, "--python", project.python, "--store", str(project.folder / "store")]
    root = Path(__file__).resolve().parents[2]
    # The tool itself is started apart from all of it, as an installed program is.
    start = f"import sys; sys.path.insert(0, {str(root)!r}); from bisect_torch.cli.main import main; sys.exit(main())"
    call = [sys.executable, "-I", "-c", start, "run", "sees.py", *words, "--versions", "2.4.1", "--isolation"]
    for isolation in ("fork", "process"):
        ran = project.call(
            [*call, isolation, "-o", f"{isolation}.parquet"],
            PYTHONPATH=str(hostile),
            PYTHONUSERBASE=str(project.folder / "base"),
        )
        assert ran.code == 0, ran.stderr
        facts = json.loads(pq.read_table(project.folder / f"{isolation}.parquet").to_pylist()[0]["measurements"])
        assert facts["torch"].startswith("<environment>/")
        assert "hostile" not in facts["json"]
    assert [path.name for path in project.folder.glob("sprung-*")] == []


def test_the_planted_password_also_hides_in_a_header() -> None:
    from bisect_torch.redaction import without_tokens

    header = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert header not in without_tokens(f"Authorization: Basic {header}")
