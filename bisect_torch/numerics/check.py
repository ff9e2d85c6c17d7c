"""``check``: a nested value against its reference. Pairs the leaves, compares each, keeps the facts of the worst."""

from __future__ import annotations

import inspect
import math
import struct
import warnings
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from bisect_torch.numerics import compare as leaf
from bisect_torch.numerics import tolerance
from bisect_torch.numerics.bins import merge
from bisect_torch.numerics.digest import combine, digest, record_input
from bisect_torch.numerics.leaves import children, densify, is_numpy, structure_name
from bisect_torch.numerics.misuse import MisusedCheckError

if TYPE_CHECKING:
    import torch

_TEXT = 200  # characters of a value that are quoted in a mismatch


class CheckResult:
    """What one check found: true when the value is right under the criterion that was in force.

    Args:
        facts: Keys of ``bisect_torch.model.Observation``.
    """

    def __init__(self, facts: Dict[str, Any]) -> None:
        self.facts = facts

    @property
    def wrong(self) -> bool:
        """A mismatch of structure, shape or type, or at least one wrong element."""
        return bool(self.facts.get("mismatch") or self.facts.get("wrong_elements"))

    @property
    def severity(self) -> Tuple[bool, bool, float]:
        """For finding the worst of several."""
        facts = self.facts
        error = facts.get("rel_error") or 0.0
        if facts.get("nan_mismatches") or facts.get("inf_mismatches"):
            error = math.inf
        bound = facts.get("tolerance")
        return self.wrong, bool(facts.get("mismatch")), error / bound if bound else error

    def __bool__(self) -> bool:
        return not self.wrong

    def __repr__(self) -> str:
        shown = ("check_path", "mismatch", "criterion", "rel_error", "tolerance", "rtol", "atol", "wrong_elements")
        known = [f"{name}={self.facts[name]!r}" for name in shown if self.facts.get(name) is not None]
        return f"<check {'wrong' if self.wrong else 'ok'}: {', '.join(known)}>"


def worst(results: Sequence[CheckResult]) -> Dict[str, Any]:
    """The facts of the worst of several results, with the error bins of all: so they can be judged again as a whole."""
    facts = dict(max(results, key=lambda result: result.severity).facts)
    facts["error_bins"] = merge(result.facts.get("error_bins") for result in results)
    return facts


class _Rules(NamedTuple):
    rtol: Optional[float]
    atol: Optional[float]
    k: Optional[int]


class _Side(NamedTuple):
    """A leaf as a plain tensor.

    Args:
        stated: Its data type is meant: it is a tensor's or an array's, not what a Python number was turned into.
        name: Data type for the criterion; None where the tensor's own.
        step: Distance between neighbouring values of a quantised tensor.
    """

    tensor: "torch.Tensor"
    stated: bool = True
    name: Optional[str] = None
    step: Optional[float] = None


