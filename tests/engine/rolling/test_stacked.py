"""Layers that are alike become one tree of stacked arrays, and come apart again as they were."""

import collections
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import meshlab as ml
from meshlab.engine.tensors.trees import placed_leaves


def layer(start: float, width: int = 2) -> dict[str, Any]:
    return {"w": np.full((3, width), start), "b": np.arange(width) + start}


def places(tree: Any) -> dict[str, tuple[int, ...]]:
    return {place: tuple(leaf.shape) for place, leaf in placed_leaves("p", tree)}


TREES = {
    "list": {"layers": [layer(1), layer(2)], "head": np.zeros(5)},
    "tuple": {"layers": (layer(1), layer(2))},
    "keys": {f"Block_{i}": layer(i) for i in range(12)} | {"head": np.zeros(5)},
    "numbers": {"blocks": {i: layer(i) for i in range(12)}, "head": np.zeros(5)},
    "digits": {"layer": {str(i): layer(i) for i in range(12)}},
    "other dicts": collections.OrderedDict(
        stem=np.zeros(4), b_0=layer(1), b_1=layer(2), blocks=collections.OrderedDict({"0": layer(1), "1": layer(2)})
    ),
    "several": {"encoder": [layer(1), layer(2)], "decoder": {"layers": [layer(1, 4), layer(2, 4), layer(3, 4)]}},
    "arrays": [np.zeros(3), np.ones(3)],
    "a name that is taken": {"block": np.zeros(3), "block_0": layer(1), "block_1": layer(2), "layers": [layer(1)] * 2},
    "numbers and more": {"0": layer(1), "1": layer(2), "norm": np.zeros(3), "layers": [layer(1)] * 2},
    "unlike beside": {
        "layers": [layer(1), layer(2)],
        "sizes": [layer(1), layer(2, 5)],
        "norm": (np.ones(2), np.ones(2)),
    },
}


@pytest.mark.parametrize("name", TREES)
def test_layers_come_apart_as_they_were(name):
    tree = TREES[name]
    back = ml.unstack_layers(ml.stack_layers(tree))
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True))


def test_places_and_order():
    assert places(ml.stack_layers(TREES["list"])) == {"p/head": (5,), "p/layers/b": (2, 2), "p/layers/w": (2, 3, 2)}
    keys = ml.stack_layers(TREES["keys"])
    assert places(keys) == {"p/Block/b": (12, 2), "p/Block/w": (12, 3, 2), "p/head": (5,)}
    # By their numbers: 10 comes after 9.
    assert [float(each) for each in keys["Block"].layers["b"][:, 0]] == [*range(12)]
    for name, key in (("numbers", "blocks"), ("digits", "layer")):
        numbers = ml.stack_layers(TREES[name])
        assert places(numbers)[f"p/{key}/w"] == (12, 3, 2)
        assert [float(each) for each in numbers[key].layers["b"][:, 0]] == [*range(12)]
    other = ml.stack_layers(TREES["other dicts"])
    assert [place for place in places(other) if place.endswith("w")] == ["p/b/w", "p/blocks/w"]
    beside = places(ml.stack_layers(TREES["unlike beside"]))
    assert beside["p/sizes/1/w"] == (3, 5)
    assert beside["p/norm/0"] == (2,)


def test_layers_of_other_types_or_dims_are_not_alike():
    like = [{"w": np.zeros(3, dtype)} for dtype in ("f4", "f2")]
    named = [ml.named(jax.ShapeDtypeStruct((3,), jnp.float32), dims) for dims in ("embed", "hidden")]
    for unlike in (like, [ml.named(each, "embed") for each in like], [{"w": each} for each in named]):
        assert "layers" not in ml.stack_layers({"layers": unlike, "others": [layer(1)] * 2})["layers"][0]
        with pytest.raises(ml.TraceError, match="found no layers that are alike"):
            ml.stack_layers({"layers": unlike})


def test_names_have_the_dim_in_front():
    shapes = [jax.ShapeDtypeStruct((3, 2), jnp.float32)] * 4
    named = ml.stack_layers(ml.named(shapes, "embed _"), "blocks")
    assert named.layers.names == ("blocks", "embed", None)
    assert ml.unstack_layers(named)[3].names == ("embed", None)
    tensors = ml.stack_layers([ml.f32[ml.Dim("embed", 3)]] * 4)
    assert [str(dim) for dim in tensors.layers.dims] == ["layers=4", "embed=3"]
    assert [str(dim) for dim in ml.unstack_layers(tensors)[0].dims] == ["embed=3"]


def test_optimizers_take_them():
    params = ml.stack_layers(TREES["list"])
    state = optax.adam(1e-3).init(params)
    assert places(ml.stack_layers(optax.adam(1e-3).init(TREES["list"]))) == places(state)


def test_several_trees_in_a_tuple_are_apart():
    pair = ml.stack_layers((TREES["list"], TREES["list"]))
    assert type(pair) is tuple
    assert places(pair[0]) == places(ml.stack_layers(TREES["list"]))


def test_what_cannot_be_stacked():
    with pytest.raises(
        ml.TraceError, match=re.escape("stack_layers() found no layers that are alike: a list, a tuple")
    ):
        ml.stack_layers({"layers": [layer(1), layer(2, 5)]})
    with pytest.raises(ml.DimError, match=r"stack_layers\(\) was given the dim 3; give a name"):
        ml.stack_layers(TREES["list"], 3)  # pyright: ignore[reportArgumentType]


def test_a_dict_that_holds_more_than_its_entries():
    with pytest.raises(ml.TraceError, match="found no layers that are alike"):
        ml.stack_layers(collections.defaultdict(dict, {"b_0": layer(1), "b_1": layer(2)}))
