"""Cases that need a real torch. Run by the tests of the worker, never collected by pytest."""

from __future__ import annotations

import torch

from bisect_torch import case, check


@case
def adds(device: str) -> object:
    return check(torch.ones(3, device=device) + 1, torch.full((3,), 2.0))


@case
def multiplies_on_all_threads() -> None:
    a = torch.ones(512, 512)
    assert torch.equal(a @ a, torch.full((512, 512), 512.0))


@case
def returns_a_comparison() -> object:
    return torch.tensor([1.0, 2.0]) == torch.tensor([1.0, 3.0])


@case
def returns_a_comparison_that_holds() -> object:
    return torch.tensor([1.0, 2.0]) == torch.tensor([1.0, 2.0])


@case
def goes_backward() -> None:
    x = torch.ones(100, 100, requires_grad=True)
    (x @ x).sum().backward()
    assert x.grad is not None
    assert x.grad.sum() == 2_000_000


@case
def compiles() -> None:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).relu().sum()

    assert f(torch.ones(32)) == 64


@case
def fails_in_a_backend() -> None:
    def backend(graph: object, inputs: object) -> object:
        raise KeyError("no such kernel")

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))


@case
def asks_for_too_much() -> None:
    torch.empty(2**58, dtype=torch.float32)


@case
def misses_a_function() -> None:
    torch.nn.functional.no_such_function(1)


@case
def misses_a_method() -> None:
    torch.ones(1).no_such_method()


@case
def misses_a_keyword() -> None:
    torch.nn.functional.relu(torch.ones(1), no_such_keyword=True)


@case
def misses_an_operator() -> None:
    torch.ops.aten.no_such_operator(1)


@case
def is_not_close() -> None:
    torch.testing.assert_close(torch.ones(1), torch.zeros(1))
