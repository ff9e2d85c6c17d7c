"""Small fake wheels, real enough for ``uv pip install``: a ``torch`` that behaves differently per version, and company.

    torch = fake_torch("2.4.1", "def answer(): return 42")
    wheels = [torch, fake_numpy("2.1.1"), fake_setuptools("74.1.2")]
    with FakeIndex(wheels) as index: ...          # see tests.support.index
    write_wheels(folder, wheels)                  # a find-links folder

``releases({"2.4.1": "def answer(): return 42", "2.5.0": ""})`` builds a whole range, and numpy and setuptools.

The fake torch (``tests/support/fake_torch_source.py``) has ``__version__``, ``version.git_version``, ``version.cuda``,
``tensor``, ``+ - * @``, ``requires_grad_``, ``sum``, ``mean``, ``backward``, ``grad``, ``tolist``, ``equal``,
``zeros``, ``ones``, ``compile`` (gives the function back), ``manual_seed``, ``get/set_num_threads``,
``cuda.is_available`` (False), ``backends.mps`` and ``torch.testing.assert_close``. The ``body`` of a version is
appended to ``torch/__init__.py``, so it can add, replace or break anything: ``raise ImportError("broken")`` makes a
torch that cannot be imported.

Nothing here imports pytest. Everything is deterministic: the same arguments give the same bytes and so the same hash.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SOURCE = Path(__file__).with_name("fake_torch_source.py")

_TESTING = """
def assert_close(actual, expected, *, rtol=1e-5, atol=1e-8, **_options):
    def flat(data):
        if isinstance(data, (list, tuple)):
            for row in data:
                for value in flat(row):
                    yield value
        else:
            yield data

    def plain(value):
        return value.tolist() if hasattr(value, "tolist") else value

    pairs = list(zip(flat(plain(actual)), flat(plain(expected))))
    wrong = [pair for pair in pairs if not abs(pair[0] - pair[1]) <= atol + rtol * abs(pair[1])]
    if wrong:
        raise AssertionError("Tensor-likes are not close!\\n\\nMismatched elements: %d / %d" % (len(wrong), len(pairs)))
"""

_NUMPY = """

class random:
    @staticmethod
    def seed(seed):
        pass
"""

_CUDA = """
def is_available():
    return False


def is_initialized():
    return False


def device_count():
    return 0
