"""What the planner promises, each promise by the smallest program that needs it; all compiled and run."""

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import meshlab as ml
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import X2Y2, A, B, C, D, checked, moved, sent

# a=8, b=16, c=8, d=16; four bytes each.
AB, BC, AC = ml.f32[A, B], ml.f32[B, C], ml.f32[A, C]


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("mesh", "layout", "payload"),
    [
        (ml.mesh(data=4), "batch:data", {("all-reduce", ("data",)): 3_252_224 + 4}),
        (ml.mesh(model=4), "hidden:model", {("all-reduce", ("model",)): 4_000}),
        (
            ml.mesh(data=2, model=2),
            "batch:data hidden:model",
            {("all-reduce", ("model",)): 2_000, ("all-reduce", ("data",)): 1_626_112 + 4},
        ),
        (ml.mesh(data=4), None, {}),
    ],
)
def test_the_readme_model_to_the_byte(mesh, layout, payload):
    config = mlp.Config()
    plan = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config)).plan(mesh, layout)
    report = plan.check()
    assert report.predicted == report.compiled == payload
    assert report.ok


# A partial sum with one use stays partial through what is linear, and is resolved once.


@pytest.mark.parametrize(
    "through",
    [
        lambda x: -x,
        lambda x: x * 3.0,
        lambda x: x / 3.0,
        lambda x: ml.tag(x, "t"),
        lambda x: x.rename(a="k"),
        lambda x: -(x * 2.0).rename(c="k"),
    ],
    ids=["neg", "mul", "div", "tag", "rename", "several"],
)
def test_a_partial_sum_goes_through_what_is_linear(through):
    plan = checked(lambda x, y: through(ml.dot(x, y, "b")), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_a_partial_sum_is_summed_further_before_it_is_resolved():
    plan = checked(lambda x, y: ml.dot(x, y, "b").sum("a"), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 4, 1)]
    plan = checked(lambda x, y: (ml.dot(x, y, "b") * 2.0).mean(), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 4, 1)]


