"""A batched product by its recipe, right and with each fault: only the rows that are asked for, in float64, on the CPU.

Rows are counted through all batches: row ``i * rows + r`` is row ``r`` of batch ``i``. "Flat index" of an operand means
the place in its buffer to which its strides lead; that of the output is its place in the packed result.

What the faults mean here:

- strides ignored: element ``(i, r, c)`` of the operand as it is passed (the backward pass passes ``b.transpose(1, 2)``)
  is read from place ``(i * rows + r) * columns + c`` of its buffer;
- a flat index of an operand or of the upstream gradient wraps: what lies at the flat index modulo the border is read;
- the flat index of the output wraps: what belongs to a flat index is written at that index modulo the border, in
  ascending order, so later elements replace earlier ones and what lies beyond the border keeps its old contents;
- tail not written: what lies beyond ``2**bits`` keeps its old contents (a second model: beyond ``2**(bits - 1)``);
- result is zero: nothing was written at all.

Old contents are taken for zero: fresh memory from the operating system is. A device that reuses memory shows something
else there, and no model then claims to explain it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from bisect_torch.numerics.large_index.borders import borders
from bisect_torch.numerics.large_index.predictor import strides_ignored, wraps
from bisect_torch.numerics.large_index.recipe import Source

if TYPE_CHECKING:
    import torch

Rows = Callable[[slice], "torch.Tensor"]
"""A slice of rows (with both ends) to their values: float64, CPU, shape (rows, columns)."""

_HELD = 1 << 21  # elements of a factor held at a time, in int64 and in float64

TAIL = "tail not written"
ZERO = "result is zero"


class Fault(NamedTuple):
    """How an operand is read wrongly.

    Args:
        packed: The strides are ignored.
        border: The flat index is taken modulo this.
    """

    packed: bool = False
    border: Optional[int] = None


_RIGHT = Fault()


class Product(NamedTuple):
    """A batched product of two sources."""

    x: Source
    y: Source

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return self.x.operand.shape[0] * self.x.operand.shape[1]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.y.operand.shape[2]

    def values(self, part: slice, x: Fault = _RIGHT, y: Fault = _RIGHT) -> "torch.Tensor":
        """The product's rows, exact; with faults, what comes out when the operands are read so."""
        import torch

        per_batch = self.x.operand.shape[1]
        found = torch.empty((part.stop - part.start, self.columns), dtype=torch.float64, device="cpu")
        for batch, first, last in _by_batch(part, per_batch):
            at = batch * per_batch + first - part.start
            found[at : at + last - first] = self._matrix(batch, first, last, x, y)
        return found

    def _matrix(self, batch: int, first: int, last: int, x: Fault, y: Fault) -> "torch.Tensor":
        import torch

        inner = self.x.operand.shape[2]
        step = max(1, _HELD // max(self.columns, last - first))
        total = torch.zeros((last - first, self.columns), dtype=torch.float64, device="cpu")
        for start in range(0, inner, step):
            end = min(start + step, inner)
            left = _block(self.x, batch, (first, last), (start, end), x)
            total += left.mm(_block(self.y, batch, (start, end), (0, self.columns), y))
        return total

    def flat(self, start: int, count: int) -> "torch.Tensor":
        """The right values at ``count`` flat indices of the output."""
        first, last = start // self.columns, -(-(start + count) // self.columns)
        skipped = start - first * self.columns
        return self.values(slice(first, last)).reshape(-1)[skipped : skipped + count]


def _by_batch(part: slice, per_batch: int) -> Iterator[Tuple[int, int, int]]:
    """Batch, first row and end in it, of a slice of rows."""
    row = part.start
    while row < part.stop:
        batch, first = divmod(row, per_batch)
        last = min(per_batch, first + part.stop - row)
        yield batch, first, last
        row += last - first


def _block(known: Source, batch: int, rows: Tuple[int, int], columns: Tuple[int, int], fault: Fault) -> "torch.Tensor":
    """A block of one of the operand's matrices as it is read."""
    import torch

    _, height, width = known.operand.shape
    outer, down, across = (height * width, width, 1) if fault.packed else known.operand.strides
    r = torch.arange(rows[0], rows[1], dtype=torch.int64, device="cpu") * down
    c = torch.arange(columns[0], columns[1], dtype=torch.int64, device="cpu") * across
    index = r.unsqueeze(1) + c.unsqueeze(0) + batch * outer
    return known.read(index % fault.border if fault.border else index)


def output_wraps(product: Product, border: int) -> Rows:
    """The fault "flat index of output wraps"."""
    width = product.columns
    total = product.rows * width

    def rows(part: slice) -> "torch.Tensor":
        import torch

        found = torch.zeros((part.stop - part.start) * width, dtype=torch.float64, device="cpu")
        base, position, end = part.start * width, part.start * width, min(part.stop * width, border, total)
        while position < end:
            turns = (total - 1 - position) // border  # the last of those that are written here
            until = min(end, total - turns * border)
            found[position - base : until - base] = product.flat(position + turns * border, until - position)
            position = until
        return found.view(-1, width)

    return rows


def tail_not_written(product: Product, border: int) -> Rows:
    """The fault "tail not written", from a flat index of the output on."""

    def rows(part: slice) -> "torch.Tensor":
        found = product.values(part)
        found.view(-1)[max(0, border - part.start * product.columns) :] = 0.0
        return found

    return rows


def result_is_zero(product: Product) -> Rows:
    """The fault "result is zero"."""

    def rows(part: slice) -> "torch.Tensor":
        import torch

        return torch.zeros((part.stop - part.start, product.columns), dtype=torch.float64, device="cpu")

    return rows


def fault_models(product: Product, bits: int = 32) -> Dict[str, Rows]:
    """Every fault model of a product that can be meant, by name.

    Left out are those that give the right value by construction: strides of a packed operand, an index that does not
    reach the border. A packed reading that leaves the buffer (of an expanded operand) has no known value and is left
    out too. Those that remain may still coincide with each other or with the right value in what is compared;
    :func:`bisect_torch.numerics.large_index.judged.check_chosen` then names all that reproduce it.
    """
    singles = _reading_faults(product, bits)
    models: Dict[str, Rows] = {}
    for name, (x, y) in singles.items():
        models[name] = _misread(product, x, y)
    total = product.rows * product.columns
    half, whole = borders(bits)
    for border in (half, whole):
        if total > border:
            models[wraps("output", border)] = output_wraps(product, border)
            models[TAIL if border == whole else f"{TAIL} beyond 2**{bits - 1}"] = tail_not_written(product, border)
    models[ZERO] = result_is_zero(product)
    return models


def _misread(product: Product, x: Fault, y: Fault) -> Rows:
    return lambda part: product.values(part, x, y)


def _reading_faults(product: Product, bits: int) -> Dict[str, Tuple[Fault, Fault]]:
    """One operand, and both in the same way: name to how each is read."""
    found: Dict[str, Tuple[Fault, Fault]] = {}
    kinds: List[Tuple[Optional[str], Optional[str], Fault]] = [
        (
            strides_ignored(product.x.operand.name) if _can_be_packed(product.x) else None,
            strides_ignored(product.y.operand.name) if _can_be_packed(product.y) else None,
            Fault(packed=True),
        )
    ]
    for border in borders(bits):
        left, right = (
            wraps(side.operand.name, border) if _reach(side) > border else None for side in (product.x, product.y)
        )
        kinds.append((left, right, Fault(border=border)))
    for left, right, fault in kinds:
        if left:
            found[left] = (fault, _RIGHT)
        if right:
            found[right] = (_RIGHT, fault)
        if left and right:
            found[f"{left} and {right}"] = (fault, fault)
    return found


def _can_be_packed(known: Source) -> bool:
    return not known.operand.contiguous and known.operand.packable


def _reach(known: Source) -> int:
    """One more than the largest flat index of the view."""
    operand = known.operand
    steps = zip(operand.shape, operand.strides)  # noqa: B905 - Python 3.8
    return 1 + sum((size - 1) * stride for size, stride in steps) if operand.elements else 0
