"""Names spread from the user's to every axis; where two meet, both lines are told."""

import jax
import jax.numpy as jnp
import optax
import pytest

import meshlab as ml
from meshlab.models.parts import training

A, B, C = ml.dims(a=4, b=6, c=8)


def test_every_axis_between_two_named_ones_has_a_name():
    def fn(x, y):
        return jnp.tanh(x.array @ y.array).T * 2.0

    program = ml.trace(fn, ml.f32[A, B], ml.f32[B, C])
    assert program.place("out").dims == ("c", "a")
    assert {name for value in program.values for name in value.dims} <= {"a", "b", "c"}


def test_gradients_and_optimizer_state_get_names_by_the_rules():
    def loss(params, x, y):
        return ml.square(ml.dot(x, params["w"], "b") - y).mean()

    optimizer = optax.adam(1e-3)
    step = training.adamw_step(loss, optimizer)
    params = {"w": ml.f32[B, C]}
    state = jax.eval_shape(optimizer.init, params)
    program = ml.trace(step, params, state, ml.f32[A, B], ml.f32[A, C])
    moments = [p for p in program.places if p.startswith("opt_state") and "mu" in p]
    assert moments
    assert program.place(moments[0]).dims == ("b", "c")


def test_plain_arrays_are_named_by_what_they_meet():
    def fn(x, y):
        return (x.array + y).sum(0)

    program = ml.trace(fn, ml.f32[A, B], jax.ShapeDtypeStruct((4, 6), jnp.float32))
    assert program.place("y").dims == ("a", "b")


def test_axes_of_size_one_have_no_name_and_those_nobody_named_a_made_up_one():
    def fn(x):
        return x.array[:, :1], x.array[:, :3], x.array.reshape(24)

    program = ml.trace(fn, ml.f32[A, B])
    assert program.place("out/0").dims == ("a", None)
    assert program.place("out/1").dims == ("a", "~b")
    assert program.place("out/2").dims == ("a*b",)
    assert dict(program.dims) == {"a": 4, "b": 6}


def test_names_go_through_loops():
    def fn(x, w):
        return jax.lax.scan(lambda c, row: (c * row, c), x.array, w.array)

    Layers = ml.Dim("layers", 3)
    program = ml.trace(fn, ml.f32[A], ml.f32[Layers, A])
    assert program.place("out/0").dims == ("a",)
    assert program.place("out/1").dims == ("layers", "a")


def test_two_names_that_meet_are_told_with_both_lines():
    def fn(x, y):
        return x.array + y.array

    with pytest.raises(
        ml.TraceError,
        match=r"Two names meet on one axis: `a` \(named at argument `x`\) and `d` \(named at argument `y`\)",
    ):
        ml.trace(fn, ml.f32[A], ml.f32[ml.Dim("d", 4)])

    def marked(x):
        y = ml.tensor(jnp.ones(4), ml.Dim("d", 4)) * 2.0
        return x.array + y.array

    with pytest.raises(
        ml.TraceError,
        match=r"test_naming.py:\d+.*Use one name for both; or .*: with ml.named, write `_`.* x.rename\(old=\"",
    ):
        ml.trace(marked, ml.f32[A])


def test_one_name_with_two_sizes_is_told():
    with pytest.raises(
        ml.DimError, match="`a` has size 4 at argument `x` and size 5 at argument `y`. Rename or resize"
    ):
        ml.trace(lambda x, y: (x, y), ml.f32[A], ml.f32[ml.Dim("a", 5)])


@pytest.mark.parametrize(
    ("fn", "dims"),
    [
        (lambda x: x.array @ x.array.T, ("a", "~a")),
        (lambda x: x.array[:, None, :] * x.array[None, :, :], ("a", "~a", "b")),
        (lambda x: x.array.reshape(-1)[:, None] * x.array.reshape(1, -1), ("a*b", "~a*~b")),
    ],
)
def test_a_name_that_would_stand_twice_is_cut(fn, dims):
    program = ml.trace(fn, ml.f32[A, B])
    assert program.place("out").dims == dims
    for layout in ("a:x", "b:x", "a:x b:y"):
        assert program.plan(ml.mesh(x=2, y=2), layout).check().ok


def test_unnamed_axes_that_would_stand_twice_are_cut_as_well():
    program = ml.trace(lambda x: x @ x.T, jax.ShapeDtypeStruct((4, 6), jnp.float32))
    one, other = program.place("out").dims
    assert one != other


def test_a_cut_can_be_named_and_then_split():
    program = ml.trace(lambda x: x.array @ x.array.T, ml.f32[A, B]).rename({"~a": "k"})
    assert dict(program.dims) == {"a": 4, "b": 6, "k": 4}
    plan = program.plan(ml.mesh(x=2, y=2), "a:x k:y")
    assert plan.check().ok
    assert plan.spec("out") == ml.Spec((("x",), ("y",)))