"""


@dataclass(frozen=True)
class Wheel:
    """A wheel in memory.

    Args:
        filename: ``torch-2.4.1-py3-none-any.whl``.
        content: The bytes of the zip archive.
        project: Normalised name.
        version: As in the filename, with the local part.
        metadata: The bytes of its METADATA file.
        requires_python: Also told by the index.
        upload_time: When it was "uploaded"; an index without upload times leaves it out.
        yanked: The reason, for a yanked file; may be empty. None for a file that is not yanked.
        claimed_sha256: What an index says in place of the true hash.
    """

    filename: str
    content: bytes = field(repr=False)
    project: str
    version: str
    metadata: bytes = field(repr=False)
    requires_python: str | None = None
    upload_time: datetime.datetime | None = None
    yanked: str | None = None
    claimed_sha256: str | None = None

    @property
    def sha256(self) -> str:
        return self.claimed_sha256 or hashlib.sha256(self.content).hexdigest()


def build_wheel(
    project: str,
    version: str,
    files: Mapping[str, str | bytes] | None = None,
    *,
    tags: str = "py3-none-any",
    requires: Iterable[str] = (),
    requires_python: str | None = None,
    upload_time: datetime.datetime | str | None = None,
    yanked: str | None = None,
    padding: int = 0,
) -> Wheel:
    """Make a wheel.

    Args:
        files: Path in the archive to content; by default one empty package named after the project.
        tags: ``cp311-cp311-manylinux_2_28_x86_64``.
        requires: ``Requires-Dist`` lines, with markers where wanted.
        upload_time: A time, or a day ``2024-09-04`` that means noon UTC.
        padding: Bytes of incompressible content to add, for tests of progress and of broken downloads.
    """
    name = project.replace("-", "_")
    contents: dict[str, bytes] = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in (files if files is not None else {f"{name}/__init__.py": ""}).items()
    }
    if padding:
        contents[f"{name}/padding.bin"] = _noise(padding)
    metadata = "\n".join(
        [
            "Metadata-Version: 2.1",
            f"Name: {project}",
            f"Version: {version}",
            *([f"Requires-Python: {requires_python}"] if requires_python else []),
            *(f"Requires-Dist: {requirement}" for requirement in requires),
            "",
        ]
    ).encode()
    info = f"{name}-{version}.dist-info"
    contents[f"{info}/METADATA"] = metadata
    interpreter, abi, platforms = tags.split("-")
    tag_lines = "".join(f"Tag: {interpreter}-{abi}-{platform}\n" for platform in platforms.split("."))
    contents[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: fake\nRoot-Is-Purelib: {str(abi == 'none').lower()}\n{tag_lines}".encode()
    )
    contents[f"{info}/RECORD"] = _record(contents, info)
    return Wheel(
        filename=f"{name}-{version}-{tags}.whl",
        content=_archive(contents),
        project=project,
        version=version,
        metadata=metadata,
        requires_python=requires_python,
        upload_time=_time(upload_time),
        yanked=yanked,
    )


def fake_torch(
    version: str,
    body: str = "",
    *,
    git_commit: str | None = None,
    cuda: str | None = None,
    imported_version: str | None = None,
    requires: Iterable[str] = (),
    files: Mapping[str, str | bytes] | None = None,
    tags: str = "py3-none-any",
    requires_python: str | None = None,
    upload_time: datetime.datetime | str | None = None,
    yanked: str | None = None,
    padding: int = 0,
) -> Wheel:
    """A torch wheel.

    Args:
        version: Of the wheel. ``torch.__version__`` is the same, unless ``imported_version`` says otherwise: real
            wheels of the default index are named ``2.9.1`` and import as ``2.9.1+cu128``.
        body: Python source appended to ``torch/__init__.py``.
        git_commit: ``torch.version.git_version``; by default :func:`fake_commit` of the version.
        files: More files, or other content for those that are there.
    """
    shown = imported_version or version
    contents: dict[str, str | bytes] = {
        "torch/__init__.py": f"{_SOURCE.read_text()}\n\n# --- behaviour of {version}\n{body}\n",
        "torch/version.py": (
            f"__version__ = {shown!r}\ndebug = False\ncuda = {cuda!r}\n"
            f"git_version = {git_commit or fake_commit(version)!r}\nhip = None\n"
        ),
        "torch/testing/__init__.py": _TESTING,
        "torch/cuda/__init__.py": _CUDA,
        **(files or {}),
    }
    return build_wheel(
        "torch",
        version,
        contents,
        tags=tags,
        requires=requires,
        requires_python=requires_python,
        upload_time=upload_time,
        yanked=yanked,
        padding=padding,
    )


def fake_numpy(version: str = "2.1.1", *, upload_time: datetime.datetime | str | None = None) -> Wheel:
    """A numpy that can be imported and seeded and knows its version, no more."""
    return fake_package("numpy", version, _NUMPY, upload_time=upload_time)


def fake_setuptools(version: str = "74.1.2", *, upload_time: datetime.datetime | str | None = None) -> Wheel:
    """A setuptools that can be imported and knows its version, no more."""
    return fake_package("setuptools", version, upload_time=upload_time)


def fake_package(
    project: str, version: str, body: str = "", *, upload_time: datetime.datetime | str | None = None
) -> Wheel:
    """A package that can be imported and knows its version: cases differ by that.

    Args:
        body: More Python source of its one module.
    """
    source = f"__version__ = {version!r}\n{body}"
    return build_wheel(project, version, {f"{project}/__init__.py": source}, upload_time=upload_time)


def releases(bodies: Mapping[str, str], *, first_day: str = "2024-09-04", days_apart: int = 40) -> list[Wheel]:
    """Torch wheels for a range of versions, ``days_apart`` days apart, with numpy and setuptools from before them."""
    first = datetime.date.fromisoformat(first_day)
    wheels = [
        fake_torch(version, body, upload_time=(first + datetime.timedelta(days=days_apart * number)).isoformat())
        for number, (version, body) in enumerate(bodies.items())
    ]
    before = (first - datetime.timedelta(days=30)).isoformat()
    return [*wheels, fake_numpy(upload_time=before), fake_setuptools(upload_time=before)]


def fake_commit(version: str) -> str:
    """The commit hash of a fake release: 40 hexadecimal digits that follow from its version."""
    return hashlib.sha1(version.encode()).hexdigest()


def write_wheels(folder: Path, wheels: Iterable[Wheel]) -> Path:
    """Write wheels to a folder that can be given as find-links."""
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        (folder / wheel.filename).write_bytes(wheel.content)
    return folder


def _time(value: datetime.datetime | str | None) -> datetime.datetime | None:
    if not isinstance(value, str):
        return value
    time = datetime.datetime.fromisoformat(value)
    if len(value) == len("2024-09-04"):
        time = time.replace(hour=12)
    return time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)


def _noise(size: int) -> bytes:
    blocks = (hashlib.sha256(str(number).encode()).digest() for number in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def _record(contents: Mapping[str, bytes], info: str) -> bytes:
    rows = []
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()


def _archive(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            archive.writestr(zipfile.ZipInfo(path, date_time=(2024, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
