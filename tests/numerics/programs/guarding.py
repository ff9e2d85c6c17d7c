"""Rules of the guard: where it sees, what it says, which threads it covers, that it stops nothing below the limit."""

import contextlib
import os
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from bisect_torch.numerics import Guard, GuardError, GuardWarning

LIMIT = 1000


@contextlib.contextmanager
def stopped(operation="", ran=False):
    """The block is stopped by the guard; gives a list that then holds the error."""
    errors = []
    try:
        yield errors
    except GuardError as error:
        errors.append(error)
    if not errors:
        raise AssertionError("nothing was stopped")
    if operation not in errors[0].operation or errors[0].kernel_ran != ran:
        raise AssertionError("stopped otherwise") from errors[0]


def guard(limit=LIMIT):
    return Guard(device="cpu", limit=limit)


def line_of(text):
    """Number of the only line of this file that ends with the mark ``# text``."""
    with open(__file__) as file:
        lines = file.read().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith("# " + text)]
    return found


def rule_error_names_operation_shapes_strides_and_the_callers_line():
    big = torch.ones(40, 50).t()
    with guard(), stopped("aten.mul.Tensor") as errors:
        torch.mul(big, 2)  # the caller
    (error,) = errors
    assert error.tensors[0] == ("self", (50, 40), (1, 50), "torch.float32")
    assert (error.caller.file, error.caller.line) == (__file__, line_of("the caller"))
    assert error.caller.function == "rule_error_names_operation_shapes_strides_and_the_callers_line"
    for part in ("aten.mul.Tensor", "(50, 40)", "(1, 50)", "torch.float32", "torch.mul(big, 2)", "2000", "1000"):
        assert part in str(error), part


def rule_callers_line_is_the_users_also_through_modules():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 400))
    with guard(10000), stopped("aten.addmm") as errors:
        layer(torch.ones(40, 4))  # through a module
    assert errors[0].caller.line == line_of("through a module")


def rule_backward_is_stopped_and_names_the_forwards_line():
    base = torch.ones(40, 40, requires_grad=True)
    with guard():
        part = base[0]  # the forward
        loss = part.sum()
        with stopped("backward") as errors:
            loss.backward()  # the backward
    assert errors[0].caller.line == line_of("the backward")
    assert errors[0].forward.line == line_of("the forward")
    assert base.grad is None


def rule_backward_is_stopped_when_only_the_gradient_is_large():
    # Forward out of the guard's sight, as after loading a graph that was built before.
    a, b = torch.ones(40, 2, requires_grad=True), torch.ones(2, 40, requires_grad=True)
    result = a @ b
    with guard(), stopped():
        result.sum().backward()
    assert a.grad is None


def rule_grad_and_double_backward_are_seen():
    x = torch.ones(600, requires_grad=True)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    with guard(600), stopped():
        torch.autograd.grad(first.sum(), x)
    with guard(601):
        torch.autograd.grad(first.sum(), x)


def rule_custom_functions_hooks_and_checkpoints_are_seen():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return (gradient[:, None] * torch.ones(1, 100)).sum(1)

    x = torch.ones(20, requires_grad=True)
    with guard():
        y = Doubled.apply(x)
        with stopped("aten.mul.Tensor"):
            y.sum().backward()
        z = x * 1
        z.register_hook(lambda gradient: torch.outer(gradient, torch.ones(100)).sum(1))
        with stopped():
            z.sum().backward()
    w = torch.ones(40, requires_grad=True)

    def wide(x):
        return (x[:, None] * x).sum()

    loss = checkpoint(wide, w, use_reentrant=False)
    with guard(), stopped():
        loss.backward()


def rule_no_grad_and_inference_mode_are_seen():
    tall, wide = torch.ones(40, 2), torch.ones(2, 40)
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode(), guard(), stopped("aten.mm"):
            tall @ wide
        with guard(), mode(), stopped():
            torch.einsum("ij,kj->ik", tall, tall)
    with torch.inference_mode():
        made = torch.ones(40, 2)
    with guard(), stopped("aten.mm"):
        made @ made.t()


