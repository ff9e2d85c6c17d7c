"""From a bug report's text to a script or case file: blocks, choice, code, advice."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bisect_torch.cases import discover
from bisect_torch.cases.report_advice import advice, first_two, options, reported_version
from bisect_torch.cases.report_blocks import Block, blocks
from bisect_torch.cases.report_choice import choose
from bisect_torch.cases.report_code import _longest_beginning, code_of, undefined
from bisect_torch.cases.report_script import case_file, case_name, needed, packages, script
from bisect_torch.cli.main import main
from bisect_torch.cli.run_findings import known_releases
from bisect_torch.errors import UsageError

REPRO = "import torch\nx = torch.ones(2)\nassert x.sum() == 2\n"


def texts(report: str) -> list[str]:
    return [block.text for block in blocks(report)]


@pytest.mark.parametrize(
    "report",
    [
        f"```python\n{REPRO}```\n",
        f"text\n```py title='x'\n{REPRO}```",
        f"~~~~Python3\n{REPRO}~~~~\n",
        f"````\n{REPRO}````",
        f"```{{.python}}\n{REPRO}```",
        f"```python\r\n{REPRO.replace(chr(10), chr(13) + chr(10))}```\r\n",
        f"<details><summary>code</summary>\n\n```python\n{REPRO}```\n</details>",
        "1. first\n   ```python\n" + "".join(f"   {line}\n" for line in REPRO.splitlines()) + "   ```\n",
        "> quoted\n> ```python\n" + "".join(f"> {line}\n" for line in REPRO.splitlines()) + "> ```\n",
        f"<pre><code class='python'>{REPRO}</code></pre>",
        "It fails:\n\n" + "".join(f"    {line}\n" for line in REPRO.splitlines()) + "\nwhy?\n",
        REPRO,
        "\ufeff" + REPRO.replace(" = ", "\u00a0=\u00a0"),
    ],
)
def test_every_way_to_write_a_block_gives_the_same_code(report: str) -> None:
    assert choose(report).code.text == REPRO


def test_blocks_keep_their_line_and_language_and_say_when_they_never_end() -> None:
    report = "a\n```bash\npip install x\n```\n\n```\nimport torch\n"

    assert blocks(report) == (
        Block(3, "bash", "pip install x\n"),
        Block(7, "", "import torch\n\n", closed=False),
    )


def test_a_fence_inside_of_a_longer_one_is_text() -> None:
    assert texts("````md\n```python\nx\n```\n````\n") == ["```python\nx\n```\n"]


def test_escapes_in_pre_are_undone() -> None:
    assert texts("<pre>if a &lt; b &amp;&amp; c:</pre>") == ["if a < b && c:\n"]


@pytest.mark.parametrize(
    ("text", "code", "output"),
    [
        (">>> import torch\n>>> torch.ones(1)\ntensor([1.])\n", "import torch\ntorch.ones(1)\n", "tensor([1.])"),
        (
            ">>> import torch\n>>> for i in range(2):\n...     print(i)\n...\n0\n1\n",
            "import torch\nfor i in range(2):\n    print(i)\n",
            "0\n1",
        ),
        (
            "In [1]: import torch\n\nIn [2]: x = 1\n   ...: y = 2\nOut[2]: 7\n",
            "import torch\nx = 1\ny = 2\n",
            "Out[2]: 7",
        ),
        ("import torch\nprint(1)\ntensor([nan, 1.])\n", "import torch\nprint(1)\n", "tensor([nan, 1.])"),
        ("import torch\nprint(1)\nTrue\n(1, 2)\n", "import torch\nprint(1)\n", "True\n(1, 2)"),
        ("import torch\nf(1)\nTraceback (most recent call last):\n  File 1\n", "import torch\nf(1)\n", None),
        ("!pip install einops==0.8\n%matplotlib inline\nimport torch\n", "import torch\n", ""),
        ("import torch\n@torch.compile\n", "import torch\n", "@torch.compile"),
        ("   import torch\n   x = 1\n", "import torch\nx = 1\n", ""),
        ("Traceback (most recent call last):\n", "", None),
        ("", "", ""),
    ],
)
def test_code_and_what_it_printed_are_told_apart(text: str, code: str, output: str | None) -> None:
    found = code_of(blocks(f"```\n{text}```")[0])

    assert found.text == code
    assert output is None or found.output == output


def test_requirements_of_a_notebook_are_kept() -> None:
    code = code_of(Block(1, "", "!pip install -q -i https://x 'einops==0.8' foo[bar]\nimport torch, einops\nfor\n"))

    assert code.installs == ("einops==0.8", "foo[bar]")
    assert packages(code) == ("einops==0.8",)


LINES = st.lists(
    st.sampled_from(
        [
            "import torch",
            "x = 1",
            "if x:",
            "    y = 2",
            "for",
            "(",
            "'''",
            "def f():",
            "",
            "tensor(1)",
            "\\",
            "]",
            "# c",
        ]
    ),
    max_size=8,
)


@given(LINES)
def test_the_longest_beginning_is_what_trying_all_of_them_gives(lines: list[str]) -> None:
    def parses(length: int) -> bool:
        try:
            ast.parse("\n".join(lines[:length]) + "\n")
        except SyntaxError:
            return False
        return True

    assert _longest_beginning(lines) == max(length for length in range(len(lines) + 1) if parses(length))


@given(st.text(alphabet="`~>-ab \n\t\r<pre>/import torch=()'\"#@:", max_size=200))
def test_any_text_gives_code_that_can_be_parsed_or_a_usage_error(report: str) -> None:
    try:
        choice = choose(report)
    except UsageError:
        return
    ast.parse(script(choice.code))


@given(LINES)
@example(["if x:", "    y = 2", "\\", "    y = 2"])
def test_a_case_file_holds_the_same_statements_as_the_script(lines: list[str]) -> None:
    text = "\n".join(["import torch", *lines]) + "\n"
    code = code_of(Block(1, "python", text))
    if not code.text:
        return
    try:
        found = ast.parse(case_file(code, "repro"))
    except UsageError:
        return
    function = found.body[-1]
    assert isinstance(function, ast.FunctionDef)
    inside = [ast.dump(each) for each in function.body if not isinstance(each, ast.Pass)]
    wanted = [ast.dump(each) for each in code.module.body if not isinstance(each, ast.Import)]
    assert inside == wanted


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ("```python\nx = f()\n```\n```python\nimport torch\n```", 5),
        ("```\nimport torch\nf(torch)\n```\n```\nimport torch\n```", 2),
        ("```\nprint(x)\n```\n```\nprint(torch.ones(1))\n```", 5),
        ("```cpp\nint x;\n```\n```bash\nimport torch\n```\n```py\nx()\n```", 8),
        ("```\nok\n```\n```\nimport torch\n```", 5),
    ],
)
def test_of_several_blocks_the_first_that_uses_torch_is_taken(report: str, line: int) -> None:
    assert choose(report).code.block.line == line


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("", "the report is empty"),
        ("it fails", "the report has no code block, and its text is no repro in Python"),
        ("```cpp\nint main() {}\n```", "no Python code in the report; blocks: line 2 (cpp)"),
        ("```py\nf(1)\n```\n```py\ng(1)\n```", "2 blocks hold Python and none uses torch: line 2 (py), line 5 (py)"),
    ],
)
def test_where_nothing_tells_the_user_must(report: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose(report)
    assert said in refused.value.message


def test_blocks_can_be_named_and_joined_and_a_block_that_goes_on_is_pointed_out() -> None:
    report = "```py\nimport torch\nmodel = 1\n```\n```py\nprint(model)\n```\n```sh\n$ ls\n```"

    assert [code.block.line for code in choose(report).continued] == [6]
    assert choose(report).together == (1, 2)
    assert choose(report, (1, 2)).code.text == "import torch\nmodel = 1\n\nprint(model)\n"
    for number in (0, 3, 4):
        with pytest.raises(UsageError):
            choose(report, (number,))


@pytest.mark.parametrize(
    ("blocks_of_code", "line", "numbers"),
    [
        (["model(w)", "import torch\ndef model(x): return x\nw = 1"], 6, "2,1"),
        (["w = torch.ones(1)", "import torch\nprint(torch.ones(1), w)"], 2, "1,2"),
        (["w = f(1)", "import torch\nv = torch.ones(1) + w", "print(v)"], 2, "1,2,3"),
        (["import torch\nf(np)", "import numpy as np\ng(np)"], None, None),
    ],
)
def test_blocks_that_share_names_are_offered_in_the_order_in_which_they_run(
    blocks_of_code: list[str], line: int | None, numbers: str | None
) -> None:
    report = "".join(f"```python\n{text}\n```\n" for text in blocks_of_code)
    choice = choose(report)
    told = [each.text for each in advice(choice, report, as_case=False) if each.kind == "block"]
    if numbers is None:
        assert told == []
        return
    (text,) = told
    assert text.endswith(f" shares names with it: --block {numbers} takes all of it")
    joined = choose(report, tuple(map(int, numbers.split(","))))
    assert joined.code.text.count("\n\n") == numbers.count(",")


def test_imports_alone_are_no_repro_and_are_put_before_the_code_that_uses_them() -> None:
    report = "```py\nout = f(torch.ones(1))\n```\n```py\nimport torch\nfrom a import f\n```\n```py\nprint(f(1))\n```"
    choice = choose(report)

    assert choice.code.text == "import torch\nfrom a import f\n\nout = f(torch.ones(1))\n"
    assert choice.why == "imports alone, with the code at line 2 that uses them"
    assert [code.block.line for code in choice.others] == [9]
    alone = choose("```py\nprint(1)\n```\n```py\nimport torch\n```")
    assert alone.code.text == "import torch\n"


def test_a_package_that_is_used_without_its_import_gets_that_and_is_installed() -> None:
    report = "```python\nimport torch\nmodel = torchvision.models.resnet18()\nassert model\n```"
    code = choose(report).code

    assert "import torchvision\n" in script(code)
    assert options(code) == ("--with", "torchvision")
    assert kinds(report) == {"import", "with"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("torch.load('/data/w.pt')", ["it reads files that must be there: /data/w.pt"]),
        ("torch.load('w.pt')", ["it reads files that must lie beside it: w.pt"]),
        ("torch.load(f='w.pt')", ["it reads files that must lie beside it: w.pt"]),
        ("torch.save({}, '/tmp/ck.pt')\ntorch.load('/tmp/ck.pt')", []),
        ("torch.save({}, f='ck.pt')\ntorch.load('ck.pt')", []),
        ("with open('a', 'wb') as f: f.write(b'')\nopen('a').read()", []),
        ("open('a', mode='w').close()\nopen('a', 'r').read()", []),
        ("torch.load('w.pt')\ntorch.save({}, 'w.pt')", ["it reads files that must lie beside it: w.pt"]),
        ("torch.save({}, 'v.pt')\ntorch.load('w.pt')", ["it reads files that must lie beside it: w.pt"]),
    ],
)
def test_what_a_repro_writes_itself_needs_no_file(text: str, told: list[str]) -> None:
    report = f"```python\nimport torch\n{text}\n```"
    assert [each.text for each in advice(choose(report), report, as_case=False) if each.kind == "file"] == told


def test_the_version_of_a_report_is_advised_for_the_range() -> None:
    report = f"```python\n{REPRO}```\nPyTorch version: 2.7.1\n"
    (told,) = advice(choose(report), report, as_case=False)
    assert told.text == "the report is about torch 2.7.1: choose a range that includes it"


def kinds(report: str) -> set[str]:
    return {each.kind for each in advice(choose(report), report, as_case=False)}


def test_what_to_add_is_said() -> None:
    report = """```python
from einops import rearrange
x = torch.randn(2).cuda()
y = torch.compile(lambda a: a)(x)
w = torch.load("weights.pt")
print(np.asarray(y), missing_thing)
tensor([nan])
```
PyTorch version: 2.6.0+cu124
"""
    choice = choose(report)

    assert kinds(report) == {
        "import", "name", "assert", "expected", "compile", "device", "with", "file", "seed", "version",
    }  # fmt: skip
    assert needed(choice.code) == ("compile", "cuda")
    assert options(choice.code) == ("--with", "einops")
    assert reported_version(report) == "2.6.0"
    assert script(choice.code).startswith(
        "# From a bug report, the block at its line 2.\nimport torch\nimport numpy as np\n"
    )
    told = " ".join(each.text for each in advice(choice, report, as_case=False))
    assert "missing_thing" in told
    assert "tensor([nan])" in told


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("tensor([[0, 1],\n        [3, 4]])", "tensor([[0, 1], [3, 4]])"),
        ("Traceback (most recent call last):\n  x\nIndexError: too many", "IndexError: too many"),
        ("nan " * 40, ("nan " * 40)[:118] + " …"),
    ],
)
def test_output_is_quoted_from_its_beginning_and_an_error_by_its_name(output: str, shown: str) -> None:
    report = f"```python\n>>> import torch\n>>> torch.ones(2)\n{output}\n```"
    told = [each.text for each in advice(choose(report), report, as_case=False) if each.kind == "expected"]
    assert told == [f"the report shows what it printed, right or wrong: {shown}; assert what it should be"]


def test_a_repro_that_decides_for_itself_is_told_nothing() -> None:
    assert kinds(f"```python\n{REPRO}```") == set()


CASES = """\
import torch
from bisect_torch import case, check

