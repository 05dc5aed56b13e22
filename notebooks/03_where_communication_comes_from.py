# %% [markdown]
# # 3. Where communication comes from
#
# So far arrays were only held. Now devices compute, each with its own slices. When can one work alone, and when must
# it hear from the others? In twenty minutes you will be able to derive, for any layout of a matmul, which collective
# runs, over which mesh axis, and how many bytes a device sends.
#
# Predict first, as before.

# %%
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

import meshlab as ml
from meshlab import puzzles

ml.simulate(4)

# %% [markdown]
# ## One matmul, four cases
#
# `x` is `[batch embed]`, `w` is `[embed hidden]`, and `embed` is summed. There are four devices in a row. Whatever
# layout you choose, a matmul is in one of four cases.

# %%
Batch, Embed, Hidden = ml.dims(batch=16, embed=64, hidden=32)

program = ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.f32[Batch, Embed], ml.f32[Embed, Hidden])
mesh = ml.mesh(x=4)

# %% [markdown]
# **Case 1: the dim that is split is not summed.** Each device has four rows of `x` and all of `w`, and makes four
# rows of the result. It needs nobody. The same holds for `hidden:x`, where each device makes eight columns.

# %%
program.plan(mesh, "batch:x").explain()

# %%
program.plan(mesh, "hidden:x").explain()

# %% [markdown]
# **Case 2: an operand is stored split, but computed with whole.** A layout may say how *one* array is stored: a rule
# inside `"w": {…}` holds for `w` alone. Here each device stores a quarter of `w`. To multiply, it must collect the
# other three quarters first: an **all-gather**.

# %%
program.plan(mesh, {"batch": "x", "w": {"embed": "x"}}).explain()

# %% [markdown]
# **Case 3: the dim that is summed is split.** Each device has a quarter of `embed`, of both operands. It multiplies
# what it has, and gets an array of the right shape with the wrong numbers: a **partial sum**. Adding up the four is
# an **all-reduce**.

# %%
program.plan(mesh, "embed:x").explain()

# %% [markdown]
# Is it true? `check` compiles the plan, reads the collectives of the compiled program, runs it on random numbers, and
# compares all of it with what was planned.

# %%
print(program.plan(mesh, "embed:x").check())

# %% [markdown]
# **Case 4: two dims on one axis.** `batch:x hidden:x` would cut the result along both dims with one axis, and nobody
# would make the blocks off the diagonal. You know this refusal from the last lesson. The way out is case 2: *store*
# `w` split along `hidden`, and gather it.

# %%
try:
    program.plan(mesh, "batch:x hidden:x")
except ml.LayoutError as error:
    print(error)

program.plan(mesh, {"batch": "x", "w": {"hidden": "x"}}).explain()

# %% [markdown]
# So there are only two reasons to talk: **a dim is summed while it is split**, or **an array is stored in one way and
# used in another**.
#
# ## Two matmuls
#
# **Puzzle P04.** Two layers on a 2 × 2 mesh. `embed` is summed in the first matmul, `hidden` in the second. Look for
# the first reason: which dims of the layout are summed, and where?

# %%
puzzles.P04.predict(...)

# %% [markdown]
# Now drag. The strip above the board ticks what your layout meets. A layout that splits nothing sends nothing too,
# but then every device does all of the work; so the goal asks for both. (For two axes, hold Shift while you drop.)

# %%
puzzles.P04.show()

# %%
puzzles.P04.check()

# %% [markdown]
# ## Payload and wire
#
# `explain` gives two numbers of bytes. The **payload** is what one device puts into a collective: its partial sum, or
# its slice. What it sends are the **wire bytes**, and these follow from the way a collective runs. The devices form a
# ring, and each sends a piece to its neighbour at each hop.
#
# Open **Traffic** below, unfold the all-reduce, and step through it: with the buttons, or with H and then the arrow
# keys. In the first half a piece travels round and each device adds its own; in the second half the finished pieces
# travel round once more.

# %%
explorer = ml.explore(program, mesh, "embed:x")

explorer

# %% [markdown]
# With four devices the array is cut into four pieces, and each half takes three hops. So a device sends 2 · 3/4 of
# the payload; with *n* devices it is 2 · (n − 1)/n. More devices hardly change it:

# %%
for n in (2, 4, 8, 16):
    (reduced,) = program.plan(ml.mesh(x=n), "embed:x").collectives
    payload, wire = reduced.payload_bytes, reduced.wire_bytes
    print(f"{n:2} devices: payload {payload:,} B, sent {wire:,.0f} B, {wire / payload} times as much")

# %% [markdown]
# **Puzzle P05.** Now a network with more dims than you need, which reads pictures of digits: `[batch rows cols]` ·
# `[rows cols hidden]`, then `[batch hidden]` · `[hidden classes]`, in 32-bit floats (4 bytes each). The sizes are
# batch 100, rows 28, cols 28, hidden 1,024, classes 10. Which array is a partial sum, and how large is it on one
# device?

