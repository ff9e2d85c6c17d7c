"""The guide's GitHub Actions example: it is YAML, has what a workflow needs, and its commands and options are real."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bisect_torch.cli import parser as program

GUIDE = Path(__file__).parent.parent / "bisect_torch" / "cli" / "README.md"
WORKFLOW = GUIDE.read_text().partition("```yaml\n")[2].partition("```")[0]


def steps() -> list[dict[str, Any]]:
    document = yaml.safe_load(WORKFLOW)
    found: list[dict[str, Any]] = document["jobs"]["recheck"]["steps"]
    return found


def commands() -> Iterator[list[str]]:
    for step in steps():
        for line in step.get("run", "").splitlines():
            words = shlex.split(line.partition(">>")[0])
            if words[:1] == ["bisect-torch"]:
                yield words[1:]


def test_it_is_a_workflow() -> None:
    document = yaml.safe_load(WORKFLOW)
    triggers = document[True]  # YAML 1.1 reads the key `on` so
    assert triggers["schedule"][0]["cron"] == "30 5 * * *"
    assert "workflow_dispatch" in triggers
    assert document["jobs"]["recheck"]["runs-on"] == "ubuntu-latest"
    assert all(("uses" in step) != ("run" in step) for step in steps())


def test_its_commands_are_real() -> None:
    (words,) = commands()
    parser, module = program.build_parser(program.chosen_by(words))

    args, unknown = parser.parse_known_args(words)

    assert unknown == []
    assert module is not None
    assert args.state == Path("said.json")


def test_what_it_caches_is_the_state_also_on_a_red_day() -> None:
    cached = [step for step in steps() if "cache" in step.get("uses", "")]
    assert [step["with"]["path"] for step in cached] == ["said.json", "said.json"]
    assert cached[-1]["if"] == "always()"


MATRIX = GUIDE.read_text().split("```yaml\n")[2].partition("```")[0]


def test_the_parts_of_the_matrix_workflow_are_those_that_the_command_counts() -> None:
    jobs = yaml.safe_load(MATRIX)["jobs"]
    parts = jobs["run"]["strategy"]["matrix"]["shard"]
    lines = [line for job in jobs.values() for step in job["steps"] for line in step.get("run", "").splitlines()]
    seen = []
    for line in lines:
        for part in parts if "matrix.shard" in line else [0]:
            words = shlex.split(line.partition("||")[0].partition(">>")[0].replace("${{ matrix.shard }}", str(part)))
            if words[0] == "bisect-torch":
                parser, module = program.build_parser(program.chosen_by(words[1:]))
                args, unknown = parser.parse_known_args(words[1:])
                assert (unknown, module is not None) == ([], True)
                seen.append((words[1], getattr(args, "shard", None)))

    assert seen == [*(("run", (part, len(parts))) for part in parts), ("merge", None), ("judge", None)]
    assert all(("uses" in step) != ("run" in step) for job in jobs.values() for step in job["steps"])


def test_the_matrix_workflow_merges_also_when_a_part_found_something() -> None:
    jobs = yaml.safe_load(MATRIX)["jobs"]
    assert jobs["merge"]["needs"] == "run"
    assert jobs["merge"]["if"] == "${{ !cancelled() }}"
    assert jobs["run"]["strategy"]["fail-fast"] is False
