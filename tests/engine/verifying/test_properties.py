"""What holds for every program and layout: random programs under random layouts, and equivalent spellings."""

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes
from tests.engine import grammar
from tests.engine.small_programs import moved

pytestmark = pytest.mark.share(2, of="file")

programs = st.lists(st.integers(0, 99_999), min_size=1, max_size=5)


@pytest.fixture(autouse=True, scope="module")
def _forget():
    yield
    jax.clear_caches()


@given(programs, st.integers(0, 999))
@settings(max_examples=12)
def test_random_programs_are_as_predicted_and_as_unsharded(numbers, seed):
    program = ml.trace(grammar.with_gradients(numbers), grammar.ARGS)
    for mesh, layout in draw(program, seed, 1):
        report = program.plan(mesh, layout).check(grammar.data(seed))
        assert report.ok, f"{layout} on {mesh}:\n{report}"


def replaced(layout, names):
    """The same layout with other dim names."""

    def rules(each):
        return {names[d]: axes or None for d, axes in each.items()}

    return rules(layout.rules) | {place: rules(own) for place, own in layout.places.items()}


def net(names):

    def fn(w, x):
        def loss(w):
            return ml.square(ml.tag(ml.tanh(ml.dot(x, w, names[1])), "t")).mean()

        value, grads = jax.value_and_grad(loss)(w)
        return value, w - 0.1 * grads

    A, B, C = (ml.Dim(n, 8) for n in names)
    return ml.trace(fn, ml.f32[B, C], ml.f32[A, B])


@given(st.integers(0, 9_999))
@settings(max_examples=30)
def test_renaming_dims_changes_nothing(seed):
    before, after = ("a", "b", "c"), ("zebra", "aardvark", "m")
    one, other = net(before), net(after)
    for mesh, layout in draw(one, seed, 1):
        plan = one.plan(mesh, layout)
        renamed = other.plan(mesh, replaced(layout, dict(zip(before, after, strict=True))))
        assert moved(renamed) == moved(plan)
        assert dict(renamed.stored.parts) == dict(plan.stored.parts)


@given(st.integers(0, 9_999))
@settings(max_examples=30)
def test_equal_axes_may_change_names(seed):
    program = net(("a", "b", "c"))
    # Of sums that send as much in any order the later axes of the mesh go first, so that its order goes with the names.
    mesh, renamed = ml.mesh(x=2, y=2), ml.mesh(y=2, x=2)
    other = {"x": "y", "y": "x"}
    for _, layout in draw(program, seed, 4, [mesh]):
        swapped = {d: tuple(other[a] for a in axes) for d, axes in layout.rules.items()}
        swapped |= {
            place: {d: tuple(other[a] for a in axes) or None for d, axes in own.items()}
            for place, own in layout.places.items()
        }
        plan, permuted = program.plan(mesh, layout), program.plan(renamed, swapped)
        assert sorted((k, sorted(other[a] for a in axes), n, t) for k, axes, n, t in moved(plan)) == sorted(
            (k, sorted(axes), n, t) for k, axes, n, t in moved(permuted)
        )


@given(st.integers(0, 9_999))
@settings(max_examples=20)
def test_an_axis_of_size_one_costs_nothing(seed):
    """A rule that puts a dim on one device more than before adds no step, wherever it stands."""
    program = net(("a", "b", "c"))
    for mesh, layout in draw(program, seed, 1):
        wider = ml.Mesh((*mesh.shape, ("one", 1)))
        plain = program.plan(mesh, layout)
        for dim in program.dims:
            added = layout.with_rule(dim, (*layout.rules.get(dim, ()), "one"))
            plan = program.plan(wider, added)
            assert moved(plan) == moved(plain)
            assert [str(step) for step in plan.steps] == [str(step) for step in plain.steps]


def test_a_plan_depends_on_its_layout_alone():
    config = mlp.Config(8, 4, 4, 16, 8)
    first = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config))
    for mesh, layout in draw(first, 3, 12):
        fresh = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config))
        # What was planned before is remembered, and must not show.
        assert moved(fresh.plan(mesh, layout)) == moved(first.plan(mesh, layout)) == moved(first.plan(mesh, layout))


def test_more_devices_cost_no_more_planning():
    config = mlp.Config(2**14, 28, 28, 2**14, 16)
    program = ml.trace(mlp.step, shapes(mlp.init, config), *mlp.inputs(config))
    small, large = (program.plan(ml.mesh(data=n, model=n), "batch:data hidden:model") for n in (2, 256))
    assert len(large.steps) == len(small.steps)
    assert [c.kind for c in large.collectives] == [c.kind for c in small.collectives]
