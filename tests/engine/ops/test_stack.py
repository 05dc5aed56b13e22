"""Pieces of dims, dims around tensors, several dims as one: equal to numpy's, and refused where sizes do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine.drawn import draw

A, B, C = ml.dims(a=2, b=3, c=6)


def same(result, dims, wanted):
    assert [dim.name for dim in result.dims] == dims.split()
    np.testing.assert_array_equal(result.array, wanted)


def names(function, *shapes):
    """The names of a program's dims: a new name for an old axis must be said as a rename, or tracing refuses."""
    return list(ml.trace(function, *shapes).dims)


def test_slices_start_and_step_where_they_are_told():
    x = draw(A, C, B)
    same(ml.slice(x, C, ml.Dim("part", 2)), "a part b", x.array[:, :2])
    same(ml.slice(x, "c", ml.Dim("part", 4), start=2), "a part b", x.array[:, 2:])
    same(ml.slice(x, C, ml.Dim("part", 3), start=1, step=2), "a part b", x.array[:, 1::2])
    grads = jax.grad(lambda x: ml.slice(x, C, ml.Dim("part", 2), start=4).sum())(x)
    same(grads, "a c b", np.broadcast_to(np.arange(6)[None, :, None] >= 4, (2, 6, 3)))


def test_a_slice_of_everything_and_a_split_in_one_are_renames():
    full = ml.Dim("whole", 6)
    assert names(lambda x: ml.slice(x, C, full), ml.f32[A, C]) == ["a", "c", "whole"]
    assert names(lambda x: ml.split(x, C, full)[0], ml.f32[A, C]) == ["a", "c", "whole"]
    assert names(lambda x: ml.pad(x, C, full), ml.f32[A, C]) == ["a", "c", "whole"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": ml.Dim("part", 7)}, "slice was asked for part=7 of c=6 from 0 in steps of 1: the last .* position 6"),
        (
            {"part": ml.Dim("part", 3), "start": 2, "step": 2},
            "from 2 in steps of 2: the last of them would be position 6",
        ),
        ({"part": ml.Dim("part", 2), "start": -1}, "slice was given the start -1; it must be an integer of at least 0"),
        ({"part": ml.Dim("part", 2), "step": 0}, "slice was given the step 0; it must be an integer of at least 1"),
        ({"part": "part"}, "slice was given 'part'; it needs a dim with a size"),
        ({"part": A}, "The result of slice has the dim `a` twice"),
        ({"part": ml.Dim("c", 2)}, "slice met two sizes of the dim `c`: c=6 and c=2"),
    ],
)
def test_slices_that_cannot_be_are_refused(options, message):
    with pytest.raises(ml.DimError, match=message):
        ml.slice(draw(A, C), C, **options)


def test_padding_puts_a_dim_into_a_longer_one():
    x = draw(A, B)
    Long = ml.Dim("long", 6)
    same(ml.pad(x, B, Long), "a long", np.pad(x.array, [(0, 0), (0, 3)]))
    same(ml.pad(x, "b", Long, before=2, value=-1), "a long", np.pad(x.array, [(0, 0), (2, 1)], constant_values=-1))
    same(jax.grad(lambda x: ml.pad(x, B, Long).sum())(x), "a b", np.ones((2, 3)))
    with pytest.raises(ml.DimError, match="pad was asked to make long=6 of b=3 with 4 positions before it: too few"):
        ml.pad(x, B, Long, before=4)
    with pytest.raises(ml.DimError, match="pad was given the number of positions before 1.0; it must be an integer"):
        ml.pad(x, B, Long, before=1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match="pad was given 'long'; it needs a dim with a size"):
        ml.pad(x, B, "long")  # pyright: ignore[reportArgumentType]


def test_stack_and_unstack_are_inverse():
    x, y = draw(A, B), draw(B, A, seed=1)
    stacked = ml.stack((x, y), "copy")
    same(stacked, "copy a b", np.stack([x.array, y.array.T]))
    first, second = ml.unstack(stacked, "copy")
    same(first, "a b", x.array)
    same(second, "a b", y.array.T)
    same(ml.unstack(x, B)[2], "a", x.array[:, 2])
    same(ml.stack((x.sum(), 2), ml.Dim("copy", 2)), "copy", [x.array.sum(), 2])
    assert isinstance(ml.unstack(draw(A), A)[0], jax.Array)
    assert ml.stack((x, ml.tensor([[1, 2], [3, 4], [5, 6]], B, A)), "copy").dtype == jnp.float32
    assert names(lambda x: ml.unstack(ml.stack((x, x), "copy"), "copy")[0], ml.f32[A, B]) == ["a", "b", "copy"]