def test_what_cannot_be_renamed_is_told_all_at_once():
    program = ml.trace(lambda x: x.array @ x.array.T, ml.f32[A, B])
    with pytest.raises(
        ml.DimError, match=r"`~k` is not a name of this program.*`k k`: a name is ASCII letters.*Write `k_k`"
    ):
        program.rename({"~k": "k k", "~a": "b"})
    with pytest.raises(ml.DimError, match=r"`b: 6`, `~a: 4` cannot be one dim `b`: their sizes differ"):
        program.rename({"~a": "b"})
    with pytest.raises(ml.DimError, match=r"`a: 4`, `~a: 4` cannot be one dim `a`: two of them stand in `dot_general`"):
        program.rename({"~a": "a"})


def attended(x, weights):
    """Layers of attention, with no name inside."""
    for w in weights:
        q, k, v = jnp.einsum("bse,cef->cbsf", x, w)
        x = x + jnp.einsum("bst,btf->bsf", jax.nn.softmax(jnp.einsum("bsf,btf->bst", q, k)), v)
    return x


def test_cuts_of_several_layers_become_one_dim():
    x = ml.named(jax.ShapeDtypeStruct((4, 8, 4), jnp.float32), "batch seq embed")
    program = ml.trace(attended, x, [jax.ShapeDtypeStruct((3, 4, 4), jnp.float32)] * 3)
    keys = [name for name in program.made_up if name.startswith("~seq")]
    assert keys == ["~seq", "~seq_2", "~seq_3"]
    one = program.rename(dict.fromkeys(keys, "kv"))
    assert dict(one.dims) == {"batch": 4, "seq": 8, "embed": 4, "kv": 8}
    assert not set(keys) & set(one.made_up)
    plan = one.plan(ml.mesh(x=2, y=2), "seq:x kv:y")
    assert plan.check().ok
    assert len({c.axes for c in plan.collectives}) > 1
    # A name that is there already is taken where the two never meet.
    again = program.rename({keys[0]: "kv"}).rename({keys[1]: "kv", keys[2]: "kv"})
    assert again.names == one.names


def test_a_dim_stands_at_most_once_in_an_operation_either():
    """Token mixing: both axes of the weight are the sequence, and so are an operand's and the result's."""

    def fn(x, w):
        return x.array + w @ x.array

    program = ml.trace(fn, ml.f32[A, B], jax.ShapeDtypeStruct((4, 4), jnp.float32))
    assert program.place("w").dims == ("~a", "a")
    assert program.plan(ml.mesh(x=2), "a:x").check().ok


def test_merged_axes_are_products_and_carry_their_major_dims_split():
    program = ml.trace(lambda x: x.array.reshape(4, 48) * 2, ml.f32[A, B, C])
    assert program.place("out").dims == ("a", "b*c")
    assert not program.plan(ml.mesh(x=2), "b:x").collectives
    assert program.plan(ml.mesh(x=2), "b:x").spec("out") == ml.Spec(((), ("x",)))
    (gather,) = program.plan(ml.mesh(x=2), "c:x").collectives
    assert (gather.kind, gather.payload_bytes) == ("all-gather", 4 * 6 * 4 * 4)
    for layout in ("a:x", "b:x", "c:x", "b:x c:y", "c:y+x"):
        assert program.plan(ml.mesh(x=2, y=2), layout).check().ok


def test_split_axes_are_parts_whose_major_one_carries_the_split():
    program = ml.trace(lambda x: x.array.reshape(4, 2, 4), ml.f32[A, C])
    assert program.place("out").dims == ("a", "c.0", "c.1")
    plan = program.plan(ml.mesh(x=2), "c:x")
    assert not plan.collectives
    assert plan.spec("out") == ml.Spec(((), ("x",), ()))
    # Four parts are more than the major axis has: it is gathered.
    assert [c.kind for c in program.plan(ml.mesh(x=4), "c:x").collectives] == ["all-gather"]
    assert program.plan(ml.mesh(x=4), "c:x").check().ok


def test_names_of_merged_axes_come_back_when_they_are_split_again():
    def fn(x, w):
        flat = x.array.reshape(24, 8) @ w.array
        return flat.reshape(4, 6, 8)

    program = ml.trace(fn, ml.f32[A, B, C], ml.f32[C, ml.Dim("d", 8)])
    assert program.place("out").dims == ("a", "b", "d")
    assert not program.plan(ml.mesh(x=4), "a:x").collectives


def test_gradients_of_merged_axes_have_their_names():
    def loss(w, x):
        return ((x.array @ w).reshape(4, 2, 4).sum(1) ** 2).sum()

    program = ml.trace(lambda w, x: w - jax.grad(loss)(w, x), ml.named(jnp.ones((6, 8)), "b (h=2 k)"), ml.f32[A, B])
    assert program.place("out").dims == ("b", "h*k")
    for layout in ("h:x", "b:x", "a:x", "k:x"):
        assert program.plan(ml.mesh(x=2), layout).check().ok


