"""docs/parity.md, executed row by row: every spelling runs under its layouts, and equals what NumPy says it is."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.models.zoo import draw

TEXT = (Path(__file__).parents[1] / "docs" / "parity.md").read_text(encoding="utf-8")
MISSING = "What has no spelling"
DASH = "—"
# What Mesh TensorFlow's ops.py exports for models, and of its other modules what models are made of.
CENTRAL = """
Dimension Shape LayoutRules TensorLayout Mesh MeshImpl Graph Lowering Lowering.counters
convert_to_dimension convert_to_shape convert_to_layout_rules anonymous_shape combined_dimension replace_dimensions
is_subsequence verify_no_new_dims list_product tensor_dim_to_mesh_dim_size tensor_dim_to_size_per_split
identity sin cos square sqrt rsqrt log exp sigmoid tanh pow negative logical_not swish gelu elu selu softplus reciprocal
relu leaky_relu sign abs cast to_float to_bfloat16 to_int32 stop_gradient
add sub multiply divide floordiv mod minimum maximum less greater less_equal greater_equal equal not_equal logical_and
logical_or add_n where
reduce_sum reduce_mean reduce_max reduce_min reduce_all reduce_any reduce_logsumexp softmax log_softmax reduce_first
argmax top_1 top_k nth_largest_element nth_smallest_element
einsum matmul us_einsum broadcast reshape transpose rename_dimension anonymize
slice pad concat split stack unstack shift dynamic_shift halo_exchange left_halo_exchange pool_tensor_1d
stride_tensor_1d one_hot gather range cumsum pool_fn pool_backprop conv2d_backprop_input conv2d_backprop_filter
random_uniform random_normal dropout sample_with_temperature
while_loop depend gradients custom_gradient recompute_grad serialize_training_step slicewise cwise
import_tf_tensor import_fully_replicated import_laid_out_tensor export_to_tf_tensor constant zeros ones
get_variable read_variable assign assign_add assign_sub VariableDType Print scalar_summary
pnum_to_processor_coordinates processor_coordinates_to_pnum pnum_to_group processor_groups parallel
transpose_list_of_lists pretty_print_counters log_variable_sizes BalancedVariablePlacer
HierarchicalTiling auto_logical_to_physical_tpu PlacementMeshImpl SimdMeshImpl
dense dense_product VarianceScalingInitializer unit_scaling_convention layer_norm softmax_cross_entropy_with_logits
sigmoid_cross_entropy_with_logits embedding embedding_weights weights_nonzero dense_relu_dense dot_product_attention
multihead_attention attention_mask_autoregressive attention_mask_ignore_padding attention_mask_same_segment
batch_norm conv1d conv2d conv3d conv2d_transpose conv3d_transpose conv2d_with_blocks conv3d_with_blocks
conv2d_transpose_with_blocks conv3d_transpose_with_blocks separable_conv1d max_pool2d max_pool3d avg_pool2d avg_pool3d
masked_local_attention_1d compress_mean annealed_dropout multiplicative_jitter reversible_half_residual_and_swap
clip_activation_gradient
SgdOptimizer MomentumOptimizer AdamWeightDecayOptimizer AdafactorOptimizer Optimizer.apply_grads clip_by_global_norm
Unitransformer Bitransformer LayerStack ReversibleLayerStack VocabEmbedding EncDecAttention SelfAttention
LocalSelfAttention StudentTeacher MoE1D MoE2D top_2 switch switch_max ntlb expert_selection
auto_mtf.layout layout_and_mesh_shape LayoutOptimizer.evaluate_layout LayoutValidator MemoryEstimator
print_cp_model_solution defaults.gin
""".split()


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: what Mesh TensorFlow calls it, how it is spelled here, and what that equals, where it is said."""

    names: tuple[str, ...]
    spelling: CodeType | None
    equal: CodeType | None
    cells: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Section:
    """One table; with layouts its rows are operations of a traced function."""

    title: str
    layouts: tuple[str, ...]
    rows: tuple[Row, ...]


def code_in(cell: str, begin: str, where: str) -> CodeType | None:
    code = re.match(begin + r"`([^`]+)`", cell)
    return compile(code[1], f"docs/parity.md, {where}", "eval") if code else None


def row_of(line: str) -> Row:
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    names = tuple(re.findall(r"`([^`]+)`", cells[0]))
    spelling = code_in(cells[1], "", names[0]) if len(cells) > 2 else None
    return Row(names, spelling, code_in(cells[-1], "= ", names[0]), tuple(cells))


def sections() -> Iterator[Section]:
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE):
        under = re.search(r"^Under (.+?)\.", body, re.MULTILINE)
        layouts = tuple(re.findall(r"`([^`]+)`", under[1])) if under else ()
        lines = [line for line in body.splitlines() if line.startswith("| `")]
        yield Section(title, layouts, tuple(map(row_of, lines)))


