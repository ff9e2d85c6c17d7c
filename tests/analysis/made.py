"""Observations made up for tests, one line each."""

from __future__ import annotations

import dataclasses

from bisect_torch.model import Isolation, Observation, Outcome, Series

BASE = Observation(
    key="",
    run_id="run",
    build="",
    build_name="",
    build_kind="release",
    case_file="cases.py",
    case_file_hash="hash",
    case="case",
    instance="case",
    device="cpu",
    repeat=0,
    outcome=Outcome.RETURNED.value,
    isolation=Isolation.FORK.value,
    worker="w0",
)

FACTS: dict[str, dict[str, object]] = {
    "ok": {},
    "wrong": {"returned_false": True},
    "api_absent": {
        "outcome": "raised",
        "error_type": "AttributeError",
        "absent_name": "torch.new",
        "message": "module 'torch' has no attribute 'new'",
    },
    "timeout": {"outcome": "timed_out"},
    "oom": {"outcome": "out_of_memory"},
    "skip": {"outcome": "skipped", "reason": "no such device"},
    "uninstallable": {"outcome": "not_installed", "reason": "no wheel"},
    "broken": {"outcome": "environment_broken", "reason": "control case failed"},
    "infra": {"outcome": "lost", "reason": "worker lost"},
}


def facts(word: str) -> dict[str, object]:
    """Facts that are judged as ``word``: a verdict, ``error:Type``, ``crash:SIGNAL`` or ``api_absent``."""
    kind, _, what = word.partition(":")
    if kind == "error":
        return {"outcome": "raised", "error_type": what, "root_type": what, "frame_origin": "torch", "message": "no"}
    if kind == "crash":
        return {"outcome": "signalled", "signal": what, "phase": "run"}
    return FACTS[word]


def observe(word: str, build: str = "2.4.1", repeat: int = 0, **fields: object) -> Observation:
    """An observation that is judged as ``word``; worker *i* runs repeat *i*."""
    values: dict[str, object] = {
        "key": f"key of {fields.get('instance', 'case')} on {build}",
        "build": build,
        "build_name": build,
        "repeat": repeat,
        "worker": f"w{repeat}",
        **facts(word),
        **fields,
    }
    return dataclasses.replace(BASE, **values)  # type: ignore[arg-type]


def signatures(series: Series) -> list[str | None]:
    """One word per build: the signature, ``flaky``, or None where nothing was run."""
    return [None if p is None else "flaky" if p.flaky else p.judgement.signature for p in series.points]
