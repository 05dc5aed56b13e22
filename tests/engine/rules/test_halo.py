"""Shards are extended by their neighbours' elements, whatever the widths and the axes that split them."""

import itertools
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import meshlab as ml
from meshlab.engine.rules.halo import Slide, extended, gathered_in
from meshlab.engine.running.lower import MeshDevice
from meshlab.engine.verifying.hlo import read_collectives, totals

SIZES = {"x": 2, "y": 2, "z": 2}
MESH = Mesh(np.array(jax.devices("cpu")[:8]).reshape(2, 2, 2), tuple(SIZES))
SPLITS = [split for count in (1, 2, 3) for split in itertools.permutations(SIZES, count)]
WIDTHS = [(1, 0), (0, 2), (1, 1), (3, 2), (9, 1), (0, 7), (17, 20)]


def on_devices(fns, split):
    """One compiled program of functions of a device and a block; it joins what the devices make in their order."""
    spec = PartitionSpec(split)

    def run(*blocks):
        return [fn(MeshDevice(SIZES), block) for fn, block in zip(fns, blocks, strict=True)]

    return jax.jit(jax.shard_map(run, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=False))


def shards(arrays, split):
    return [jax.device_put(x, NamedSharding(MESH, PartitionSpec(split))) for x in arrays]


def blocks(x, widths, parts, fill: Any = 0):
    """The extended blocks, by numpy."""
    wide = np.pad(x, (widths, *[(0, 0)] * (x.ndim - 1)), constant_values=fill)
    size = len(x) // parts
    return np.concatenate([wide[i * size : (i + 1) * size + sum(widths)] for i in range(parts)])


@pytest.mark.parametrize("split", SPLITS, ids="+".join)
def test_a_block_is_extended_by_its_neighbours(split):
    x = np.arange(1.0, 33.0, dtype=np.float32).reshape(16, 2)
    cases = list(itertools.product(WIDTHS, (None, np.float32(-7))))
    fns = [lambda device, b, w=w, f=f: extended(device, b, 0, split, w, fill=f) for w, f in cases]
    for (widths, fill), result in zip(cases, on_devices(fns, split)(*shards([x] * len(fns), split)), strict=True):
        expected = blocks(x, widths, 2 ** len(split), 0 if fill is None else fill)
        np.testing.assert_array_equal(result, expected, err_msg=f"{widths} {fill}")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, jnp.bfloat16, np.complex64])
def test_blocks_of_any_dtype_are_extended(dtype):
    x, split = np.arange(8).astype(dtype), ("y", "x")
    one = np.ones((), dtype)
    run = on_devices([lambda device, b: extended(device, b, 0, split, (1, 3), fill=one)], split)
    (result,) = run(*shards([x], split))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, blocks(x, (1, 3), 4, one))


@pytest.mark.parametrize("split", [("x",), ("y", "x"), ("x", "z", "y")], ids="+".join)
def test_what_others_have_for_a_block_is_added_to_it(split):
    """Adding back is the transpose of extending: ⟨extend(x), y⟩ = ⟨x, add back(y)⟩."""
    parts, chance = 2 ** len(split), np.random.default_rng(0)
    x = chance.integers(-9, 9, 16).astype(np.int32)
    ys = [chance.integers(-9, 9, 16 + parts * sum(widths)).astype(np.int32) for widths in WIDTHS]
    fns = [lambda device, b, w=w: gathered_in(device, b, 0, split, w) for w in WIDTHS]
    for widths, y, result in zip(WIDTHS, ys, on_devices(fns, split)(*shards(ys, split)), strict=True):
        assert np.vdot(result, x) == np.vdot(y, blocks(x, widths, parts)), widths


