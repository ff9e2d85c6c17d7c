"""The fake torch: enough of tensors and autograd, in plain Python 3.8, for control cases and small repros.

The tests never import this file: :func:`tests.support.wheels.fake_torch` copies its text to ``torch/__init__.py`` and
appends the behaviour of the version. It imports nothing but the standard library.
"""

# ruff: noqa: F401, B905

import types as _types

from torch import cuda, testing, version
from torch.version import __version__

float16, bfloat16, float32, float64, int64 = "float16", "bfloat16", "float32", "float64", "int64"
_threads = [1]


class Tensor:
    """A nested list of numbers; ``+``, ``-``, ``*``, ``@``, ``sum`` and ``mean`` can be differentiated."""

    def __init__(self, data, inputs=(), backward=None):
        self.data = data
        self.grad = None
        self.requires_grad = any(tensor.requires_grad for tensor in inputs)
        self._inputs = tuple(inputs)
        self._backward = backward

    @property
    def shape(self):
        sizes, inner = [], self.data
        while isinstance(inner, list):
            sizes.append(len(inner))
            inner = inner[0] if inner else None
        return tuple(sizes)

    def tolist(self):
        return _map(lambda value: value, self.data)

    def item(self):
        return self.data

    def requires_grad_(self, requires_grad=True):
        self.requires_grad = requires_grad
        return self

    def detach(self):
        return Tensor(self.tolist())

    def __add__(self, other):
        other = _as_tensor(other)
        return Tensor(_map2(lambda a, b: a + b, self.data, other.data), (self, other), lambda g: (g, g))

    def __sub__(self, other):
        other = _as_tensor(other)
        return Tensor(
            _map2(lambda a, b: a - b, self.data, other.data), (self, other), lambda g: (g, _map(lambda v: -v, g))
        )

    def __mul__(self, other):
        other = _as_tensor(other)
        product = _map2(lambda a, b: a * b, self.data, other.data)
        return Tensor(
            product,
            (self, other),
            lambda g: (_map2(lambda a, b: a * b, g, other.data), _map2(lambda a, b: a * b, g, self.data)),
        )

    __radd__ = __add__
    __rmul__ = __mul__

    def __matmul__(self, other):
        return Tensor(
            _matmul(self.data, other.data),
            (self, other),
            lambda g: (_matmul(g, _transpose(other.data)), _matmul(_transpose(self.data), g)),
        )

    def sum(self):
        return Tensor(sum(_flat(self.data)), (self,), lambda g: (_map(lambda _: g, self.data),))

    def mean(self):
        return self.sum() * (1.0 / len(list(_flat(self.data))))

    def backward(self):
        self._send_back(1.0)

    def _send_back(self, gradient):
        if not self._inputs:
            if self.requires_grad:
                before = self.grad
                self.grad = Tensor(gradient if before is None else _map2(lambda a, b: a + b, before.data, gradient))
            return
        for tensor, part in zip(self._inputs, self._backward(gradient)):
            if tensor.requires_grad:
                tensor._send_back(part)

    def __eq__(self, other):
        return Tensor(_map2(lambda a, b: a == b, self.data, _as_tensor(other).data))

    __hash__ = object.__hash__

    def __bool__(self):
        if isinstance(self.data, list):
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.data)

    def __repr__(self):
        return f"tensor({self.data!r})"


def _as_tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)


def _map(function, data):
    return [_map(function, row) for row in data] if isinstance(data, list) else function(data)


def _map2(function, a, b):
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            raise RuntimeError(f"The size of tensor a ({len(a)}) must match the size of tensor b ({len(b)})")
        return [_map2(function, x, y) for x, y in zip(a, b)]
    if isinstance(a, list):
        return [_map2(function, x, b) for x in a]
    if isinstance(b, list):
        return [_map2(function, a, y) for y in b]
    return function(a, b)


def _flat(data):
    if isinstance(data, list):
        for row in data:
            yield from _flat(row)
    else:
        yield data


def _transpose(rows):
    return [list(column) for column in zip(*rows)]


def _matmul(a, b):
    columns = _transpose(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def tensor(data, dtype=None, device=None, requires_grad=False):
    return Tensor(_map(lambda value: value, data)).requires_grad_(requires_grad)


def zeros(*sizes, **_options):
    return Tensor(0.0 if not sizes else [zeros(*sizes[1:]).data for _ in range(sizes[0])])


def ones(*sizes, **_options):
    return zeros(*sizes) + 1.0


def equal(a, b):
    return a.tolist() == b.tolist()


def get_num_threads():
    return _threads[0]


def set_num_threads(number):
    _threads[0] = number


def manual_seed(seed):
    import random

    random.seed(seed)


def compile(function=None, **_options):
    return function if function is not None else (lambda inner: inner)


backends = _types.SimpleNamespace(mps=_types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False))
