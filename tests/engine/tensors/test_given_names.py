"""What is handed in wrong to meshes, dims, tensors and operations is refused in the words of the user's own call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.given import ARRAY, MESH, Batch, Embed, X, gone, ml, refused, step

# Meshes, dims, names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ml.mesh(2, 4), r"was given 2, 4 without a name. .* write ml.mesh\(data=2, model=4\)"),
        (lambda: ml.mesh((2, 4)), r"was given \(2, 4\) without a name. .* write ml.mesh\(data=2, model=4\)"),
        (lambda: ml.mesh("v5e", 4), r"was given 4 without a name. .* write ml.mesh\(\"v5e\", data=4\)"),
        (lambda: ml.mesh({"data": 2}), r"write its axes as keywords: ml.mesh\(\*\*\{'data': 2\}\)"),
        (lambda: ml.mesh("data=2"), r"was given 'data=2'; axes must be keywords, not text: ml.mesh\(data=2\)"),
        (lambda: ml.mesh(MESH), "was given the mesh data=2 × model=2, which is one already"),
        (lambda: ml.mesh(**{"größe": 2}), "an axis was named 'größe'; a name is ASCII letters"),
        (lambda: ml.mesh(**{"a b": 2}), "Write `a_b`"),
        (lambda: ml.Mesh("data"), "A mesh was given 'data' for its axes, and not pairs of a name and a size"),
        (
            lambda: ml.Mesh((("data", 2),), on="v5e"),
            r"given on='v5e', which is not a placement .* ml.mesh\('v5e', data=2\)",
        ),
        (
            lambda: ml.Mesh((("data", 0),), on=3),
            r"the size 0; .* on=3, which .* ml.mesh\('v5e', data=2, model=4\)",
        ),
        (lambda: ml.Mesh((("data",),)), "and not pairs of a name and a size"),
        (lambda: ml.dims(100), r"dims\(\) was given 100 without a name; write dims\(batch=100"),
        (lambda: ml.dims(a=0, b=True), "Dim `a` was given the size 0.* Dim `b` was given the size True"),
        (lambda: ml.Dim(3, "batch"), r"A dim was given 3, 'batch'; the name comes first: ml.Dim\('batch', 3\)"),
        (lambda: ml.Dim("größe", 2), "A dim was named 'größe'; a name is ASCII letters, digits and `_`"),
        (lambda: ml.named(ARRAY, "größe b"), "given 'größe', which is neither a name.*; a name is ASCII letters"),
        (lambda: ml.named(ARRAY, "(heads b"), r"is given '\(heads', which is neither a name"),
        (lambda: ml.named(ARRAY, "heads) b"), r"is given 'heads\)', which is neither a name"),
        (
            lambda: ml.named(ARRAY, "(heads=0 head) b"),
            r"heads=0 in '\(heads=0 head\)'; a size must be at least 1",
        ),
        (lambda: ml.named(ARRAY, "a, b"), "given 'a,', which is neither a name.*; separate names with spaces only"),
        (lambda: ml.named(ARRAY, "a,b"), "'a,b' has 1 name; separate names with spaces only: \"a b\""),
        (lambda: ml.named(ARRAY, (Embed, Batch)), "given the dim embed=16 for an axis of size 8"),
        (lambda: ml.named(ARRAY, ("a", 3)), "given 3 for a name; give a dim, its name, or None"),
        (lambda: ml.named(ARRAY, None), r"no names were given; write ml.named\(array, \"batch embed\"\)"),
        (lambda: ml.named("a b", ARRAY), "the arrays come first and the names after them"),
        (
            lambda: ml.named({"w": ARRAY}, ["a", "b"]),
            "have another tree than the arrays.* A tuple or a text names the axes",
        ),
        (
            lambda: ml.named({"w": ARRAY}, 5),
            r'another tree than the arrays \(Expected dict, got 5\). Write names by glob, {"w": "batch seq"}',
        ),
        (lambda: ml.named({"w": ARRAY}, (Batch, Embed)), 'Write names by glob, {"w": "batch seq"}'),
        (
            lambda: ml.named(ARRAY, "embed ... (ffn"),
            r'has 3 names; a bracket is open: .* "\(heads head\)"; `...` may only come first',
        ),
        (lambda: ml.named(jnp.ones((2, 2, 2, 2)), 3), '"... batch", say'),
        (lambda: ml.named(ARRAY, "a b") + 1, "A named array is for ml.trace, .* inside the traced function"),
        (lambda: 1 - ml.named(ARRAY, "a b"), "A named array is for ml.trace"),
        (lambda: -ml.named(ARRAY, "a b"), "A named array is for ml.trace"),
        (lambda: ARRAY > ml.named(ARRAY, "a b"), "A named array is for ml.trace"),
        (lambda: ml.named({"w": ARRAY}, {3: "a b"}), "3 is not a path; give names by globs over paths, as texts"),
        (lambda: ml.named({"w": "text"}, {"w": ""}), r"`w` is 'text' \(str\), which is not an array"),
        (lambda: ml.named(X, "a b"), "the array has names already: batch embed"),
        (lambda: ml.named(ml.named(ARRAY, "a _"), "c d"), "the array has names already: a _"),
    ],
)
def test_names_and_sizes_that_cannot_be(call, message):
    refused(call, ml.MeshlabError, message)


def test_names_may_be_left_out_of_a_tuple():
    assert ml.named(ARRAY, (Batch, None)).names == ("batch", None)


# Tensors and operations


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ml.tensor([[1, 2], [3]], "a", "b"), r"tensor was given \[\[1, 2\], \[3\]\]; .* equal length"),
        (lambda: ml.tensor("hello"), "tensor was given 'hello'; its array must be numbers"),
        (
            lambda: ml.tensor(jax.ShapeDtypeStruct((2,), jnp.float32), "a"),
            r"a shape without data; .* ml.f32",
        ),
        (lambda: ml.tensor(Batch, "a"), "tensor was given Dim.*; its array must be numbers"),
        (lambda: ml.tensor(gone(), "a", "b"), "tensor was given a deleted array"),
        (
            lambda: ml.Tensor(ARRAY, ("a", "b")),
            r"A tensor was given the dims \('a', 'b'\); they must be a tuple of ml.Dim",
        ),
        (lambda: ml.softmax(X, "embde"), "^softmax was asked for the dim `embde`.* Did you mean `embed`"),
        (lambda: ml.log_softmax(X, "embde"), "^log_softmax was asked for the dim `embde`"),
        (lambda: ml.logsumexp(X, "embde"), "^logsumexp was asked for the dim `embde`"),
        (lambda: ml.moments(X, "embde"), "^moments was asked for the dim `embde`"),
        (lambda: ml.normalize(X, "embde"), "^normalize was asked for the dim `embde`"),
        (lambda: ml.normalize(X, "embed", epsilon="a"), "normalize was given the epsilon 'a'; it must be a number"),
        (lambda: ml.normalize(X, moments=(1,)), r"normalize was given the moments \(1,\); they must be a pair"),
        (lambda: X.sum(0), r"sum was given 0 for a dim of \[batch=8, embed=16\]; .* by name: it has `batch`, `embed`"),
        (lambda: X.astype("float33"), "'float33' is not a dtype. Did you mean `float32`"),
        (lambda: ml.arange(Batch, None), "None is not a dtype"),
        (lambda: ml.arange(Batch, X), r"^a tensor of \[batch=8, embed=16\] is not a dtype. Give ml.f32"),
        (lambda: X.astype(ml.f32[Batch]), r"^a tensor of \[batch=8\] is not a dtype"),
        (lambda: X.astype(ARRAY), r"^an array of shape \(8, 16\) and dtype float32 is not a dtype"),
        (lambda: ml.dot(X, X, [Batch]), r"^dot was given \[Dim.*\], a list; .* one by one: ml.dot\(x, w, Batch\)"),
        (lambda: ml.dot([X, X], Batch), r"^dot was given \[a tensor of .*\], a list; give tensors and dims one by"),
        (lambda: X.sum("batch,embed"), "Dims are given one by one: 'batch', 'embed'"),
        (
            lambda: ml.cross_entropy(X, [1] * 8, Embed),
            r"^cross_entropy was given \[1, .*\], a list for `labels`; .* Name the axes: ml.tensor\(",
        ),
        (lambda: ml.take(X, [1, 2], Batch), r"^take was given \[1, 2\], a list for `ids`; .* Name the axes: ml.tensor"),
        (
            lambda: ml.take(X, ARRAY, Batch),
            r"^take was given an array of shape \(8, 16\) without names for `ids`. Name",
        ),
        (lambda: ml.leaky_relu(X, "a"), "leaky_relu was given the slope 'a'; it must be a number"),
        (lambda: ml.merge(X, None, "m"), "merge was given None; it makes one dim of several"),
        (lambda: ml.unmerge(X, "embed", 3), "unmerge was given 3; it makes several dims of one"),
        (lambda: ml.top_k(X, "embed", 3), "top_k was given 3; it needs a dim with a size"),
        (lambda: ml.split(X, "embed", "half"), "split was given 'half'; it needs a dim with a size"),
        (lambda: ml.concat([X, X], "embed", "both"), "concat was given 'both'; it needs a dim with a size"),
        (
            lambda: ml.concat((x for x in [X]), "embed", Embed),
            "concat was given <generator.*; it takes a list or a tuple",
        ),
        (lambda: ml.concat([], "embed", Embed), r"concat was given no tensors; it takes at least one: ml.concat\("),
        (lambda: ml.shift(X, "embed", 1, wrap="yes"), "shift was given wrap='yes'; it must be True or False"),
        (lambda: ml.pad(X, "embed", ml.Dim("p", 20), value="a"), "pad was given the value 'a'; it must be a number"),
        (lambda: ml.tag(X, "a*"), r"tag was given the name 'a\*'; a place must be a word without"),
        (lambda: ml.tag("residual", X), r"^tag was given 'residual' first; .* comes last: ml.tag\(x, 'residual'\)"),
        (lambda: ml.tag("text", "name"), "tag was given 'text'; it takes trees of tensors, arrays and numbers"),
        (lambda: ml.stop_gradient("a"), "stop_gradient was given 'a'; it takes trees"),
        (
            lambda: ml.normal(jax.random.key(0), Batch, dtype=jnp.int32),
            "normal was given the dtype int32; it draws floats",
        ),
        (lambda: ml.uniform(jax.random.key(0), low=2, high=1), "uniform was given low=2 and high=1"),
        (lambda: ml.max_pool(X, {"embed": 2}, out=3), r"max_pool was given out=3; it must be a dict: \{\"height\""),
        (lambda: ml.scan(3, 0.0, X, "batch"), r"scan was given 3 for its function; write ml.scan\(layer"),
        (lambda: ml.scan(lambda c, x: c, 0.0, X, "batch"), "scan's function returned .*; it must return a pair"),
        (
            lambda: ml.scan(lambda c, x: (c, x), "a", X, "batch"),
            "scan's carry was given 'a'; it takes trees of tensors",
        ),
        (lambda: ml.scan(lambda c, x: (c, x), 0.0, X, "batch", unroll=0), "scan was given the unroll 0"),
        (lambda: ml.vmap(3, "batch"), r"vmap was given 3 for its function; write ml.vmap\(function, Batch\)"),
        (lambda: ml.vmap(lambda x: x, 3), "vmap was given 3 for a dim; give a dim or its name"),
        (lambda: ml.vmap(lambda x: "a", "batch")(X), "vmap's result was given 'a'; it takes trees"),
        (lambda: ml.checkpoint(3), r"checkpoint was given 3 for its function; write ml.checkpoint\(layer\)"),
        (lambda: ml.checkpoint(step, policy="dots"), "checkpoint's policy was given 'dots' for its function"),
    ],
)
def test_operations_name_the_users_own_call(call, message):
    refused(call, ml.DimError, message)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.dtype("float16"), jnp.float16, ml.f16, "float16", X.astype("f2").dtype]
)
def test_dtypes_may_be_written_in_many_ways(dtype):
    assert X.astype(dtype).dtype == jnp.float16
