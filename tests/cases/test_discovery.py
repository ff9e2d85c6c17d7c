"""From paths and commands to cases; -k; needs; expansion by a worker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch import cases
from bisect_torch.cases.pytest_suite import declares
from bisect_torch.errors import UsageError
from bisect_torch.model import Case, CaseFile, CaseKind, Instance

REPOSITORY = Path(__file__).resolve().parents[2]
HEAD = "from bisect_torch import case\n"


@pytest.mark.parametrize("values", ["(a or b)", "a b", "not so", "(1 2)", "a and b"])
def test_an_instance_may_be_named_whole(values: str) -> None:
    found = instances(f"f[s={values},n=1]", f"f[s={values},n=2]", "g")
    assert list(cases.matching(found, f"f[s={values},n=1]")) == found[:1]
    assert list(cases.matching(found, f"File.py::f[s={values},n=2]")) == found[1:2]
    assert list(cases.matching(found, "n=1] or g")) == [found[0], found[2]]


def test_what_does_not_exist_is_named_with_what_does(tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text("")
    with pytest.raises(UsageError, match="no such file") as raised:
        cases.discover([tmp_path / "repro"])
    assert raised.value.hint == f"did you mean {tmp_path / 'repro.py'}?"
    with pytest.raises(UsageError) as raised:
        cases.discover([tmp_path / "absent" / "x.py"])
    assert raised.value.hint == f"the folder {tmp_path / 'absent'} does not exist either"


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("a.ipynb", "a notebook", "`jupyter nbconvert --to script {}` makes a script of it"),
        ("a.md", "a text", "`bisect-torch new {}` takes the code out"),
        ("a.sh", "a shell script", "a command stands after --: -- sh {}"),
    ],
)
def test_what_is_no_python_file_is_refused_with_what_to_do(tmp_path: Path, name: str, what: str, hint: str) -> None:
    (tmp_path / name).write_text('{"cells": [], "x": null}')
    with pytest.raises(UsageError, match=f"that is {what}, not Python") as raised:
        cases.discover([tmp_path / name])
    assert str(raised.value.hint).startswith(hint.format(tmp_path / name))


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("python trian.py --n 3", "trian.py: no such file", "did you mean train.py?"),
        ("python3.11 -u -W error trian.py", "trian.py: no such file", "did you mean train.py?"),
        ("/usr/bin/python3 sub/x.py", "sub/x.py: no such file", "paths are seen from the working directory"),
        ("python", "python: nothing stands there to run", "a script stands behind it: python FILE"),
        (
            "python -u -X dev",
            "python -u -X dev: nothing stands there to run",
            "a script stands behind it: python -u -X",
        ),
    ],
)
def test_a_command_that_can_only_fail_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, message: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(UsageError) as raised:
        cases.refuse_idle_command(words.split())
    assert raised.value.message == message
    assert str(raised.value.hint).startswith(hint)


@pytest.mark.parametrize(
    "words", ["python train.py", "python -c pass", "python -m train", "python -um x", "pythonic x.py", "sh x"]
)
def test_a_command_that_may_be_started_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    cases.refuse_idle_command(words.split())
    assert cases.discover([], command=words.split())[0].cases[0].argv == tuple(words.split())


def test_a_folder_stands_for_its_files_but_not_for_their_helpers(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("import helper\n")
    (tmp_path / "a.py").write_text(HEAD + "@case\ndef f(): pass\n")
    for name in ("helper.py", "_private.py", "__init__.py", "notes.txt"):
        (tmp_path / name).write_text("")
    found = cases.discover([tmp_path])
    assert [one.file.path.name for one in found] == ["a.py", "b.py"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no"):
        cases.discover([tmp_path / "empty"])


@pytest.mark.parametrize("text", ["", "\n\n", "# import torch\n", '"""What it was for."""\n'])
def test_a_file_in_which_nothing_runs_is_refused_and_left_out_of_a_folder(tmp_path: Path, text: str) -> None:
    """It would be ok in every build."""
    (tmp_path / "hollow.py").write_text(text)
    with pytest.raises(UsageError, match="nothing in it to run"):
        cases.discover([tmp_path / "hollow.py"])
    with pytest.raises(UsageError, match="holds no"):
        cases.discover([tmp_path])
    (tmp_path / "repro.py").write_text("import torch\n")
    assert [one.file.path.name for one in cases.discover([tmp_path])] == ["repro.py"]


def test_of_many_names_few_are_told_the_likest_first(tmp_path: Path) -> None:
    many = "".join(
        f"@case(dtype=['float32', 'bfloat16'], n=[1, 2, 3])\ndef sums_{n}(dtype, n): pass\n" for n in range(9)
    )
    (tmp_path / "cases.py").write_text(HEAD + many)
    hints = {
        "other": "the file has: sums_0, sums_1, sums_2, sums_3, sums_4, sums_5 and 3 more",
        "sum_7": "did you mean sums_7 or sums_8 or sums_6?",
        "sums_1[dtype=bfloat16]": "sums_1 has: sums_1[dtype=bfloat16,n=1], sums_1[dtype=bfloat16,n=2], "
        "sums_1[dtype=bfloat16,n=3] and 3 more",
    }
    for name, hint in hints.items():
        with pytest.raises(UsageError) as raised:
            cases.discover([f"{tmp_path}/cases.py::{name}"])
        assert raised.value.hint == hint


def test_a_case_of_a_file_is_named_as_for_pytest(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text(HEAD + "@case(n=[1, 2])\ndef f(n): pass\n@case\ndef g(): pass\n")
    (tmp_path / "script.py").write_text("import torch\n")

    def names(*paths: str) -> list[str]:
        found = cases.discover([f"{tmp_path}/{path}" for path in paths])
        return [each.name for one in found for each in one.instances or ()]

    assert names("cases.py::f") == ["f[n=1]", "f[n=2]"]
    assert names("cases.py::f[n=2]") == ["f[n=2]"]
    assert names("cases.py::g", "cases.py::f[n=1]") == ["f[n=1]", "g"]
    assert names("cases.py::f[n=1]", "cases.py") == ["f[n=1]", "f[n=2]", "g"]
    assert names("script.py::script") == ["script"]
    with pytest.raises(UsageError, match="there is no case 'h'") as raised:
        names("cases.py::h")
    assert raised.value.hint == "the file has: f, g"
    with pytest.raises(UsageError, match=r"there is no instance 'f\[n=3\]'") as raised:
        names("cases.py::f[n=3]")
    assert raised.value.hint == "f has: f[n=1], f[n=2]"
    with pytest.raises(UsageError, match="no case is named after ::"):
        names("cases.py::")
    with pytest.raises(UsageError, match="is a folder"):
        names("::f")


def test_a_case_that_only_a_worker_knows_is_chosen_once_it_is_known(tmp_path: Path) -> None:
    file = tmp_path / "cases.py"
    file.write_text(HEAD + "import torch\n@case(n=list(torch.sizes))\ndef f(n): pass\n@case\ndef g(): pass\n")
    row = {"line": 3, "devices": [], "needs": [], "issue": None, "memory": {}, "timeout_s": None}
    rows = [{"case": "f", "parameters": {"n": 1}, **row}, {"case": "g", "parameters": {}, **row}]
    (found,) = cases.discover([f"{file}::g"], bad_if_output="nan")
    assert found.instances is None
    assert [each.name for each in cases.from_expansion(found, rows)] == ["g"]
    (found,) = cases.discover([f"{file}::h"])
    with pytest.raises(UsageError, match="there is no case 'h'"):
        cases.from_expansion(found, rows)


def test_a_path_named_twice_counts_once_and_equal_stems_stay_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "repro.py").write_text(f"import torch  # {folder}\n")
    one, two = tmp_path / "one" / "repro.py", tmp_path / "two" / "repro.py"
    found = cases.discover([one, two, tmp_path / "two" / ".." / "one" / "repro.py"])
    assert [one.file.path for one in found] == [one, two]
    assert [one.cases[0].name for one in found] == ["repro", "repro"]
    assert found[0].file.sha256 != found[1].file.sha256


def test_of_a_folder_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    files = {
        "good.py": b"import torch\n",
        "bad.py": b"x = 1\ndef f(:\n",
        "latin.py": "x = 'é'\n".encode("latin-1"),
        "imports.py": b"import bad\n",
        "case.py": b"from bisect_torch import case\n@case(timeout=-1)\ndef f(): pass\n",
        "_helper.py": b"def f(:\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    told: list[tuple[str, str]] = []

    found = cases.discover([tmp_path], left_out=lambda path, error: told.append((path.name, error.message)))

    assert [one.file.path.name for one in found] == ["good.py"]
    assert [name for name, _ in told] == ["bad.py", "case.py", "imports.py", "latin.py"]
    assert told[0][1].startswith(f"{tmp_path}/bad.py:2: ")
    assert told[2][1] == told[0][1]
    with pytest.raises(UsageError, match=r"bad\.py:2"):
        cases.discover([tmp_path])
    with pytest.raises(UsageError, match=r"bad\.py:2"):
        cases.discover([tmp_path / "good.py", tmp_path / "bad.py"], left_out=lambda path, error: told.clear())
    (tmp_path / "good.py").unlink()
    with pytest.raises(UsageError, match=r"bad\.py:2"):
        cases.discover([tmp_path], left_out=lambda path, error: told.clear())
    assert told


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python train.py --steps 3", "train"),
        ("python -u scripts/train.py --config other.py", "train"),
        ("env SEED=1 bash ./run.sh", "run"),
        ("python -m pkg.train --out x.py", "pkg.train"),
        ("/usr/bin/python3.11 -c pass x.py", "python3"),
        ("./benchmark --fast", "benchmark"),
        ("tool -- x.py", "tool"),
    ],
)
def test_a_command_is_named_by_what_tells_it_from_others(words: str, name: str) -> None:
    (found,) = cases.discover([], command=words.split())
    assert [case.name for case in found.cases] == [name]


def test_a_command_is_one_case_that_depends_on_its_words_and_files(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("1\n")
    words = ["/usr/bin/python3.11", str(script), "--flag"]
    (before,) = cases.discover([], command=words, bad_if_output="NaN", timeout_s=5)
    (case,) = before.cases
    assert before.file.kind is CaseKind.COMMAND
    assert case.name == "x"
    assert case.argv == tuple(words)
    assert before.instances is not None
    assert (case.bad_if_output, before.instances[0].limits.timeout_s) == ("NaN", 5)
    script.write_text("2\n")
    (after,) = cases.discover([], command=words)
    assert after.file.local_modules != before.file.local_modules
    assert after.file.sha256 == before.file.sha256


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("python sub/train.py", ["sub/lib.py", "sub/pkg/__init__.py", "sub/pkg/deep.py", "sub/train.py"]),
        (
            "torchrun --nproc-per-node 2 sub/train.py",
            ["sub/lib.py", "sub/pkg/__init__.py", "sub/pkg/deep.py", "sub/train.py"],
        ),
        ("python -m app.main", ["app/__init__.py", "app/main.py", "app/part.py", "top.py"]),
        ("python -m app", ["app/__init__.py", "app/__main__.py", "app/part.py"]),
        ("python -m torch.distributed.run sub/bad.py", ["sub/bad.py"]),
        ("python -m sub.bad", ["sub/bad.py"]),
        ("python -m", []),
        ("git commit -m ..x/", []),
        ("sh -c sub/train.py", ["sub/lib.py", "sub/pkg/__init__.py", "sub/pkg/deep.py", "sub/train.py"]),
    ],
)
def test_what_a_script_of_a_command_imports_decides_too(
    words: str, seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "sub/train.py": "import torch, lib\n",
        "sub/lib.py": "from pkg import deep\n",
        "sub/pkg/__init__.py": "",
        "sub/pkg/deep.py": "",
        "sub/bad.py": "print 1\n",
        "lib.py": "not this one",
        "app/__init__.py": "",
        "app/__main__.py": "from .part import f\n",
        "app/main.py": "from app import part\nimport top\n",
        "app/part.py": "",
        "top.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    (found,) = cases.discover([], command=words.split())
    assert sorted(found.file.local_modules) == seen
    assert set(cases.sources(found.file)) == set(found.file.local_modules.values())


@pytest.mark.parametrize("word", ["x = 1\n" * 100, "é\ud800", "a\0b"])
def test_a_word_that_cannot_be_a_path_names_no_file(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a program after ``-c`` that is longer than a file's name may be, or an expression after ``-k``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_x.py").write_text("def test_x(): ...\n")
    (found,) = cases.discover([], command=["python", "-c", word])
    assert found.file.local_modules == {}
    (found,) = cases.discover([], pytest_words=["-k", word, "test_x.py"])
    assert found.covered is not None
    assert list(found.covered) == ["test_x.py"]
    assert not declares("--from", [word], tmp_path)


def test_an_expression_that_does_not_compile_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--bad-if-output"):
        cases.discover([], command=["true"], bad_if_output="(")
    with pytest.raises(UsageError, match="time limit"):
        cases.discover([], command=["true"], timeout_s=0)


def instances(*names: str) -> list[Instance]:
    file = CaseFile(Path("/x/File.py"), "0", CaseKind.CASE)
    return [Instance(Case(file, name.partition("[")[0]), parameters(name)) for name in names]


def parameters(name: str) -> tuple[tuple[str, str], ...]:
    inside = name.partition("[")[2].rstrip("]")
    return tuple((key, value) for key, _, value in (item.partition("=") for item in inside.split(",") if item))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", "bmm softmax bmm[d=f32]"),
        ("bmm", "bmm bmm[d=f32]"),
        ("BMM and d=F32", "bmm[d=f32]"),
        ("not bmm", "softmax"),
        ("not (bmm and d=f32)", "bmm softmax"),
        ("softmax or d=f32", "softmax bmm[d=f32]"),
        ("bmm and not d=f32 or softmax", "bmm softmax"),
        ("not not bmm", "bmm bmm[d=f32]"),
        ("file.py::soft", "softmax"),
        ("nothing", ""),
    ],
)
def test_expressions_choose_instances(expression: str, expected: str) -> None:
    found = cases.matching(instances("bmm", "softmax", "bmm[d=f32]"), expression)
    assert " ".join(one.name for one in found) == expected


@pytest.mark.parametrize("expression", ["and", "a b", "(a", "a)", "a or", "not", "()", "a and or b"])
def test_an_expression_that_cannot_be_understood_is_a_usage_error(expression: str) -> None:
    with pytest.raises(UsageError, match="-k"):
        cases.matching(instances("a"), expression)


names = st.sampled_from(["bmm", "soft", "f32", "zzz"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from(["and", "or"]), inner)
    return st.one_of(inner.map("not ({})".format), joined.map(lambda parts: "({}) {} ({})".format(*parts)))


expressions = st.recursive(names, combined, max_leaves=6)


@given(expressions)
def test_expressions_mean_what_python_would_mean(expression: str) -> None:
    rows = instances("bmm", "softmax", "bmm[d=f32]")
    found = cases.matching(rows, expression)
    for row in rows:
        known = {word: word in row.name for word in ("bmm", "soft", "f32", "zzz")}
        assert (row in found) is eval(expression, {"__builtins__": {}}, known)


@pytest.mark.parametrize(
    ("needs", "version", "expected"),
    [
        ((), "2.4.1", None),
        (("torch>=2.6",), "2.6.0", None),
        (("torch>=2.6",), "2.16.0.dev20261128", None),
        (("torch>=2.6",), "2.5.1", "needs torch>=2.6, this is torch 2.5.1"),
        (("compile", "cuda"), "2.4.1", None),
        (("torch!=2.9.0", "torch<2.14"), "2.14.0", "needs torch<2.14, this is torch 2.14.0"),
        (("numpy>=2",), "2.4.1", "needs numpy>=2, this is numpy 1.26.4"),
        (("scipy",), "2.4.1", "needs scipy, which is not installed"),
        (("torch>=9; python_version < '3'",), "2.4.1", None),
    ],
)
def test_needs_say_why_a_build_does_not_apply(needs: tuple[str, ...], version: str, expected: str | None) -> None:
    case = Case(CaseFile(Path("x.py"), "0", CaseKind.CASE), "f", needs=needs)
    assert cases.unmet(case, version, {"NumPy": "1.26.4"}) == expected


def test_without_a_list_of_packages_only_torch_is_judged() -> None:
    case = Case(CaseFile(Path("x.py"), "0", CaseKind.CASE), "f", needs=("numpy>=2", "scipy"))
    assert cases.unmet(case, "2.4.1") is None


EXPANDED = """
import torch
from bisect_torch import case