SECTIONS = {section.title: section for section in sections()}
TRACED = {title: section for title, section in SECTIONS.items() if section.layouts}
ELSEWHERE = {title: s for title, s in SECTIONS.items() if s.rows and not s.layouts and title != MISSING}


@functools.cache
def names() -> Mapping[str, Any]:
    """What the page's block of code defines."""
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    defined: dict[str, Any] = {}
    exec(compile(block, "docs/parity.md", "exec"), defined)
    return defined


def value_of(code: CodeType, row: Row, given: Mapping[str, Any] | None = None) -> Any:
    """Evaluates a cell; an error says in which row."""
    try:
        return eval(code, {**names(), **(given or {})})
    except Exception as error:
        error.add_note(f"in docs/parity.md, row {row.names[0]}: {row.cells[1]}")
        raise


def words(code: CodeType) -> set[str]:
    """The names that a piece of code reads, in lambdas too."""
    return set(code.co_names).union(*(words(c) for c in code.co_consts if isinstance(c, CodeType)))


def program_of(rows: tuple[Row, ...]) -> tuple[ml.Program, Any]:
    """All rows as one function of what they read, traced, and numbers for it."""
    spelled = [(row, row.spelling) for row in rows if row.spelling]
    read = set().union(*(words(code) for _, code in spelled))
    shapes = {name: shape for name, shape in names()["given"].items() if name in read}

    def operations(given: Any) -> Any:
        return {row.names[0]: value_of(code, row, given) for row, code in spelled}

    return ml.trace(operations, shapes), draw(shapes, seed=0, high=8)


def raw(tree: Any) -> Any:
    """The arrays of a tree of tensors, as NumPy's."""
    return jax.tree.map(np.asarray, jax.tree.map(lambda x: getattr(x, "array", x), tree, is_leaf=is_tensor))


def is_tensor(x: Any) -> bool:
    return isinstance(x, ml.Tensor)


def assert_equal(actual: Any, expected: Any):
    """Equal shapes; whole numbers equal, others but for rounding."""
    left, right = (list(map(np.asarray, jax.tree.leaves(tree))) for tree in (actual, expected))
    assert [array.shape for array in left] == [array.shape for array in right]
    for one, other in zip(left, right, strict=True):
        if one.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
        else:
            size = np.sqrt(np.mean(other.astype(np.float64) ** 2))
            np.testing.assert_allclose(one.astype(np.float64), other, rtol=2e-5, atol=2e-5 * size, equal_nan=False)


def assert_checked(section: Section, layout: str, program: ml.Program, data: Any):
    """Checks all rows at once; where that fails, each by itself, to name those that are wrong."""
    mesh = names()["mesh"]
    report = program.plan(mesh, layout).check(data)
    if not report.ok:
        wrong = [f"{e}" for e in report.errors if e[1] > e[2]]
        for row in section.rows:
            if row.spelling:
                one, its = program_of((row,))
                alone = one.plan(mesh, {f"{dim}?": axes for dim, axes in ml.Layout.of(layout).rules.items()}).check(its)
                wrong += [] if alone.ok else [f"{row.names[0]}: {alone}"]
        pytest.fail(f"{section.title} under {layout}: {wrong or report}")


@pytest.mark.share(5)
@pytest.mark.parametrize("title", TRACED)
def test_each_row_runs_under_layouts_and_equals_numpy(title: str):
    section = TRACED[title]
    program, data = program_of(section.rows)
    assert len(section.layouts) >= 2
    for layout in section.layouts:
        assert_checked(section, layout, program, data)
    results = program.plan(names()["mesh"], section.layouts[0]).run(data)
    for row in section.rows:
        if row.equal:
            try:
                assert_equal(raw(results[row.names[0]]), value_of(row.equal, row, raw(data)))
            except AssertionError as error:
                error.add_note(f"in docs/parity.md, {title}, row {row.names[0]}")
                raise


@pytest.mark.share(5)
@pytest.mark.parametrize("title", ELSEWHERE)
def test_each_row_outside_of_a_step_is_what_it_says(title: str):
    for row in ELSEWHERE[title].rows:
        if row.spelling is None:
            continue
        value: Any = value_of(row.spelling, row)
        if isinstance(value, ml.Plan):
            report = value.check()
            assert report.ok, f"{row.names[0]}: {report}"
        if isinstance(value, ml.Program):
            assert value.plan(names()["mesh"], "batch:data").collectives, row.names[0]
        if row.equal:
            expected = value_of(row.equal, row)
            same = np.array_equal(raw(value), expected) if isinstance(expected, np.ndarray) else value == expected
            assert same, f"{row.names[0]}: {value} is not {expected}"