def compare(
    actual: Any,
    reference: Any,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    k: Optional[int] = None,
    rows: Optional[int] = None,
    blocks: Optional[Sequence[Tuple[int, int]]] = None,
    explain: Optional[Mapping[str, Any]] = None,
    inputs: Any = None,
) -> CheckResult:
    """Compare a value with its reference.

    Args:
        actual: A tensor of any data type, layout and device, a number, a numpy array, a string, or a nested tuple,
            list, dict, named tuple or dataclass of such.
        reference: The same structure, or a callable without arguments that gives it. Floating-point references should
            be float64 on the CPU, computed from ``input.double()``. A reference in a wider type of the same kind is
            normal; one in a narrower type (or integer against float) says what type was expected, and another one is
            wrong. Python numbers and lists of them state no type.
        rtol: With ``atol``: judge each element, ``|actual - reference| <= atol + rtol * |reference|``. One alone leaves
            the other at 0. Without both, floating-point values are judged normwise (see
            :mod:`bisect_torch.numerics.tolerance` for the bound and its source), integers and booleans exactly.
        k: Length of the longest reduction behind one element, for the normwise bound; 1024 where it is not stated.
        rows: For results whose float64 reference does not fit in memory: compare this many rows (dimension 0) at a
            time; ``reference`` and the fault models are then called with a slice of rows.
        blocks: With ``rows``: compare only these runs of rows, each its first and last (both included), ascending.
            Counts, digests and the choice of a fault model are then of these rows alone.
        explain: Name to fault model (a value or a callable): tried only when the value is wrong. The first that gives
            exactly the wrong value, bit by bit after rounding to its type, is recorded; with ``blocks`` all that do,
            joined by "or", since a part of the rows may not tell them apart.
        inputs: What the case computed from; its digest is recorded, so that drifting inputs are noticed.

    Raises:
        TypeError: ``rows`` with something that is not a tensor and a callable.
        MisusedCheckError: ``blocks`` without ``rows``, ``k`` or ``rows`` below 1, or a negative tolerance.
    """
    _check_options(rtol, atol, k, rows)
    if blocks is not None and rows is None:
        raise MisusedCheckError("blocks= needs rows=")
    if inputs is not None:
        record_input(inputs)
    rules = _Rules(rtol, atol, k)
    if rows is not None:
        facts, expected_digest = _compare_rows(actual, reference, rows, blocks, rules)
    else:
        expected = reference() if callable(reference) else reference
        facts = _worst(actual, expected, rules)
        expected_digest = digest(expected)
    own_digest = digest(actual) if blocks is None else combine([digest(actual[a : z + 1]) for a, z in blocks])
    result = CheckResult({**facts, "digest": own_digest, "reference_digest": expected_digest})
    if result.wrong and explain:
        found = _explanations(actual, explain, rows, blocks)
        result.facts["explained_by"] = next(found, None) if blocks is None else " or ".join(found) or None
    return result


OPTIONS = tuple(name for name, each in inspect.signature(compare).parameters.items() if each.kind is each.KEYWORD_ONLY)
"""Names of what :func:`compare` takes beside the two values."""


def _check_options(rtol: Optional[float], atol: Optional[float], k: Optional[int], rows: Optional[int]) -> None:
    for name, bound in (("rtol", rtol), ("atol", atol)):
        if bound is not None and not bound >= 0:
            raise MisusedCheckError(f"{name} is not negative, but {bound!r} was given")
    for name, number in (("k", k), ("rows", rows)):
        if number is not None and number < 1:
            raise MisusedCheckError(f"{name} is at least 1, but {number!r} was given")


def _worst(actual: Any, reference: Any, rules: _Rules) -> Dict[str, Any]:
    found = [CheckResult(facts) for facts in _leaves(actual, reference, "", rules)]
    if not found:
        return {"criterion": "exact", "elements": 0, "wrong_elements": 0}
    return worst(found)


def _leaves(actual: Any, reference: Any, path: str, rules: _Rules) -> List[Dict[str, Any]]:
    actual, reference = densify(actual), densify(reference)
    mine, theirs = children(actual), children(reference)
    if theirs is not None and mine is None and _is_array(actual):
        reference, theirs = _numbers(reference), None
    if mine is None and theirs is None:
        return [{**_leaf(actual, reference, rules), **({"check_path": path} if path else {})}]
    if mine is None or theirs is None:
        return [_mismatch(f"{_kind(actual)} came, {_kind(reference)} was expected", path)]
    if structure_name(reference) == "sequence" and isinstance(actual, tuple):
        mine = list(enumerate(actual))
    keys, expected_keys = [key for key, _ in mine], [key for key, _ in theirs]
    if keys != expected_keys:
        return [_mismatch(_different_keys(keys, expected_keys), path)]
    nested = (_leaves(one, theirs[number][1], f"{path}[{key!r}]", rules) for number, (key, one) in enumerate(mine))
    return [facts for found in nested for facts in found]


def _different_keys(keys: List[Any], expected: List[Any]) -> str:
    if all(isinstance(key, int) for key in keys + expected):
        return f"{len(keys)} values came, {len(expected)} were expected"
    return f"the keys {_short(keys)} came, {_short(expected)} were expected"


def _mismatch(reason: str, path: str = "") -> Dict[str, Any]:
    return {"criterion": "exact", "mismatch": reason, **({"check_path": path} if path else {})}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _kind(value: Any) -> str:
    nested = children(value)
    return type(value).__name__ + (f" of {len(nested)}" if nested is not None else "")


def _is_array(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) or is_numpy(value)