SIZES = [2**16 - 16, 2**16]

@case(dtype=["float32", "bfloat16"], n=SIZES, memory="1 GiB", timeout=3, needs="torch>=2.5")
def one(device, dtype, n): ...

@case
def two(): ...

@torch.no_grad()
@case(flag=(True, False), scale=[0.5, None, 1e-3], device=["cpu"], issue="https://example.org")
def three(flag, scale): ...
"""


def describe(python: Path, path: Path) -> list[dict[str, object]]:
    program = (
        f"import json, sys; sys.path.insert(0, {str(REPOSITORY)!r}); from bisect_torch.worker import api; "
        f"print(json.dumps(api.describe(api.load_case_file({str(path)!r}))))"
    )
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return list(json.loads(ended.stdout))


@pytest.mark.real_torch
def test_reading_and_running_a_file_give_the_same_instances(tmp_path: Path, real_torch: Mapping[str, Path]) -> None:
    read_path, run_path = tmp_path / "a" / "x.py", tmp_path / "b" / "x.py"
    for path, text in ((read_path, EXPANDED), (run_path, EXPANDED.replace("[2**16 - 16", "[len(str(1)) + 65519"))):
        path.parent.mkdir()
        path.write_text(text)
    (read,) = cases.discover([read_path], timeout_s=77)
    (run,) = cases.discover([run_path], timeout_s=77)
    assert run.instances is None
    assert read.instances is not None
    ran = cases.from_expansion(run, describe(next(iter(real_torch.values())), run_path))
    assert [one.name for one in ran] == [one.name for one in read.instances]
    assert [one.parameters for one in ran] == [one.parameters for one in read.instances]
    for one, other in zip(ran, read.instances, strict=True):
        assert (one.limits, one.limits_by_device) == (other.limits, other.limits_by_device)
        left, right = one.case, other.case
        assert (left.devices, left.needs, left.issue, left.line) == (
            right.devices, right.needs, right.issue, right.line)  # fmt: skip


def test_an_empty_expansion_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(HEAD + "for _ in ():\n    @case\n    def f(): ...\n")
    (found,) = cases.discover([path])
    assert found.instances is None
    with pytest.raises(UsageError, match=r"x.py:1: declares no case"):
        cases.from_expansion(found, [])


def test_commands_of_one_folder_run_together_each_under_its_name_and_with_its_words() -> None:
    first, second = (cases.discover([], command=words)[0] for words in (["true"], ["false", "x"]))
    both = cases.together([cases.called(first, "python"), second])
    assert [(each.name, each.case.argv) for each in both.instances or ()] == [
        ("python", ("true",)),
        ("false", ("false", "x")),
    ]
    assert len({each.case.file.sha256 for each in both.instances or ()}) == 2
