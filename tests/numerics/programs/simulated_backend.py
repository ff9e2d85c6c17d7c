"""Rules of the simulated backend by itself, run with a real torch: small products whose values can be read off."""

import torch

from bisect_torch.numerics.simulated import MPS_RULES, SimulatedBackend, SimulatedError


def numbers(*shape, start=1):
    count = 1
    for size in shape:
        count *= size
    return torch.arange(start, start + count, dtype=torch.float32).reshape(shape)


def product(fault, a, b, bits=2, **options):
    backend = SimulatedBackend(bits, fault, **options)
    result = backend.bmm(a, b)
    return result.reshape(-1).tolist(), backend.calls[-1]


ONES = torch.ones(6, 1, 1)


def rule_without_a_fault_it_is_the_product_by_every_way_and_in_every_type():
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        a, b = numbers(4, 3, 5).to(dtype).remainder(5), numbers(4, 2, 5).to(dtype).remainder(7).transpose(1, 2)
        a.requires_grad_()
        upstream = numbers(4, 3, 2).to(dtype).remainder(3)
        expected = torch.bmm(a, b)
        (gradient,) = torch.autograd.grad(expected, a, upstream)
        with SimulatedBackend(30) as backend:
            found = [torch.bmm(a, b), a @ b, torch.einsum("bij,bjk->bik", a, b), torch.empty(0, dtype=dtype)]
            torch.bmm(a.detach(), b, out=found[-1])
            (simulated,) = torch.autograd.grad(found[0], a, upstream)
        assert all(torch.equal(value, expected) for value in found)
        assert torch.equal(simulated, gradient)
        assert [call.fault for call in backend.calls] == [None] * 5
        assert backend.calls[-1].operands == ("upstream gradient", "b")
        assert backend.calls[-1].backward


def rule_a_flat_index_wraps():
    a = numbers(6, 1, 1)
    values, call = product("flat index of a wraps at 2**2", a, ONES)
    assert values == [1, 2, 3, 4, 1, 2]
    assert (call.fault, call.wrong_elements) == ("flat index of a wraps at 2**2", 2)
    assert product("flat index of a wraps at 2**1", a, ONES)[0] == [1, 2, 1, 2, 1, 2]
    assert product("flat index of b wraps at 2**2", ONES, a)[0] == [1, 2, 3, 4, 1, 2]
    assert product("flat index of a wraps at 2**3", a, ONES)[1].fault is None


def rule_strides_are_ignored():
    stored = numbers(2, 2, 3)
    values, call = product("strides of a ignored", stored.transpose(1, 2), torch.tensor([[[1.0], [0.0]]] * 2))
    assert values == [1, 3, 5, 7, 9, 11]
    assert call.outside == 0
    expanded = numbers(1, 1, 2).expand(3, 1, 2)
    values, call = product("strides of a ignored", expanded, torch.ones(3, 2, 1))
    assert values == [3, 0, 0]
    assert call.outside == 4


def rule_the_output_is_written_wrongly():
    a = numbers(6, 1, 1)
    assert product("flat index of output wraps at 2**2", a, ONES)[0] == [5, 6, 3, 4, 0, 0]
    assert product("tail not written", a, ONES)[0] == [1, 2, 3, 4, 0, 0]
    assert product("tail not written beyond 2**1", a, ONES)[0] == [1, 2, 0, 0, 0, 0]
    assert product("result is zero", a, ONES)[0] == [0] * 6
    assert product("result is zero", a, ONES, bits=3)[0] == [1, 2, 3, 4, 5, 6]
    kept = torch.full((6, 1, 1), 9.0)
    with SimulatedBackend(2, "tail not written"):
        torch.bmm(a, ONES, out=kept)
    assert kept.reshape(-1).tolist() == [1, 2, 3, 4, 9, 9]


def rule_a_fault_can_be_in_one_direction_only():
    a = numbers(6, 1, 1).requires_grad_()
    upstream = numbers(6, 1, 1, start=11)
    fault = "flat index of output wraps at 2**2 and flat index of upstream gradient wraps at 2**2"
    for during, forward, backward in (
        ("forward", [5, 6, 3, 4, 0, 0], [11, 12, 13, 14, 15, 16]),
        ("backward", [1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 0, 0]),
    ):
        with SimulatedBackend(2, fault, during=during):
            value = torch.bmm(a, ONES)
            (gradient,) = torch.autograd.grad(value, a, upstream)
        assert value.reshape(-1).tolist() == forward
        assert gradient.reshape(-1).tolist() == backward


def rule_the_three_rules_of_mps():
    turned = numbers(2, 2, 3).transpose(1, 2)
    assert product(MPS_RULES, turned, torch.ones(2, 2, 2))[1].fault == "strides of a ignored"
    said = ""
    try:  # 12 elements of the output are below 2**4, and the view has at least 2**3
        product(MPS_RULES, turned, torch.ones(2, 2, 2), bits=4)
    except SimulatedError as refusal:
        said = str(refusal)
    assert "a is a view of 12 elements" in said
    assert product(MPS_RULES, turned, torch.ones(2, 2, 2), bits=5)[1].fault is None
    assert product(MPS_RULES, numbers(6, 1, 1), ONES)[1].fault == (
        "flat index of a wraps at 2**2 and flat index of b wraps at 2**2"
    )
    assert product(MPS_RULES, numbers(4, 1, 1), ONES[:4])[1].fault is None


def rule_what_makes_no_sense_is_refused():
    for problem, attempt in (
        (ValueError, lambda: SimulatedBackend(0)),
        (ValueError, lambda: SimulatedBackend(4, "strides of c ignored")),
        (ValueError, lambda: SimulatedBackend(4, during="never")),
        (ValueError, lambda: SimulatedBackend(4).bmm(torch.ones(2, 1, 1), torch.ones(3, 1, 1))),
        (TypeError, lambda: SimulatedBackend(4).bmm(torch.ones(2, 1, 1).long(), torch.ones(2, 1, 1).long())),
    ):
        try:
            attempt()
        except problem:
            continue
        raise AssertionError(problem)
