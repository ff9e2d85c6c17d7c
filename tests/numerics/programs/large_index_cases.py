"""Rules of the large-index cases beside ``bmm``: each notices every fault of an index in its operator, and only those.

The bodies run scaled down, with the real operator under a mode that spoils one call of it: the storage of an operand is
read with a wrapped index or as if it were packed, or the result is written so. The mode shares no code with the models.
"""

import contextlib
import json
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

import bisect_torch
from bisect_torch import check
from bisect_torch.worker import recording

sys.path.append(os.path.join(sys.argv[1], "cases"))

import _large_index_marks as marked
import _large_index_rows as indexing
import _large_index_windows as windows_of
import large_index_neighbours as neighbours
import large_index_wrappers as wrappers

BITS = 12
FEW = 8  # for batched products, of which there are many
SIZES = neighbours.SIZES
PACKED = (torch.int8, torch.bool, torch.bfloat16, torch.float16, torch.float32)  # references are in float64 and int64


class Spoiled(TorchDispatchMode):
    """Spoils the first call of an operator on a large tensor.

    Args:
        names: Of the operators, without overload.
        fault: ``(kind, which, border)``: ``reads`` (tensor number ``which`` of the arguments), ``packed``, ``writes``,
            ``tail``, ``zero``, ``until`` (what is read ends at the border), ``result`` (each number in it wraps),
            ``reads after`` (the next operator reads the result with a wrapped index).
    """

    def __init__(self, names, fault):
        super().__init__()
        self.names, self.fault = names, fault
        self.calls, self.over, self.first_wrong = 0, False, None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.calls or self.over or func.overloadpacket.__name__ not in self.names or not large(args):
            return func(*args, **kwargs)
        self.calls += 1
        kind, which, border = self.fault
        right = func(*args, **kwargs)
        if kind in ("reads", "packed", "until"):
            spoil = {"reads": reads, "packed": packed, "until": until}[kind]
            flat, shape = tree_flatten(args)
            tensors = [number for number, each in enumerate(flat) if isinstance(each, torch.Tensor)]
            flat[tensors[which]] = spoil(flat[tensors[which]], border)
            found = func(*tree_unflatten(flat, shape), **kwargs)
        else:
            found = AFTER[kind](right, border)
        differs = (found != right).reshape(-1)
        self.first_wrong = int(differs.to(torch.uint8).argmax()) if bool(differs.any()) else None
        return found


@contextlib.contextmanager
def until_the_check(mode):
    """Judging needs no faulty operator, and is many times slower under a mode."""

    def checked(*args, **kwargs):
        mode.over = True
        with _disable_current_modes():
            return check(*args, **kwargs)

    bisect_torch.check = marked.check = checked
    try:
        yield
    finally:
        bisect_torch.check = marked.check = check


def large(args):
    tensors = [each for each in tree_flatten(args)[0] if isinstance(each, torch.Tensor)]
    # The sequences of the recipes are vectors of int8 that are indexed; the operators under test index matrices.
    return bool(tensors) and tensors[0].dtype in PACKED and (tensors[0].dim() > 1 or len(tensors) == 1)