def rule_large_values_between_small_ends_are_seen_in_inference_mode():
    # A composite that inference mode hands over whole: its parts are looked at.
    x = torch.ones(40, 20)
    with torch.inference_mode(), guard(), stopped():
        torch.nn.functional.cosine_similarity(x[:, None], x[None], dim=-1).sum()


def rule_large_values_between_small_ends_of_composites_are_seen():
    # 400 elements go in and come out; between them lie five times as many.
    x = torch.ones(400) * 9
    with guard(), stopped():
        torch.special.multigammaln(x, 5)


def rule_functional_transforms_are_seen():
    from torch.func import functionalize, grad, hessian, jacrev, jvp, vjp, vmap

    x = torch.ones(40)

    def outer(x):
        return (x[:, None] * x).sum()

    with guard():
        for run in (
            lambda: vmap(outer)(x[None]),
            lambda: vmap(lambda row: row[:, None] * row)(x.reshape(4, 10).repeat(3, 1)),
            lambda: grad(outer)(x),
            lambda: jvp(outer, (x,), (x,)),
            lambda: vjp(outer, x),
            lambda: jacrev(lambda x: x * x)(x),
            lambda: hessian(lambda x: (x**3).sum())(x),
            lambda: functionalize(outer)(x),
            lambda: vmap(grad(outer))(x.reshape(2, 20).repeat(3, 1)),
        ):
            with stopped():
                run()
        assert vmap(grad(lambda x: (x * x).sum()))(torch.ones(20, 20)).shape == (20, 20)
    assert vmap(lambda row: row + 1)(torch.ones(40, 40)).shape == (40, 40)


class Logging(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def rule_other_modes_above_and_below_are_kept():
    small, big = torch.ones(4), torch.ones(1000)
    for inside in (True, False):
        log = Logging()
        first, second = (guard(), log) if inside else (log, guard())
        with first, second:
            small + 1
            with stopped():
                big + 1
        wanted = ["aten.add.Tensor"] * (2 if inside else 1)
        assert log.seen == wanted, (inside, log.seen)


def rule_guards_nest_and_the_strictest_counts():
    ten, hundred = torch.ones(10), torch.ones(100)
    with guard(50):
        with guard(5), stopped():
            ten + 1
        with guard(500), stopped():
            hundred + 1
        ten + 1
    hundred + 1


def rule_one_guard_may_be_entered_twice():
    one = guard()
    with one, one:
        with one, stopped():
            torch.ones(1000)
        with stopped():
            torch.ones(1000)
    torch.ones(1000)
    assert torch._C._len_torch_dispatch_stack() == 0


def rule_leaving_in_another_order_keeps_the_other_modes():
    one, log = guard(), Logging()
    one.enable()
    with log:
        one.disable()
        torch.ones(2000)
    assert log.seen == ["aten.ones.default"]
    assert torch._C._len_torch_dispatch_stack() == 0


def rule_decorated_functions_are_guarded_and_unfinished_ones_refused():
    @guard()
    def double(x):
        """Twice x."""
        return x * 2

    assert double.__doc__ == "Twice x."
    assert double(torch.ones(3)).tolist() == [2, 2, 2]
    with stopped():
        double(torch.ones(1000))
    torch.ones(1000)

    def generator():
        yield 1

    async def coroutine():
        return 1

    for unfinished in (generator, coroutine):
        try:
            guard()(unfinished)
        except TypeError:
            continue
        raise AssertionError("was decorated")


def rule_tensor_subclasses_are_seen_through():
    class Held(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = [each.inner if isinstance(each, cls) else each for each in args]
            return cls(func(*inner, **(kwargs or {})))

    class Named(torch.Tensor):
        pass

    few, named = torch.ones(20).as_subclass(Named), torch.ones(1000).as_subclass(Named)
    with guard(), stopped("aten.add.Tensor"):
        Held(torch.ones(1, requires_grad=False).expand(1000)) + 1
    with guard():
        assert (Held(torch.ones(20)) + 1).inner.sum() == 40
        assert type(few + 1) is Named
        assert type(torch.ones(20).as_subclass(Named) + 1) is Named
    with guard(), stopped("aten.add.Tensor"):
        named + 1
    with guard(), stopped():
        torch.nn.Parameter(torch.empty(1000)).sum()


def rule_meta_and_fake_tensors_do_not_count():
    from torch._subclasses import FakeTensorMode

    with guard():
        assert (torch.ones(5000, device="meta") + 1).numel() == 5000
        with FakeTensorMode() as mode:
            fake = torch.ones(5000) + 1
        assert (fake * 2).numel() == 5000
        assert fake.device.type == "cpu"
    with FakeTensorMode(), guard():
        assert (torch.ones(5000) + 1).sum().numel() == 1
    with mode, guard():
        assert (fake * 3).numel() == 5000


def rule_other_devices_do_not_count():
    with Guard(device="mps", limit=10), Guard(device="cuda:1", limit=10):
        assert (torch.ones(1000) + 1).sum() == 2000


def rule_nested_and_sparse_tensors_count_what_they_store():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(3), torch.ones(700)])
        jagged = torch.nested.nested_tensor([torch.ones(3), torch.ones(700)], layout=torch.jagged)
        csr = torch.eye(40).to_sparse_csr()
        for each in (nested, jagged):
            with guard():
                each * 2
            with guard(500), stopped():
                each * 2
        with guard():
            csr @ torch.ones(40, 2)
        with guard(40), stopped():
            csr @ torch.ones(40)
        dense = torch.sparse_coo_tensor(torch.arange(2000)[None], torch.ones(2000), (2000,))
        with guard(), stopped():
            dense * 2
    quantised = torch.quantize_per_tensor(torch.ones(1000), 0.1, 0, torch.qint8)
    with guard(), stopped():
        quantised.dequantize()


