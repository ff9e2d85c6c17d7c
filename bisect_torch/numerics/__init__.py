"""Torch code for users and cases: inputs, references, comparison. Imports torch only when it is used."""

from bisect_torch.numerics.inputs import integers, normal, uniform

__all__ = ["integers", "normal", "uniform"]
