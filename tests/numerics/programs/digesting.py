"""Rules of digests and inputs, run with a real torch. What a rule returns must be the same on every release."""

import collections
import hashlib

import numpy
import torch

from bisect_torch.numerics import blocks, integers, normal, uniform
from bisect_torch.numerics.digest import digest

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128", "complex32")


def rule_strides_and_gradient_play_no_part():
    base = torch.arange(24.0).reshape(4, 6)
    view = base.t()
    assert digest(view) == digest(view.contiguous())
    assert digest(base[::2, 1::3]) == digest(base[::2, 1::3].clone())
    assert digest(torch.ones(1).expand(5)) == digest(torch.ones(5))
    assert digest(base.clone().requires_grad_()) == digest(base)
    conjugate = torch.complex(base, base).conj()
    assert digest(conjugate) == digest(conjugate.resolve_conj().clone())


def rule_type_shape_and_bits_all_count():
    zeros = torch.zeros(4)
    different = [
        zeros,
        zeros.double(),
        zeros.reshape(2, 2),
        torch.zeros(5),
        -zeros,
        zeros.to(torch.int32),
        torch.zeros(0),
        torch.zeros(0, 3),
        zeros.to_sparse(),
        torch.quantize_per_tensor(zeros, 0.1, 0, torch.quint8),
        [zeros],
        [zeros, zeros],
        {"a": zeros},
        {"b": zeros},
    ]
    digests = [digest(one) for one in different]
    assert None not in digests
    assert len(set(digests)) == len(digests)
    return digests


def rule_blocks_change_nothing():
    base = torch.arange(3000.0).reshape(30, 100)[:, ::7]
    expected = digest(base)
    default = blocks.block_indices.__defaults__
    for limit in (1, 10, 1000):
        blocks.block_indices.__defaults__ = (limit,)
        assert digest(base) == expected
    blocks.block_indices.__defaults__ = default


def rule_it_is_a_hash_of_the_plain_bytes():
    tensor = torch.arange(6, dtype=torch.int16).reshape(2, 3)
    plain = hashlib.blake2b(b"tensor int16 [2, 3]", digest_size=16)
    plain.update(tensor.numpy().tobytes())
    assert digest(tensor) == plain.hexdigest()


def rule_values_without_stable_content_have_none():
    class Thing:
        pass

    assert digest(Thing()) is None
    assert digest([1, Thing()]) is None
    assert digest(numpy.array([Thing()], dtype=object)) is None
    assert digest(rule_values_without_stable_content_have_none) is None


def rule_plain_values_have_one():
    pair = collections.namedtuple("pair", "a b")
    values = [
        1,
        True,
        1.0,
        "1",
        b"1",
        None,
        1j,
        (1, "1"),
        {1: 2},
        {3, 1, 2},
        pair(1, 2),
        torch.float32,
        torch.Size([1]),
    ]
    digests = [digest(value) for value in values]
    assert None not in digests
    assert len(set(digests)) == len(digests)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    return digests


def rule_inputs_are_the_same_everywhere():
    found = []
    for name in FLOATS + COMPLEX:
        dtype = getattr(torch, name)
        found.append(digest(uniform((33, 77), seed=5, dtype=dtype)))
        found.append(digest(normal((33, 77), seed=5, dtype=dtype)))
    found.append(digest(uniform(100_000, seed=2**63, low=0.1, high=7.3)))
    for name in ("bool", "uint8", "int8", "int32", "int64"):
        found.append(digest(integers((100,), seed=2, low=-5, high=77, dtype=getattr(torch, name))))
    return found


def rule_inputs_depend_on_seed_and_place_only():
    assert torch.equal(uniform(100, seed=1)[:50], uniform(50, seed=1))
    assert torch.equal(uniform(40_000, seed=1).reshape(200, 200), uniform((200, 200), seed=1))
    assert not torch.equal(uniform(100, seed=1), uniform(100, seed=2))
    assert uniform((), seed=1).shape == ()
    assert uniform((0, 3), seed=1).shape == (0, 3)


def rule_inputs_are_spread_as_they_say():
    even = uniform(1 << 18, seed=3).double()
    assert -1 <= even.min() < -0.9999
    assert 0.9999 < even.max() < 1
    assert abs(even.mean()) < 0.005
    assert abs(even.var() - 1 / 3) < 0.005
    # Neighbours and distant places are not correlated: 5 sigma of 2**18 products of variance 1/9.
    for lag in (1, 2, 64, 1 << 16):
        assert abs((even[lag:] * even[:-lag]).mean()) < 5 / 3 / 2**9, lag
    other = uniform(1 << 18, seed=4).double()
    assert abs((even * other).mean()) < 5 / 3 / 2**9
    bell = normal(1 << 18, seed=3).double()
    assert abs(bell.mean()) < 0.01
    assert abs(bell.var() - 1) < 0.01
    assert bell.abs().max() < 3.47
    counts = torch.bincount(integers(70_000, seed=9, low=0, high=7), minlength=7)
    assert ((counts - 10_000).abs() < 500).all(), counts


def rule_integers_stay_in_their_range():
    few = integers(1000, seed=1, low=-3, high=4)
    assert sorted(set(few.tolist())) == list(range(-3, 4))
    wide = integers(1000, seed=1, low=0, high=2**32)
    assert wide.max() > 2**31
    for low, high in ((3, 3), (0, 2**32 + 1)):
        try:
            integers(1, seed=1, low=low, high=high)
        except ValueError:
            continue
        raise AssertionError((low, high))
