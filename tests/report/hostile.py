"""Findings of a case that tries to break out of whatever shows them."""

from __future__ import annotations

import dataclasses

from bisect_torch import analysis
from bisect_torch.model import Observation
from bisect_torch.report.findings import Findings
from tests.report.histories import build, environment

CANARY = "window.canary = true"
ATTACKS = (
    f"<script>{CANARY}</script>",
    f"</script><script>{CANARY}</script>",
    f"<img src=x onerror='{CANARY}'>",
    f"<!--<script>{CANARY}</script>",
    f'" onmouseover="{CANARY}" x="',
    f"{{{{ ''.__class__ }}}} ]]> --> {CANARY}",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
    "abc\u202egnp.exe\u2066\u2069\u200f",
    "nul\x00 bell\x07 surrogate\ud800 \u2028 \u2029 \ufeff",
    "**bold** [link](javascript:alert(1)) `code` | a | b |",
)
EVERYTHING = "\n".join(ATTACKS)
BUILDS = ("2.6.0", "2.7.0")


def hostile_findings() -> Findings:
    """Every attack in every text of an observation, and in the names of files, cases, parameters and packages."""
    texts = [
        field.name
        for field in dataclasses.fields(Observation)
        if field.type in ("str", "str | None") and field.name not in _STRUCTURED
    ]
    observations = []
    for place, attack in enumerate(ATTACKS):
        for name in BUILDS:
            known: dict[str, object] = dict.fromkeys(texts, EVERYTHING)
            known |= {
                "outcome": "raised" if name == "2.7.0" else "returned",
                "case_file": f"/cases/{attack}.py",
                "case": attack,
                "instance": f"{attack}[p={attack}]",
                "parameters": _json({"p": attack, attack: "v"}),
                "measurements": _json({attack: attack}),
                "warnings": _json([attack]),
                "local_modules": _json({attack: "00" * 32}),
                "case_file_hash": "00" * 32,
                "device": "cpu",
                "issue": "javascript:" + CANARY,
                "root_type": f"Bad{attack}",
                "isolation": "fork",
                "started_at": "2026-11-30T00:00:00+00:00",
                "capabilities": "[]",
                "build_kind": "release",
            }
            observations.append(
                Observation(build=name, build_name=name, key=f"{place} {name}", run_id="run", repeat=0, **_kept(known))
            )
    series = tuple(analysis.build_series(observations, BUILDS))
    one = environment("2.7.0")
    return Findings(
        builds=tuple(build(name) for name in BUILDS),
        environments={"2.7.0": dataclasses.replace(one, packages={EVERYTHING: EVERYTHING}, cuda=EVERYTHING)},
        series=series,
        transitions=tuple(found for each in series for found in analysis.transitions(each)),
        observations=tuple(observations),
        notes=ATTACKS,
        runs=({"run_id": "run", "arguments": ["run", EVERYTHING, "--with"], "host": {"cpu": EVERYTHING}},),
        sources={"00" * 32: EVERYTHING},
    )


_STRUCTURED = {
    "key", "run_id", "build", "build_name", "error_bins", "started_at", "signal", "failed_capability",
    "returned_false", "missing_module", "absent_name", "mismatch",
}  # fmt: skip


def _kept(known: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in known.items()}


def _json(value: object) -> str:
    import json

    return json.dumps(value)