def _numbers(value: Any) -> Any:
    """A list of Python numbers as a tensor whose type is not meant; anything else as it is."""
    flat = [value]
    while any(isinstance(item, (list, tuple)) for item in flat):
        flat = [inner for item in flat for inner in (item if isinstance(item, (list, tuple)) else [item])]
    if not flat or not all(isinstance(item, (bool, int, float, complex)) for item in flat):
        return value
    return _Side(_python_tensor(value, flat), stated=False)


def _python_tensor(value: Any, flat: List[Any]) -> "torch.Tensor":
    import torch

    if any(isinstance(item, complex) for item in flat):
        return torch.tensor(value, dtype=torch.complex128, device="cpu")
    if any(isinstance(item, float) for item in flat):
        return torch.tensor(value, dtype=torch.float64, device="cpu")
    return torch.tensor(value, device="cpu")


def _side(value: Any) -> Optional[_Side]:
    """The leaf as a tensor; None for what is compared by ``==``."""
    import torch

    if isinstance(value, _Side):
        return value
    if isinstance(value, torch.Tensor):
        if value.is_quantized:
            scale = value.q_scale() if "channel" not in str(value.qscheme()) else value.q_per_channel_scales().max()
            return _Side(value.dequantize(), step=float(scale))
        return _Side(value)
    if is_numpy(value):
        known = value.dtype.kind in "biufc" and value.dtype.itemsize <= 16 and value.dtype.name not in ("float128",)
        return _Side(_from_numpy(value)) if known else None
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, (bool, int, complex)):
        return _Side(_python_tensor(value, [value]), stated=False)
    if isinstance(value, float):
        return _Side(torch.tensor(value, dtype=torch.float64, device="cpu"), stated=False, name=_precision(value))
    return None


def _from_numpy(value: Any) -> "torch.Tensor":
    import numpy
    import torch

    array = numpy.ascontiguousarray(value).reshape(value.shape)
    native = array.astype(array.dtype.newbyteorder("="))
    return torch.from_numpy(native)


def _precision(value: float) -> str:
    """A Python float that float32 holds exactly is taken for one (``tensor.item()`` gives such), else for float64."""
    try:
        exact = struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        return "float64"
    return "float32" if exact else "float64"


def _leaf(actual: Any, reference: Any, rules: _Rules) -> Dict[str, Any]:
    mine, theirs = _side(actual), _side(reference)
    if mine is None or theirs is None:
        return _compare_objects(actual, reference)
    reason = _different(mine, theirs)
    if reason:
        return {**_mismatch(reason), "dtype": leaf.dtype_name(mine.tensor)}
    name = mine.name or leaf.dtype_name(mine.tensor)
    if tolerance.kind(name) is None:
        return _compare_bits(mine.tensor, theirs.tensor, name)
    criterion = _criterion(name, mine.step, theirs.step, rules)
    return leaf.compare_units(leaf.whole(mine.tensor, theirs.tensor), mine.tensor.shape, name, criterion)


def _compare_objects(actual: Any, reference: Any) -> Dict[str, Any]:
    same = actual == reference
    if hasattr(same, "all"):
        same = same.all()
    if not bool(same):
        return _mismatch(f"{_short(actual)} came, {_short(reference)} was expected")
    return {"criterion": "exact", "elements": 1, "wrong_elements": 0}


def _compare_bits(actual: "torch.Tensor", reference: "torch.Tensor", name: str) -> Dict[str, Any]:
    """Packed types that have no numbers of their own."""
    if digest(actual) != digest(reference):
        return {**_mismatch(f"the bits of the {name} tensors differ"), "dtype": name}
    return {"criterion": "exact", "dtype": name, "elements": actual.numel(), "wrong_elements": 0}


def _different(mine: _Side, theirs: _Side) -> Optional[str]:
    for side, which in ((mine, "the value"), (theirs, "the reference")):
        if side.tensor.device.type == "meta":
            return f"{which} has no data (device meta)"
    if tuple(mine.tensor.shape) != tuple(theirs.tensor.shape):
        return f"shape {list(mine.tensor.shape)} came, {list(theirs.tensor.shape)} was expected"
    name, expected = leaf.dtype_name(mine.tensor), leaf.dtype_name(theirs.tensor)
    if mine.stated and theirs.stated:
        fits = tolerance.holds(expected, name)
    else:
        fits = _numbers_fit(tolerance.kind(name), tolerance.kind(expected), strict=theirs.stated)
    return None if fits else f"{name} came, {expected} was expected"


