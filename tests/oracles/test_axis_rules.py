"""Axis rules give the `PartitionSpec`s that MaxText and T5X give: what they published, and Flax itself."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import jax
import pytest
from flax.linen.spmd import logical_to_mesh_axes
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.specs.flax_rules import assigned, axis_rules
from meshlab.models.zoo import models

# What MaxText's own tests hold its shardings against: facts alone, with their source in the file.
MAXTEXT = json.loads((Path(__file__).parent / "maxtext_shardings.json").read_text())
CASES = {case["case"]: case for case in MAXTEXT["cases"]}

names = st.sampled_from("batch length embed heads kv mlp vocab layers".split())
axes = st.lists(st.sampled_from("data fsdp tensor expert".split()), max_size=3, unique=True).map(tuple)
one_or_more = st.one_of(st.none(), axes, st.sampled_from(["data", "fsdp", "tensor", "expert"]))


@given(st.lists(st.tuples(names, one_or_more), max_size=12), st.lists(names, max_size=5, unique=True))
def test_an_array_has_the_axes_that_flax_gives_it(rules: list, array: list[str]) -> None:
    ours = assigned(array, axis_rules(rules))
    assert P(*(ours.get(name) or None for name in array)) == logical_to_mesh_axes(array, rules)


def plain(spec: Any, sizes: dict[str, int]) -> tuple[tuple[str, ...], ...]:
    """A spec as the axes of more than one device that shard each axis."""
    entries = [(each,) if isinstance(each, str) else tuple(each or ()) for each in spec]
    return tuple(tuple(axis for axis in entry if sizes.get(axis, 1) > 1) for entry in entries)


@functools.cache
def traced(case: str) -> tuple[ml.Program, dict[str, dict[str, str]]]:
    """A program whose arguments are the arrays of one case, and what the rules call its dims at each place.

    MaxText has one name for sizes that differ, which here are dims of different names.
    """
    arrays, called, sizes = {}, {}, dict[str, int]()
    for number, (_, _, logical, shape, _) in enumerate(CASES[case]["arrays"]):
        dims = []
        for name, size in zip(logical, shape, strict=True):
            tried = name or f"unnamed_{len(dims)}"
            dim = next(d for d in (tried, f"{tried}_{size}") if sizes.setdefault(d, size) == size)
            called.setdefault(f"arrays/{number:03}", {})[dim] = name
            dims.append(ml.Dim(dim, size))
        arrays[f"{number:03}"] = ml.f32[tuple(dims)]
    return ml.trace(lambda arrays: [array.sum() for array in arrays.values()], arrays), called


@pytest.mark.parametrize("case", CASES)
def test_maxtexts_own_shardings(case: str) -> None:
    program, called = traced(case)
    sizes = CASES[case]["mesh"]
    table = MAXTEXT["rules"][CASES[case]["rules"]]
    for mesh in (ml.mesh(**sizes), ml.mesh(**{axis: size for axis, size in sizes.items() if size > 1})):
        layout = ml.layouts.from_axis_rules(table, program, mesh, names=called)
        ((specs,), _) = program.plan(mesh, layout).partition_specs
        for (where, _, logical, _, golden), spec in zip(CASES[case]["arrays"], specs.values(), strict=True):
            assert plain(spec, sizes) == plain(golden, sizes), (where, logical)
        assert math.prod(sizes.values()) == mesh.size


def test_the_facts_are_what_they_are_said_to_be() -> None:
    arrays = [array for case in CASES.values() for array in case["arrays"]]
    assert (len(CASES), len(arrays), sum(count for _, count, *_ in arrays)) == (10, 293, 993)
    assert {case["rules"] for case in CASES.values()} == set(MAXTEXT["rules"])
    page = " ".join((Path(__file__).parents[2] / "docs" / "dialects.md").read_text().split())
    for text in ("We compare 10 such cases", "All 993 arrays", "293 different ones"):
        assert text in page


# `standard_logical_axis_rules` of github.com/google-research/t5x at cc342d4, t5x/partitioning.py, by how many dims of
# activations and of parameters are sharded; what their docs/usage/partitioning.md says each of them is, of a weight, a
# norm's scale and the residual stream.
FIRST: list[tuple[str, str | None]] = [("batch", "data"), ("vocab", "model")]
ALWAYS: list[tuple[str, str | None]] = [("mlp", "model"), ("heads", "model"), ("kv", None), ("joined_kv", "model")]
REPLICATED: list[tuple[str, str | None]] = [
    (name, None) for name in "relpos_buckets abspos_buckets length layers stack mlp_activations".split()
]
T5X = {
    (1, 1): [*FIRST, ("embed", None), *ALWAYS, *REPLICATED],  # Megatron
    (2, 1): [*FIRST, *ALWAYS, ("embed", "model"), *REPLICATED],  # Optimus
    (1, 2): [*FIRST, *ALWAYS, ("embed", "data"), *REPLICATED],
    (2, 2): [*FIRST, *ALWAYS, ("embed", "model"), ("embed", "data"), *REPLICATED],  # GShard
}
# The dims of our transformer as T5X calls them; its keys are a length as well.
CALLED = {"ffn": "mlp", "seq": "length", "kv": "length", "head": "kv"}
CALLED_THERE = {f"{tree}/*": {"ffn": "mlp", "head": "kv", "group": "stack"} for tree in ("params", "opt_state")}


@pytest.mark.parametrize(
    ("dims", "weight", "scale", "residual"),
    [
        ((1, 1), P(None, "model"), P(None), P("data", None, None)),
        ((2, 1), P(None, "model"), P("model"), P("data", None, "model")),
        ((1, 2), P("data", "model"), P("data"), P("data", None, None)),
        ((2, 2), P("data", "model"), P("model"), P("data", None, "model")),
    ],
)
def test_t5x_in_one_and_two_dims(dims: tuple[int, int], weight: P, scale: P, residual: P) -> None:
    for array, spec in ((("embed", "mlp"), weight), (("embed",), scale), (("batch", "length", "embed"), residual)):
        assert logical_to_mesh_axes(array, T5X[dims]) == spec
    program = transformer()
    mesh = ml.mesh(data=4, model=2)
    layout = ml.layouts.from_axis_rules(T5X[dims], program, mesh, names={**CALLED, **CALLED_THERE})
    assert layout.rules == {"batch": ("data",), "ffn": ("model",), "heads": ("model",), "vocab": ("model",)}
    plan = program.plan(mesh, layout)
    (params, state, *data), _ = plan.partition_specs
    assert params["layers"]["up"] == P(None, *weight)
    assert params["norm"] == scale
    moments = [spec for path, spec in jax.tree.leaves_with_path(state) if path[-1] == jax.tree_util.DictKey("norm")]
    assert moments == [scale, scale]
    assert set(data) == {P("data", None)}
    stored = plan.rules.spec(("batch", "seq", "embed"), "residual").splits
    assert P(*(axes or None for axes in stored)) == residual


@functools.cache
def transformer() -> ml.Program:
    return next(model for model in models() if model.name == "transformer_adamw").trace()


def test_what_t5x_makes_is_what_the_literature_has() -> None:
    """Its 1-D rules are data and tensor parallelism; with 2-D parameters these are fully sharded besides."""
    program, mesh = transformer(), ml.mesh(data=4, model=2)
    both = ml.layouts.data_parallel(program, mesh) & ml.layouts.tensor_parallel(program, mesh)
    called = {**CALLED, **CALLED_THERE}
    assert ml.layouts.from_axis_rules(T5X[1, 1], program, mesh, names=called) == both
    sharded = ml.layouts.from_axis_rules(T5X[1, 2], program, mesh, names=called)
    stored = {glob: {"embed": "data"} for glob in ("params/*", "opt_state/*")}
    assert sharded == ml.Layout.of(both.to_dict() | stored)
