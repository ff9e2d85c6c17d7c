"""An index of sixty small nightly torches, as PyTorch's own is: HTML, no upload times, no sizes, wheels named ``+cpu``.

    with nightly_index() as index:
        run(..., BISECT_TORCH_BACKEND_INDEX=index.base)

Days 2026-09-26 to 2026-11-28 without :data:`GAPS`. Versions are 2.15.0.dev… before :data:`CUT`, then 2.16.0.dev….
``torch.answer()`` is 42 before :data:`BROKE` and 41 from then on; the build of :data:`UNIMPORTABLE` cannot be imported;
that of :data:`YANKED` is withdrawn; those of :data:`SAME_COMMIT` were built from one commit. Each torch requires a
triton that only that index has, exactly, and each day has a torchvision that requires that day's torch. Releases 2.14.0
and 2.15.0 are on the default index and, as ``+cpu``, on the backend's; so is the candidate 2.16.0 on ``test/cpu``.
"""

from __future__ import annotations

import datetime
import hashlib

from tests.support.index import FakeIndex
from tests.support.wheels import Wheel, build_wheel, fake_numpy, fake_setuptools, fake_torch

FIRST, LAST = datetime.date(2026, 9, 26), datetime.date(2026, 11, 28)
CUT = datetime.date(2026, 10, 12)
GAPS = tuple(datetime.date(2026, month, day) for month, day in ((10, 3), (11, 5), (11, 6), (11, 21)))
BROKE = datetime.date(2026, 11, 12)
UNIMPORTABLE = datetime.date(2026, 11, 11)
YANKED = datetime.date(2026, 11, 15)
SAME_COMMIT = (datetime.date(2026, 11, 18), datetime.date(2026, 11, 19))

GOOD, BAD = "def answer(): return 42", "def answer(): return 41"
RELEASES = {"2.14.0": "2026-09-02", "2.15.0": "2026-10-28"}


def days() -> list[datetime.date]:
    """The days that have a nightly."""
    every = (FIRST + datetime.timedelta(days=number) for number in range((LAST - FIRST).days + 1))
    return [day for day in every if day not in GAPS]


def version(day: datetime.date) -> str:
    return f"{'2.15.0' if day < CUT else '2.16.0'}.dev{day:%Y%m%d}"


def commit(day: datetime.date) -> str:
    """``torch.version.git_version`` of a day's build."""
    built = SAME_COMMIT[0] if day in SAME_COMMIT else day
    return hashlib.sha1(f"nightly {built}".encode()).hexdigest()


def torch_of(day: datetime.date) -> Wheel:
    body = BAD if day >= BROKE else GOOD
    return fake_torch(
        f"{version(day)}+cpu",
        'raise ImportError("libtorch_cpu.so: undefined symbol: _ZN2at3addEv")' if day == UNIMPORTABLE else body,
        git_commit=commit(day),
        requires=[f"triton=={_triton(day)}"],
        yanked="wrong build" if day == YANKED else None,
    )


def company_of(day: datetime.date) -> list[Wheel]:
    vision = build_wheel("torchvision", f"0.31.0.dev{day:%Y%m%d}+cpu", requires=[f"torch=={version(day)}"])
    return [build_wheel("triton", _triton(day)), vision]


def nightly_index() -> FakeIndex:
    """The index, not started yet."""
    index = FakeIndex([fake_numpy(upload_time="2026-08-01"), fake_setuptools(upload_time="2026-08-01")])
    index.add(build_wheel("torchvision", "0.29.0", requires=["torch==2.14.0"], upload_time="2026-09-02"))
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
