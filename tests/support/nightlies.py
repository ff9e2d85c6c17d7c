"""An index of sixty small nightly torches, as PyTorch's own is: HTML, no upload times, no sizes, wheels named ``+cpu``.

    with nightly_index() as index:
        run(..., BISECT_TORCH_BACKEND_INDEX=index.base)

Days 2026-09-26 to 2026-11-28 without :data:`GAPS`. Versions are 2.15.0.dev… before :data:`CUT`, then 2.16.0.dev….
``torch.answer()`` is 42 before :data:`BROKE` and 41 from then on; the build of :data:`UNIMPORTABLE` cannot be imported;
that of :data:`YANKED` is withdrawn; those of :data:`SAME_COMMIT` were built from one commit. Commits are real ones of
git, for :func:`write_checkout`. Each torch requires a triton that only that index has, exactly, and each day has a
torchvision that requires that day's torch. Releases 2.14.0 and 2.15.0 are on the default index and, as ``+cpu``, on the
backend's; candidates of 2.15.0 and 2.16.0 are on ``test/cpu``.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.support.index import FakeIndex
from tests.support.wheels import Wheel, build_wheel, fake_numpy, fake_setuptools, fake_torch

FIRST, LAST = datetime.date(2026, 9, 26), datetime.date(2026, 11, 28)
CUT = datetime.date(2026, 10, 12)
GAPS = tuple(datetime.date(2026, month, day) for month, day in ((10, 3), (11, 5), (11, 6), (11, 21)))
BROKE = datetime.date(2026, 11, 12)
UNIMPORTABLE = datetime.date(2026, 11, 11)
YANKED = datetime.date(2026, 11, 15)
SAME_COMMIT = (datetime.date(2026, 11, 18), datetime.date(2026, 11, 19))

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

GOOD, BAD = "def answer(): return 42", "def answer(): return 41"
RELEASES = {"2.14.0": "2026-09-02", "2.15.0": "2026-10-28"}


def days() -> list[datetime.date]:
    """The days that have a nightly."""
    every = (FIRST + datetime.timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return [day for day in every if day not in GAPS]


def november(day: int) -> datetime.date:
    """A day of the month in which the nightly builds of this index are made."""
    return datetime.date(2026, 11, day)


def name(day: int) -> str:
    """The build of a day in November, as it is headed in a matrix."""
    return version(november(day))


def version(day: datetime.date) -> str:
    return f"{'2.15.0' if day < CUT else '2.16.0'}.dev{day:%Y%m%d}"


def commit(day: datetime.date) -> str:
    """``torch.version.git_version`` of a day's build: a commit of the branch of nightlies."""
    content = _commit_object(day)
    return hashlib.sha1(b"commit %d\0" % len(content) + content).hexdigest()


def main_commit(day: datetime.date) -> str:
    """The commit of main that stands in its message."""
    return hashlib.sha1(f"main {_built(day)}".encode()).hexdigest()


def write_checkout(folder: Path, wanted: Iterable[datetime.date]) -> Path:
    """A git repository that has the commits of some days."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    for day in wanted:
        words = ["git", "-C", folder, "hash-object", "-t", "commit", "-w", "--stdin"]
        done = subprocess.run(words, input=_commit_object(day), capture_output=True, check=True)
        assert done.stdout.decode().strip() == commit(day)
    return folder


def _built(day: datetime.date) -> datetime.date:
    return SAME_COMMIT[0] if day in SAME_COMMIT else day


def _commit_object(day: datetime.date) -> bytes:
    built = _built(day)
    seconds = int(datetime.datetime.combine(built, datetime.time(8), datetime.timezone.utc).timestamp())
    who = f"bot <bot@example.invalid> {seconds} +0000"
    message = f"{built} nightly release ({main_commit(day)})"
    return f"tree {_EMPTY_TREE}\nauthor {who}\ncommitter {who}\n\n{message}\n".encode()


@functools.cache
def torch_of(day: datetime.date) -> Wheel:
    body = BAD if day >= BROKE else GOOD
    return fake_torch(
        f"{version(day)}+cpu",
        'raise ImportError("libtorch_cpu.so: undefined symbol: _ZN2at3addEv")' if day == UNIMPORTABLE else body,
        git_commit=commit(day),
        requires=[f"triton=={_triton(day)}"],
        yanked="wrong build" if day == YANKED else None,
    )


@functools.cache
def company_of(day: datetime.date) -> tuple[Wheel, ...]:
    vision = build_wheel("torchvision", f"0.31.0.dev{day:%Y%m%d}+cpu", requires=[f"torch=={version(day)}"])
    return build_wheel("triton", _triton(day)), vision


def nightly_index() -> FakeIndex:
    """The index, not started yet."""
    index = FakeIndex([fake_numpy(upload_time="2026-08-01"), fake_setuptools(upload_time="2026-08-01")])
    index.add(build_wheel("torchvision", "0.29.0", requires=["torch==2.14.0"], upload_time="2026-09-02"))
    index.add(build_wheel("torchvision", "0.30.0", requires=["torch==2.15.0"], upload_time="2026-10-28"))
    index.add(build_wheel("torchao", "0.14.0", upload_time="2026-09-02"))
    # PyTorch's own indexes carry old copies of what others publish.
    index.add(fake_numpy("1.26.0"), shelf="nightly/cpu")
    for release, day in RELEASES.items():
        index.add(fake_torch(release, GOOD, upload_time=day))
        index.add(fake_torch(f"{release}+cpu", GOOD), shelf="cpu")
    for day in days():
        index.add(torch_of(day), *company_of(day), shelf="nightly/cpu")
    index.add(fake_torch("2.15.0+cpu", GOOD), fake_torch("2.16.0+cpu", BAD), shelf="test/cpu")
    return index


def _triton(day: datetime.date) -> str:
    return f"3.7.0+git{day:%m%d}"
