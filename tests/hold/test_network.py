"""Whatever an index does wrong: never good or bad, one line that says why, and the next run finishes what was begun.

One release is there, with its result. The next one is asked of an index that goes wrong at one stage; then of a sound
one. The table at the end of the tests shows what was tried.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bisect_torch.results import ResultsFile
from tests.support.index import FakeIndex, Fault
from tests.support.tally import Tally
from tests.support.tool import Answer, Tool
from tests.support.wheels import fake_numpy, fake_setuptools, fake_torch, releases

BODY = "def answer(): return 42"
CASES = "import torch\nfrom bisect_torch import case\n@case\ndef answers():\n    assert torch.answer() == 42\n"
RESULTS = "results.parquet"
PADDING = 60_000

PAGE = b"<!DOCTYPE html><html><body><h1>We are down for maintenance</h1></body></html>"
OTHER_WHEEL = fake_torch("2.5.0", "def answer(): return 0", upload_time="2024-10-14").content

FAULTS = {
    "slow": Fault(bytes_per_second=20_000),
    "silent": Fault(delay_s=25.0),
    "reset half-way": Fault(truncate_to=100, reset=True),
    "reset half-way, once": Fault(truncate_to=100, reset=True, times=1),
    "cut off half-way": Fault(truncate_to=100),
    "403": Fault(status=403),
    "404": Fault(status=404),
    "429": Fault(status=429, retry_after=1),
    "429, once": Fault(status=429, retry_after=1, times=1),
    "500": Fault(status=500),
    "500, once": Fault(status=500, times=1),
    "503": Fault(status=503),
    "garbage page": Fault(body=PAGE, content_type="text/html"),
    "empty body": Fault(body=b""),
    "redirects in a loop": Fault(redirect_to_itself=True),
    "other bytes": Fault(body=OTHER_WHEEL),
}

STAGES = {
    "page of torch": "/simple/torch/",
    "page of numpy": "/simple/numpy/",
    "metadata": "/files/torch-2.5.0-*.metadata",
    "range request": "/files/torch-2.5.0-*.whl",
    "wheel": "/files/torch-2.5.0-*.whl",
}

SURVIVES = {
    *((fault, stage) for fault in ("slow", "reset half-way, once", "429, once", "500, once") for stage in STAGES),
}
"""What is no more than a delay: the release is judged all the same."""

ODD = {("other bytes", stage) for stage in STAGES if stage != "wheel"}
"""Pairs that are no fault of their own: another wheel's bytes in a page's place are garbage, which is tried."""

QUICK = {("other bytes", "wheel"), ("garbage page", "page of numpy")}

PAIRS = [
    pytest.param(fault, stage, marks=() if (fault, stage) in QUICK else pytest.mark.slow, id=f"{fault} at {stage}")
    for fault in FAULTS
    for stage in STAGES
    if (fault, stage) not in ODD
]


Row = tuple[str, int, str, str]


@dataclass
class Begun:
    """A folder in which one release has its environment and its result, and an index that has two."""

    tool: Tool
    versions: tuple[str, str] = ("2.4.1", "2.5.0")
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    first_rows: frozenset[Row] = frozenset()

    def make_first(self) -> None:
        """The older build gets its environment and its result."""
        self.tool.write("cases.py", CASES)
        words = ("cases.py", "--versions", self.versions[0], "-o", RESULTS, *self.options)
        answer = self.tool.run(*words, **self.variables)
        assert answer.code == 0, answer.stderr
        self.first_rows = self.observed()

    def copied(self, folder: Path) -> Begun:
        """The same elsewhere, an hour later: nothing that the index said is fresh, and no wheel is there."""
        shutil.copytree(self.tool.folder, folder, symlinks=True)
        shutil.rmtree(folder / "store" / "uv-cache")
        for path in (folder / "store" / "index-cache").iterdir():
            os.utime(path, (time.time() - 3600, time.time() - 3600))
        return dataclasses.replace(self, tool=dataclasses.replace(self.tool, folder=folder))

    def observed(self) -> frozenset[Row]:
        """Key, repeat, outcome and run of everything that stands in the results, judged or not."""
        with ResultsFile.open(self.tool.folder / RESULTS) as results:
            return frozenset((each.key, each.repeat, each.outcome, each.run_id) for each in results.observations())

    @property
    def index(self) -> FakeIndex:
        return self.tool.index

    def run(self, *words: str, **variables: str) -> Answer:
        self.index.forget_requests()
        words = ("cases.py", "--versions", ",".join(self.versions), "-o", RESULTS, "--json", *self.options, *words)
        return self.tool.run(*words, UV_HTTP_TIMEOUT="5", **self.variables, **variables)

    def inode(self, version: str) -> set[int]:
        return {path.stat().st_ino for path in (self.tool.folder / "store" / "envs").glob(f"{version}-*")}

    def check_goes_on(self) -> None:
        """A sound index: what is missing is made and run once, and nothing else."""
        old, new = self.versions
        before = {version: self.inode(version) for version in self.versions}
        self.index.clear_faults()
        self.index.metadata = True
        answer = self.run()
        assert answer.code == 0, answer.stderr
        assert answer.verdicts("answers") == ["ok", "ok"]
        assert self.inode(old) == before[old]
        assert before[new] in (set(), self.inode(new))
        asked = self.index.requested(f"/files/torch-{new}*.whl")
        whole = [each for each in asked if each.range is None and each.method == "GET"]
        assert len(whole) == (0 if before[new] else 1)
        kept = self.observed()
        assert self.first_rows <= kept
        judged = [(key, repeat) for key, repeat, outcome, _ in kept if outcome == "returned"]
        assert len(judged) == len(set(judged)), "a cell ran twice"
        assert {outcome for *_, outcome, _ in kept} <= {"returned", "lost", "not_installed"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begun]:
    old, new = releases({"2.4.1": BODY, "2.5.0": BODY})[:2]
    new = fake_torch("2.5.0", BODY, upload_time="2024-10-14", padding=PADDING)
    company = [fake_numpy(upload_time="2024-08-05"), fake_setuptools(upload_time="2024-08-05")]
    with FakeIndex([old, new, *company]) as index:
        begun = Begun(Tool(tmp_path_factory.mktemp("first"), index))
        begun.make_first()
        yield begun


@pytest.fixture
def begun(first: Begun, tmp_path: Path) -> Iterator[Begun]:
    yield first.copied(tmp_path / "w")
    first.index.clear_faults()
    first.index.metadata = True


def why(answer: Answer) -> str:
    """The one line that says what went wrong; nothing when nothing did."""
    if answer.stdout == "":
        return answer.stderr.splitlines()[0].removeprefix("error: ")
    return next((str(each["reason"]) for each in answer.data["unjudged"]), "")


def verdict(answer: Answer) -> str:
    """That of the build that the faulty index has; ``no list`` when the run could not begin, ``not known`` when it went
    on without that build."""
    if answer.stdout == "":
        return "no list"
    return [*answer.verdicts("answers"), "not known"][1]


@pytest.mark.parametrize(("fault", "stage"), PAIRS)
def test_an_index_that_goes_wrong_is_never_torchs_fault(fault: str, stage: str, begun: Begun, tally: Tally) -> None:
    """At every stage; what the run that goes on does is looked at too."""
    pattern = STAGES[stage]
    begun.index.metadata = stage != "range request"
    begun.index.fault(pattern, dataclasses.replace(FAULTS[fault], only_ranges=stage == "range request"))

    with tally("network"):
        started = time.monotonic()
        answer = begun.run()
        seconds = time.monotonic() - started
        asked = len(begun.index.asked(pattern))
        found = check(answer)
        assert found != "no list", "what needs no index did not go on"
        tally.row("network", (fault, stage, found, f"{seconds:.0f} s", f"{asked} requests", why(answer)[:100]))
        if (fault, stage) in SURVIVES:
            assert found == "ok"
        begun.check_goes_on()


def check(answer: Answer) -> str:
    """The verdict, which is no judgement on the release unless it was really run."""
    found, reason = verdict(answer), why(answer)
    assert "Traceback" not in answer.stderr
    assert found in {"ok", "infra", "uninstallable", "not known", "no list"}
    assert answer.code == (0 if found == "ok" else 3), answer.stderr
    assert "\n" not in reason
    assert bool(reason) == (found != "ok")
    if found == "no list":
        assert len(answer.stderr.splitlines()) <= 2, answer.stderr
    else:
        assert answer.verdicts("answers")[0] == "ok"
    # What a server or uv said stands on the screen at most once, in short.
    assert len(reason) < 250 or found == "uninstallable"
    assert "/files/" not in reason
    return found


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeIndex]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    subprocess.run([*words, "-keyout", str(path), "-out", str(path) + ".crt"], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    with FakeIndex([fake_torch("2.5.0", BODY)], certificate=path) as index:
        yield index


@pytest.mark.slow
@pytest.mark.parametrize("place", ["main index", "second index"])
@pytest.mark.parametrize("fault", ["self-signed certificate", "no such name", "connection refused"])
def test_a_server_that_cannot_be_reached_at_all(
    fault: str, place: str, begun: Begun, self_signed: FakeIndex, tally: Tally
) -> None:
    address = {
        "self-signed certificate": self_signed.url,
        "no such name": "http://index.invalid/simple/",
        "connection refused": "http://127.0.0.1:9/simple/",
    }[fault]
    with tally("network"):
        started = time.monotonic()
        option = "--index-url" if place == "main index" else "--extra-index-url"
        # Options of this call stand before the tool's own --index-url, and the last one counts.
        words = begun.tool.run_words("cases.py", "--versions", "2.4.1,2.5.0", "-o", RESULTS, "--json")
        answer = begun.tool.call([*words, option, address])
        seconds = time.monotonic() - started
        found = check(answer)
        assert found == "no list"
        tally.row("network", (fault, place, found, f"{seconds:.0f} s", "", why(answer)[:100]))
        begun.check_goes_on()


def test_name_and_password_in_an_address_work_and_are_shown_nowhere(tmp_path: Path, tally: Tally) -> None:
    """Nor kept anywhere; also when the wheel cannot be had, or the password is wrong."""
    secret = "hunter2-swordfish"
    wheels = [*releases({"2.4.1": BODY, "2.5.0": BODY})]
    with FakeIndex(wheels, user=("user", secret)) as index, tally("network"):
        tool = Tool(tmp_path, index)
        tool.write("cases.py", CASES)
        index.fault("/files/torch-2.5.0-*.whl", Fault(status=404))
        own = tool.words("run", "cases.py", "--python", tool.python, "--store", str(tmp_path / "store"))
        words = [*own, "-o", RESULTS, "--from", "2.4.1", "--index-url"]

        answer = tool.call([*words, index.url_with_password])
        refused = tool.call([*words, index.url_with_password.replace(secret, secret + "-not")])

        assert answer.code == 3, answer.stderr
        assert "1 judged" in answer.stdout or "ok" in answer.stdout
        assert "status 401" in refused.stderr
        assert refused.code == 3
        for text in (answer.stdout, answer.stderr, refused.stdout, refused.stderr):
            assert secret not in text
        leaks = [
            str(path.relative_to(tmp_path))
            for path in tmp_path.rglob("*")
            if path.is_file() and secret.encode() in path.read_bytes()
        ]
        assert leaks == []