def _numbers_fit(kind: Optional[str], expected: Optional[str], *, strict: bool) -> bool:
    """Whether a Python number fits: an integer is also a float or complex number, a bool only itself."""
    if kind == expected:
        return True
    order = {"integer": 0, "float": 1, "complex": 2}
    if strict or kind not in order or expected not in order:
        return False
    return order[kind] > order[expected]


def _criterion(name: str, step: Optional[float], expected_step: Optional[float], rules: _Rules) -> leaf.Criterion:
    if rules.rtol is not None or rules.atol is not None:
        return leaf.Criterion("elementwise", rtol=float(rules.rtol or 0.0), atol=float(rules.atol or 0.0))
    both_quantised = step is not None and expected_step is not None
    if both_quantised or tolerance.kind(name) in ("integer", "bool") or tolerance.unit_roundoff(name) >= 0.5:
        return leaf.Criterion("exact")
    if step is not None:  # the nearest value may be half a step off; a tie or a rounded scale costs the other half
        return leaf.Criterion("elementwise", rtol=0.0, atol=step)
    return leaf.Criterion("normwise", k=rules.k or tolerance.DEFAULT_K)


def _compare_rows(
    actual: Any, reference: Any, rows: int, blocks: Optional[Sequence[Tuple[int, int]]], rules: _Rules
) -> Tuple[Dict[str, Any], Optional[str]]:
    import torch

    if not isinstance(actual, torch.Tensor) or not callable(reference) or actual.dim() == 0:
        raise TypeError("rows= needs a tensor with at least one dimension, and a reference that is called with a slice")
    name = leaf.dtype_name(actual)
    digests: List[Optional[str]] = []
    units: List[leaf.Unit] = []
    for part, unit in leaf.by_rows(actual, reference, rows, blocks):
        units.append(unit._replace(reference=_Checked(unit, part, digests)))
    try:
        facts = leaf.compare_units(units, actual.shape, name, _criterion(name, None, None, rules))
    except _RowsDifferError as problem:
        return {**_mismatch(str(problem)), "dtype": name}, None
    return facts, combine(digests)


class _Checked:
    """The reference of some rows; notes its digest the first time, and that its shape and type fit."""

    def __init__(self, unit: leaf.Unit, part: slice, digests: List[Optional[str]]) -> None:
        self._unit, self._part, self._digests, self._seen = unit, part, digests, False

    def __call__(self) -> "torch.Tensor":
        expected = self._unit.reference()
        reason = _different(_Side(self._unit.actual), _Side(expected))
        if reason:
            raise _RowsDifferError(f"rows {self._part.start} to {self._part.stop}: {reason}")
        if not self._seen:
            self._seen = True
            self._digests.append(digest(expected))
        return expected


class _RowsDifferError(Exception):
    pass


def _explanations(
    actual: Any, explain: Mapping[str, Any], rows: Optional[int], blocks: Optional[Sequence[Tuple[int, int]]]
) -> Iterator[str]:
    for name, model in explain.items():
        try:
            if _explains(actual, model, rows, blocks):
                yield str(name)
        except Exception as problem:  # noqa: BLE001 - a faulty model must not turn a wrong value into an error
            warnings.warn(f"the fault model {name!r} failed: {problem!r}", RuntimeWarning, stacklevel=4)


def _explains(actual: Any, model: Any, rows: Optional[int], blocks: Optional[Sequence[Tuple[int, int]]]) -> bool:
    if rows is None or not callable(model):
        return _reproduces(actual, model() if callable(model) else model)
    parts = (unit for _, unit in leaf.by_rows(actual, model, rows, blocks))
    return all(leaf.same_values(unit.actual, unit.reference()) for unit in parts)


def _reproduces(actual: Any, model: Any) -> bool:
    mine, theirs = children(actual), children(model)
    if mine is not None and theirs is not None:
        return [key for key, _ in mine] == [key for key, _ in theirs] and all(
            _reproduces(one, theirs[number][1]) for number, (_, one) in enumerate(mine)
        )
    one, other = _side(densify(actual)), _side(densify(model))
    if one is None or other is None:
        return bool(actual == model)
    return leaf.same_values(one.tensor, other.tensor)
