"""Rules of ``check``, run with a real torch. A rule may return a value that must not depend on the release."""

import collections
import json
import math

import numpy
import torch

from bisect_torch import check
from bisect_torch.numerics import check as checking
from bisect_torch.numerics import compare, tolerance

FLOATS = [name for name in tolerance._FLOATS if hasattr(torch, name)]
INTEGERS = [name for name in tolerance._INTEGERS if hasattr(torch, name)]
PAIR = collections.namedtuple("PAIR", "value grad")


def cast(values, name):
    return torch.tensor(values, dtype=torch.float64).to(getattr(torch, name))


def rule_every_floating_type_is_judged_against_float64():
    for name in FLOATS:
        reference = torch.tensor([1.0, 2.0, 0.5, 4.0], dtype=torch.float64)
        right = check(cast([1, 2, 0.5, 4], name), reference)
        assert right, (name, right)
        assert right.facts["rel_error"] == 0.0
        wrong = check(cast([1, 2, 0.5, 1], name), reference)
        assert not wrong, (name, wrong)
        facts = wrong.facts
        assert facts["dtype"] == name
        assert facts["wrong_elements"] == 1
        assert facts["first_wrong_index"] == "[3]"
        assert (facts["actual_value"], facts["expected_value"]) == ("1.0", "4.0")
        assert (facts["max_abs_error"], facts["reference_max_abs"], facts["rel_error"]) == (3.0, 4.0, 0.75)


def rule_every_integer_type_is_compared_exactly():
    for name in INTEGERS:
        same = torch.tensor([0, 1, 127]).to(getattr(torch, name))
        right = check(same, torch.tensor([0, 1, 127]).to(same.dtype))
        assert right, name
        wrong = check(same, torch.tensor([0, 1, 126]).to(same.dtype))
        assert wrong.facts["criterion"] == "exact"
        assert wrong.facts["wrong_elements"] == 1, name
        assert wrong.facts["first_wrong_index"] == "[2]"


def rule_integers_beyond_float64_are_still_compared_exactly():
    big = torch.tensor([2**62 + 1, -(2**63)])
    assert check(big, big.clone())
    wrong = check(big, torch.tensor([2**62, -(2**63)]))
    assert wrong.facts["wrong_elements"] == 1