@case(n=[1, 2])
def sums(n):
    return check(torch.ones(n).sum(), reference=float(n))
"""


def test_a_case_file_in_a_report_is_written_as_it_is_and_told_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a report of this tool shows it: check() decides, and a case inside of a case would never run."""
    report = tmp_path / "report.md"
    report.write_text(f"```python\n{CASES}```\n")

    for words in ([], ["--case"]):
        path = tmp_path / f"cases{len(words)}.py"
        assert main(["new", str(report), *words, "-o", str(path)]) == 0
        assert path.read_text().partition("\n")[2] == CASES
        (found,) = discover([path])
        assert [each.name for each in found.instances or ()] == ["sums[n=1]", "sums[n=2]"]
        assert "assert:" not in capsys.readouterr().out


def test_a_check_decides_and_its_name_alone_does_not() -> None:
    assert not [each for each in advice(choose(CASES), CASES, as_case=True) if each.kind == "assert"]
    uncalled = CASES.replace("check(torch.ones(n).sum(), reference=float(n))", "check")
    assert [each.kind for each in advice(choose(uncalled), uncalled, as_case=True)] == ["assert"]


def test_future_imports_and_docstrings_stay_first() -> None:
    text = '"""What."""\nfrom __future__ import annotations\nx = torch.ones(1)\nassert x\n'

    made = script(code_of(Block(1, "", text)))

    assert [type(each).__name__ for each in ast.parse(made).body] == [
        "Expr",
        "ImportFrom",
        "Import",
        "Assign",
        "Assert",
    ]
    assert ast.parse(made).body[1].module == "__future__"  # type: ignore[attr-defined]


