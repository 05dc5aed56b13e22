"""What cannot be on a serial axis is refused, all at once, with what would fit."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

Batch, Rows, Hidden = ml.dims(batch=30, rows=8, hidden=16)
TWO = ml.mesh(data=2, micro=ml.serial(4), more=ml.serial(2))
MICRO = ml.mesh(micro=ml.serial(2))


def refused(fn, *arguments, mesh=MICRO, layout: Any = "batch:micro"):
    """The problems for which a layout is refused."""
    with pytest.raises(ml.LayoutError) as error:
        ml.trace(fn, *arguments).plan(mesh, layout)
    return error.value.problems


def test_all_problems_are_one_error():
    def rank(x, w):
        return ml.top_k(ml.dot(x, w, Rows), "batch", ml.Dim("best", 3))[0], x.max("batch"), ml.sort(x, "batch")

    layout = {"batch": "micro+data", "hidden": "more", "w": {"rows": "micro"}}
    problems = refused(rank, ml.f32[Batch, Rows], ml.f32[Rows, Hidden], mesh=TWO, layout=layout)
    texts = [str(problem) for problem in problems]
    for wanted in (
        "size 30, which 8 .* does not divide. Sizes that fit: 24 or 32",
        r"2 serial axes, `micro`, `more`; at most one is possible. Put all .* on one axis: micro=ml.serial\(8\)",
        r"`batch:micro\+data` has a serial axis in front.* Write `batch:data\+micro`",
        "At `w`: `rows` cannot be stored over `micro`.* Leave `rows` out",
        "`top_k` at .* needs all of `batch` at once",
        "`reduce_max` at .* needs all of `batch` at once",
        "`sort` at .* needs all of `batch` at once",
    ):
        assert any(re.search(wanted, text) for text in texts), (wanted, texts)
    assert {problem.code for problem in problems} >= {"in_time", "not_divisible"}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"p/*": {"embed": "micro"}}, r"At `p/\*`: `embed` cannot .* Leave `embed` out of the rules of `p/\*`\."),
        ({"p/emb?": {"embed": "micro"}}, r"At `p/emb`: .* out of the rules of `p/emb`\."),
        ({"p/*": {"embed": "data"}, "*/emb": {"embed": "micro"}}, r"At `\*/emb`: "),
        ({"out/*": {"embed": "data+micro"}}, r"At `out/\*`: .* Store it with `embed` on `data`\."),
    ],
    ids=str,
)
def test_what_is_stored_in_time_is_told_by_the_glob_that_was_written(rules, told):
    def step(p, x):
        return {"emb": p["emb"] - 0.1 * (x @ p["emb"]).sum()}

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((4, 6), (8, 4))]
    program = ml.trace(step, ml.named({"emb": shapes[0]}, "embed h"), ml.named(shapes[1], "batch embed"))
    assert "out/emb" in program.places  # carried: it has the rules of `p/emb`
    with pytest.raises(ml.LayoutError) as error:
        program.plan(ml.mesh(data=2, micro=ml.serial(2)), rules)
    (problem,) = error.value.problems
    assert re.search(told, str(problem)), problem


def test_the_zones_of_a_board_know_it():
    program = ml.trace(lambda x: (x.max("rows"), x.sum("batch")), ml.f32[Batch, Rows])
    table = program.refusals(ml.mesh(data=2, micro=ml.serial(2)))
    assert table["batch"] == {"data": None, "micro": None}
    assert table["rows"]["data"] is None
    assert "needs all of `rows`" in str(table["rows"]["micro"])


def test_a_loop_whose_length_depends_on_data_is_refused():
    def halved(x):
        return jax.lax.while_loop(lambda s: jnp.sum(s) > 1, lambda s: s / 2, x)

    x = ml.named(jax.ShapeDtypeStruct((30, 8), jnp.float32), "batch rows")
    assert any("the length of the loop `while`" in problem.text for problem in refused(halved, x))


def test_an_effect_is_refused_before_there_is_a_layout():
    def calling(x):
        jax.debug.callback(print, x.sum())
        return x

    with pytest.raises(ml.TraceError, match="has a side effect; do that outside"):
        ml.trace(calling, ml.f32[Batch, Rows])


def test_a_sum_that_an_iteration_needs_is_refused_with_both_lines():
    def normalized(x, w):
        y = ml.dot(x, w, Rows)
        return y - y.mean("batch")

    (problem,) = refused(normalized, ml.f32[Batch, Rows], ml.f32[Rows, Hidden])
    line = r"test_time_legality.py:\d+"
    assert re.search(
        rf"`sub` at {line} needs in each iteration over `micro` a value of all iterations together: the sum that"
        rf" `reduce_sum` at {line} makes. A loop in front, to find it, would compute `dot_general` at {line} a"
        " second time. Take `batch` off `micro`",
        str(problem),
    )
    assert problem.source
    assert problem.source.line


def test_more_than_two_loops_are_refused():
    def twice(x):
        centred = x - x.mean("batch")
        return centred / (centred * centred).mean("batch")

    assert any("More than two loops would be needed" in p.text for p in refused(twice, ml.f32[Batch, Rows]))


def test_a_value_that_is_gathered_and_read_again_is_refused():
    def both(x, w):
        y = ml.dot(x, w, Rows)
        other = y.rename(batch="other")
        return ml.dot(y, other, Hidden)

    texts = [p.text for p in refused(both, ml.f32[Batch, Rows], ml.f32[Rows, Hidden])]
    line = r"gathered for test_time_legality\.py:\d+\S* \(`batch` becomes `other`\)"
    assert any(re.search(line, text) and "they read it again" in text for text in texts), texts


def test_a_sum_needed_in_a_layer_is_refused():
    Layers = ml.Dim("layers", 3)

    def deep(x, weights):
        def layer(x, w):
            y = x * w
            return y / y.sum("batch"), None

        return ml.scan(layer, x, weights, Layers)[0]

    texts = [p.text for p in refused(deep, ml.f32[Batch, Rows], ml.f32[Layers, Rows])]
    assert any("needs in each iteration" in text and "the sum that `reduce_sum` at" in text for text in texts), texts


def test_shards_that_depend_on_each_other_are_refused():
    texts = [p.text for p in refused(lambda x: ml.cumsum(x, "batch"), ml.f32[Batch, Rows])]
    assert any("needs all of `batch`" in text or "depend on each other" in text for text in texts), texts
    shifted = [p.text for p in refused(lambda x: ml.shift(x, "batch", 1), ml.f32[Batch, Rows])]
    assert any("The parts of `shift` at" in text for text in shifted), shifted


def test_blocks_that_would_change_places_are_refused():
    def turned(x):
        return ml.merge(x * 2, (Batch, Rows), ml.Dim("both", 240)) * 3

    layout, mesh = "batch:data+micro both:micro", ml.mesh(data=5, micro=ml.serial(3))
    texts = [p.text for p in refused(turned, ml.f32[Batch, Rows], mesh=mesh, layout=layout)]
    assert any("blocks of `micro`, which exist one after another, would change places" in text for text in texts), texts


def test_a_tag_is_stored_in_an_iteration():
    def residual(x, w):
        return ml.dot(ml.tag(x * 2, "kept"), w, Rows)

    program = ml.trace(residual, ml.f32[Batch, Rows], ml.f32[Rows, Hidden])
    plan = program.plan(ml.mesh(model=2, micro=ml.serial(3)), {"batch": "micro", "kept": {"rows": "model"}})
    assert plan.spec("kept").splits == (("micro",), ("model",))
    assert plan.spec("x").splits == ((), ())
    assert plan.check().ok