def rule_complex_types_are_judged_by_modulus():
    for name in ("complex32", "complex64", "complex128"):
        parts = torch.tensor([[3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
        part = {"complex32": torch.float16, "complex64": torch.float32, "complex128": torch.float64}[name]
        actual = torch.view_as_complex(parts.to(part))
        assert str(actual.dtype) == "torch." + name
        reference = torch.view_as_complex(parts)
        assert check(actual, reference), name
        wrong = check(actual, reference + torch.tensor([0.0, 5.0], dtype=torch.complex128))
        assert wrong.facts["max_abs_error"] == 5.0
        assert wrong.facts["first_wrong_index"] == "[1]"


def rule_booleans_are_exact_and_never_numbers():
    flags = torch.tensor([True, False])
    assert check(flags, torch.tensor([True, False]))
    assert check(flags, torch.tensor([True, True])).facts["wrong_elements"] == 1
    assert check(flags, torch.tensor([1, 0])).facts["mismatch"] == "bool came, int64 was expected"


def rule_quantised_results_may_be_one_step_off():
    scale = 0.1
    exact = torch.tensor([0.0, 0.31, 1.0])
    actual = torch.quantize_per_tensor(exact, scale, 0, torch.quint8)
    right = check(actual, exact.double())
    assert right, right
    assert right.facts["criterion"] == "elementwise"
    assert not check(actual, exact.double() + 0.2)
    assert check(actual, torch.quantize_per_tensor(exact, scale, 0, torch.quint8))
    assert not check(actual, torch.quantize_per_tensor(exact + 0.1, scale, 0, torch.quint8))


def rule_packed_types_are_compared_by_their_bits():
    for name in ("bits8", "float4_e2m1fn_x2"):
        if hasattr(torch, name):
            one, other = (torch.tensor([1, last], dtype=torch.uint8).view(getattr(torch, name)) for last in (2, 3))
            assert check(one, one), name
            assert "bits" in check(one, other).facts["mismatch"]


def rule_nan_equals_nan_in_the_same_place_only():
    nan = math.nan
    assert check(torch.tensor([nan, 1.0]), torch.tensor([nan, 1.0], dtype=torch.float64))
    wrong = check(torch.tensor([nan, 1.0]), torch.tensor([1.0, nan], dtype=torch.float64))
    assert wrong.facts["nan_mismatches"] == 2
    assert wrong.facts["wrong_elements"] == 2
    assert wrong.facts["first_wrong_index"] == "[0]"
    assert wrong.facts["actual_value"] == "nan"
    with_rtol = check(torch.tensor([nan]), torch.tensor([1.0], dtype=torch.float64), rtol=1e9)
    assert not with_rtol


def rule_infinity_counts_with_its_sign():
    inf = math.inf
    assert check(torch.tensor([inf, -inf, 1.0]), torch.tensor([inf, -inf, 1.0], dtype=torch.float64))
    wrong = check(torch.tensor([inf, inf, 1.0]), torch.tensor([inf, -inf, inf], dtype=torch.float64))
    assert wrong.facts["inf_mismatches"] == 2
    assert wrong.facts["wrong_elements"] == 2
    assert not check(torch.tensor([inf]), torch.tensor([1.0], dtype=torch.float64), atol=1e300)


def rule_infinity_is_right_where_the_type_has_no_larger_number():
    assert check(torch.tensor([math.inf, 1.0], dtype=torch.float16), torch.tensor([1e5, 1.0], dtype=torch.float64))
    assert check(torch.tensor([-math.inf, 1.0]), torch.tensor([-1e39, 1.0], dtype=torch.float64))
    assert not check(torch.tensor([math.inf, 1.0]), torch.tensor([1e38, 1.0], dtype=torch.float64))


def rule_an_overflowing_reference_does_not_hide_other_errors():
    wrong = check(torch.tensor([math.inf, 1.0]), torch.tensor([1e300, 2.0], dtype=torch.float64))
    assert wrong.facts["wrong_elements"] == 1
    assert wrong.facts["reference_max_abs"] == 2.0


def rule_an_empty_tensor_is_right_and_has_no_elements():
    right = check(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.float64))
    assert right
    assert (right.facts["elements"], right.facts["wrong_elements"], right.facts["rel_error"]) == (0, 0, 0.0)
    assert check(torch.zeros(0, 3), torch.zeros(0, 4)).facts["mismatch"] == "shape [0, 3] came, [0, 4] was expected"


def rule_another_shape_is_wrong_with_the_reason():
    wrong = check(torch.zeros(2, 3), torch.zeros(3, 2))
    assert not wrong
    assert wrong.facts["mismatch"] == "shape [2, 3] came, [3, 2] was expected"
    assert check(torch.zeros(1), torch.tensor(0.0)).facts["mismatch"] == "shape [1] came, [] was expected"


def rule_another_kind_or_a_narrower_reference_is_wrong_with_the_reason():
    table = [
        (torch.float32, torch.float64, True),
        (torch.bfloat16, torch.float32, True),
        (torch.float32, torch.bfloat16, False),
        (torch.float16, torch.bfloat16, False),
        (torch.float32, torch.int64, False),
        (torch.int64, torch.float64, False),
        (torch.int32, torch.int64, True),
        (torch.int64, torch.int32, False),
        (torch.uint8, torch.int16, True),
        (torch.int8, torch.uint8, False),
        (torch.complex64, torch.complex128, True),
        (torch.complex64, torch.float64, False),
    ]
    for actual, reference, fits in table:
        result = check(torch.ones(2, dtype=actual), torch.ones(2, dtype=reference))
        assert bool(result) is fits, (actual, reference, result)
        assert ("mismatch" in result.facts) is not fits


def rule_nested_values_name_the_place_of_the_worst_leaf():
    good = torch.ones(2)
    bad = {"a": good, "b": [good, {"grad": good * 2}]}
    reference = {"b": [good.double(), {"grad": good.double()}], "a": good.double()}
    wrong = check(bad, reference)
    assert wrong.facts["check_path"] == "['b'][1]['grad']"
    assert wrong.facts["wrong_elements"] == 2
    assert check(PAIR(good, good), PAIR(good.double(), good.double()))
    assert check(PAIR(good, good), (good.double(), good.double()))
    assert check(torch.max(torch.tensor([1.0, 3.0]), 0), (3.0, 1))


def rule_another_structure_is_wrong_with_the_reason():
    one = torch.ones(1)
    assert check((one, one), (one,)).facts["mismatch"] == "2 values came, 1 were expected"
    assert check({"a": one}, {"b": one}).facts["mismatch"] == "the keys ['a'] came, ['b'] were expected"
    assert "was expected" in check(one, {"a": one}).facts["mismatch"]
    assert "was expected" in check(None, one).facts["mismatch"]
    assert check("a", "b").facts["mismatch"] == "'a' came, 'b' was expected"
    assert check(None, None)
    assert check((), ())


def rule_the_bins_of_all_leaves_are_kept_together():
    leaf = torch.tensor([1.0, 2.0])
    result = check((leaf, leaf * 2), (leaf.double(), leaf.double() * 2))
    assert json.loads(result.facts["error_bins"]) == [[0, 1, 0.0], [1, 2, 0.0], [2, 1, 0.0]]


def rule_sparse_results_equal_dense_references():
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    for sparse in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        assert check(sparse, dense.double())
        assert check(sparse, dense.double().to_sparse())
        wrong = check(sparse, dense.double() * 2)
        assert wrong.facts["wrong_elements"] == 2
        assert wrong.facts["first_wrong_index"] == "[0, 1]"


def rule_tensors_of_every_make_can_be_compared():
    base = torch.arange(12.0).reshape(3, 4)
    square, kept = torch.ones(4, 4), base.clone().requires_grad_()
    with torch.inference_mode():
        inference = base * 1
    makes = [
        (torch.nested.nested_tensor([base, base[:2]]), [base.double(), base[:2].double()]),
        (base.to_mkldnn(), base.double()),
        (torch.complex(base, base).to_sparse(), torch.complex(base, base).to(torch.complex128)),
        ((base > 3).to_sparse(), base > 3),
        (base.bfloat16().to_sparse_csr(), base.double()),
        (square.to_sparse_bsr((2, 2)), square.double()),
        (square.to_sparse_bsc((2, 2)), square.double()),
        (torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)), torch.tensor([3.0, 0.0])),
        (base.to_sparse(1), base.double()),
        (kept.to_sparse(), base.double()),
        (torch.nn.Parameter(base), base.double()),
        (inference, base.double()),
        (torch.complex(base, base).conj().imag, -base.double()),
        (torch.linalg.qr(base), tuple(torch.linalg.qr(base.double()))),
        (base.shape, (3, 4)),
        (base.dtype, torch.float32),
        (torch.quantize_per_tensor(base, 0.1, 0, torch.qint32).t(), base.double().t()),
    ]
    if hasattr(base, "refine_names"):
        makes.append((base.refine_names("a", "b"), base.double()))
    for actual, reference in makes:
        result = check(actual, reference)
        assert result, (actual, result)
        assert result.facts["digest"] is not None