def test_most_rows_say_what_numpy_computes():
    rows = [row for section in TRACED.values() for row in section.rows if row.spelling]
    assert len(rows) > 140
    assert sum(row.equal is not None for row in rows) > 0.95 * len(rows)


def test_everything_central_has_a_row():
    named = {name.partition("(")[0] for section in SECTIONS.values() for row in section.rows for name in row.names}
    assert sorted(set(CENTRAL) - named) == []


def test_no_name_has_two_rows():
    listed = [name for title, s in SECTIONS.items() if title != MISSING for row in s.rows for name in row.names]
    assert sorted(name for name in set(listed) if listed.count(name) > 1) == []


def test_what_has_no_spelling_is_listed_with_its_reason():
    rows = [row for title, s in SECTIONS.items() if title != MISSING for row in s.rows]
    dashed = {name for row in rows if row.cells[1] == DASH for name in row.names}
    assert all(row.spelling or row.cells[1] == DASH for row in rows)
    listed = SECTIONS[MISSING].rows
    assert {name for row in listed for name in row.names} == dashed
    assert all(len(row.cells[-1]) > 20 for row in listed)


def test_effects_are_refused():
    with pytest.raises(ml.TraceError, match="`debug_callback`.* has a side effect"):
        ml.trace(lambda x: jax.debug.callback(print, x.array) or x, ml.f32[names()["Model"],])


# Optimizers: Mesh TensorFlow's own start and slopes, loss = sum(a w^2) / 2.

START = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
CURVES = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def steps_of(optimizer: Any, count: int) -> list[np.ndarray]:
    """The weight after each step of a plan that splits its columns and rows."""

    def step(w: Any, state: Any, curves: Any) -> Any:
        slopes = jax.grad(lambda w: 0.5 * (curves * w * w).sum())(w)
        updates, state = optimizer.update(slopes, state, w)
        return optax.apply_updates(w, updates), state

    w, curves = (ml.tensor(array, "rows", "columns") for array in (START, CURVES))
    state, weights = optimizer.init(w), []
    plan = ml.trace(step, w, state, curves).plan(ml.mesh(data=2, model=3), "rows:data columns:model")
    assert plan.check(w, state, curves).ok
    for _ in range(count):
        w, state = plan.run(w, state, curves)
        weights.append(np.asarray(w.array))
    return weights


def by_formula(update: Callable[[np.ndarray, np.ndarray, dict[str, Any], int], np.ndarray]) -> list[np.ndarray]:
    """The weight after each of two steps of a formula: (slope, weight, what it remembers, step) -> change."""
    w, memory, weights = START.astype(np.float64), {}, []
    for step in (1, 2):
        w = w + update(CURVES * w, w, memory, step)
        weights.append(w)
    return weights


def momentum(slope: np.ndarray, w: np.ndarray, memory: dict[str, Any], step: int) -> np.ndarray:
    memory["v"] = slope + 0.9 * memory.get("v", 0)
    return -0.1 * memory["v"]


def adamw(slope: np.ndarray, w: np.ndarray, memory: dict[str, Any], step: int, corrected: bool = True) -> np.ndarray:
    memory["m"] = 0.9 * memory.get("m", 0) + 0.1 * slope
    memory["v"] = 0.999 * memory.get("v", 0) + 0.001 * slope**2
    once, twice = (1 - 0.9**step, 1 - 0.999**step) if corrected else (1, 1)
    return -0.1 * (memory["m"] / once / (np.sqrt(memory["v"] / twice) + 1e-6) + 0.01 * w)


