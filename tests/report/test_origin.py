"""An error of a package that changed along with torch comes with the command that tells which of them it is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown import markdown
from bisect_torch.report.sentences import sentences
from tests.report.histories import environment, series
from tests.report.test_markdown import reported


def raising(*signatures: str, packages: tuple[str, str] = ("2.2.5", "2.3.0"), **facts: object) -> Findings:
    told = reported(series("repro", *signatures, file="repro.py"), results=Path("r.parquet"))
    bad = {
        name for name, each in zip(told.build_names, signatures, strict=True) if each != "ok"
    }  # on which the facts stand
    seen = tuple(dataclasses.replace(each, **facts) if each.build_name in bad else each for each in told.observations)
    made = {
        name: environment(name, numpy=packages[name != "2.4.1"], scikit_learn=packages[name != "2.4.1"])
        for name in told.build_names
    }
    return dataclasses.replace(told, observations=seen, environments=made)


def pointer(findings: Findings) -> str | None:
    return dict(sentences(findings)[0].evidence).get("error comes from")


TELLS = "`bisect-torch attribute r.parquet repro` tells which of them it is"
ERROR = "error:AttributeError"
NUMPY = {"root_message": "module 'numpy' has no attribute 'bool8'", "frame": "repro:f", "frame_origin": "case"}


@pytest.mark.parametrize(
    ("facts", "package"),
    [
        (NUMPY, "numpy"),
        ({"message": "cannot import name 'x' from 'numpy.core' (<environment>/numpy)"}, "numpy"),
        ({"message": "bad", "frame": "numpy.linalg:solve", "frame_origin": "numpy"}, "numpy"),
        ({"message": "bad", "frame": "sklearn.utils:check", "frame_origin": "other"}, "scikit-learn"),
    ],
)
def test_whose_name_is_missing_or_whose_code_raised_is_pointed_to(facts: dict[str, object], package: str) -> None:
    assert pointer(raising("ok", ERROR, **facts)) == f"{package} 2.2.5 → 2.3.0, which changed along with torch: {TELLS}"
    assert pointer(raising(ERROR, "ok", **facts)) == f"{package} 2.2.5 → 2.3.0, which changed along with torch: {TELLS}"


@pytest.mark.parametrize(
    ("signature", "facts"),
    [
        (ERROR, {"message": "bad", "frame": "torch._tensor:f", "frame_origin": "torch"}),
        (ERROR, {"message": "module 'torch' has no attribute 'x'", "frame": "repro:f", "frame_origin": "case"}),
        (ERROR, {"message": "bad", "frame": "filelock._api:f", "frame_origin": "other"}),
        ("wrong", NUMPY),
    ],
)
def test_what_comes_from_torch_or_from_one_that_is_alike_is_not(signature: str, facts: dict[str, object]) -> None:
    assert pointer(raising("ok", signature, **facts)) is None
    assert pointer(raising("ok", ERROR, packages=("2.2.5", "2.2.5"), **NUMPY)) is None


def test_what_is_bad_in_every_build_names_the_package_with_its_versions() -> None:
    told = raising(ERROR, ERROR, ERROR, **NUMPY)
    alike = raising(ERROR, ERROR, packages=("2.3.0", "2.3.0"), **NUMPY)
    alone = raising(ERROR, **NUMPY)

    beside = "a package beside torch, so this may not be torch's fault"
    assert pointer(told) == f"numpy 2.2.5 on 2.4.1 and 2.3.0 on 2.5.1: {beside}"
    assert pointer(alike) == f"numpy 2.3.0: {beside}"
    assert pointer(alone) == f"numpy 2.2.5: {beside}"
    assert f"The error comes from numpy 2.2.5 on 2.4.1 and 2.3.0 on 2.5.1: {beside}." in markdown(told)


@pytest.mark.parametrize("signatures", [("ok", ERROR), (ERROR, ERROR)])
def test_of_rows_that_do_not_agree_in_it_no_package_is_named(signatures: tuple[str, ...]) -> None:
    rows = [series(f"f[n={number}]", *signatures, file="repro.py") for number in (1, 2)]
    told = reported(*rows, results=Path("r.parquet"))
    facts = {"f[n=1]": NUMPY, "f[n=2]": {"message": "bad", "frame": "torch._tensor:f", "frame_origin": "torch"}}

    def pointer_with(facts: dict[str, dict[str, str]]) -> str | None:
        seen = tuple(dataclasses.replace(each, **facts[each.instance]) for each in told.observations)
        return pointer(dataclasses.replace(told, observations=seen))

    assert pointer_with(facts) is None
    assert "numpy" in str(pointer_with({**facts, "f[n=2]": NUMPY}))


@pytest.mark.parametrize(
    "facts",
    [
        {"message": "bad", "frame": "torch._tensor:f", "frame_origin": "torch"},
        {"message": "module 'torch' has no attribute 'x'", "frame": "repro:f", "frame_origin": "case"},
        {"message": "module 'helper' has no attribute 'x'", "frame": "repro:f", "frame_origin": "case"},
    ],
)
def test_what_comes_from_torch_or_the_case_in_every_build_is_left_to_them(facts: dict[str, object]) -> None:
    assert pointer(raising(ERROR, ERROR, **facts)) is None
    assert pointer(raising("wrong", "wrong", **NUMPY)) is None


def importing(text: str, *signatures: str, packages: tuple[str, str] = ("2.2.5", "2.3.0")) -> str | None:
    told = raising(*signatures, packages=packages)
    told = dataclasses.replace(told, sources={told.observations[0].case_file_hash: text})
    return dict(sentences(told)[0].evidence).get("imported too")


def test_a_case_that_imports_what_differs_too_points_to_attribute() -> None:
    numpy = "import numpy as np, torch\n"
    ask = "`bisect-torch attribute r.parquet repro` tells which it is"
    assert importing(numpy, "ok", "wrong") == f"the case imports numpy, which differs too: {ask}"
    both = "def f():\n    from sklearn.utils import x\n    import numpy.linalg\n"
    assert importing(both, "ok", "wrong") == f"the case imports numpy and scikit-learn, which differ too: {ask}"
    assert importing("import torch\n", "ok", "wrong") is None
    assert importing("from . import numpy\n", "ok", "wrong") is None
    assert importing("no Python at all (", "ok", "wrong") is None
    assert importing(numpy, "absent", "ok") is None
    assert importing(numpy, "ok", "wrong", packages=("2.3.0", "2.3.0")) is None


def test_the_command_can_be_typed_as_it_stands_in_terminal_and_report() -> None:
    told = dataclasses.replace(raising("ok", ERROR, **NUMPY), results=Path("<cwd>/my r.parquet"))
    line = "`bisect-torch attribute 'my r.parquet' repro` tells which of them it is"
    assert str(pointer(told)).endswith(line)
    assert line in markdown(told)


def test_of_several_changes_the_command_names_its_own_and_the_report_has_it_too() -> None:
    told = raising("ok", ERROR, "ok", packages=("2.2.5", "2.3.0"), **NUMPY)
    assert "attribute r.parquet repro --before 2.4.1 --after 2.5.0`" in str(pointer(told))
    assert "error comes from: numpy 2.2.5 → 2.3.0, which changed along with torch" in markdown(told)