def test_stack_refuses_what_does_not_fit():
    with pytest.raises(ml.DimError, match="stack was given no tensors; it takes at least one"):
        ml.stack((), "copy")
    with pytest.raises(ml.DimError, match=r"different dims: number 0 has \[a=2\], number 1 \[a=2, b=3\]"):
        ml.stack((draw(A), draw(A, B)), "copy")
    with pytest.raises(ml.DimError, match="stack was asked to make copy=3 of 2 tensors"):
        ml.stack((draw(A), draw(A)), ml.Dim("copy", 3))
    with pytest.raises(ml.DimError, match="The result of stack has the dim `a` twice"):
        ml.stack((draw(A), draw(A)), A)
    with pytest.raises(ml.DimError, match=r"stack was given an array of shape \(2,\)"):
        ml.stack((jnp.ones(2),), "copy")


def test_concat_joins_parts_that_are_called_differently():
    x, y = draw(A, B), draw(C, A, seed=1)
    joined = ml.concat((x, y), (B, "c"), ml.Dim("joined", 9))
    same(joined, "a joined", np.concatenate([x.array, y.array.T], 1))
    with pytest.raises(ml.DimError, match="concat was given 2 tensors and 1 dims to join along"):
        ml.concat((x, y), (B,), ml.Dim("joined", 9))
    with pytest.raises(ml.DimError, match=r"join \[b=3, c=6\] into joined=8, whose size must be their sum, 9"):
        ml.concat((x, y), (B, C), ml.Dim("joined", 8))
    with pytest.raises(ml.DimError, match=r"different dims: part 0 has \[a=2, b=3\], part 1 \[c=6, b=3\]"):
        ml.concat((x, draw(C, B)), (B, B), ml.Dim("joined", 6))


def test_merging_counts_the_first_dim_slowest_and_unmerging_is_the_way_back():
    x = draw(A, B, C)
    merged = ml.merge(x, (A, B), "place")
    same(merged, "place c", np.reshape(x.array, (6, 6)))
    same(ml.unmerge(merged, "place", (A, B)), "a b c", x.array)
    same(ml.merge(x, ("c", "a"), ml.Dim("place", 12)), "b place", np.transpose(x.array, (1, 2, 0)).reshape(3, 12))
    same(ml.merge(x, (C, A, B), "place"), "place", np.transpose(x.array, (2, 0, 1)).reshape(-1))
    same(jax.grad(lambda x: ml.square(ml.merge(x, (A, C), "place")).sum())(x), "a b c", 2 * x.array)


def test_merging_with_dims_of_one_position_is_a_rename():
    One = ml.Dim("one", 1)
    assert names(lambda x: ml.merge(x, (One, B), "place"), ml.f32[A, One, B]) == ["a", "one", "b", "place"]
    assert names(lambda x: ml.unmerge(x, B, (One, ml.Dim("k", 3))), ml.f32[A, B]) == ["a", "b", "one", "k"]
    same(ml.merge(draw(One, ml.Dim("two", 1)), (One, "two"), "place"), "place", draw(One).array)


@pytest.mark.parametrize(
    ("dims", "merged", "message"),
    [
        ((A,), "place", r"merge was given .*; it makes one dim of several: ml.merge\(x, \(Rows, Cols\)"),
        ("ab", "place", "merge was given 'ab'; it makes one dim of several"),
        ((A, A), "place", "merge was given a dim twice: `a`, `a`"),
        ((A, "k"), "place", r"merge was asked for the dim `k` of \[a=2, b=3, c=6\]"),
        ((A, B), ml.Dim("place", 7), r"merge was asked to make place=7 of \[a=2, b=3\], which have 6 positions"),
        ((A, B), "c", "The result of merge has the dim `c` twice"),
    ],
)
def test_merging_what_cannot_be_is_refused(dims, merged, message):
    with pytest.raises(ml.DimError, match=message):
        ml.merge(draw(A, B, C), dims, merged)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ((C,), "unmerge was given .*; it makes several dims of one"),
        ((A, "b"), "unmerge was given 'b'; it needs a dim with a size"),
        ((A, A), r"unmerge was asked to make \[a=2, a=2\] of c=6; together they have 4 positions"),
        ((ml.Dim("k", 2), B), "The result of unmerge has the dim `b` twice"),
    ],
)
def test_unmerging_what_cannot_be_is_refused(dims, message):
    with pytest.raises(ml.DimError, match=message):
        ml.unmerge(draw(B, C), C, dims)


def test_pieces_run_split_over_another_dim():
    Long, Part = ml.dims(long=8, part=2)

    def step(x):
        parts = ml.unstack(ml.stack((x, 2 * x), "copy"), "copy")
        y = ml.concat((ml.pad(parts[0], C, Long, before=1), parts[1]), (Long, C), ml.Dim("joined", 14))
        y = ml.merge(ml.slice(y, "joined", Part, start=3, step=5), (Part, B), "place")
        return ml.unmerge(y, "place", (Part, B)).sum(Part)

    plan = ml.trace(step, ml.f32[A, B, C]).plan(ml.mesh(data=2), "a:data")
    report = plan.check()
    assert report.ok, report
    assert not plan.collectives