def test_a_case_file_is_one_that_the_tool_reads_and_keeps_strings_as_they_are(tmp_path: Path) -> None:
    text = (
        "import os\nfrom torch import nn\nclass M(nn.Module):\n    def f(self):\n        return TEXT\n"
        "TEXT = '''a\n  b'''\nN = f\"\"\"{\n1}\nc\"\"\"\nif __name__ == '__main__':\n"
        "    print(M().f(), torch.compile)\n"
    )
    path = tmp_path / "cases.py"
    path.write_text(case_file(code_of(Block(1, "", text)), case_name("2 odd-name")))

    (found,) = discover([path])

    assert [case.name for case in found.cases] == ["case_2_odd_name"]
    assert found.cases[0].needs == ("compile",)
    assert "'''a\n  b'''" in path.read_text()


@pytest.mark.parametrize("name", ["repro", "Case A", "3", "class", "ümlaut", "", "a.b"])
def test_names_of_cases_are_identifiers(name: str) -> None:
    assert case_name(name).isidentifier()


def test_star_imports_hide_no_names_and_code_that_fits_no_function_is_refused() -> None:
    assert undefined(ast.parse("from torch import *\nones(1)\n")) == set()
    code = code_of(Block(1, "", "import torch\nif torch:\n    from torch import *\n"))
    with pytest.raises(UsageError):
        case_file(code, "repro")


