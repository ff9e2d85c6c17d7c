"""A listing looks only at the Pythons and platforms that the names of wheels let hope for, and misses none."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from packaging.tags import platform_tags

from bisect_torch.releases.index import builds_of, known_pythons
from bisect_torch.releases.index_file import IndexFile
from bisect_torch.releases.platforms import Target

HERE = next(iter(platform_tags()))
TAGS = [
    f"cp311-cp311-{HERE}", f"cp313-cp313t-{HERE}", f"cp39-abi3-{HERE}", f"cp312-none-{HERE}",
    f"cp38-cp38-manylinux_2_99_x86_64.{HERE}", f"cp310.cp312-none-{HERE}", "py3-none-any", "py2.py3-none-any",
    "cp312-cp312-macosx_99_0_arm64", "cp310-cp310-win_amd64", "cp314-cp314-manylinux_2_99_aarch64",
]  # fmt: skip


@given(st.lists(st.sampled_from(TAGS), unique=True, min_size=1))
@example([f"cp39-abi3-{HERE}"])
@example(["py3-none-any"])
def test_a_listing_leaves_out_no_python_that_a_wheel_fits(tags: list[str]) -> None:
    files = [IndexFile(f"torch-2.9.1-{tag}.whl", "") for tag in tags]
    builds = builds_of(files, {}, None)
    asked = known_pythons()
    fitting = [name for name in asked if any(Target(name).fits(file.filename) for file in files)]
    assert [name for name in (builds[0].pythons if builds else ()) if name in asked] == fitting
