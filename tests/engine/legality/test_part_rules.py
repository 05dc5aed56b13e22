"""Mesh axes that the major part of an axis has used up split the next part: merged and taken apart, nothing moves."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.auto.best_first.bounds import kernel_seconds, least_under
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.cost.workload.options import Options


def f32(names, *shape):
    return ml.named(jax.ShapeDtypeStruct(shape, jnp.float32), names)


def grouped_scores(x, wq, wk):
    """Grouped-query attention as most write it: 16 query heads are 4 groups of 4."""
    batch, seq, _ = x.shape
    q, k = jnp.einsum("bte,ehd->bthd", x, wq), jnp.einsum("bte,ekd->btkd", x, wk)
    q = q.reshape(batch, seq, 4, 4, q.shape[-1])
    mixed = jnp.einsum("bkgts,bskd->btkgd", jnp.einsum("btkgd,bskd->bkgts", q, k), k)
    return mixed.reshape(batch, seq, 16, q.shape[-1])


ATTENTION = f32("batch seq embed", 4, 16, 32), f32("embed q_heads head", 32, 16, 8), f32("embed kv head", 32, 4, 8)


def projected(x, wq, wk, wo):
    return (jnp.einsum("bthd,hde->bte", grouped_scores(x, wq, wk), wo) ** 2).sum()


@pytest.mark.parametrize("layout", ["q_heads:y+z kv:y", "batch:z q_heads:y kv:y", "q_heads:y+z kv:y batch:w"])
def test_query_heads_on_two_axes_send_nothing_where_keys_are_on_the_first(layout):
    plan = ml.trace(grouped_scores, *ATTENTION).plan(ml.mesh(y=4, z=2, w=1), layout)
    assert plan.collectives == ()
    assert plan.check().ok


def test_and_nor_does_the_backward_pass_but_for_sums():
    program = ml.trace(jax.grad(projected, (1, 2, 3)), *ATTENTION, f32("q_heads head embed", 16, 8, 32))
    plan = program.plan(ml.mesh(y=4, z=2), "q_heads:y+z kv:y")
    assert {c.kind for c in plan.collectives} == {"all-reduce"}
    assert plan.check().ok
    assert plan.work.share == pytest.approx(1 / 8, rel=0.1)


def test_what_a_minor_part_sends_is_told_of_its_dim_with_a_remedy_that_was_tried():
    """`q_heads.1` is no name that a layout has."""
    program = ml.trace(jax.grad(projected, (1, 2, 3)), *ATTENTION, f32("q_heads head embed", 16, 8, 32))
    plan = program.plan(ml.mesh("h100:1x1x8", y=4, z=2), "q_heads:y+z kv:y")
    assert "q_heads.1" not in str(plan.explain())
    sums = [c for c in plan.collectives if c.axes == ("z",)]
    assert sums
    assert all(remedy.outcome is not None for c in sums for remedy in c.remedies)


def test_no_bound_of_auto_lies_above_what_a_minor_part_divides():
    program = ml.trace(jax.grad(projected, (1, 2, 3)), *ATTENTION, f32("q_heads head embed", 16, 8, 32))
    big = program.resize(batch=64, seq=2048, embed=4096, head=128)
    mesh = ml.mesh("h100:1x1x8", y=4, z=2)
    pricer = Pricer(big, mesh, Options())
    space, unsplit = search_space(pricer), pricer.price(ml.Layout())
    price = pricer.price(ml.Layout.of("q_heads:y+z kv:y"))
    assert unsplit is not None
    assert price is not None
    bound = least_under(space, kernel_seconds(space, unsplit), {"q_heads": ("y", "z"), "kv": ("y",)})
    assert bound <= sum(seconds for _, seconds in kernel_seconds(space, price)) * (1 + 1e-6)


def test_where_keys_are_not_single_groups_the_second_axis_is_gathered():
    plan = ml.trace(grouped_scores, *ATTENTION).plan(ml.mesh(y=2, z=2), "q_heads:y+z kv:y")
    assert {(c.kind, c.axes) for c in plan.collectives} == {("all-gather", ("z",))}
    assert plan.check().ok


@pytest.mark.parametrize(
    ("names", "layout"), [("batch (kvh=2 group)", "kvh:kv group:g"), ("batch heads", "heads:kv+g")], ids=["dims", "one"]
)
def test_a_merged_axis_is_split_as_the_mesh_is_factored(names, layout):
    """XLA: P(None, ("kv", "g")) goes to P(None, "kv", "g") without a collective."""
    program = ml.trace(lambda x: jnp.sin(x.reshape(16, 2, 4)), f32(names, 16, 8))
    plan = program.plan(ml.mesh(kv=2, g=4), layout)
    assert plan.collectives == ()
    assert plan.output_specs[0].splits == ((), ("kv",), ("g",))
    assert plan.explain().warnings == ()
    assert plan.check().ok


def test_and_so_it_is_where_axes_are_merged():
    program = ml.trace(lambda x: jnp.sin(x.reshape(16, 8)), f32("batch kvh group", 16, 2, 4))
    plan = program.plan(ml.mesh(kv=2, g=4), "kvh:kv group:g")
    assert plan.collectives == ()
    assert plan.output_specs[0].splits == ((), ("kv", "g"))
    assert plan.check().ok


def test_three_parts():
    program = ml.trace(lambda x: jnp.sin(x.reshape(8)), f32("a b c", 2, 2, 2))
    plan = program.plan(ml.mesh(x=2, y=2, z=2), "a:x b:y c:z")
    assert plan.output_specs[0].splits == (("x", "y", "z"),)
    assert plan.check().ok
    skipped = program.plan(ml.mesh(x=2, z=2), "a:x c:z")
    assert skipped.output_specs[0].splits == (("x",),)
    assert skipped.check().ok


def test_an_axis_that_splits_another_dim_of_the_value_is_left_to_it():
    """The dims of a merged axis do not conflict with others where they are not split."""
    program = ml.trace(lambda x, w: jnp.sin(x) @ w, f32("batch (kvh=2 group)", 16, 8), f32("(kvh=2 group) embed", 8, 8))
    plan = program.plan(ml.mesh(kv=2, g=4), "kvh:kv group:g embed:g")
    assert plan.check().ok


def test_a_minor_part_stays_whole_in_time():
    program = ml.trace(lambda x: jnp.sin(x.reshape(16, 2, 4)).sum((1, 2)), f32("batch heads", 16, 8))
    plan = program.plan(ml.mesh(kv=2, micro=ml.serial(2)), "batch:micro heads:kv")
    assert plan.check().ok


@pytest.mark.parametrize("sizes", [{"kv": 2, "g": 4}, {"kv": 2, "g": 2}], ids=str)
def test_stored_otherwise(sizes):
    def step(w, x):
        return w - x.reshape(16, 2, 4).sum(0).reshape(8)

    program = ml.trace(step, f32("(kvh=2 group)", 8), f32("batch (kvh=2 group)", 16, 8))
    seen = 0
    for layout in ({"kvh": "kv", "w": {"group": "g"}}, {"w": {"kvh": "kv+g"}}, {"kvh?": "kv", "group": "g"}):
        try:
            plan = program.plan(ml.mesh(**sizes), layout)
        except ml.LayoutError:
            continue
        assert plan.check().ok, layout
        seen += 1
    assert seen >= 2