def rule_the_authors_defaults_do_not_reach_into_a_check():
    actual, reference = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.float64)
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    torch.use_deterministic_algorithms(True)
    try:
        assert check((actual, 1.5, 2), (reference, 1.5, 2))
        assert check(actual, [1.0, 2.5]).facts["wrong_elements"] == 1
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def rule_large_sparse_results_are_compared_by_their_parts():
    shape = (1 << 20, 1 << 20)
    one, other = (torch.sparse_coo_tensor(torch.tensor([[5], [7]]), torch.tensor([v]), shape) for v in (1.0, 2.0))
    assert check(one, one)
    assert check(one, other).facts["check_path"] == "['values']"


def rule_views_are_compared_in_logical_order():
    base = torch.arange(24.0).reshape(2, 3, 4)
    for view in (base.transpose(0, 2), base[:, ::2], base[..., 1], base.permute(1, 2, 0)):
        assert check(view, view.double())
        changed = view.double().contiguous()
        changed[-1, ..., -1] += 5
        where = json.loads(check(view, changed).facts["first_wrong_index"])
        assert where[0] == view.shape[0] - 1
    expanded = torch.ones(1, 3).expand(1000, 3)
    assert check(expanded, torch.ones(1000, 3, dtype=torch.float64))
    assert check(torch.complex(base, base).conj(), torch.complex(base.double(), -base.double()))
    assert check(base.requires_grad_(), base.detach().double())