# What Mesh TensorFlow computed, where its formula is the published one.
COMPUTED = {
    "SgdOptimizer": (
        [[0.09, 0.16, 0.21], [0.24, 0.25, 0.24]],
        [[0.081, 0.128, 0.147], [0.144, 0.125, 0.096]],
    ),
    "MomentumOptimizer": by_formula(momentum),
    "AdamWeightDecayOptimizer": by_formula(adamw),
    "AdafactorOptimizer": (
        [[0.088295, 0.170355, 0.254491], [0.360266, 0.460689, 0.561377]],
        [[0.077856, 0.145129, 0.216169], [0.325722, 0.426111, 0.527099]],
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_optimizers_on_split_weights_compute_the_published_numbers(name: str):
    (row,) = (row for row in SECTIONS["Optimizers"].rows if name in row.names)
    assert row.spelling
    for actual, expected in zip(steps_of(value_of(row.spelling, row), 2), COMPUTED[name], strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_adafactor_of_small_weights_remembers_each_element():
    steps = steps_of(optax.adafactor(0.1, decay_rate=0.8, weight_decay_rate=None), 2)
    np.testing.assert_allclose(steps[0], [[0.061056, 0.161056, 0.261056], [0.361056, 0.461056, 0.561056]], atol=2e-6)
    np.testing.assert_allclose(steps[1], [[0.033968, 0.129069, 0.227769], [0.327172, 0.426829, 0.526608]], atol=2e-6)


def test_adam_without_bias_correction_is_made_of_two_running_means():
    first, second = optax.ema(0.9, debias=False), optax.ema(0.999, debias=False)

    def update(slopes: Any, state: Any, w: Any) -> Any:
        mean, one = first.update(slopes, state[0])
        square, two = second.update(ml.square(slopes), state[1])
        return -0.1 * (mean / (ml.sqrt(square) + 1e-6) + 0.01 * w), (one, two)

    both = optax.GradientTransformation(lambda w: (first.init(w), second.init(w)), update)  # pyright: ignore
    steps = steps_of(both, 2)
    for one, other in zip(steps, by_formula(functools.partial(adamw, corrected=False)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    np.testing.assert_allclose(steps[0], [[-0.216228, -0.116403, -0.016517], [0.083378, 0.183276, 0.283175]], atol=2e-6)
    np.testing.assert_allclose(steps[1][1], [-0.260009, -0.193120, -0.109615], atol=2e-6)


# What Mesh TensorFlow's own tests assert, under layouts.


def result_of(function: Callable[..., Any], arrays: tuple[Any, ...], layout: str, **sizes: int) -> Any:
    plan = ml.trace(function, *arrays).plan(ml.mesh(**sizes), layout)
    report = plan.check(*arrays)
    assert report.ok, report
    return raw(plan.run(*arrays))


def test_the_largest_and_the_smallest_of_its_tests():
    x = ml.tensor(np.array([[1, 10], [2, 9], [3, 8], [4, 7], [5, 6], [6, 5]], np.float32), "a", "b")
    (_, second), _ = result_of(
        lambda x: [ml.unstack(part, "k") for part in ml.top_k(x, "a", ml.Dim("k", 2))], (x,), "a:all", all=2
    )
    np.testing.assert_array_equal(second, [5, 9])
    least = result_of(lambda x: ml.unstack(ml.sort(x, "b"), "b")[0], (x,), "a:all", all=2)
    np.testing.assert_array_equal(least, [1, 2, 3, 4, 5, 5])

    def weighed(x: Any) -> Any:
        values, places = ml.top_k(x, "a", ml.Dim("k", 2))
        return (values * ml.tensor(np.array([[11.0, 12], [13, 14]], np.float32), "k", "b")).sum(), (values, places)

    slopes, (values, places) = result_of(jax.grad(weighed, has_aux=True), (x,), "a:rows b:cols", rows=2, cols=2)
    np.testing.assert_array_equal(values, [[6, 10], [5, 9]])
    np.testing.assert_array_equal(places, [[5, 0], [4, 1]])
    np.testing.assert_array_equal(slopes, [[0, 12], [0, 14], [0, 0], [0, 0], [13, 0], [11, 0]])


def test_recomputed_gradients_of_its_tests():
    x = ml.tensor(np.array([5.0, 10.0], np.float32), "a")
    weights = ml.tensor(np.array([2.0, 3.0], np.float32), "a")
    slopes = jax.grad(lambda x, w: (ml.checkpoint(lambda x: x * x + x)(x) * w).sum())
    np.testing.assert_array_equal(result_of(slopes, (x, weights), "a:all", all=2), [22, 63])


def test_convolutions_of_its_tests():
    x = ml.tensor(np.array([[1, 0], [0, 1], [1, 1], [2, 1]], np.float32), "time", "inward")
    taps = np.array([[[1, -1], [0, 0]], [[2, -2], [-1, 1]], [[3, -3], [-2, 2]]], np.float32)
    w = ml.tensor(taps, "window", "inward", "outward")
    result = result_of(lambda x, w: ml.conv(x, w, {"time": "window"}, "inward"), (x, w), "time:p", p=2)
    np.testing.assert_array_equal(result, [[0, 0], [1, -1], [5, -5], [4, -4]])
    deep = ml.tensor(np.array([[1, 2]] * 3, np.float32), "window", "inward")
    point = ml.tensor(np.array([[1, 0], [1, -1]], np.float32), "inward", "outward")
    result = result_of(
        lambda x, deep, point: ml.dot(ml.conv(x, deep, {"time": "window"}), point, "inward"),
        (x, deep, point),
        "time:p",
        p=2,
    )
    np.testing.assert_array_equal(result, [[3, -2], [6, -4], [9, -6], [7, -4]])


def test_normalisation_of_its_tests():
    x = ml.tensor(np.array([[0, 1, 2], [4, 5, 6]], np.float32), "batch", "features")
    for again in (lambda x: x, lambda x: x * 2 + 1):
        result = result_of(lambda x, again=again: ml.normalize(again(x), "batch", epsilon=1e-9), (x,), "batch:p", p=2)
        np.testing.assert_allclose(result, [[-1, -1, -1], [1, 1, 1]], atol=1e-5)
