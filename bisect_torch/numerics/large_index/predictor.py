"""What MPS does with a batched product, by the three rules that account for every outcome in arXiv 2609.22991.

In the words of this package, for a product whose index has ``bits`` bits (32 on the hardware):

1. the output has more than ``2**bits`` elements and an operand is a transposed view: all of the output is wrong and is
   what comes out when that operand's strides are ignored;
2. otherwise, a view (anything that is not contiguous, expanded ones included) of at least ``2**(bits - 1)`` elements
   is an operand: an exception;
3. otherwise, a contiguous operand has more than ``2**bits`` elements: the batches beyond are wrong and are what comes
   out when its flat index wraps at ``2**bits``.

Nothing else goes wrong there. The backward pass is two products of the same kind. The rules were found on 2.14.0.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

from bisect_torch.numerics.large_index.borders import borders
from bisect_torch.numerics.large_index.geometry import Operand, Sizes, operands, place

UPSTREAM = "upstream gradient"


class Prediction(NamedTuple):
    """What is expected of a cell.

    Args:
        verdict: ``ok``, ``wrong`` or ``error``.
        model: Name of the fault model that reproduces the wrong value; several that act together are joined by "and".
            None where the value is right or cannot be known.
    """

    verdict: str
    model: Optional[str] = None


def strides_ignored(name: str) -> str:
    """Name of the fault model: an operand's buffer is read as if the operand were packed."""
    return f"strides of {name} ignored"


def wraps(name: str, border: int) -> str:
    """Name of the fault model: a flat index is taken modulo a power of two."""
    return f"flat index of {name} wraps at 2**{border.bit_length() - 1}"


def predict_product(output_elements: int, used: Sequence[Operand], bits: int = 32) -> Prediction:
    """The rules for one product of the operands ``used``, as they are passed to it."""
    half, whole = borders(bits)
    turned = [operand for operand in used if operand.transposed]
    if output_elements > whole and turned:
        known = all(operand.packable for operand in turned)  # otherwise what is read lies outside the buffer
        return Prediction("wrong", _together([strides_ignored(operand.name) for operand in turned]) if known else None)
    if any(not operand.contiguous and operand.elements >= half for operand in used):
        return Prediction("error")
    large = [operand.name for operand in used if operand.contiguous and operand.elements > whole]
    if large:
        return Prediction("wrong", _together([wraps(name, whole) for name in large]))
    return Prediction("ok")


def _together(models: List[str]) -> str:
    return " and ".join(models)


def predict_forward(sizes: Sizes, layout: str, bits: int = 32) -> Prediction:
    """What ``bmm(a, b)`` does on MPS. The data type plays no part in the rules."""
    return predict_product(sizes.output, operands(sizes, layout), bits)


def gradient_operands(sizes: Sizes, layout: str, grad: str) -> "tuple[Operand, Operand]":
    """The operands of the product that gives the gradient of ``a`` (``G @ b^T``) or of ``b`` (``a^T @ G``).

    The upstream gradient ``G`` is contiguous.

    Raises:
        ValueError: ``grad`` is neither.
    """
    if grad not in ("a", "b"):
        raise ValueError(f"the gradient is that of a or of b, but {grad!r} was given")
    a, b = operands(sizes, layout)
    upstream = place(UPSTREAM, (sizes.batch, sizes.rows, sizes.columns), "contiguous")
    return (upstream, b.flipped()) if grad == "a" else (a.flipped(), upstream)


def predict_backward(sizes: Sizes, layout: str, grad: str, bits: int = 32) -> Prediction:
    """What the gradient of ``a`` or ``b`` is on MPS, for a contiguous upstream gradient.

    A forward pass that fails (see :func:`predict_forward`) leaves no gradient to look at; one that is wrong does not
    change it, since the product's value is not used by its gradient.
    """
    forward = predict_forward(sizes, layout, bits)
    if forward.verdict == "error":
        return forward
    used = gradient_operands(sizes, layout, grad)
    wanted = sizes.rows * sizes.inner if grad == "a" else sizes.inner * sizes.columns
    return predict_product(sizes.batch * wanted, used, bits)