def rule_blocks_change_nothing():
    actual = torch.arange(1000.0).reshape(10, 100)[:, ::3].transpose(0, 1)
    reference = actual.double().clone()
    reference[20, 3] += 1e6
    reference[33, 9] = math.nan
    whole = check(actual, reference).facts
    for limit in (1, 7, 33, 64):
        default = compare.block_indices.__defaults__
        compare.block_indices.__defaults__ = (limit,)
        try:
            assert check(actual, reference).facts == whole, limit
        finally:
            compare.block_indices.__defaults__ = default


def rule_python_numbers_state_no_type():
    assert check(torch.tensor(6.0), 6)
    assert check(torch.tensor(6), 6)
    assert check(torch.tensor([[1.0, 2.0]]), [[1, 2]])
    assert check(torch.tensor([1, 2]), [1, 2])
    assert check(torch.tensor(True), True)
    assert check(torch.tensor(True), 1).facts["mismatch"]
    assert check(3, 3)
    assert check(3, 4).facts["wrong_elements"] == 1
    assert check(2**80, 2**80)
    assert not check(2**80, 2**80 + 1)
    assert check(1.5 + 2j, 1.5 + 2j)
    assert check(True, True)
    assert not check(True, False)


def rule_a_number_taken_from_a_float32_is_judged_as_one():
    total = torch.full((1000,), 0.1).sum()
    reference = float(torch.full((1000,), 0.1).double().sum())
    assert check(total.item(), reference)
    assert not check(reference * (1 + 1e-9), reference)


def rule_numpy_values_are_compared_like_tensors():
    array = numpy.arange(6.0).reshape(2, 3)
    assert check(torch.arange(6.0).reshape(2, 3), array)
    assert check(array.astype(numpy.float32)[:, ::-1], array[:, ::-1])
    assert not check(array, array + 1)
    assert check(numpy.float32(1.5), 1.5)
    assert check(numpy.bool_(True), True)
    assert check(array.astype(">f4"), array)
    assert check(numpy.array(["a", "b"]), numpy.array(["a", "b"]))
    assert not check(numpy.array(["a", "b"]), numpy.array(["a", "c"]))


def rule_rtol_and_atol_judge_each_element():
    reference = torch.tensor([1.0, 100.0], dtype=torch.float64)
    actual = torch.tensor([1.05, 100.05])
    assert check(actual, reference, atol=0.06)
    result = check(actual, reference, rtol=0.01)
    assert result.facts["criterion"] == "elementwise"
    assert (result.facts["rtol"], result.facts["atol"]) == (0.01, 0.0)
    assert result.facts["first_wrong_index"] == "[0]"
    assert result.facts["wrong_elements"] == 1
    assert check(torch.tensor([10]), torch.tensor([11]), atol=1)


def rule_a_correct_matrix_product_is_right_in_every_type():
    for name in ("float64", "float32", "bfloat16", "float16"):
        generator = torch.Generator().manual_seed(7)
        one, other = (torch.randn(512, 512, generator=generator, dtype=torch.float64) for _ in range(2))
        one, other = one.to(getattr(torch, name)), other.to(getattr(torch, name))
        result = check(one @ other, lambda one=one, other=other: one.double() @ other.double(), k=512)
        assert result, result
        assert result.facts["reduction_length"] == 512
        wrong = one @ other
        wrong[511, 3] = -wrong[511, 3]
        assert check(wrong, one.double() @ other.double(), k=512).facts["wrong_elements"] == 1


