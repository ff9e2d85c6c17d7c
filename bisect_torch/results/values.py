"""An observation as the tuple of its values, and many of them as columns.

Of many observations the values stand one after another in one list, which takes a third of the memory of a tuple for
each, and leaves the collector of garbage nothing to look through.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from bisect_torch.model import Observation
from bisect_torch.redaction import JSON_FIELDS, TEXT_FIELDS
from bisect_torch.results.schema import DEFAULTS, FIELDS, REQUIRED, held_type

Values = tuple[Any, ...]
"""Of the fields of an observation, in the order of :data:`~bisect_torch.results.schema.FIELDS`."""

_in_order = operator.itemgetter(*FIELDS)
texts_in, json_texts_in = (
    operator.itemgetter(*(FIELDS.index(name) for name in names)) for names in (TEXT_FIELDS, JSON_FIELDS)
)
"""What redaction looks at."""

KEY = FIELDS.index("key")
WIDTH = len(FIELDS)


def values_of(observation: Observation) -> Values:
    """The values of an observation."""
    values: Values = _in_order(vars(observation))  # half the time of one attribute after another
    return values


def observation_of(values: Iterable[Any]) -> Observation:
    """The observation with these values."""
    observation = object.__new__(Observation)
    # A frozen dataclass sets each of its 80 fields through object.__setattr__: this is ten times as fast.
    observation.__dict__.update(zip(FIELDS, values, strict=True))
    return observation


def in_columns(observations: Iterable[Observation]) -> pa.Table:
    """The stored columns of observations, texts as numbers into the few that are different; none that is empty."""
    return columns_of(list(itertools.chain.from_iterable(map(values_of, observations))))


def columns_of(several: list[Any], check: Callable[[str, Sequence[Any]], None] | None = None) -> pa.Table:
    """As :func:`in_columns`, of the values of one observation after another.

    Args:
        check: Is given each field's name and values first, and raises where it finds what cannot be.

    Raises:
        pa.ArrowException, OverflowError: A value is none that its column can hold.
    """
    found = {}
    for place, name in enumerate(FIELDS):
        values = several[place::WIDTH]
        if check is not None:
            check(name, values)
        if values and _are_alike(values):
            if name in REQUIRED or values[0] != DEFAULTS[name]:
                found[name] = repeated(name, values[0], len(values))
        elif values or name in REQUIRED:
            found[name] = column_of(name, values)
    return pa.table(found)


def _are_alike(values: Sequence[Any]) -> bool:
    """Whether all are the same. Of those that are not, first and last mostly differ: the others need not be counted."""
    return bool(values[0] == values[-1]) and values.count(values[0]) == len(values)


def column_of(name: str, values: Sequence[Any]) -> pa.Array:
    """One column of a block of rows."""
    return _array(values, held_type(name))


def repeated(name: str, value: Any, number: int) -> pa.Array:
    """One column of so many rows that hold the same, such as the name of the build, looked at once."""
    one = column_of(name, [value])
    if pa.types.is_dictionary(one.type):
        return pa.DictionaryArray.from_arrays(pa.repeat(one.indices[0], number), one.dictionary)
    return pa.repeat(one[0], number)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError:  # a lone surrogate, from output that is no UTF-8
        return pa.array(map(_encodable, values), type=kind)


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