# %%
puzzles.P05.predict(...)

# %%
puzzles.P05.show()

# %%
puzzles.P05.check()

# %% [markdown]
# `rows` and `cols` are summed too. Drag one of them, and see which array must be added up then: it has 1,024 columns
# instead of 10. *What* is summed decides the bytes, far more than how many devices there are.
#
# ## The two halves have names
#
# The first half of the ring, alone, leaves each device with one finished piece: a **reduce-scatter**. The second
# half, alone, hands the pieces round: an **all-gather**. Here both in JAX's own words, without meshlab: four devices,
# each with one row, are to have the total of each column. Each row of the output is what one device ends up with.

# %%
devices = jax.sharding.Mesh(jax.devices("cpu")[:4], ("x",))
along = PartitionSpec("x")


def at_once(part):
    return jax.lax.psum(part, "x")


def in_halves(part):
    piece = jax.lax.psum_scatter(part, "x", scatter_dimension=1, tiled=True)
    return jax.lax.all_gather(piece, "x", axis=1, tiled=True)


# %%
rows = jnp.arange(16.0).reshape(4, 4)
totals = [jax.shard_map(f, mesh=devices, in_specs=along, out_specs=along)(rows) for f in (at_once, in_halves)]

print(totals[0])
print("the same:", bool((totals[0] == totals[1]).all()))

# %% [markdown]
# **Puzzle P07.** If the result may stay split, the second half is not needed.

# %%
puzzles.P07.predict(...)

# %% [markdown]
# This time say it in code. The result's place is `out`, so a rule for how it is stored stands in `"out": {…}`.

# %%
puzzles.P07.check({"embed": "x"})

# %%
puzzles.P07.hint()

# %% [markdown]
# ## Turn an array
#
# The second reason to talk has one more face. An array is stored split along its rows, and wanted split along its
# columns. A device keeps the corner that it needs anyway, and sends each of the others the block that *it* needs: an
# **all-to-all**. Nobody receives what it does not keep.
#
# The long way: gather the whole array, then throw most of it away. Per device, an all-to-all sends (n − 1)/n of its
# slice; an all-gather hands on n − 1 whole slices.
#
# **Puzzle P13.** Four devices.

# %%
puzzles.P13.predict(...)

# %% [markdown]
# The argument is at the place `a`, the result at `out`.

# %%
puzzles.P13.check({"a": {"i": "y"}})

# %%
puzzles.P13.hint()

# %% [markdown]
# ## From bytes to seconds
#
# Seconds need a machine. `ml.mesh("v5p:2x2x4", X=2, Y=2, Z=4)` puts the mesh on 16 chips of a TPU v5p, and
# `ml.collective_time` says how long a collective takes on it, given the size of the whole array. A large all-reduce,
# over four chips:

# %%
tpu = ml.mesh("v5p:2x2x4", X=2, Y=2, Z=4)

for size in (1e3, 1e5, 1e6, 1e9):
    seconds = ml.collective_time("all-reduce", size, tpu, "Z")
    wire = 2 * 3 / 4 * size
    print(f"{size:13,.0f} B: {seconds * 1e6:9,.1f} µs, {wire / seconds / 1e9:5.2f} GB/s on the wire")

# %% [markdown]
# A large array is sent at the bandwidth of the links. A small one is not: each hop takes at least a microsecond, and
# six hops take six. So 1,000 bytes take as long as 100,000.
#
# **Puzzle P09.** A product of 4,096 × 4,096 matrices in 32-bit floats, on these chips. The matmul alone takes this
# long:

# %%
matmul = puzzles.P09.plan("embed:Z batch:X+Y").time.compute

print(f"{matmul * 1e6:.1f} µs")

# %% [markdown]
# Under `embed:Z batch:X+Y` the product is summed over `Z`. How large is the partial sum on a device (which dims are
# left, and how are they split)? How much of it is sent? And how long does that take at the bandwidth above? Add the
# matmul.

# %%
puzzles.P09.predict(...)

# %% [markdown]
# And now beat it. Two things can be made smaller: the payload, and the factor (n − 1)/n.

# %%
puzzles.P09.show()

# %%
puzzles.P09.check()

# %% [markdown]
# ## What you know now
#
# - Devices talk for two reasons: a dim is summed while split, or an array is stored in one way and used in another.
# - A split sum is an all-reduce. If the result stays split it is a reduce-scatter, half of that; the other half is an
#   all-gather. From one split to another it is an all-to-all.
# - Time is wire bytes over bandwidth, but never less than the hops.
# - With *n* devices and a payload of *B* bytes, a device sends
#
# | collective | wire bytes |
# |---|---|
# | all-reduce | 2 · (n − 1)/n · B |
# | reduce-scatter, all-to-all | (n − 1)/n · B |
# | all-gather | (n − 1) · B |
#
# All of this was forward. In the next lesson the gradients come back.