def test_a_partial_sum_goes_through_a_transpose():
    plan = checked(lambda x, y: (x.array @ y.array).T, (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


@pytest.mark.parametrize("scale", [lambda s: s, lambda s: s * 2.0])
def test_a_partial_sum_is_scaled_by_a_scalar_argument(scale):
    plan = checked(lambda x, y, s: ml.dot(x, y, "b") * scale(s), (AB, BC, ml.f32[()]), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_what_is_not_linear_gets_the_sum():
    plan = checked(lambda x, y: ml.relu(ml.dot(x, y, "b")).sum("a"), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]
    # A division by the sum is not linear in it, a product of two sums in neither.
    plan = checked(lambda x, y: 1.0 / ml.dot(x, y, "b"), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]
    plan = checked(lambda x, y, z: ml.dot(x, y, "b") * ml.dot(x, z, "b"), (AB, BC, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)] * 2


def test_integers_are_divided_after_they_are_summed():
    plan = checked(lambda x: jax.lax.div(x.array.sum(0), jnp.int32(3)), (ml.i32[A, B],), "a:x")
    assert moved(plan) == [("all-reduce", ("x",), 16 * 4, 1)]


def test_partial_sums_are_added_first_and_reduced_once():
    args = AB, BC, AB, BC
    plan = checked(lambda x, y, u, v: ml.dot(x, y, "b") + ml.dot(u, v, "b"), args, "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]
    plan = checked(lambda x, y, u, v: ml.dot(x, y, "b") - ml.dot(u, v, "b") * 2.0, args, "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_a_partial_sum_meets_what_is_whole():
    plan = checked(lambda x, y, z: ml.dot(x, y, "b") + z, (AB, BC, AC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_a_partial_sum_over_one_axis_meets_one_over_two():
    def fn(x, y, u, v):
        return ml.dot(x, y, "b") + ml.dot(u, v, "d")

    plan = checked(fn, (AB, BC, ml.f32[A, D], ml.f32[D, C]), "b:x d:x+y", mesh=X2Y2)
    assert moved(plan) == [("all-reduce", ("y",), 8 * 8 * 4, 1), ("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_several_uses_get_the_sum_once():
    def fn(x, y):
        z = ml.dot(x, y, "b")
        return -z, z * 2.0, ml.relu(z), z

    assert moved(checked(fn, (AB, BC), "b:x")) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


@pytest.mark.parametrize("twice", [lambda z: z + z, lambda z: z * z, lambda z: ml.dot(z, z, "a", "c")])
def test_the_same_sum_twice_in_one_operation_is_resolved_once(twice):
    plan = checked(lambda x, y: twice(ml.dot(x, y, "b")), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_a_sum_that_is_stored_split_is_reduce_scattered():
    plan = checked(lambda x, y: ml.dot(x, y, "b"), (AB, BC), {"b": "x", "out": {"c": "x"}})
    assert moved(plan) == [("reduce-scatter", ("x",), 8 * 8 * 4, 1)]

    # The wish travels back through elementwise operations; what has several uses is gathered for those that differ.
    def fn(x, y):
        z = ml.dot(x, y, "b")
        return ml.relu(z * 2.0), z

    plan = checked(fn, (AB, BC), {"b": "x", "out/0": {"c": "x"}})
    assert moved(plan) == [("reduce-scatter", ("x",), 8 * 8 * 4, 1), ("all-gather", ("x",), 8 * 2 * 4, 1)]


def test_a_narrowing_cast_gets_the_sum():
    plan = checked(lambda x, y: ml.dot(x, y, "b").astype(jnp.bfloat16).astype(jnp.float32) * 2.0, (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]


def test_truth_values_are_not_summed():
    def fn(x, y):
        return jax.lax.dot_general(x.array, y.array, (((1,), (0,)), ((), ())))

    assert "all-reduce" not in sent(checked(fn, (ml.bool_[A, B], ml.bool_[B, C]), "b:x"))


# Renames.


def test_a_rename_between_unsplit_dims_moves_nothing():
    assert moved(checked(lambda x: x.rename(a="k"), (AB,), "b:x")) == []


@pytest.mark.parametrize(
    ("layout", "kinds"),
    [
        # The table of Mesh TensorFlow: only the old name split gathers, only the new one slices, both is free.
        ("a:x", {"all-gather": 2 * 16 * 4}),
        ("k:x", {}),
        ("a:x k:x", {}),
    ],
)
def test_a_rename_moves_what_its_two_names_say(layout, kinds):
    assert sent(checked(lambda x: x.rename(a="k") * 2.0, (AB,), layout), "payload_bytes") == kinds


def test_names_that_change_places_are_one_exchange():
    plan = checked(lambda x: x.rename(a="c", c="a"), (ml.f32[A, B, C],), "a:x")
    assert moved(plan) == [("all-to-all", ("x",), 8 * 16 * 8 * 4 // 4, 1)]


# Stored as, and computed as.


def test_stored_and_computed_splits_that_change_places_are_one_exchange():
    plan = checked(lambda x: ml.relu(x) * 2.0, (AB,), {"a": "x", "x": {"a": None, "b": "x"}}, carry={})
    assert moved(plan) == [("all-to-all", ("x",), 8 * 16 * 4 // 4, 1)]


def test_splits_survive_elementwise_operations_and_sums_but_no_contraction():
    stored = {"x": {"b": "x"}}
    plan = checked(lambda x: ml.relu(x * 2.0), (AB,), stored | {"out": {"b": "x"}})
    assert moved(plan) == []
    plan = checked(lambda x: ml.square(x).sum(), (AB,), stored)
    assert moved(plan) == [("all-reduce", ("x",), 4, 1)]
    plan = checked(lambda x, y: ml.dot(x, y, "b"), (AB, BC), stored)
    assert moved(plan) == [("all-gather", ("x",), 8 * 4 * 4, 1)]


def test_a_small_value_that_is_stored_split_is_gathered_not_the_other_operand():
    """A bias, whose axis splits nothing else: what it is added to stays whole."""

    def fn(x, w, bias, v):
        return jnp.tanh(x.array @ w.array + bias.array) @ v.array

    args = (AB, BC, ml.f32[C], ml.f32[C, D])
    plan = checked(fn, args, {"a": "y", "bias": {"c": "x"}}, mesh=X2Y2)
    assert moved(plan) == [("all-gather", ("x",), C.size * 4 // 2, 1)]


def test_a_small_value_is_not_gathered_where_the_other_operand_or_the_target_is_split():
    def fn(x, y):
        scaled = y.array * x.array.sum(1, keepdims=True)
        return jnp.tanh(scaled) * x.array, y.array / x.array.max(1, keepdims=True)

    plan = checked(fn, (AB, AB), {"x": {"a": "x"}, "out/*": {"a": "x"}}, mesh=X2Y2)
    assert sent(plan) == {}


def test_of_two_values_that_are_repeated_both_are_split():
    """Of the outer product of two means nothing is gathered, though each is smaller than what they make."""

    def fn(x):
        rows, columns = x.array.sum(1, keepdims=True), x.array.sum(0, keepdims=True)
        return jnp.broadcast_to(rows, x.array.shape) * jnp.broadcast_to(columns, x.array.shape) * x.array

    plan = checked(fn, (AB,), {"x": {"a": "x"}, "out": {"a": "x"}}, mesh=X2Y2)
    assert [c.kind for c in plan.collectives] == ["all-reduce"]


def test_dims_on_several_axes_in_both_orders():
    def fn(x):
        return x

    for layout in ("x+y", "y+x"):
        other = "+".join(reversed(layout.split("+")))
        assert moved(checked(fn, (AB,), {"a": layout}, mesh=X2Y2)) == []
        args = {"x": {"a": layout}, "out": {"a": other}}
        assert {k for k, *_ in moved(checked(fn, (AB,), args, mesh=X2Y2, carry={}))} == {"collective-permute"}


def test_an_axis_of_size_one_costs_nothing():
    plan = checked(lambda x, y: ml.dot(x, y, "b").sum(), (AB, BC), "b:x a:y", mesh=ml.mesh(x=1, y=1))
    assert moved(plan) == []
    plan = checked(lambda x, y: ml.dot(x, y, "b"), (AB, BC), "b:x+y", mesh=ml.mesh(x=1, y=4))
    assert moved(plan) == [("all-reduce", ("y",), 8 * 8 * 4, 1)]


def test_dims_of_size_one_and_no_dims():
    One = ml.Dim("one", 1)

    def fn(x, y, s):
        return ml.dot(x, y, "one"), x.sum("one"), (x * y).sum() * s, s

    plan = checked(fn, (ml.f32[A, One], ml.f32[One, B], ml.f32[()]), "a:x")
    assert moved(plan) == [("all-reduce", ("x",), 4, 1)]


# Normal form.


def test_dead_code_counts_nothing():
    def fn(x, y):
        ml.dot(x, y, "b")
        return x

    assert moved(checked(fn, (AB, BC), "b:x")) == []


def test_dead_results_and_carries_of_a_loop_count_nothing():
    def fn(w, x):
        def body(carry, _):
            used, unused = carry
            summed = (used[:, None] * w.array).sum(0)
            return (used * 2.0, unused + summed), summed

        (used, _), _ = jax.lax.scan(body, (x.array, jnp.ones(16)), None, length=3)
        return used

    assert moved(checked(fn, (AB, ml.f32[A]), "a:x")) == []


def test_equal_expressions_are_computed_and_moved_once():
    plan = checked(lambda x, y: (ml.relu(ml.dot(x, y, "b")), ml.exp(ml.dot(x, y, "b"))), (AB, BC), "b:x")
    assert moved(plan) == [("all-reduce", ("x",), 8 * 8 * 4, 1)]
    plan = checked(lambda w, x, y: (ml.dot(x, w, "b"), ml.dot(y, w, "b")), (BC, AB, AB), {"w": {"b": "x"}})
    assert moved(plan) == [("all-gather", ("x",), 4 * 8 * 4, 1)]


def test_what_a_loop_does_not_change_is_moved_once_in_front_of_it():
    def fn(w, x):
        def body(x, _):
            return ml.tanh(ml.dot(x, w, "b").rename(c="b")), None

        return ml.scan(body, x, ml.tensor(jnp.zeros(3), ml.Dim("t", 3)), "t")[0]

    E = ml.Dim("c", 16)
    plan = checked(fn, (ml.f32[B, E], AB), {"w": {"b": "x"}})
    assert moved(plan) == [("all-gather", ("x",), 4 * 16 * 4, 1)]


# Outputs.


def test_outputs_may_be_inputs_constants_and_twice_the_same():
    def fn(x, unused):
        return x, x, jnp.zeros(3), 1.0, True, 7, x.sum("a"), x.sum("a")

    plan = checked(fn, (AB, ml.f32[A]), "a:x")
    assert moved(plan) == [("all-reduce", ("x",), 16 * 4, 1)]
    plan = checked(fn, (AB, ml.f32[A]), {"b": "x", "out/0": {"a": "x", "b": None}})
    assert moved(plan) == [("all-to-all", ("x",), 8 * 16 * 4 // 4, 1)]
    plan = checked(fn, (AB, ml.f32[A]), {"a": "x", "out/6": {"b": "x"}})
    assert moved(plan) == [("reduce-scatter", ("x",), 16 * 4, 1), ("all-gather", ("x",), 4 * 4, 1)]


def test_none_takes_a_dim_off_at_a_place():
    plan = checked(lambda x: x * 2.0, (AB,), {"a": "x", "out": {"a": None}}, carry={})
    assert moved(plan) == [("all-gather", ("x",), 2 * 16 * 4, 1)]


# What no rule splits is gathered, and said.


def test_an_operation_without_a_rule_runs_unsharded_and_the_plan_says_so():
    mystery = Primitive("mystery")
    mystery.def_abstract_eval(lambda x: x)
    mlir.register_lowering(mystery, mlir.lower_fun(lambda x: x - x.max(0), multiple_results=False))

    plan = checked(lambda x: mystery.bind(x.array), (AB,), "a:x")
    assert moved(plan) == [("all-gather", ("x",), 2 * 16 * 4, 1)]
    assert "`mystery` at test_planner.py" in str(plan.explain())
    assert "has no rule: its operands are gathered and it runs unsharded" in str(plan)


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jax.lax.cond(x.array.sum() > 0, lambda v: v * 2, lambda v: v - 1, x.array),
        lambda x: jax.lax.bitcast_convert_type(x.array, jnp.uint8),
        lambda x: jnp.linalg.norm(x.array, axis=0),
        lambda x: jnp.cumsum(x.array, 0) + jnp.flip(x.array, 0),
        lambda x: jnp.take_along_axis(x.array, jnp.argsort(x.array, 0), 0),
        lambda x: x.array.reshape(4, 32) * 2,
        lambda x: x.array.reshape(2, 4, 16)[:, 1:3],
        lambda x: jnp.pad(x.array, ((1, 1), (0, 0))).at[3].set(0.0),
        lambda x: jnp.concatenate([x.array, x.array * 2]),
        lambda x: jax.random.uniform(jax.random.key(0), (8, 16)) + x.array,
        lambda x: jax.lax.top_k(x.array, 3),
        lambda x: jnp.argmax(x.array, 0),
    ],
    ids="cond bitcast norm cumsum argsort merge cut pad concat random top_k argmax".split(),
)
@pytest.mark.parametrize("layout", ["a:x", "b:x"])
def test_whatever_is_not_split_still_works(fn, layout):
    checked(fn, (AB,), layout)


@pytest.mark.parametrize("dtype", [ml.bf16, ml.f16, ml.i8, ml.u32], ids=str)
def test_other_dtypes_move_their_own_bytes(dtype):
    def fn(x, y):
        return ml.dot(x, y, "a"), x.rename(b="d") * 2

    plan = checked(fn, (dtype[A, B], dtype[A, C]), {"a": "x", "x": {"a": None, "b": "x"}})
    size = dtype.dtype.itemsize
    assert sent(plan, "payload_bytes")["all-reduce"] == 16 * 8 * size
