"""`ml.named` gives names to plain arrays, and tells all that does not fit at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

PARAMS = {"dense": {"kernel": jnp.ones((6, 8)), "bias": jnp.ones(8)}, "scale": jnp.ones(6)}


def apply(params, x):
    return (x * params["scale"]) @ params["dense"]["kernel"] + params["dense"]["bias"]


def test_names_by_glob_where_the_last_match_counts():
    named = ml.named(PARAMS, {"*": "embed", "*/kernel": "_ _", "dense/*nel": "embed ffn", "*/bias": "_"})
    program = ml.trace(apply, named, ml.named(jnp.ones((4, 6)), "batch embed"))
    assert program.dims == {"embed": 6, "ffn": 8, "batch": 4}
    assert program.place("params/dense/bias").dims == ("ffn",)
    assert program.place("out").dims == ("batch", "ffn")


def test_names_by_a_tree_that_matches():
    names = {"dense": {"kernel": ("embed", ml.Dim("ffn", 8)), "bias": "_"}, "scale": "embed"}
    program = ml.trace(apply, ml.named(PARAMS, names), jnp.ones((4, 6)))
    assert program.place("params/dense/kernel").dims == ("embed", "ffn")


def test_the_function_sees_plain_arrays_and_runs_on_them():
    seen = []

    def fn(params, x):
        seen.append({type(leaf) for leaf in jax.tree.leaves(params)})
        return apply(params, x)

    program = ml.trace(fn, ml.named(PARAMS, {"*/kernel": "embed ffn"}), ml.named(jnp.ones((4, 6)), "batch embed"))
    assert not any(t.__name__ == "NamedArray" for t in seen[0])
    plan = program.plan(ml.mesh(x=2), "batch:x")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_allclose(plan.run(PARAMS, x), apply(PARAMS, x), rtol=1e-5)
    np.testing.assert_allclose(plan.run(ml.named(PARAMS, {"*/bias": "ffn"}), x), apply(PARAMS, x), rtol=1e-5)
    assert plan.check(PARAMS, x).ok


def test_dots_in_front_leave_axes_without_a_name():
    program = ml.trace(lambda x: x, ml.named(jnp.ones((2, 3, 4)), "... c"))
    assert program.dims == {"c": 4}


def test_a_merged_axis_is_cut_into_dims_of_sizes_that_are_known_or_given():
    program = ml.trace(
        lambda w, x: (w, x), ml.named(jnp.ones((6, 24)), "embed (heads head)"), ml.named(jnp.ones((4, 6)), "heads head")
    )
    assert program.place("w").dims == ("embed", "heads*head")
    assert program.plan(ml.mesh(x=2), "heads:x").spec("w") == ml.Spec(((), ("x",)))
    program = ml.trace(lambda w: w, ml.named(jnp.ones((6, 24)), "embed (heads=4 head)"))
    assert program.dims == {"embed": 6, "heads": 4, "head": 6}
    with pytest.raises(ml.DimError, match=r"`heads\*head` is heads=\? × head=\? and has size 24 at argument `w`"):
        ml.trace(lambda w: w, ml.named(jnp.ones((6, 24)), "embed (heads head)"))
    with pytest.raises(ml.DimError, match=r"`a\*b` is a=5 × b=\? and has size 24"):
        ml.trace(lambda w: w, ml.named(jnp.ones((6, 24)), "embed (a=5 b)"))


def test_what_does_not_fit_is_told_all_at_once():
    with pytest.raises(
        ml.DimError,
        match=r"`\*/kernal` matches no path \(Did you mean `.*dense/kernel.*`\?\); `dense/bias` has shape \(8,\), "
        r"for which 'a b' has 2 names.*`dense/kernel` has the dim `c` twice.*`scale` is given '3d', which is neither",
    ):
        ml.named(PARAMS, {"*/kernal": "a", "*bias": "a b", "dense/kernel": "c c", "scale": "3d"})
    with pytest.raises(ml.DimError, match="`q` matches no path: the paths are `dense/bias`, `dense/kernel`, `scale`"):
        ml.named(PARAMS, {"q": "a"})
    with pytest.raises(ml.DimError, match="the names have another tree than the arrays"):
        ml.named(PARAMS, {"dense": {"kernel": "a b"}})
    with pytest.raises(ml.DimError, match=r"the array is given 'a=4', which is neither"):
        ml.named(jnp.ones(4), "a=4")


def test_a_merged_axis_that_cannot_be_is_told_why():
    for text, message in (
        ("(a=4 b)", r"`a\*b` is a=4 × b=\? and has size 6 at the array: 4 does not divide 6\."),
        ("(a=4 b c)", r"`a\*b\*c` is a=4 × b=\? × c=\? and has size 6 at the array: 4 does not divide 6\."),
        ("(a=2 b=4)", r"`a\*b` is a=2 × b=4 and has size 6 at the array: 2 × 4 is 8, not 6\."),
    ):
        with pytest.raises(ml.DimError, match=rf"^named\(\) was given invalid arguments: {message}"):
            ml.named(jnp.ones(6), text)
    for other, message in (
        ("a", r"`a\*b` is a=4 × b=\? and has size 6 at argument `x`: 4 does not divide 6\."),
        ("(a=4 b=2)", r"`a\*b` is a=4 × b=2 and has size 6 at argument `x`: 4 × 2 is 8, not 6\."),
    ):
        given = ml.named(jnp.ones(6), "(a b)"), ml.named(jnp.ones(4 if other == "a" else 8), other)
        with pytest.raises(ml.DimError, match=message):
            ml.trace(lambda x, y: (x, y), *given)


def test_names_that_are_no_text_are_told():
    with pytest.raises(
        ml.DimError, match=r"the array is given \{'batch': 0\} \(dict\); names are a text .* axis, \"batch seq\", say"
    ):
        ml.named(jnp.ones((4, 6)), {"batch": 0})
    with pytest.raises(
        ml.DimError, match=r"`w` is given 0 \(int\); names are a text with one name for each axis, \"batch\""
    ):
        ml.named({"w": jnp.ones(4)}, {"w": 0})
    with pytest.raises(ml.DimError, match=r"shape \(4, 6\), for which 'a' has 1 name\."):
        ml.named(jnp.ones((4, 6)), "a")


def test_a_glob_that_lacks_what_all_paths_end_in_is_completed():
    nested = {"up": {"kernel": {"value": jnp.ones((6, 8))}}, "down": {"kernel": {"value": jnp.ones((8, 6))}}}
    for glob, meant in (
        ("*kernel", "*kernel/value"),
        ("kernel", "*/kernel/value"),
        ("up", "up/*"),
        ("value", "*/value"),
    ):
        with pytest.raises(ml.DimError) as caught:
            ml.named(nested, {glob: "a b"})
        assert (
            str(caught.value)
            == f"named() was given invalid arguments: `{glob}` matches no path (Did you mean `{meant}`?)."
        )


@pytest.mark.parametrize(
    ("glob", "said"),
    [
        ("*/quary", ": the nearest paths are `block*/attention/query`, "),
        ("embedding", ": the nearest paths are `block*/"),
        ("block1/attention/wq", "Did you mean `block1/attention/"),
    ],
)
def test_of_many_paths_the_nearest_are_named_and_layers_that_are_alike_once(glob: str, said: str) -> None:
    """B33: the first 8 of 66 paths were listed, "and 58 more"."""
    array = np.zeros((4, 4), np.float32)
    parts = {"attention": ("query", "key", "value"), "mlp": ("up", "down")}
    block = {name: {leaf: array for leaf in leaves} for name, leaves in parts.items()}
    with pytest.raises(ml.DimError) as refused:
        ml.named({f"block{i}": block for i in range(22)}, {glob: "a b"})
    assert said in str(refused.value)
    assert "more" not in str(refused.value)
