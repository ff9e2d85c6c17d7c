"""The bodies of the large-index cases: the same code at the real borders and scaled down, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from bisect_torch.numerics.large_index.borders import Choice, borders, choose
from bisect_torch.numerics.large_index.geometry import LAYOUTS, Operand, operands, parse_shape
from bisect_torch.numerics.large_index.judged import HELD, check_chosen
from bisect_torch.numerics.large_index.models import Product, Rows, fault_models
from bisect_torch.numerics.large_index.predictor import (
    Prediction,
    gradient_operands,
    predict_backward,
    predict_forward,
)
from bisect_torch.numerics.large_index.recipe import Source, amplitudes, as_made, buffer, fill, source, view

if TYPE_CHECKING:
    import torch

    from bisect_torch.numerics.check import CheckResult

_SEEDS = {"a": 11, "b": 12, "upstream gradient": 13}

Call = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


def bmm_forward(
    device: str,
    dtype: str,
    layout: str,
    shape: str,
    batch: int,
    bits: int = 32,
    *,
    call: Optional[Call] = None,
    predict: Optional[bool] = None,
) -> CheckResult:
    """``bmm(a, b)`` judged against float64 in the chosen batches, with every fault model.

    Args:
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``float64``.
        layout: One of :data:`bisect_torch.numerics.large_index.LAYOUTS`.
        shape: Rows, inner length and columns of a batch: ``"256x64x256"``.
        bits: Width of the index whose borders are looked at; 32 is the real case.
        call: Another operator that gives the same product of two tensors of three dimensions; None for ``torch.bmm``.
        predict: Record what the rules of arXiv 2609.22991 say of MPS; None does so on that device only. For a simulated
            backend say True.

    Raises:
        ValueError: An unknown layout or shape, or sums that are not exact in the type.
    """
    import torch

    sizes = parse_shape(shape, batch)
    pair = _sources(operands(sizes, layout), amplitudes(sizes.inner, dtype))
    if _predicting(predict, device):
        _record_prediction(predict_forward(sizes, layout, bits))
    a, b = _tensors(pair, layout, dtype, device, bits)
    result = (call or torch.bmm)(a, b)
    del a, b
    return check_product(result, Product(*pair), bits)


def skip_slow(device: str, dtype: str, shape: str, batch: int) -> None:
    """Skip a float16 product on the CPU that takes minutes there, unless the run is thorough.

    Few CPUs have kernels for float16: measured on two cores with AVX-512, 2.5e9 multiplications a second and core on
    2.4.1, where bfloat16 does fifty times that.

    Raises:
        Skip: More than ``2**35`` multiplications.
    """
    from bisect_torch import skip, thorough

    sizes = parse_shape(shape, batch)
    count = sizes.output * sizes.inner
    if device.partition(":")[0] == "cpu" and dtype == "float16" and count > 1 << 35 and not thorough():
        skip(f"{count:.1e} multiplications in float16 take minutes on most CPUs; --thorough runs them")


def bmm_backward(
    device: str,
    dtype: str,
    layout: str,
    shape: str,
    batch: int,
    grad: str,
    bits: int = 32,
    *,
    call: Optional[Call] = None,
    predict: Optional[bool] = None,
) -> CheckResult:
    """The gradient of ``a`` or ``b`` through ``bmm(a, b)``, for a contiguous upstream gradient.

    Whether the forward pass is right in the chosen batches is recorded as ``forward_right``. The product's memory is
    then used for the upstream gradient, since the gradient of a product does not need its value.

    Args:
        grad: Which gradient: ``a`` or ``b``. Others as for :func:`bmm_forward`.

    Raises:
        ValueError: As for :func:`bmm_forward`, or another ``grad``.
    """
    import torch

    from bisect_torch import record

    sizes = parse_shape(shape, batch)
    amplitude = amplitudes(max(sizes.inner, sizes.rows, sizes.columns), dtype)
    pair = _sources(operands(sizes, layout), amplitude)
    used = gradient_operands(sizes, layout, grad)
    if _predicting(predict, device):
        _record_prediction(predict_backward(sizes, layout, grad, bits))
    a, b = _tensors(pair, layout, dtype, device, bits)
    wanted = (a if grad == "a" else b).requires_grad_()
    product = (call or torch.bmm)(a, b)
    record(forward_right=forward_right(product.detach(), Product(*pair), bits), upstream_elements=product.numel())
    upstream = source(used[0] if grad == "a" else used[1], seed=_SEEDS["upstream gradient"], amplitude=amplitude)
    ready = product.detach()
    fill(ready.view(-1), upstream)
    record(upstream_as_made=as_made(ready.view(-1), upstream, bits))
    (gradient,) = torch.autograd.grad(product, wanted, grad_outputs=ready)
    del a, b, wanted, product, ready
    back = Product(upstream, pair[1].flipped()) if grad == "a" else Product(pair[0].flipped(), upstream)
    return check_product(gradient, back, bits)


def check_product(result: "torch.Tensor", product: Product, bits: int = 32) -> CheckResult:
    """Judge a result of three dimensions as the batched product of two sources.

    Batches are compared whole; where one has more than :data:`HELD` elements, rows are chosen in place of batches.
    """
    unit, choice = choice_for(product, bits)
    models = {name: _in_units(model, product, unit) for name, model in fault_models(product, bits).items()}
    shown, reference = _as_units(result, product, unit), _in_units(product.values, product, unit)
    return check_chosen(
        shown, reference, choice, explain=models, units_per_batch=1 if unit > 1 else product.x.operand.shape[1]
    )


def forward_right(result: "torch.Tensor", product: Product, bits: int = 32) -> bool:
    """Whether a result equals the product in the chosen units, without making it a check of the case."""
    unit, choice = choice_for(product, bits)
    shown, reference = _as_units(result, product, unit), _in_units(product.values, product, unit)
    for number in choice.units():
        part = slice(number, number + 1)
        if not bool((shown[part].to("cpu").double() == reference(part)).all()):
            return False
    return True


def choice_for(product: Product, bits: int = 32) -> Tuple[int, Choice]:
    """Rows in a unit, and the chosen units: batches, or rows of batches that are too large to be compared whole."""
    x, y = product.x.operand, product.y.operand
    batch, rows, _ = x.shape
    per_batch = {rows * product.columns}
    for operand in (x, y):
        per_batch.update((operand.shape[1] * operand.shape[2], operand.strides[0]))
    if rows * product.columns <= HELD or rows == 1:
        return rows, choose(batch, per_batch, bits=bits)
    edges = {border // width for border in borders(bits) for width in per_batch if width}
    also = [edge * rows + step for at in edges for edge in (at, at + 1) for step in (-1, 0)]
    return 1, choose(product.rows, (product.columns, x.strides[1]), bits=bits, also=also)


def _as_units(result: "torch.Tensor", product: Product, unit: int) -> "torch.Tensor":
    return result if unit == product.x.operand.shape[1] else result.reshape(product.rows, product.columns)


def _in_units(model: Rows, product: Product, unit: int) -> Rows:
    """A model of rows as one of units."""
    if unit != product.x.operand.shape[1]:
        return model
    return lambda part: model(slice(part.start * unit, part.stop * unit)).view(-1, unit, product.columns)


def _sources(used: Tuple[Operand, Operand], amplitude: int) -> Tuple[Source, Source]:
    first, second = (source(operand, seed=_SEEDS[operand.name], amplitude=amplitude) for operand in used)
    return first, second


def _tensors(
    pair: Tuple[Source, Source], layout: str, dtype: str, device: str, bits: int
) -> Tuple["torch.Tensor", "torch.Tensor"]:
    """The operands on the device; that they hold there what was written is recorded as ``inputs_as_made``."""
    import torch

    from bisect_torch import record

    made: List["torch.Tensor"] = []
    right = True
    for known, placement in zip(pair, LAYOUTS[layout]):  # noqa: B905 - Python 3.8
        flat = buffer(known, getattr(torch, dtype), device)
        right = as_made(flat, known, bits) and right
        made.append(view(flat, known.operand, placement))
    record(inputs_as_made=right, operand_elements=[known.operand.elements for known in pair])
    return made[0], made[1]


def _predicting(predict: Optional[bool], device: str) -> bool:
    return device.partition(":")[0] == "mps" if predict is None else predict


def _record_prediction(prediction: Prediction) -> None:
    from bisect_torch import record

    record(predicted_verdict=prediction.verdict, predicted_model=prediction.model)
