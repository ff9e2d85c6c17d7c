"""Which packages of an environment could have another version, by what torch and its company require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bisect_torch.environments import bound_to


def environment(root: Path, installed: Mapping[str, Sequence[str]]) -> Path:
    for name, requires in installed.items():
        info = root / "lib" / "python3.11" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {requirement}" for requirement in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\nA text: not a header\n")
    return root


def test_exact_versions_and_bounds_of_torch_hold_a_package(tmp_path: Path) -> None:
    root = environment(
        tmp_path,
        {
            "torch": [
                "triton==3.3.0 ; platform_system == 'Linux'",
                "triton-windows==1 ; platform_system == 'Windows'",
                "sympy>=1.13.3",
                "filelock",
                "setuptools ; python_version >= '3.12'",
            ],
            "numpy": [],
        },
    )

    found = bound_to(
        root, "torch", "3.11", {"triton": "3.2.0", "sympy": "1.13.1", "filelock": "3.17.0", "numpy": "1.26.4"}
    )

    assert found == {"triton": "torch requires triton==3.3.0", "sympy": "torch requires sympy>=1.13.3"}
    assert bound_to(root, "torch", "3.11", {"sympy": "1.14.0", "triton": "3.3.0"}) == {}


def test_what_torch_pins_by_way_of_another_package_is_held_too(tmp_path: Path) -> None:
    root = environment(
        tmp_path,
        {
            "torch": ["cuda-toolkit[cublas]==13.0", "jinja2"],
            "cuda-toolkit": ["nvidia-cublas==13.1 ; extra == 'cublas'", "nvidia-npp==13.1 ; extra == 'npp'"],
            "jinja2": ["markupsafe==3.0.2"],
        },
    )

    found = bound_to(root, "torch", "3.11", {"nvidia-cublas": "13.0", "nvidia-npp": "13.0", "markupsafe": "2.1"})

    assert found == {"nvidia-cublas": "cuda-toolkit requires nvidia-cublas==13.1"}


def test_an_unreadable_requirement_and_a_missing_project_hold_nothing(tmp_path: Path) -> None:
    root = environment(tmp_path, {"torch": ["numpy (>>1"]})

    assert bound_to(root, "torch", "3.11", {"numpy": "1.0"}) == {}
    assert bound_to(root, "jax", "3.11", {"numpy": "1.0"}) == {}
