"""Observations with a value in every field."""

from __future__ import annotations

import dataclasses
import types
import typing

from bisect_torch.model import Observation, Outcome

HINTS = typing.get_type_hints(Observation)


def observation(number: int = 0, **fields: object) -> Observation:
    """A small one; ``number`` makes it another cell."""
    values: dict[str, object] = {
        "key": f"{number:064x}",
        "run_id": "run-1",
        "build": "2.9.1",
        "build_name": "2.9.1",
        "build_kind": "release",
        "case_file": "cases/default.py",
        "case_file_hash": "f" * 64,
        "case": "bmm",
        "instance": f"bmm[batch={number}]",
        "device": "cpu",
        "repeat": 0,
        "outcome": Outcome.RETURNED.value,
        **fields,
    }
    return Observation(**values)  # type: ignore[arg-type]


def value_of(name: str, seed: int) -> object:
    """A value of the field's type."""
    hint = HINTS[name]
    kinds = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
    if bool in kinds:
        return bool(seed % 2)
    if int in kinds:
        return seed + len(name)
    if float in kinds:
        return seed + len(name) / 7
    return f"{name} {seed} «é»\n\t\x00"


def full(seed: int = 0) -> Observation:
    """One with every field set to something that is not its default."""
    values = {field.name: value_of(field.name, seed) for field in dataclasses.fields(Observation)}
    values["outcome"] = Outcome.RAISED.value
    return Observation(**values)  # type: ignore[arg-type]