def rule_operations_of_others_are_seen_inside():
    library = torch.library.Library("guarding", "FRAGMENT")
    library.define("composite(Tensor x) -> Tensor")
    library.impl("composite", lambda x: (x[:, None] * x).sum(0), "CompositeImplicitAutograd")
    library.define("kernel(Tensor x) -> Tensor")
    library.impl("kernel", lambda x: (x[:, None] * x).sum(0), "CPU")

    @torch.library.custom_op("guarding::custom", mutates_args=())
    def custom(x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] * x).sum(0)

    for operation in (torch.ops.guarding.composite, torch.ops.guarding.kernel, custom):
        for mode in (torch.enable_grad, torch.inference_mode):
            with guard(), mode():
                assert operation(torch.ones(20)).sum() == 400
                with stopped("aten.mul.Tensor"):
                    operation(torch.ones(40))


def rule_threads_started_inside_are_covered():
    seen = []

    def work():
        try:
            torch.ones(1000)
        except GuardError:
            seen.append(True)
        else:
            seen.append(False)

    class Worker(threading.Thread):
        def run(self):
            work()

    with guard():
        threads = [threading.Thread(target=work), Worker(), threading.Timer(0, work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(work) for _ in range(4)]:
                done.result()
    assert seen == [True] * 7
    outside = threading.Thread(target=work)
    outside.start()
    outside.join()
    assert seen[7:] == [False]


def rule_switch_covers_the_process_until_it_is_off():
    one = guard().enable()
    try:
        assert one.enable() is one
        with stopped():
            torch.ones(1000)
        with ThreadPoolExecutor(1) as pool:
            assert isinstance(pool.submit(torch.ones, 1000).exception(), GuardError)
            one.disable()
            assert pool.submit(torch.ones, 1000).result().numel() == 1000
    finally:
        one.disable()
    assert torch.ones(1000).numel() == 1000
    assert torch._C._len_torch_dispatch_stack() == 0


def rule_threads_from_before_the_switch_are_named():
    go = threading.Event()
    early = threading.Thread(target=go.wait, name="an early thread")
    early.start()
    one = guard()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one.enable()
    finally:
        one.disable()
        go.set()
        early.join()
    (warning,) = caught
    assert warning.category is GuardWarning
    assert "an early thread" in str(warning.message)


def rule_forked_children_are_covered():
    with guard():
        child = os.fork()
        if not child:
            try:
                torch.ones(1000)
            except GuardError:
                os._exit(3)
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3 if hasattr(os, "waitstatus_to_exitcode") else True


def rule_torchscript_is_seen():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @torch.jit.script
        def outer(x):
            return (x[:, None] * x).sum()

    for _ in range(3):
        with guard(), stopped("aten.mul"):
            outer(torch.ones(40))
        with guard():
            outer(torch.ones(20))


def rule_views_of_a_large_tensor_and_their_use_in_pieces_pass():
    big = torch.empty(5000)
    with guard():
        for piece in big.split(500):
            piece.fill_(2)
        total = sum(piece.sum() for piece in big.view(10, 500).unbind())
        assert total == 10000
        with stopped():
            big.sum()


def rule_settings_come_from_the_environment():
    assert repr(Guard.from_environment({"BISECT_TORCH_GUARD": "cuda:1:640"})) == "Guard(device='cuda:1', limit=640)"
    assert repr(Guard.from_environment({"BISECT_TORCH_GUARD": "1"})) == repr(Guard())
    assert repr(Guard()) == "Guard(device='mps', limit=4294967296)"
    assert Guard.from_environment({}) is None


def rule_impossible_settings_are_refused():
    for settings in ({"limit": 0}, {"limit": -1}, {"limit": 1.5}, {"limit": True}, {"device": "meta"}):
        try:
            Guard(**settings)
        except ValueError:
            continue
        raise AssertionError(settings)


# Nothing below the limit is stopped, and nothing at it passes: against an observer that counts on its own. None of the
# operations here is a composite that makes something larger inside, which the guard sees and the observer does not.


class Observer(TorchDispatchMode):
    """The largest number of elements, or of storage positions spanned, of any tensor that an operation touches."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view and not str(func).startswith(("aten.empty", "aten.new_empty", "aten._unsafe_view")):
            pending = [args, list((kwargs or {}).values()), result]
            while pending:
                value = pending.pop()
                if isinstance(value, torch.Tensor):
                    self.most = max(self.most, self.spanned(value))
                elif isinstance(value, (list, tuple)):
                    pending.extend(value)
        return result

    @staticmethod
    def spanned(tensor):
        if tensor.numel() == 0:
            return 0
        last = sum((tensor.size(axis) - 1) * tensor.stride(axis) for axis in range(tensor.dim()))
        return max(tensor.numel(), last + 1)


def looked_up(x, pick):
    return torch.nn.functional.one_hot(torch.arange(x.shape[1]) % pick, 40).sum(1) * x


STEPS = (
    lambda x, y, pick: (x @ y) @ y.t(),
    lambda x, y, pick: x * x[:1],
    lambda x, y, pick: x[:, None].mul(x).sum(1),
    lambda x, y, pick: torch.cat([x] * (1 + pick % 4))[: x.shape[0]],
    lambda x, y, pick: x.t().softmax(0).t(),
    lambda x, y, pick: x.repeat(1 + pick % 3, 1)[:: 1 + pick % 3],
    lambda x, y, pick: x.expand(1 + pick % 3, *x.shape).mean(0),
    lambda x, y, pick: torch.nn.functional.pad(x, (pick, 0))[:, pick:],
    lambda x, y, pick: x[:, ::2].repeat_interleave(2, 1)[:, : x.shape[1]],
    lambda x, y, pick: x.masked_fill(x > 0, 0.0),
    lambda x, y, pick: x[x[:, 0].abs() > 0],
    lambda x, y, pick: x + torch.arange(x.shape[1]),
    lambda x, y, pick: looked_up(x, pick),
    lambda x, y, pick: torch.cdist(x, x, p=1.0).sum() * x,
)


def some_program(seed):
    """A function that runs a few operations on random tensors, drawn from the seed alone."""
    draw = random.Random(seed)
    rows, inner, columns = draw.choices([1, 2, 3, 5, 8, 13, 21, 34], k=3)
    steps = [(draw.choice(STEPS), draw.randrange(1, 40)) for _ in range(4)]
    trained = draw.random() < 0.5

    def program():
        torch.manual_seed(seed)
        x = torch.randn(rows, inner, requires_grad=trained)
        y = torch.randn(inner, columns)
        for step, pick in steps:
            x = step(x, y, pick)
        if trained:
            x.sum().backward()

    return program


def rule_nothing_below_the_limit_is_stopped_and_nothing_at_it_passes():
    for seed in range(150):
        program = some_program(seed)
        with Observer() as observer:
            program()
        with guard(observer.most + 1):
            program()
        with guard(observer.most), stopped():
            program()