def test_a_rename_keeps_two_names_apart():
    program = ml.trace(lambda x: ml.dot(x, x.rename(a="k"), "b"), ml.f32[A, B])
    assert program.place("out").dims == ("a", "k")
    assert dict(program.dims) == {"a": 4, "b": 6, "k": 4}


def test_a_tensor_made_inside_has_its_names_at_once():
    program = ml.trace(lambda x: ml.tensor(x.array.reshape(24), "flat"), ml.f32[A, B])
    assert program.place("out").dims == ("flat",)
    assert dict(program.dims) == {"a": 4, "b": 6, "flat": 24}


def test_barriers_of_the_users_own_run_through():
    def fn(x):
        return jax.lax.optimization_barrier((x.array, x.array + 1))[0] * 2

    plan = ml.trace(fn, ml.f32[A, B]).plan(ml.mesh(x=2), "a:x")
    assert not plan.collectives
    assert plan.check().ok


def test_counting_does_not_tie_what_is_counted():
    """Pictures and texts that belong together, as CLIP compares them: both are counted by one `arange`."""
    Images, Texts, Embed = ml.dims(images=8, texts=8, embed=4)

    def fn(images, texts):
        scores = images.array @ texts.array.T
        diagonal = jnp.arange(8)[:, None]
        rows = jnp.take_along_axis(jax.nn.log_softmax(scores), diagonal, -1)
        return -rows.mean() - jnp.take_along_axis(jax.nn.log_softmax(scores.T), diagonal, -1).mean()

    program = ml.trace(jax.grad(fn, (0, 1)), ml.f32[Images, Embed], ml.f32[Texts, Embed])
    assert (dict(program.dims), program.made_up) == ({"images": 8, "texts": 8, "embed": 4}, {})
    assert program.plan(ml.mesh(x=2, y=2), "images:x texts:y").check().ok
    alike = ml.trace(lambda x: (jnp.arange(8.0) * x.array, jnp.arange(8.0) + x.array), ml.f32[Images])
    assert [operation.name for operation in alike.code.block.operations].count("iota") == 1


@pytest.mark.parametrize("take", [lambda w, i: w[i], lambda w, i: jax.vmap(lambda j: w[j])(i)])
def test_the_gradient_of_a_look_up_has_the_names_of_the_table(take):
    def fn(table, ids):
        return jax.grad(lambda w: (take(w, ids.array) ** 2).sum())(table.array)

    program = ml.trace(fn, ml.f32[A, B], ml.i32[ml.Dim("many", 32)])
    assert program.place("out").dims == ("a", "b")
    plan = program.plan(ml.mesh(x=2, y=2), "a:x many:y")
    assert plan.check().ok
    assert plan.spec("out").splits == (("x",), ())


@pytest.mark.parametrize(
    "cut", [lambda y: jnp.split(y, 3, -1), lambda y: [y[..., 32 * i : 32 * (i + 1)] for i in (0, 1, 2)]]
)
def test_pieces_of_a_merged_axis_are_its_minor_parts(cut):
    """Queries, keys and values of one product, as GPT-2 has them."""

    def fn(x, w):
        q, k, v = (piece.reshape(4, 8, 4, 8) for piece in cut(x @ w))
        return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k)), v)

    arrays = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 8, 32), (32, 96)))
    names = "batch seq embed", "embed (three=3 heads=4 head)"
    program = ml.trace(fn, *map(ml.named, arrays, names))
    assert program.place("out").dims == ("batch", "seq", "heads", "head")
    plan = program.plan(ml.mesh(x=2), "heads:x")
    assert plan.check().ok
    assert plan.spec("out").splits == ((), (), ("x",), ())
    assert not plan.collectives
    warning = (
        "`heads` is not sharded in `w`: the axis `three*heads*head` is split over `heads` only where each device has"
    )
    assert warning in str(plan.explain())


@pytest.mark.parametrize("name", ["~batch", "other", "a"])
def test_what_a_made_up_dim_is_called_changes_no_plan(name):
    # As in CLIP's loss: the labels of the transposed scores are of `batch`, but the scores' rows are not.
    def loss(images, texts):
        scores = images @ texts.T
        labels = jnp.arange(scores.shape[0])[:, None]
        rows, columns = (jnp.take_along_axis(each, labels, 1) for each in (scores, scores.T))
        return (rows**2).mean() + (columns**2).mean()

    argument = ml.named(jnp.ones((256, 8)), "batch shared")
    program = ml.trace(loss, argument, argument).rename({"~batch": name} if name != "~batch" else {})
    assert (name in program.dims) == (name != "~batch")
    plan = program.plan(ml.mesh(data=8), "batch:data")
    # Nobody sends the scores, 256 x 32 of them on each device: texts and labels are gathered, what is looked up is
    # added up, and both means.
    share = 256 // 8 * 4
    assert [(c.kind, c.payload_bytes) for c in plan.collectives] == [
        ("all-gather", 8 * share),
        ("all-gather", share),
        ("all-reduce", 256 * 4),
        ("all-reduce", 4),
    ]
    assert plan.check().ok
