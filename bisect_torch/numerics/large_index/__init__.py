"""Tensors beyond 2**31 and 2**32 elements: what is compared, which fault explains a wrong value, what MPS would do.

Importing this package imports no torch; the functions that compute do.
"""

from bisect_torch.numerics.large_index.bodies import bmm_backward, bmm_forward, check_product, choice_for, skip_slow
from bisect_torch.numerics.large_index.borders import Choice, borders, choose
from bisect_torch.numerics.large_index.geometry import LAYOUTS, Operand, Sizes, operands, parse_shape, place
from bisect_torch.numerics.large_index.judged import Criterion, check_chosen
from bisect_torch.numerics.large_index.memory import backward_memory, forward_memory
from bisect_torch.numerics.large_index.models import Product, fault_models
from bisect_torch.numerics.large_index.predictor import (
    Prediction,
    predict_backward,
    predict_forward,
    predict_product,
)
from bisect_torch.numerics.large_index.recipe import Source, amplitudes, as_made, buffer, fill, source, view

__all__ = [
    "LAYOUTS",
    "Choice",
    "Criterion",
    "Operand",
    "Prediction",
    "Product",
    "Sizes",
    "Source",
    "amplitudes",
    "as_made",
    "backward_memory",
    "bmm_backward",
    "bmm_forward",
    "borders",
    "buffer",
    "check_chosen",
    "check_product",
    "choice_for",
    "choose",
    "fault_models",
    "fill",
    "forward_memory",
    "operands",
    "parse_shape",
    "place",
    "predict_backward",
    "predict_forward",
    "predict_product",
    "skip_slow",
    "source",
    "view",
]