@pytest.mark.parametrize(
    ("widths", "sent"),
    [
        ((3, 0), {("collective-permute", ("x", "y")): 3}),
        ((3, 2), {("collective-permute", ("x", "y")): 5}),
        # Two whole blocks and a row from the left, of which the second comes from as far as `x` alone.
        ((9, 1), {("collective-permute", ("x", "y")): 4 + 1 + 1, ("collective-permute", ("x",)): 4}),
        # All that there is: beyond it stands the fill.
        ((17, 0), {("collective-permute", ("x", "y")): 4 + 4, ("collective-permute", ("x",)): 4}),
    ],
    ids=str,
)
def test_no_more_is_sent_than_is_needed(widths, sent):
    split, x = ("x", "y"), np.zeros((16, 2), np.float32)
    run = on_devices([lambda device, b: extended(device, b, 0, split, widths)], split)
    compiled = run.lower(*shards([x], split)).compile()
    rows = {key: count // x[0].nbytes for key, count in totals(read_collectives(compiled.as_text(), SIZES)).items()}
    assert rows == sent


def seen(x, slide):
    """What the windows see of an axis, by numpy: [windows, span]."""
    room = slide.size * slide.spread + slide.windows * slide.stride + slide.span + 8
    wide = np.zeros(3 * room, x.dtype)
    wide[room : room + slide.size * slide.spread : slide.spread] = x
    starts = room - slide.before + slide.stride * np.arange(slide.windows)
    return wide[starts[:, None] + np.arange(slide.span)]


OPTIONS = {
    "size": (8, 16, 24),
    "windows": (8, 16),
    "span": (1, 2, 5),
    "stride": (1, 2, 3),
    "spread": (1, 2, 3),
    "before": (-2, 0, 1, 4),
}
SLIDES = [Slide(*values) for values in itertools.product(*OPTIONS.values())]


@pytest.mark.parametrize("split", [("x",), ("y", "x"), ("z", "x", "y")], ids="+".join)
def test_devices_cover_what_their_windows_see(split):
    """The windows of a part, slid along what it covers, see what they see along the whole axis."""
    parts = 2 ** len(split)
    slides = random.Random(0).sample([slide for slide in SLIDES if slide.most_parts % parts == 0], 40)
    xs = [np.arange(1, slide.size + 1, dtype=np.int32) for slide in slides]
    run = on_devices([lambda device, b, s=s: s.covered(device, b, 0, split)[0] for s in slides], split)
    for slide, x, covered in zip(slides, xs, run(*shards(xs, split)), strict=True):
        reach = slide.reach(parts)
        own = Slide(reach.length, slide.windows // parts, slide.span, slide.stride, slide.spread, reach.padding[0])
        result = np.concatenate([seen(part, own) for part in np.asarray(covered).reshape(parts, -1)])
        np.testing.assert_array_equal(result, seen(x, slide), err_msg=str(slide))


def test_where_nothing_is_asked_of_others_no_part_reaches():
    assert not Slide(8, 8, 1).reaches
    assert not Slide(8, 4, 2, stride=2).reaches
    assert not Slide(8, 4, 1, stride=2).reaches
    assert not Slide(4, 8, 1, spread=2).reaches
    assert Slide(8, 8, 3, before=1).reaches
    assert Slide(8, 4, 3, stride=2).reaches
    assert Slide(8, 6, 3).reaches


def test_parts_are_limited_to_what_divides_axis_and_windows():
    assert Slide(16, 8, 3, stride=2).most_parts == 8
    assert Slide(8, 8, 5, before=2).most_parts == 8
    # A halo of 3 to either side is more than half of 8.
    assert Slide(8, 8, 7, before=3).most_parts == 1
    assert Slide(10, 8, 3).most_parts == 2
    assert Slide(17, 16, 2).most_parts == 1
    assert Slide(8, 16, 3, spread=2).most_parts == 8
    # Windows that begin on an element on one device, and between two on the next, are not the same program.
    assert Slide(9, 15, 3, spread=2).most_parts == 1
    # Such windows may see nothing at all.
    assert Slide(8, 8, 1, stride=2, spread=2).most_parts == 1
    assert Slide(8, 0, 9).most_parts == Slide(0, 8, 1, before=8).most_parts == 1


def test_windows_look_beyond_the_ends_where_there_is_padding():
    assert Slide(8, 8, 3, before=1).beyond
    assert Slide(8, 8, 3).beyond
    assert not Slide(8, 6, 3).beyond
    assert not Slide(8, 4, 2, stride=2).beyond


@pytest.mark.parametrize("layout", ["embed:x", "embed:x seq:y"])
def test_partial_sums_are_shifted_as_they_are_and_added_up_once(layout):
    Seq, Embed, Ffn = ml.dims(seq=8, embed=8, ffn=8)

    def step(w, a, b):
        return ml.shift(ml.dot(a, w, Embed), Seq, 1) + ml.dot(b, w, Embed)

    program = ml.trace(step, ml.f32[Embed, Ffn], ml.f32[Seq, Embed], ml.f32[Seq, Embed])
    plan = program.plan(ml.mesh(x=2, y=2), layout)
    assert [c.kind for c in plan.collectives if c.axes == ("x",)] == ["all-reduce"]
    assert plan.check().ok
