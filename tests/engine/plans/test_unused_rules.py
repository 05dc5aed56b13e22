"""A rule at a tag does what it says, or it is said that it has no effect."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.models.zoo import models

X2 = ml.mesh(x=2)
BY_PROGRAM = {model.program: model for model in reversed(models())}


def embedding(table, ids):
    """A step that looks rows up, of which the result is tagged."""

    def loss(table):
        return jnp.square(ml.tag(jnp.take(table, ids, axis=0), "residual")).sum()

    value, grad = jax.value_and_grad(loss)(table)
    return table - 0.1 * grad, value


def looked_up():
    table = ml.named(jax.ShapeDtypeStruct((64, 32), jnp.float32), "vocab embed")
    return ml.trace(embedding, table, ml.named(jax.ShapeDtypeStruct((2, 16), jnp.int32), "batch seq"))


def of_rules(plan):
    return [text for text in plan.explain().warnings if "has no effect" in text]


def test_a_rule_at_a_tag_that_nothing_reads_is_said_to_have_no_effect():
    plan = looked_up().plan(ml.mesh(tp=8), {"embed": "tp", "residual": {"seq": "tp", "embed": None}})
    (text,) = of_rules(plan)
    assert text.startswith("⚠ The rule at `residual` has no effect at `")
    assert text.endswith(": nothing reads the value there as [·, tp, ·], so it is not resharded.")
    assert "test_unused_rules.py:18" in text
    assert text in str(plan.explain())


def test_a_rule_at_a_tag_that_is_followed_is_not():
    program, mesh = looked_up(), ml.mesh(tp=8)
    assert not of_rules(program.plan(mesh, {"embed": "tp"}))
    assert not of_rules(program.plan(mesh, {"embed": "tp", "residual": {"embed": "tp"}}))
    assert not of_rules(program.plan(mesh, {"residual": {"seq": "tp"}}))
    # Where the sequence is computed with so, the value is moved there, and stored so.
    other = program.plan(mesh, {"seq": "tp", "table": {"embed": "tp"}, "residual": {"seq": "tp"}})
    assert not of_rules(other)


def steps(plan):
    return list(map(str, plan.steps))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", sorted(BY_PROGRAM))
def test_a_tag_of_the_zoo_is_stored_as_its_rule_says_or_that_is_said(name):
    program = BY_PROGRAM[name].trace()
    kept = dropped = 0
    for tag, marked in program.tags.items():
        dims = dict.fromkeys(d for o in marked for d in program.names[o.outputs[0]] if d in program.dims)
        for dim in dims:
            # Computed with another dim on the axis, so that the value must be moved to be stored as the rule says.
            for other in [None, *[d for d in dims if d != dim][:1]]:
                compute = {other: "x"} if other else {}
                try:
                    without = program.plan(X2, compute)
                    plan = program.plan(X2, {**compute, tag: {dim: "x", **({other: None} if other else {})}})
                except ml.LayoutError:
                    continue
                texts = of_rules(plan)
                if steps(plan) != steps(without):
                    kept += 1
                else:
                    dropped += 1
                    as_ruled = all(
                        without.spec(program.value(o.outputs[0])) == plan.rules.spec(program.names[o.outputs[0]], tag)
                        for o in marked
                    )
                    assert texts or as_ruled, (tag, dim, other)
    assert bool(program.tags) == (kept + dropped > 0)
