"""The bug report: one sentence, the matrix, the evidence, the code and the environments, in PyTorch's two fields."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bisect_torch import analysis
from bisect_torch.model import Build, BuildKind, Observation, Series
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown import markdown, nothing_found
from bisect_torch.report.markdown.shortening import LIMIT, steps
from tests.report.histories import RELEASES, build, environment, instance, observation, series
from tests.report.test_markdown_syntax import HOSTILE

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table"])

FACTS: dict[str, dict[str, object]] = {
    "ok": {},
    "wrong": {"wrong_elements": 3, "elements": 8},
    "error": {"outcome": "raised", "frame_origin": "torch", "traceback": "Traceback (most recent call last):\nboom"},
    "absent": {"outcome": "raised", "error_type": "AttributeError", "absent_name": "torch.new"},
    "crash": {"outcome": "signalled", "stderr_tail": "Fatal Python error: Floating point exception"},
}
"""What makes an observation mean a verdict."""


def observed(of: Series, **facts: object) -> list[Observation]:
    """Three observations of every judged point."""
    found = []
    for point in of.points:
        for signature in point.counts if point is not None and point.judgement.verdict.judged else ():
            verdict, _, kind = signature.partition(":")
            known: dict[str, object] = {"error_type": kind, "root_type": kind} if verdict == "error" else {}
            known |= {"signal": kind} if verdict == "crash" else {}
            file = of.instance.partition("[")[0]
            made = observation(
                instance(file, file=of.case_file), point.build if point else "", **{**FACTS[verdict], **known, **facts}
            )
            found += [dataclasses.replace(made, instance=of.instance, device=of.device, repeat=n) for n in range(3)]
    return found


def reported(*rows: Series, facts: dict[str, object] | None = None, **more: object) -> Findings:
    """Findings as they come from a results file."""
    names = rows[0].builds
    known: dict[str, object] = {
        "environments": {name: environment(name, numpy=f"2.{place}") for place, name in enumerate(names)},
        "observations": tuple(each for row in rows for each in observed(row, **(facts or {}))),
        "transitions": tuple(each for row in rows for each in analysis.transitions(row)),
        "known_releases": RELEASES,
        **more,
    }
    return Findings(tuple(build(name) for name in names), series=rows, **known)  # type: ignore[arg-type]


def sentence(findings: Findings) -> str:
    """The first paragraph below the first heading."""
    return markdown(findings).split("\n\n")[1]


def test_no_release_is_blamed_for_those_that_were_not_run() -> None:
    releases = ("2.4.1", "2.4.2", "2.5.0", "2.5.1", "2.5.2", "2.6.0")
    gaps = reported(series("f", "ok", "wrong", "wrong", "ok"), known_releases=releases)
    assert sentence(gaps) == (
        "`f` gave silently wrong values from 2.5.0 or an earlier release that was not run to 2.5.1 (last good 2.4.1); "
        "ok from 2.6.0 or an earlier release that was not run."
    )


SENTENCES = {
    "still wrong": (
        ["ok", "wrong", "wrong"],
        "gives silently wrong values from 2.5.0 on (last good 2.4.1); still so in 2.5.1.",
    ),
    "wrong on the newest": (["ok", "ok", "wrong"], "gives silently wrong values from 2.5.1 on (last good 2.5.0)."),
    "fixed": (["crash:SIGFPE", "ok"], "is fixed in 2.5.0 (crashed with SIGFPE up to 2.4.1)."),
    "broke and was fixed": (
        ["ok", "wrong", "wrong", "ok"],
        "gave silently wrong values from 2.5.0 to 2.5.1 (last good 2.4.1); ok from 2.6.0 on.",
    ),
    "for one release": (
        ["ok", "wrong", "ok"],
        "gave silently wrong values in 2.5.0 (last good 2.4.1); ok from 2.5.1 on.",
    ),
    "silent, then fixed": (
        ["absent", "error:RuntimeError", "wrong", "ok"],
        "gave silently wrong values in 2.5.1, where 2.5.0 raised RuntimeError: an explicit error became silent; "
        "ok from 2.6.0 on.",
    ),
    "fails differently": (
        ["crash:SIGSEGV", "error:RuntimeError", "error:RuntimeError"],
        "raises RuntimeError from 2.5.0 on, instead of crashing with SIGSEGV up to 2.4.1; still so in 2.5.1.",
    ),
    "broken again": (
        ["ok", "wrong", "ok", "wrong", "wrong"],
        "gives silently wrong values again from 2.6.0 on (last good 2.5.1); still so in 2.7.0.",
    ),
    "always": (["wrong", "wrong"], "gives silently wrong values in every build, from 2.4.1 to 2.5.0."),
    "flaky": (
        ["ok|wrong", "ok|wrong"],
        "is flaky in 2 of 2 builds (2.4.1 to 2.5.0): wrong in 6 of 12 runs; no transition is claimed there.",
    ),
    "appeared": (["absent", "ok"], "uses torch.new, which is first available in 2.5.0 (absent up to 2.4.1)."),
    "gone": (["ok", "absent", "absent"], "uses torch.new, which is gone from 2.5.0 on (last available in 2.4.1)."),
}


@pytest.mark.parametrize(("history", "expected"), SENTENCES.values(), ids=SENTENCES.keys())
def test_it_begins_with_one_plain_sentence(history: list[str], expected: str) -> None:
    assert sentence(reported(series("bmm", *history))) == f"`bmm` {expected}"


def test_the_newest_nightly_is_named_beside_the_newest_release() -> None:
    name = "2.16.0.dev20261128"
    nightly = Build(BuildKind.NIGHTLY, name, name, day=datetime.date(2026, 11, 28))
    row = series("bmm", "ok", "wrong", "wrong", "wrong")
    last = dataclasses.replace(row.points[3], build=name)  # type: ignore[type-var]
    row = dataclasses.replace(row, builds=(*row.builds[:3], name), points=(*row.points[:3], last))
    found = dataclasses.replace(reported(row), builds=(*map(build, RELEASES[:3]), nightly))

    assert sentence(found) == (
        "`bmm` gives silently wrong values from 2.5.0 on (last good 2.4.1); still so in 2.5.1 and in nightly "
        "2.16.0.dev20261128."
    )


def test_what_is_not_confirmed_is_said_in_the_sentence() -> None:
    row = series("bmm", "ok", "wrong")
    row = dataclasses.replace(row, points=tuple(dataclasses.replace(each, processes=1) for each in row.points if each))

    assert sentence(reported(row)).endswith("(last good 2.4.1), not confirmed.")
    assert "not confirmed: 1 and 1 processes agree (3 and 3 are needed)" in markdown(reported(row))


def test_it_has_the_two_fields_of_the_form_and_no_other_heading_of_their_level() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong"), series("cat", "wrong", "ok")))

    assert re.findall(r"^#{1,3} .*", text, re.MULTILINE) == ["### 🐛 Describe the bug", "### Versions"]
    assert text.startswith("### 🐛 Describe the bug\n\n2 findings, the most severe first.\n")
    assert re.findall(r"^#### .*", text, re.MULTILINE) == ["#### 1. `bmm`", "#### 2. `cat`"]


def test_the_boundary_names_what_lies_untested_and_how_many_processes_agree() -> None:
    tight = markdown(reported(series("bmm", "ok", "wrong")))
    loose = markdown(reported(series("bmm", "ok", "broken", None, "wrong")))

    agree = "Confidence: 3 and 3 processes agree, each side once in its own interpreter."
    assert f"- **2.4.1 → 2.5.0**: `ok` → `wrong` (no release lies between them). {agree}" in tight
    between = "not judged between them: 2.5.0 (broken) and 2.5.1 (not run)"
    assert f"- **2.4.1 → 2.6.0**: `ok` → `wrong` (not neighbours); {between}. {agree}" in loose


def test_releases_that_took_no_part_are_told_beside_the_boundary() -> None:
    row = series("bmm", "ok", "wrong")
    points = (row.points[0], dataclasses.replace(row.points[1], build="2.6.0"))  # type: ignore[type-var]
    row = dataclasses.replace(row, builds=("2.4.1", "2.6.0"), points=points)

    text = markdown(reported(row))

    assert "from 2.6.0 or an earlier release that was not run (last good 2.4.1)" in text
    assert "(releases between them were not run)" in text
    assert "not run between: 2.5.0 and 2.5.1; narrow it with --from 2.4.1 --to 2.6.0" in text


def test_commands_in_notes_are_code_that_can_be_copied() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong", "uninstallable")))

    assert "`bisect-torch releases` lists what can be installed for which Python" in text
    assert "\\`" not in text


def test_frames_of_the_tool_itself_are_no_part_of_what_a_crash_wrote() -> None:
    written = (
        "Fatal Python error: Floating point exception\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "<cwd>/x.py", line 10 in <module>\n'
        '  File "<store>/staged/cf07/bisect_torch/worker/script.py", line 53 in run\n'
        '  File "<staged>/bisect_torch/worker/__main__.py", line 54 in <module>\n\n'
        "Extension modules: torch._C, torch._C._fft (total: 2)\n"
    )
    text = markdown(reported(series("x", "ok", "crash:SIGFPE"), facts={"stderr_tail": written}))
    shown = text.partition("**End of stderr**")[2].partition("```")[2].partition("```")[0]
    assert shown.strip().splitlines()[1:] == [
        "Fatal Python error: Floating point exception",
        "",
        "Current thread 0x1 (most recent call first):",
        '  File "x.py", line 10 in <module>',
    ]


def test_what_was_seen_on_one_build_after_another_is_written_once() -> None:
    text = markdown(reported(series("x", "wrong", "wrong", "ok"), facts={"message": "a long message " * 5}))
    assert text.count("| the same |") == 1


def test_that_a_feature_came_is_told_in_a_line_where_its_fault_is_the_matter() -> None:
    text = markdown(reported(series("x", "absent", "ok", "wrong")))
    changes = text.partition("**Where it changed**")[2].partition("**Run it again**")[0]
    assert "- **2.4.1 → 2.5.0**: API absent → `ok`" in changes
    assert changes.count("commits: ") == 1


def test_commits_are_links_only_where_they_are_known_to_be_public() -> None:
    row = series("bmm", "ok", "wrong")
    public = markdown(reported(row))
    local = dataclasses.replace(
        reported(row), builds=tuple(dataclasses.replace(build(name), kind=BuildKind.LOCAL) for name in row.builds)
    )

    old, new = "241".ljust(40, "0"), "250".ljust(40, "0")
    commit = "https://github.com/pytorch/pytorch/commit/"
    compare = f"[all commits between them](https://github.com/pytorch/pytorch/compare/{old[:12]}...{new[:12]})"
    assert f"- commits: [`{old[:12]}`]({commit}{old}) → [`{new[:12]}`]({commit}{new}), {compare}" in public
    assert f"git bisect start {new[:12]} {old[:12]}" in public
    assert "github.com" not in markdown(local)
    assert f"- commits: `{old[:12]}` → `{new[:12]}`" in markdown(local)
    assert "git bisect" not in markdown(local)


def test_what_else_differs_and_what_does_not() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong")))

    assert "- also differ: numpy 2.0 → 2.1\n" in text
    assert "- the same on both: Python 3.11.7, CUDA 12.8\n" in text


def test_the_numbers_of_a_comparison() -> None:
    facts: dict[str, object] = {
        "criterion": "normwise", "tolerance": 0.00781, "reduction_length": 64, "rel_error": 0.5, "max_abs_error": 2.0,
        "reference_max_abs": 4.0, "dtype": "bfloat16", "first_wrong_index": "[0, 3]", "expected_value": "4.0",
        "actual_value": "2.0", "explained_by": "index wraps at 2**32", "check_path": "[0]['grad']",
    }  # fmt: skip
    row = series("bmm", "ok", "wrong")
    found = reported(row)
    bad = tuple(dataclasses.replace(each, **facts) if each.build == "2.5.0" else each for each in found.observations)  # type: ignore[arg-type]

    text = markdown(dataclasses.replace(found, observations=bad))

    assert "**Expected and got, on 2.5.0**\n\n" + "\n".join(
        [
            "- in `[0]['grad']` of the returned value",
            "- tolerance: largest error at most 0.00781 of the reference's largest value (c·√K with K = 64)",
            "- relative error: 0.5 (largest absolute error 2, largest absolute value of the reference 4)",
            "- wrong: 3 of 8 elements, bfloat16",
            "- first wrong element `[0, 3]`: expected `4.0`, got `2.0`",
            "- exactly what this would give: index wraps at 2\\*\\*32",
        ]
    ) in text  # fmt: skip


def test_both_ends_of_a_change_from_one_fault_to_another_show_theirs() -> None:
    text = markdown(reported(series("bmm", "crash:SIGFPE", "error:RuntimeError")))

    assert "**End of stderr** on 2.4.1 (before)\n\n```pytb\nFatal Python error: Floating point exception\n```" in text
    assert "**Traceback** on 2.5.0 (after)\n\n```pytb\nTraceback (most recent call last):\nboom\n```" in text


def test_the_environments_are_in_the_form_of_collect_env_and_only_what_is_known() -> None:
    host = {
        "system": "Linux",
        "system_release": "6.1",
        "architecture": "x86_64",
        "libc": "glibc 2.36",
        "cpu": "AMD EPYC",
    }
    text = markdown(reported(series("bmm", "ok", "wrong"), runs=({"run_id": "run", "host": {**host, "cores": 2}},)))

    expected = """\
