"""Compiled code is refused under a guard: it cannot be seen into. Without a C++ compiler: AOTAutograd alone."""

import threading

import torch

from bisect_torch.numerics import Guard, GuardError


def function(x):
    return (x.sin() * x.cos()).sum()


def compiled(callable_, **options):
    return torch.compile(callable_, backend="aot_eager", **options)


def guard():
    return Guard(device="cpu", limit=1000)


def refused(run, *words):
    """The block is refused by the guard, and says so."""
    try:
        run()
    except GuardError as error:
        said = str(error)
    else:
        raise AssertionError("ran unseen")
    assert "the guard cannot see inside" in said, said
    assert all(word in said for word in words), said


def rule_functions_compiled_before_or_under_the_guard_are_refused():
    x = torch.ones(4, requires_grad=True)
    with guard():
        refused(lambda: compiled(function)(x), "torch.compile", __file__)
    before = compiled(function)
    assert before(x).numel() == 1
    with guard():
        refused(lambda: before(x), "torch.compile")
        assert function(x).numel() == 1
    assert before(x).numel() == 1


def rule_compiled_modules_are_refused():
    whole, in_place = compiled(torch.nn.Linear(3, 3)), torch.nn.Linear(3, 3)
    in_place.compile(backend="aot_eager")
    for module in (whole, in_place):
        with guard():
            refused(lambda module=module: module(torch.ones(2, 3)), "torch.compile")
        assert module(torch.ones(2, 3)).shape == (2, 3)


def rule_the_backward_of_a_compiled_function_is_refused():
    x = torch.ones(4, requires_grad=True)
    loss = compiled(function)(x)
    with guard():
        refused(loss.backward, "AOTAutograd")
    assert x.grad is None
    compiled(function)(x).backward()
    assert x.grad is not None


def rule_a_guard_inside_a_compiled_function_is_refused():
    def guarded_part(x):
        with guard():
            y = x.sin() * 2
        return y.cos()

    refused(lambda: compiled(guarded_part)(torch.ones(3)), "from inside which a guard was entered")
    decorated = guard()(function)
    refused(lambda: compiled(lambda x: decorated(x) + 1)(torch.ones(3)), "from inside")


def rule_threads_refuse_for_themselves():
    results = {}
    before = compiled(function)
    x = torch.ones(4)

    def work(name):
        try:
            results[name] = before(x).numel()
        except GuardError:
            results[name] = "refused"

    outside = threading.Thread(target=work, args=("outside",))
    outside.start()
    outside.join()
    with guard():
        inside = threading.Thread(target=work, args=("inside",))
        inside.start()
        inside.join()
    work("here")
    assert results == {"outside": 1, "inside": "refused", "here": 1}


def rule_the_process_wide_switch_refuses_too():
    before = compiled(function)
    one = guard().enable()
    try:
        refused(lambda: before(torch.ones(4)))
    finally:
        one.disable()
    assert before(torch.ones(4)).numel() == 1


def rule_compiling_works_as_ever_afterwards():
    with guard():
        torch.ones(3) + 1
    assert torch.compile(lambda x: x.sin() + 1, backend="eager", fullgraph=True)(torch.zeros(3)).tolist() == [1, 1, 1]
    assert torch._dynamo.is_compiling() is False


def rule_packages_of_aotinductor_are_refused():
    kinds = [kind for kind in vars(torch._C._aoti).values() if isinstance(kind, type)]
    runners = [kind for kind in kinds if hasattr(kind, "run") or hasattr(kind, "boxed_run")]
    assert runners
    with guard():
        for kind in runners:
            for name in ("run", "boxed_run"):
                if hasattr(kind, name):
                    refused(lambda kind=kind, name=name: getattr(kind, name)(None, []), "AOTInductor")
