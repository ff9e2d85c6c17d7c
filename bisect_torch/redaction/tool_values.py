"""Values of the tool's types, such as series and findings, without anything private in them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from bisect_torch.analysis.columns import Columns
from bisect_torch.model import Observation, Point, Series
from bisect_torch.redaction.private import Private

Value = TypeVar("Value")


def inside(value: Value, private: Private) -> Value:
    """A value of the tool's types with every text in it redacted: dataclasses, tuples, mappings, paths.

    Of observations only the names are looked at, which a run keeps as they are: their facts were redacted when they
    entered results, or when a file that did not do that was opened.
    """
    after: Any = _Walk(private).of(value)
    return after  # type: ignore[no-any-return]


class _Walk:
    """
    Args:
        private: What must not be in them.
    """

    def __init__(self, private: Private) -> None:
        self._private = private
        # What has been looked at: ids of values (which must live on) to what they became, and the parts that many
        # points share and that have nothing private in them.
        self._known: dict[Any, Any] = {}

    def _named(self, observation: Observation) -> Observation:
        names = {name: self._private.redact(getattr(observation, name)) for name in ("build_name", "case_file", "case")}
        names["instance"] = self._private.instance(observation.instance)
        changed = {name: text for name, text in names.items() if text != getattr(observation, name)}
        return dataclasses.replace(observation, **changed) if changed else observation  # type: ignore[arg-type]

    def of(self, value: Any) -> Any:
        """A value as it may be shown."""
        if type(value) is str:  # most are; it need not be asked what else it might be
            return self._private.redact(value)
        if type(value) is Point:
            return self._point(value)
        if isinstance(value, enum.Enum) or value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self._private.redact(value)
        if isinstance(value, PurePath):
            return type(value)(self._private.redact(str(value)))
        if isinstance(value, Mapping):
            return {self.of(key): self.of(each) for key, each in value.items()}
        if isinstance(value, (tuple, list, frozenset)) and not hasattr(value, "_fields"):
            return type(value)(self.of(each) for each in value)
        if isinstance(value, Observation):
            return self._named(value)
        if isinstance(value, Columns):
            return self._named_columns(value)
        if isinstance(value, Series) and value.alike is not None:
            return self._series(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._point(value) if isinstance(value, Point) else self._once(value)
        return value

    def _point(self, point: Point) -> Point:
        """Points are many, and most of them share all that may hold a name; digests hold none."""
        shared = (point.build, point.judgement, tuple(point.counts), point.in_forks)
        if shared in self._known:
            return point
        after: Point = self._inside_dataclass(point)
        if after is point:
            self._known[shared] = None
        return after

    def _series(self, series: Series) -> Series:
        """What many series share is looked at once; what was measured in a cell holds no name."""
        shared = series.answers, series.builds
        if id(series.answers) not in self._known:
            self._known[id(series.answers)] = shared, all(self.of(each) == each for each in shared)
        names = {name: self._private.field(name, getattr(series, name)) for name in ("case_file", "instance")}
        changed: dict[str, Any] = {name: text for name, text in names.items() if text != getattr(series, name)}
        if not self._known[id(series.answers)][1]:
            changed |= {
                "builds": self.of(series.builds),
                "points": tuple(self.of(point) for point in series.points),
                "alike": None,
            }
        return dataclasses.replace(series, **changed) if changed else series

    def _once(self, value: Any) -> Any:
        if id(value) not in self._known:
            self._known[id(value)] = value, self._inside_dataclass(value)
        return self._known[id(value)][1]

    def _named_columns(self, columns: Columns) -> Sequence[Observation]:
        same = all(
            (self._private.instance if name == "instance" else self._private.redact)(str(text)) == text
            for name in ("build_name", "case_file", "case", "instance")
            for text in columns.distinct(name)
        )
        return columns if same else tuple(self._named(each) for each in columns)

    def _inside_dataclass(self, value: Any) -> Any:
        changes = {}
        for name in (field.name for field in dataclasses.fields(value) if field.init):
            before = getattr(value, name)
            changed = (
                self._private.instance(before) if name == "instance" and isinstance(before, str) else self.of(before)
            )
            if changed is not before and changed != before:
                changes[name] = changed
        return dataclasses.replace(value, **changes) if changes else value
