"""Where the elements of an operand lie: shape, strides and length of the buffer behind it, without any tensor."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

Shape3 = Tuple[int, int, int]

PLACEMENTS = ("contiguous", "transposed", "strided", "expanded")

LAYOUTS: Dict[str, Tuple[str, str]] = {
    "contiguous": ("contiguous", "contiguous"),
    "a transposed": ("transposed", "contiguous"),
    "b transposed": ("contiguous", "transposed"),
    "both transposed": ("transposed", "transposed"),
    "strided": ("strided", "strided"),
    "expanded": ("contiguous", "expanded"),
}
"""Layout of a case to the placements of ``a`` and ``b``."""


class Operand(NamedTuple):
    """A batch of matrices as a view of a flat buffer; element ``(i, r, c)`` lies at ``i*s0 + r*s1 + c*s2``.

    Args:
        name: ``a``, ``b``, ``upstream gradient`` or ``output``, as fault models call it.
        shape: Batch, rows, columns.
        strides: In elements.
        buffer: Elements of the buffer.
    """

    name: str
    shape: Shape3
    strides: Shape3
    buffer: int

    @property
    def elements(self) -> int:
        """Elements of the view (an expanded one has more than its buffer)."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def contiguous(self) -> bool:
        """As ``Tensor.is_contiguous``: strides of dimensions of size 1 do not count."""
        expected = 1
        for size, stride in zip(self.shape[::-1], self.strides[::-1]):  # noqa: B905 - Python 3.8
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    @property
    def transposed(self) -> bool:
        """A view whose matrices lie column by column: ``x.transpose(1, 2)`` of something stored row by row.

        A matrix of one row or one column is neither way.
        """
        matrix = 1 not in self.shape[1:] and not self.contiguous
        return matrix and self.strides[1] == 1 and self.strides[2] >= self.shape[1]

    @property
    def packable(self) -> bool:
        """Whether the buffer can be read as if the view were packed: an expanded view has more than its buffer."""
        return self.elements <= self.buffer

    def flipped(self) -> Operand:
        """The view with rows and columns exchanged, as the backward pass takes it."""
        (batch, rows, columns), (outer, down, across) = self.shape, self.strides
        return self._replace(shape=(batch, columns, rows), strides=(outer, across, down))


def place(name: str, shape: Shape3, placement: str) -> Operand:
    """Lay out an operand.

    Args:
        shape: Batch, rows, columns of the view.
        placement: ``contiguous``; ``transposed`` (stored with rows and columns exchanged); ``strided`` (each row is the
            beginning of a row one eighth longer, at least by 1); ``expanded`` (one matrix for all batches).

    Raises:
        ValueError: An unknown placement.
    """
    batch, rows, columns = shape
    if placement == "contiguous":
        return Operand(name, shape, (rows * columns, columns, 1), batch * rows * columns)
    if placement == "transposed":
        return Operand(name, shape, (rows * columns, 1, rows), batch * rows * columns)
    if placement == "strided":
        width = columns + padding(columns)
        return Operand(name, shape, (rows * width, width, 1), batch * rows * width)
    if placement == "expanded":
        return Operand(name, shape, (0, columns, 1), rows * columns)
    raise ValueError(f"unknown placement {placement!r}; there are {', '.join(PLACEMENTS)}")


def padding(columns: int) -> int:
    """Elements between the rows of a strided operand."""
    return max(1, columns // 8)


class Sizes(NamedTuple):
    """A batched product ``(batch, rows, inner) @ (batch, inner, columns)``."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def output(self) -> int:
        """Elements of the product."""
        return self.batch * self.rows * self.columns


def parse_shape(text: str, batch: int) -> Sizes:
    """``"256x64x256"`` (rows, inner, columns) and the number of batches.

    Raises:
        ValueError: Not three numbers.
    """
    parts = text.split("x")
    if len(parts) != 3:
        raise ValueError(f"a shape is ROWSxINNERxCOLUMNS, but {text!r} was given")
    rows, inner, columns = (int(part) for part in parts)
    return Sizes(batch, rows, inner, columns)


def operands(sizes: Sizes, layout: str) -> Tuple[Operand, Operand]:
    """The operands ``a`` and ``b`` of a product in a layout of :data:`LAYOUTS`."""
    left, right = LAYOUTS[layout]
    a = place("a", (sizes.batch, sizes.rows, sizes.inner), left)
    return a, place("b", (sizes.batch, sizes.inner, sizes.columns), right)