def rule_underflow_is_no_error():
    assert check(torch.tensor([3e-8], dtype=torch.float16), torch.tensor([3.2e-8], dtype=torch.float64))
    assert check(torch.tensor([0.0, 6e-8], dtype=torch.float16), torch.tensor([3e-8, 5e-8], dtype=torch.float64))


def rule_an_error_where_the_reference_is_zero_everywhere_is_wrong():
    wrong = check(torch.tensor([0.0, 1e-3]), torch.zeros(2, dtype=torch.float64))
    assert wrong.facts["rel_error"] == math.inf
    assert wrong.facts["wrong_elements"] == 1


def rule_the_first_model_that_gives_the_same_bits_explains():
    actual = torch.tensor([1.0, 2.0, math.nan])
    models = {
        "other": torch.tensor([1.0, 2.0, 3.0]),
        "same": lambda: torch.tensor([1.0, 2.0, math.nan], dtype=torch.float64),
        "also same": actual,
    }
    reference = torch.ones(3, dtype=torch.float64)
    assert check(actual, reference, explain=models).facts["explained_by"] == "same"
    assert check(actual, reference, explain={"other": models["other"]}).facts["explained_by"] is None
    assert check((actual, 1), (reference, 1), explain={"pair": lambda: (actual, 1)}).facts["explained_by"] == "pair"


def rule_a_model_is_not_run_when_the_value_is_right():
    def explode():
        raise RuntimeError

    assert check(torch.ones(2), torch.ones(2, dtype=torch.float64), explain={"never": explode})


def rule_a_model_that_fails_leaves_the_verdict_alone():
    def explode():
        raise RuntimeError

    wrong = check(torch.ones(2), torch.zeros(2, dtype=torch.float64), explain={"fails": explode, "one": torch.ones(2)})
    assert wrong.facts["wrong_elements"] == 2
    assert wrong.facts["explained_by"] == "one"


def rule_rows_give_the_same_facts_as_the_whole():
    actual = torch.arange(60.0).reshape(12, 5)
    reference = actual.double().clone()
    reference[7, 2] += 100
    calls = []

    def part(rows):
        calls.append(rows)
        return reference[rows]

    whole = check(actual, reference).facts
    by_rows = check(actual, part, rows=5, explain={"itself": lambda rows: actual[rows]}).facts
    for name in set(whole) - {"reference_digest"}:
        assert by_rows[name] == whole[name], name
    assert by_rows["explained_by"] == "itself"
    # Once for each part, and a second time only where something is wrong.
    assert calls == [slice(0, 5), slice(5, 10), slice(10, 12), slice(5, 10)]
    wrong = check(actual, lambda rows: reference[rows, :4], rows=5)
    assert wrong.facts["mismatch"] == "rows 0 to 5: shape [5, 5] came, [5, 4] was expected"


def rule_a_reference_without_data_is_wrong_with_the_reason():
    assert "meta" in check(torch.ones(2), torch.ones(2, device="meta")).facts["mismatch"]


def rule_options_that_make_no_sense_are_refused():
    for options in ({"k": 0}, {"rtol": -1.0}, {"atol": math.nan}, {"rows": 0}):
        try:
            check(torch.ones(1), torch.ones(1), **options)
        except ValueError:
            continue
        raise AssertionError(options)
    try:
        check(1.0, lambda rows: 1.0, rows=2)
    except TypeError:
        return
    raise AssertionError("rows with a number")


def rule_facts_are_plain_json():
    wrong = check({"a": torch.tensor([1.0, math.nan])}, {"a": torch.zeros(2)}, explain={})
    for fact in wrong.facts.values():
        assert fact is None or type(fact) in (str, int, float, bool), fact
    assert isinstance(checking.CheckResult(wrong.facts), checking.CheckResult)
