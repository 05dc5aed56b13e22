"""Kernels: bytes of look-ups and updates in place, padding of tiles, and operations."""

import dataclasses

import jax
import pytest

import meshlab as ml

IDEAL = ml.hardware("v5e").ideal
Table, Embed, Few = ml.dims(table=1024, embed=64, few=2)
ROWS = 2 * 64 * 4


def time(function, *arguments, on=IDEAL):
    return ml.trace(function, *arguments).plan(ml.mesh(on, x=1), {}).time


def test_an_update_in_place_reads_and_writes_what_it_changes():
    """The new rows are read, and the old ones read and written: of the table nothing else."""
    predicted = time(
        lambda t, r: jax.lax.dynamic_update_slice(t.array, r.array, (3, 0)), ml.f32[Table, Embed], ml.f32[Few, Embed]
    )
    assert predicted.memory_bytes == 3 * ROWS
    args = ml.f32[Table, Embed], ml.i32[Few], ml.f32[Few, Embed]
    added = time(lambda t, i, r: t.array.at[i.array].add(r.array), *args)
    assert 3 * ROWS < added.memory_bytes < 3 * ROWS + 100  # and which rows


SCATTERS = "set add subtract multiply min max".split()
# Written in place; computed in what is written, and read by what is behind; of a table that is read once more.
AROUND = {
    "alone": lambda table, write: write(table),
    "between": lambda table, write: write(table * 2) + 1,
    "beside": lambda table, write: (write(table), table + 1),
}


@pytest.mark.parametrize("on", ["v5e", "h100", "cpu"])
@pytest.mark.parametrize("around", AROUND)
def test_scatters_of_all_kinds_cost_alike(around, on):
    """The same work, whatever an update does to what was there: within 20%, in bytes, seconds and memory."""
    costs = []
    for kind in SCATTERS:

        def function(table, rows, updates, kind=kind):
            return AROUND[around](table.array, lambda t: getattr(t.at[rows.array], kind)(updates.array))

        plan = ml.trace(function, ml.f32[Table, Embed], ml.i32[Few], ml.f32[Few, Embed]).plan(ml.mesh(on, x=1), {})
        time, memory = plan.time, plan.memory
        costs.append((time.memory_bytes, time.estimate, memory.peak_bytes, memory.donated.peak_bytes))
    for figures in zip(*costs, strict=True):
        assert max(figures) <= 1.2 * min(figures)
    if around == "alone":
        # In place: of the table no more than what is written.
        assert max(costs)[0] < 4 * ROWS


def test_a_lookup_reads_and_writes_what_it_finds():
    predicted = time(lambda t: jax.lax.dynamic_slice(t.array, (5, 0), (2, 64)), ml.f32[Table, Embed])
    assert predicted.memory_bytes == 2 * ROWS


@pytest.mark.parametrize(
    ("on", "rows", "inner", "columns", "share"),
    [
        # Of a TPU's 128 x 128 what is summed and one other side; the third side by eights, whichever order is better.
        ("v5e", 8, 128, 128, 1),
        ("v5e", 128, 128, 8, 1),
        ("v5e", 8, 128, 64, 1 / 2),
        ("v5e", 4, 128, 128, 1 / 2),
        ("v5e", 128, 96, 128, 3 / 4),
        ("v6e", 256, 128, 256, 1 / 2),
        # Of a GPU's tiles of the result 64 x 64, summed in slices of 16.
        ("h100", 64, 16, 64, 1),
        ("h100", 32, 16, 64, 1 / 2),
        ("h100", 64, 24, 64, 3 / 4),
        ("cpu", 3, 5, 7, 1),
    ],
)
def test_what_does_not_fill_a_tile_is_padded_to_it(on, rows, inner, columns, share):
    (a, b, c), (n,) = ml.dims(a=rows, b=inner, c=columns), ml.dims(n=2**30)
    machine = dataclasses.replace(ml.hardware(on).ideal, bandwidth=ml.Figure(1e30))
    predicted = time(lambda x, y: ml.dot(x, y, "b"), ml.bf16[n, a, b], ml.bf16[n, b, c], on=machine)
    operations = 2 * 2**30 * rows * inner * columns
    assert predicted.flops == operations
    assert predicted.compute_bound == pytest.approx(operations / share / machine.flops_per_second("bfloat16"))


def test_products_of_whole_numbers_are_no_work_of_the_matrix_units_but_for_bytes():
    a, b, c = ml.dims(a=64, b=64, c=64)
    for dtype, flops in ((ml.i32, 0), (ml.i8, 2 * 64**3), (ml.f32, 2 * 64**3)):
        assert time(lambda x, y: ml.dot(x, y, "b"), dtype[a, b], dtype[b, c]).flops == flops


def test_a_causal_mask_hides_half_of_the_products_of_scores_and_of_no_others():
    b, h, s, d, f = ml.dims(b=2, h=4, seq=256, d=64, f=512)

    def attend(x, y, z, w):
        scores = ml.softmax(ml.dot(x, y.rename(seq="keys"), "d"), "keys")
        return ml.dot(ml.dot(scores, z.rename(seq="keys"), "keys"), w, "d")

    args = *(3 * [ml.bf16[b, h, s, d]]), ml.bf16[d, f]
    stored = time(attend, *args)
    one, last = 2 * 2 * 4 * 256 * 256 * 64, 2 * 2 * 4 * 256 * 64 * 512
    assert stored.flops == 2 * one + last
    assert stored.given(attention="flash").flops == 2 * one + last
    assert stored.given(attention="causal").flops == one + last


@pytest.mark.parametrize("passes", ["forward", "backward"])
def test_softmax_waits_for_no_launches_of_its_own_where_attention_is_one_kernel(passes):
    b, h, q, k, d = ml.dims(b=2, h=2, q=16, k=16, d=8)

    def attend(x, y, z):
        return ml.dot(ml.softmax(ml.dot(x, y, d), k), z, k)

    def gradients(x, y, z):
        return jax.grad(lambda *a: ml.square(attend(*a)).sum(), argnums=(0, 1, 2))(x, y, z)

    args = ml.f32[b, h, q, d], ml.f32[b, h, k, d], ml.f32[b, h, k, d]
    both = time(attend if passes == "forward" else gradients, *args, on=ml.hardware("h100"))
    launch = ml.hardware("h100").efficiency.launch.value
    stored, fused = (
        [(step.title, cost.seconds) for step, _, cost in run.spent.kernels if not cost.flops]
        for run in (both.given(attention="stored"), both.given(attention="flash"))
    )
    assert len(stored) == (4 if passes == "forward" else 8)
    assert {seconds for _, seconds in stored} == {launch}
    # The gradients of the square and of a key are no scores.
    waits = [name for name, seconds in fused if seconds >= launch]
    assert waits == ([] if passes == "forward" else ["mul", "transpose"])


def test_a_loop_runs_the_scores_of_all_turns():
    b, h, s, d, layers = ml.dims(b=2, h=4, seq=256, d=64, layers=3)

    def loss(x, steps):
        def turn(x, _):
            scores = ml.softmax(ml.dot(x, x.rename(seq="keys"), "d"), "keys")
            return ml.dot(scores, x.rename(seq="keys"), "keys"), None

        return ml.square(ml.scan(turn, x, steps, "layers")[0]).sum()

    predicted = time(jax.grad(loss), ml.f32[b, h, s, d], ml.f32[layers])
    one = 2 * 2 * 4 * 256 * 256 * 64
    assert predicted.given(attention="stored").flops == 3 * 6 * one
    assert predicted.flops == predicted.given(attention="flash").flops == 3 * 7 * one