def storage(tensor):
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def reads(tensor, border):
    whole = storage(tensor)
    wrapped = torch.cat([whole[:border]] * (len(whole) // border + 1))[: len(whole)].contiguous()
    return wrapped.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def packed(tensor, _):
    return storage(tensor)[: tensor.numel()].view(tensor.shape)


def until(tensor, border):
    return tensor.reshape(-1)[:border]


def writes(right, border):
    found, flat = torch.zeros_like(right).contiguous(), right.reshape(-1)
    for start in range(0, right.numel(), border):
        part = flat[start : start + border]
        found.view(-1)[: len(part)] = part
    return found


def tail(right, border):
    found = right.clone().contiguous()
    found.view(-1)[border:] = 0
    return found


def zero(right, _):
    return torch.zeros_like(right)


def result(right, border):
    return right % border


AFTER = {"writes": writes, "tail": tail, "zero": zero, "result": result, "reads after": reads}


def noticed(body, names, fault, expected, *, place=True, thorough=(False,)):
    """Run a body with and without a fault and see that it says what is the case.

    Args:
        expected: Name of the model, or None where the fault can do nothing.
        place: The spoiled operator's result is the case's, so the first wrong place is known.
        thorough: Whether all is compared, or the chosen units.
    """
    for everything in thorough:
        recording.set_thorough(everything)
        try:
            recording.forget_records()
            with Spoiled(names, fault) as mode, until_the_check(mode):
                found = body()
            facts = json.loads(recording.recorded() or "{}")
        finally:
            recording.set_thorough(False)
        told = (fault, expected, found, found.facts.get("explained_by"), facts)
        assert mode.calls == 1, told
        assert facts["inputs_as_made"] is True, told
        if expected is None:
            assert not found.wrong, told
            continue
        assert found.wrong, told
        assert "mismatch" not in found.facts, told
        assert expected in found.facts["explained_by"].split(" or "), told
        if place:
            assert facts["first_wrong_flat_index"] == mode.first_wrong, told


def faults_of(known, output, bits):
    """What can go wrong: inputs by number with name and elements, and the elements of the output."""
    for power in (bits - 1, bits):
        border = 2**power
        for number, (name, count) in enumerate(known):
            yield ("reads", number, border), f"flat index of {name} wraps at 2**{power}" if count > border else None
        yield ("writes", 0, border), f"flat index of output wraps at 2**{power}" if output > border else None
        beyond = "tail not written" + ("" if power == bits else f" beyond 2**{power}")
        yield ("tail", 0, border), beyond if output > border else None
    yield ("zero", 0, 0), "result is zero"


def sweep(body, names, known, output, bits=BITS, **options):
    count = 0
    for fault, expected in faults_of(known, output, bits):
        noticed(body, names, fault, expected, **options)
        count += expected is not None
    return count


# --- neighbours -------------------------------------------------------------------------------------------------------


def rule_mm_notices_every_fault():
    for large_one in ("a", "b", "output"):
        for size in SIZES:
            rows, inner, columns = neighbours.mm_sizes(large_one, size, BITS)
            known = (("a", rows * inner), ("b", inner * columns))

            def body(layout="contiguous", large_one=large_one, size=size):
                return neighbours.mm("cpu", "bfloat16", large_one, layout, size, BITS)

            seen = sweep(body, ("mm",), known, rows * columns, place=large_one != "b")
            assert seen >= (1 if size == SIZES[0] else 2)
            for number, name in [(1, "b")] if large_one == "b" else enumerate("ab"):
                noticed(
                    lambda body=body, name=name: body(f"{name} transposed"),
                    ("mm",),
                    ("packed", number, 0),
                    f"strides of {name} ignored",
                    place=large_one != "b",
                )


def rule_cat_notices_every_fault():
    across = neighbours.width(BITS)
    for parts, dim in neighbours.PARTS.values():
        for size in SIZES:
            total = neighbours.elements(size, BITS)
            rows = total // across
            above = rows // 2 if parts == "equal" else rows - 2
            a = above * across if dim == 0 else rows * across // 2

            def body(parts=parts, dim=dim, size=size):
                return neighbours.cat("cpu", parts, dim, size, BITS)

            known = (("a", a), ("b", total - a))
            seen = sweep(body, ("cat",), known, total, thorough=(False, True))
            assert seen >= (1 if size == SIZES[0] else 3)


def rule_reductions_to_one_notice_what_they_do_not_see():
    for operation, how in marked.MARKED.items():
        for size in SIZES:
            total = neighbours.elements(size, BITS)

            def body(operation=operation, size=size):
                return marked.check_marked("cpu", operation, size, BITS)

            for border, power in ((2 ** (BITS - 1), BITS - 1), (2**BITS, BITS)):
                crossed = total > border
                unread = "tail not read" + ("" if power == BITS else f" beyond 2**{power}")
                table = [("reads", f"flat index of a wraps at 2**{power}"), ("until", unread)]
                if how.is_place:
                    table.append(("result", f"flat index of result wraps at 2**{power}"))
                for kind, name in table:
                    noticed(body, (operation,), (kind, 0, border), name if crossed else None, place=False)
            if operation not in ("any", "all"):
                noticed(body, (operation,), ("zero", 0, 0), "result is zero", place=False)


def rule_reductions_along_a_dimension_notice_every_fault():
    for operation, along in neighbours.ALONG.items():
        for size in SIZES:
            total = neighbours.elements(size, BITS)
            total -= total % along.length

            def body(operation=operation, size=size):
                return neighbours.reduction("cpu", operation, size, BITS)

            output = total // along.length
            sweep(body, (operation.split()[0],), (("a", total),), output)


def rule_windows_notice_every_fault():
    for size in SIZES:
        channels, rows, columns = windows_of.window_sizes(size, BITS)
        windows = channels * 16 * rows * columns
        picture = channels * (rows + 3) * (columns + 3)
        for dtype in ("bfloat16", "float32"):
            sweep(
                lambda dtype=dtype, size=size: windows_of.unfold("cpu", dtype, size, BITS),
                ("im2col",),
                (("a", picture),),
                windows,
            )
            sweep(
                lambda dtype=dtype, size=size: windows_of.fold("cpu", dtype, size, BITS),
                ("col2im",),
                (("a", windows),),
                picture,
            )


def rule_picking_rows_notices_every_fault():
    for operator in indexing.PICKS:
        for size in SIZES[1:]:
            total = neighbours.elements(size, BITS)

            def body(operator=operator, size=size):
                return indexing.pick_from_large("cpu", operator, size, BITS)

            rows = len(indexing.chosen_rows(size, BITS)) * neighbours.width(BITS)
            assert sweep(body, (operator,), (("a", total),), rows) >= 2
        for size in SIZES[1:]:
            total = neighbours.elements(size, BITS)

            def wide(operator=operator, size=size):
                return indexing.pick_to_large("cpu", operator, size, BITS)

            assert sweep(wide, (operator,), (), total) >= 3


def rule_writing_rows_notices_a_wrapped_target():
    across = neighbours.width(BITS)
    for operator, write in indexing.WRITES.items():
        for size in SIZES[1:]:
            for border, power in ((2 ** (BITS - 1), BITS - 1), (2**BITS, BITS)):
                crossed = neighbours.elements(size, BITS) > border

                def wrapped(table, rows, new, write=write, border=border):
                    for number in range(len(rows)):  # one after the other, so that the last one stays
                        write(table, rows[number : number + 1] % (border // across), new[number : number + 1])

                indexing.WRITES[operator] = wrapped
                try:
                    found = indexing.write_into_large("cpu", operator, size, BITS)
                finally:
                    indexing.WRITES[operator] = write
                name = f"flat index of target wraps at 2**{power}"
                assert found.wrong is crossed, (operator, size, border)
                assert not crossed or name in found.facts["explained_by"].split(" or "), found.facts
            assert not indexing.write_into_large("cpu", operator, size, BITS).wrong


# --- wrappers ---------------------------------------------------------------------------------------------------------

PRODUCTS = ("bmm", "mm", "addmm", "linear", "matmul")


def rule_products_under_other_names_notice_every_fault():
    for operator, (layout, _) in wrappers.OPERATORS.items():
        for large_one in ("output", "a", "b"):
            for size in SIZES[2:]:
                (rows, inner, columns), batch = wrappers.sizes(large_one, FEW), wrappers.batches(size, FEW)
                known = [("a", batch * rows * inner)]
                known += [("b", batch * inner * columns)] if layout != "expanded" else []

                def body(operator=operator, large_one=large_one, size=size):
                    return wrappers.product("cpu", "bfloat16", operator, large_one, size, FEW)

                sweep(body, PRODUCTS, known, batch * rows * columns, FEW)


def rule_a_transposed_operand_that_is_read_as_packed_is_noticed():
    for size in SIZES[2:]:
        noticed(
            lambda size=size: wrappers.product("cpu", "bfloat16", "einsum of a transposed", "output", size, FEW),
            PRODUCTS,
            ("packed", 1, 0),
            "strides of b ignored",
        )
        noticed(
            lambda size=size: wrappers.attention_scores("cpu", "bfloat16", size, FEW),
            PRODUCTS,
            ("packed", 1, 0),
            "strides of b ignored",
        )


def rule_baddbmm_notices_every_fault():
    for added in ("row", "full"):
        for large_one in ("output", "a", "b"):
            for size in SIZES[::2]:
                (rows, inner, columns), batch = wrappers.sizes(large_one, FEW), wrappers.batches(size, FEW)
                output = batch * rows * columns
                known = (
                    ("c", output if added == "full" else columns),
                    ("a", batch * rows * inner),
                    ("b", batch * inner * columns),
                )

                def body(added=added, large_one=large_one, size=size):
                    return wrappers.baddbmm("cpu", "bfloat16", added, large_one, size, FEW)

                sweep(body, ("baddbmm",), known, output, FEW)


def rule_attention_notices_faults_of_scores_and_of_weights():
    for dtype in ("bfloat16", "float16"):
        for size in SIZES:
            scores = wrappers.batches(size, BITS) * wrappers.side(BITS) ** 2

            def body(dtype=dtype, size=size):
                return wrappers.attention("cpu", dtype, size, BITS)

            noticed(body, PRODUCTS, ("packed", 1, 0), "strides of key ignored", place=False)
            noticed(body, PRODUCTS, ("zero", 0, 0), "scores are zero", place=False)
            for border, power in ((2 ** (BITS - 1), BITS - 1), (2**BITS, BITS)):
                crossed = scores > border
                name = f"flat index of scores wraps at 2**{power}"
                noticed(body, PRODUCTS, ("writes", 0, border), name if crossed else None, place=False)
                unwritten = "tail of scores not written" + ("" if power == BITS else f" beyond 2**{BITS - 1}")
                noticed(body, PRODUCTS, ("tail", 0, border), unwritten if crossed else None, place=False)
                name = f"flat index of weights wraps at 2**{power}"
                noticed(body, ("_softmax",), ("reads after", 0, border), name if crossed else None, place=False)


# --- without a fault --------------------------------------------------------------------------------------------------


def rule_nothing_is_wrong_without_a_fault_at_any_width():
    for bits in (8, 11, 16):
        for size in SIZES:
            found = [
                *(
                    neighbours.mm("cpu", "float32", large_one, "contiguous", size, bits)
                    for large_one in ("a", "output")
                ),
                *(neighbours.cat("cpu", "equal", dim, size, bits) for dim in (0, 1)),
                *(marked.check_marked("cpu", operation, size, bits) for operation in marked.MARKED),
                *(neighbours.reduction("cpu", operation, size, bits) for operation in neighbours.ALONG),
                *(indexing.pick_to_large("cpu", operator, size, bits) for operator in indexing.PICKS),
                *(indexing.pick_from_large("cpu", operator, size, bits) for operator in indexing.PICKS),
                *(indexing.write_into_large("cpu", operator, size, bits) for operator in indexing.WRITES),
                *(one("cpu", "float32", size, bits) for one in (windows_of.fold, windows_of.unfold)),
            ]
            assert not any(one.wrong for one in found), (bits, size, found)


def rule_wrappers_are_right_without_a_fault_in_every_type():
    for dtype in ("float16", "bfloat16", "float32"):
        for size in SIZES:
            found = [wrappers.product("cpu", dtype, name, "output", size, BITS) for name in wrappers.OPERATORS]
            found.append(wrappers.attention("cpu", dtype, size, BITS))
            found.append(wrappers.attention_scores("cpu", dtype, size, BITS))
            found += [wrappers.baddbmm("cpu", dtype, added, "output", size, BITS) for added in ("row", "full")]
            assert not any(one.wrong for one in found), (dtype, size, found)


def rule_at_the_real_borders_every_fault_of_a_reduction_to_one_changes_the_answer():
    for operation in marked.MARKED:
        for size in SIZES:
            total = neighbours.elements(size)
            marks = marked.marks(operation, total)
            right = marked.MARKED[operation].answer(total, marked.seen_marks(marks, total))
            models = marked.answers(operation, total)
            names = " or ".join(models)
            assert right not in models.values(), (operation, size)
            for power in (31, 32):
                crossed = total > 2**power
                assert (f"flat index of a wraps at 2**{power}" in names) is crossed, (operation, size, models)
    assert len(marked.answers("sum", neighbours.elements(SIZES[2]))) == 5
    assert len(marked.answers("argmax", neighbours.elements(SIZES[2]))) >= 4