<details><summary><code>torch 2.5.0</code> (first bad)</summary>

```
PyTorch version: 2.5.0+cu128
PyTorch git commit: 2500000000000000000000000000000000000000
CUDA used to build PyTorch: 12.8

OS: Linux 6.1 (x86_64)
Libc version: glibc-2.36

Python version: 3.11.7

CPU:
Architecture: x86_64
CPU(s): 2
Model name: AMD EPYC

Versions of relevant libraries:
[pip3] numpy==2.1
[pip3] torch==2.5.0
```

</details>"""
    assert expected in text
    assert text.index(expected) < text.index("<details><summary><code>torch 2.4.1</code> (last good)</summary>")


# --- code


def test_a_script_is_shown_whole_with_lines_that_run_it_without_the_tool() -> None:
    row = series("repro", "ok", "wrong", file="/home/me/repro.py")
    text = markdown(
        reported(row, sources={"00": "import torch\nassert False\n"}, facts={"python": "3.11.7", "backend": "pypi"})
    )

    assert "**Code** (`repro.py`).\n\n```python\nimport torch\nassert False\n```" in text
    assert (
        "# with Python 3.11.7\n"
        "pip install torch==2.4.1 numpy==2.0 && python repro.py  # last good: ok\n"
        "pip install torch==2.5.0 numpy==2.1 && python repro.py  # first bad: wrong\n\n"
        "bisect-torch run repro.py --versions 2.4.1,2.5.0 --python 3.11\n"
    ) in text
    assert "/home/me" not in text


def test_of_a_file_with_several_cases_the_part_of_this_one_is_shown() -> None:
    source = "from bisect_torch import case\n@case\ndef bmm(): ...\n@case\ndef cat(): ...\n"
    text = markdown(reported(series("bmm", "ok", "wrong"), sources={"00": source}))

    assert "**Code** (`cases.py`, the part that this case uses). It needs bisect-torch." in text
    assert "def cat" not in text
    assert "bisect-torch run cases.py -k bmm --versions 2.4.1,2.5.0" in text


def test_a_case_that_needs_only_torch_is_a_plain_script_that_is_run_without_the_tool() -> None:
    source = "import torch\nfrom bisect_torch import case\n@case(n=[1, 2])\ndef bmm(n):\n    assert n == 1\n"
    digest = hashlib.sha256(source.encode()).hexdigest()
    facts: dict[str, object] = {"parameters": '{"n": 2}', "python": "3.11.7", "backend": "pypi", "seed": 0}
    found = reported(series("bmm[n=2]", "ok", "wrong"), sources={digest: source}, facts=facts)
    seen = tuple(dataclasses.replace(each, case_file_hash=digest) for each in found.observations)

    text = markdown(dataclasses.replace(found, observations=seen))
    # Something private was replaced: it is not what ran.
    changed = markdown(dataclasses.replace(found, observations=seen, sources={digest: source + "#"}))

    script = "import torch\ndef bmm(n):\n    assert n == 1\n\n\ntorch.manual_seed(0)\nbmm(n=2)\n"
    assert f"**Code** (`bmm.py`): what `bmm[n=2]` of `cases.py` does.\n\n```python\n{script}```" in text
    assert "<details><summary>The case as it ran: <code>cases.py</code></summary>\n\n```python\nimport torch" in text
    assert "pip install torch==2.5.0 numpy==2.1 && python bmm.py  # first bad: wrong\n" in text
    assert "bisect-torch run cases.py -k 'bmm[n=2]' --versions 2.4.1,2.5.0 --python 3.11\n" in text
    assert "**Code** (`cases.py`). It needs bisect-torch. Run with `n=2` on `cpu`.\n" in changed
    assert "python bmm.py" not in changed


def test_what_the_tool_is_and_how_it_is_installed_is_said_once() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong"), series("cat", "wrong", "ok")))

    assert text.count("an isolated, locked environment of each release") == 1
    assert text.count("`pip install .`") == 1
    assert text.index("`pip install .`") < text.index("### Versions")


def test_code_that_is_not_there_is_named_by_its_hash_and_neighbours_too() -> None:
    facts: dict[str, object] = {"local_modules": '{"shapes.py": "11", "gone.py": "22"}'}
    there = markdown(
        reported(series("bmm", "ok", "wrong"), sources={"00": "import shapes\n", "11": "SIDE = 3\n"}, facts=facts)
    )
    gone = markdown(reported(series("bmm", "ok", "wrong"), facts=facts))

    assert "<details><summary><code>shapes.py</code>, which it imports</summary>\n\n```python\nSIDE = 3\n```" in there
    assert "It imports `gone.py`, which is not in the results file (SHA-256 `22`)." in there
    assert "The code is not in the results file: `cases.py`, SHA-256 `00`." in gone


def test_data_that_the_code_needs_is_named_and_what_it_makes_itself_is_not() -> None:
    read = {
        "in.pt": f"{'1' * 64} 2026-11-28T10:00:00Z",
        "log": "changed 2026-11-28T10:00:00Z",
        "own": f"{'2' * 64} own",
    }
    facts: dict[str, object] = {"local_modules": json.dumps({**read, "none.json": "absent"})}
    text = markdown(reported(series("bmm", "ok", "wrong"), sources={"00": "import torch\n"}, facts=facts))

    names = f"`in.pt` (SHA-256 {'1' * 64}) and `log` (changed while it ran)"
    assert f"It reads {names} beside itself: not in the results file." in text


def test_a_direction_mark_in_code_is_an_escape_and_that_is_said() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong"), sources={"00": "x = '\u202e'\n"}))

    assert "Characters that cannot be seen, colours and spaces at the ends of lines are not shown as they are." in text
    assert "x = '\\u202e'" in text


def test_a_command_keeps_its_words_and_pytest_its_own() -> None:
    row = series("train", "ok", "wrong")
    run = {"run_id": "run", "arguments": ["run", "--with", "scipy", "--from", "2.4.1", "--", "python", "a b.py"]}
    suite = {**run, "arguments": ["run", "--with=scipy", "--pytest", "tests", "-k", "x"]}

    assert "\nbisect-torch run --versions 2.4.1,2.5.0 --with scipy -- python 'a b.py'\n" in markdown(
        reported(row, runs=(run,))
    )
    test = series("test_x", "ok", "wrong", file="tests/test_a.py")
    assert "\nbisect-torch run --versions 2.4.1,2.5.0 --with=scipy --pytest -k x tests/test_a.py::test_x\n" in markdown(
        reported(test, runs=(suite,))
    )


def test_the_files_that_a_command_names_are_shown_and_python_runs_without_the_tool() -> None:
    row = series("train", "ok", "wrong", file=".")
    run = {"run_id": "run", "arguments": ["run", "--with", "SciPy>=1", "--", "python", "train.py"]}
    facts: dict[str, object] = {"local_modules": '{"train.py": "11"}'}
    packages = {name: environment(name, numpy="2.0", scipy="1.14.1") for name in row.builds}

    text = markdown(reported(row, runs=(run,), sources={"11": "print('hello')\n"}, facts=facts, environments=packages))
    gone = markdown(reported(row, runs=(run,), facts=facts))

    assert "**Command** `python train.py`.\n\n**Code** (`train.py`, which the command names)." in text
    assert "```python\nprint('hello')\n```" in text
    assert "pip install torch==2.5.0 numpy==2.0 scipy==1.14.1 && python train.py  # first bad: wrong\n" in text
    assert "**Command** `python train.py`; the files that it names are not in this report." in gone


# --- several


def test_a_wide_matrix_is_folded_to_ranges_and_what_is_ok_everywhere_is_counted() -> None:
    rows = [series(f"case{number}", "ok", *["wrong"] * number, *["ok"] * (8 - number)) for number in range(9)]
    text = markdown(reported(*rows))

    assert "| case | torch |\n|---|---|\n| `case8` | ok 2.4.1; **wrong** 2.5.0 … 2.9.1 |\n" in text
    assert "| `case1` | ok 2.4.1; **wrong** 2.5.0; ok 2.5.1 … 2.9.1 |\n" in text
    assert "`case0` |" not in text
    assert "1 more instance is ok wherever judged." in text
    assert "Run on 2.4.1, 2.5.0, 2.5.1, 2.6.0, 2.7.0, 2.7.1, 2.8.0, 2.9.0 and 2.9.1." in text


def test_a_narrow_matrix_has_versions_down_and_cases_across() -> None:
    text = markdown(
        reported(series("bmm[n=1]", "ok", "wrong"), series("bmm[n=2]", "ok", "ok"), series("cat", "absent", "skip"))
    )

    assert (
        "| torch | `bmm[n=1]` | `bmm[n=2]` | `cat` |\n|---|---|---|---|\n"
        "| 2.4.1 | ok | ok | API absent |\n| 2.5.0 | **wrong** | ok | skip |\n"
    ) in text


def test_cases_that_went_alike_say_so_without_a_claim() -> None:
    text = markdown(reported(series("bmm", "ok", "wrong"), series("cat", "ok", "wrong")))

    assert "The same verdicts on every build, which need not be the same cause: `cat`." in text


def test_nothing_found_says_why() -> None:
    assert nothing_found(reported(series("a", "ok", "ok"), series("b", "ok", "skip"))) == [
        "2 instances ok on every version that was judged, 2.4.1 to 2.5.0; not judged: 1 cell skip in 2.5.0 (b)"
    ]
    assert nothing_found(reported(series("a", "broken", "infra"))) == [
        "nothing could be judged: 1 cell broken in 2.4.1 and 1 cell infra in 2.5.0 (hint: run the same command again: "
        "only what is missing runs)"
    ]
    assert nothing_found(reported(series("a", None, None))) == ["there are no results for it"]
    cut_off = reported(series("a", "ok", None), series("b", None, None), series("c", None, None))
    assert nothing_found(cut_off) == ["1 instance ok on every version that was judged, 2.4.1; 2 instances were not run"]
    assert "Cut off: 1 instance was not run." in markdown(reported(series("a", "ok", "wrong"), series("b", None, None)))
    assert "Cut off" not in markdown(reported(series("a", "ok", "wrong"), series("b", "ok", None)))
    assert markdown(reported(series("a", "ok", "ok"))) == ""
    assert nothing_found(reported(series("a", "ok", "wrong"))) == []


# --- what it may not do


def test_hostile_names_messages_and_output_stay_text() -> None:
    nasty = " ".join(HOSTILE)
    row = series(f"bmm[{nasty}]", "ok", "error:" + nasty.replace("|", ""), file=f"/x/{nasty.replace('/', '')}.py")
    facts: dict[str, object] = {"message": nasty, "traceback": nasty, "stdout_tail": nasty, "issue": nasty}
    text = markdown(reported(row, facts=facts, sources={"00": nasty}, runs=({"run_id": "run", "tool_version": nasty},)))

    tokens = [token for each in MARKDOWN.parse(text) for token in (each, *(each.children or []))]
    html = {token.content.strip() for token in tokens if token.type in ("html_block", "html_inline")}
    allowed = re.compile(r"</?details>|<!-- -->|</?span>|<details><summary>[^<]*(<code>[^<>]*</code>)?[^<]*</summary>")
    assert [each for each in html if not allowed.fullmatch(each)] == []
    links = {str(token.attrs["href"]) for token in tokens if token.type == "link_open"}
    assert {link.partition("/pytorch/pytorch/")[0] for link in links} == {"https://github.com"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3", "h3"]
    assert not re.search("[\u202e\u2066\ufeff\x00\x1b]", text)


@settings(max_examples=8, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 25]),
    lines=st.sampled_from([0, 50, 400]),
    width=st.sampled_from([1, 80, 600]),  # a quarter of a megabyte at most: more than a worker ever tells
    letter=st.sampled_from("x`é🐛@|\n"),
)
def test_it_is_always_below_githubs_limit_and_says_what_it_left_out(
    rows: int, lines: int, width: int, letter: str
) -> None:
    block = (letter * width + "\n") * lines
    facts: dict[str, object] = {
        "traceback": block,
        "stdout_tail": block,
        "message": block,
        "local_modules": '{"a": "11"}',
    }
    names = [f"case{number}{letter * width}" for number in range(rows)]
    history = [["ok", "error:RuntimeError", "ok"], ["error:" + letter.replace("|", "x") * width, "ok", "ok"]]
    found = reported(
        *(series(name, *history[number % 2]) for number, name in enumerate(names)),
        facts=facts,
        sources={"00": block, "11": block},
    )

    text = markdown(found)

    assert len(text.encode()) < LIMIT
    assert text.count("```") % 2 == 0
    if lines * width > LIMIT:
        assert "Left out to fit GitHub's limit: " in text


def test_the_order_of_shortening() -> None:
    levels = list(steps(6))

    changed = [
        [name for name in vars(after) if vars(after)[name] != vars(before)[name]] for before, after in pairwise(levels)
    ]
    assert changed == [
        ["neighbours"], ["older_environment"], ["output_lines"], ["output_lines"], ["code_lines"], ["code_lines"],
        ["full"], ["full"], ["output_lines", "code_lines"], ["full", "rows"], ["rows"], ["rows"],
    ]  # fmt: skip
    assert [(each.full, each.rows) for each in levels[-6:]] == [(3, 100), (1, 100), (1, 100), (0, 20), (0, 5), (0, 1)]