RELEASES = ("2.4.1", "2.6.0", "2.9.1", "2.14.0")


@pytest.mark.parametrize(
    ("said", "two"),
    [
        ("PyTorch version: 2.9.1+cu128 ... torch==2.6.0 works", ("2.6.0", "2.9.1")),
        ("PyTorch version: 2.6.0", ("2.6.0", "2.14.0")),
        ("torch 2.14.0", ("2.4.1", "2.14.0")),
        ("torch 1.13.1 is fine, torch 2.9.1 is not", ("2.9.1", "2.14.0")),
        ("it fails", ("2.4.1", "2.14.0")),
    ],
)
def test_two_releases_are_proposed_first(said: str, two: tuple[str, str]) -> None:
    assert first_two(said, RELEASES) == two


def run_new(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> tuple[int, str, str]:
    code = main(["new", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_writes_a_file_and_never_over_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, made = tmp_path / "report.md", tmp_path / "made.py"
    report.write_text(f"```python\n{REPRO}```\n```py\nimport torch\n```")

    first = run_new(capsys, [str(report), "-o", str(made)])
    again = run_new(capsys, [str(report), "-o", str(made), "--case"])

    assert first[0] == 0
    assert "the first of 2 blocks that imports torch" in first[1]
    assert "not taken: the code at line 7" in first[1]
    known = known_releases()
    assert f"\nnext: bisect-torch run {made} --versions {known[0]},{known[-1]}\n" in first[1]
    assert first[1].endswith(f"differ: bisect-torch run {made} --from {known[0]} --to {known[-1]}\n")
    assert made.read_text().endswith(REPRO)
    assert again[0] == 2
    assert "is not overwritten" in again[2]


def test_the_command_reads_a_pipe_and_writes_to_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bisect_torch", "new", "-", "-o", "-"],
        input=f"```python\n{REPRO}```".encode() + b"\xff",
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().endswith(REPRO)
    assert "\nnext, once it is saved as repro.py: bisect-torch run repro.py " in done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.md"], "nowhere.md cannot be read"),
        (["."], "cannot be read"),
        (["x", "--block", "a"], "not a list of numbers"),
        (["x", "-o", "-", "--json"], "both want stdout"),
    ],
)
def test_bad_words_are_usage_errors(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run_new(capsys, words)
    assert code == 2
    assert said in error
