# %% [markdown]
# # 3. Where communication comes from
#
# So far devices only held arrays. Now they compute, each with its own slices. When can a device work alone, and when
# does it need data from the others? You will be able to derive, for any layout of a matmul, which collective runs, over
# which mesh axis, and how many bytes a device sends. This is the longest lesson: it has two parts, of a quarter of an
# hour each.
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
# `x` is `[batch embed]`, `w` is `[embed hidden]`, and the matmul sums over `embed`. There are four devices in a row.
# Whatever layout you choose, a matmul is in one of four cases.

# %%
Batch, Embed, Hidden = ml.dims(batch=16, embed=64, hidden=32)

program = ml.trace(lambda x, w: ml.dot(x, w, "embed"), ml.f32[Batch, Embed], ml.f32[Embed, Hidden])
mesh = ml.mesh(x=4)

# %% [markdown]
# **Case 1: the sharded dim is not summed.** Each device has four rows of `x` and all of `w`, and computes four rows
# of the result. It needs nothing from the others. The same holds for `hidden:x`, where each device computes eight
# columns.

# %%
program.plan(mesh, "batch:x").explain()

# %%
program.plan(mesh, "hidden:x").explain()

# %% [markdown]
# **Case 2: an operand is stored sharded, but used whole.** A layout may say how *one* array is stored: a rule inside
# `"w": {…}` applies to `w` alone. Here each device stores a quarter of `w`. Before the matmul, it must collect the
# other three quarters: an **all-gather**.

# %%
program.plan(mesh, {"batch": "x", "w": {"embed": "x"}}).explain()

# %% [markdown]
# **Case 3: the summed dim is sharded.** Each device has a quarter of `embed` in both operands. It multiplies its
# slices, and gets an array of the right shape with the wrong numbers: a **partial sum**. An **all-reduce** adds up
# the four.

# %%
program.plan(mesh, "embed:x").explain()

# %% [markdown]
# Is that true? `check` compiles the plan, reads the collectives of the compiled program, runs it on random numbers,
# and compares everything with the plan.

# %%
print(program.plan(mesh, "embed:x").check())

# %% [markdown]
# **Case 4: two dims on one axis.** `batch:x hidden:x` would cut the result along both dims with one axis, and no
# device would compute the blocks off the diagonal. You know this error from the last lesson. The way out is case 2:
# *store* `w` sharded along `hidden`, and gather it.

# %%
try:
    program.plan(mesh, "batch:x hidden:x")
except ml.LayoutError as error:
    print(error)

program.plan(mesh, {"batch": "x", "w": {"hidden": "x"}}).explain()

# %% [markdown]
# So there are only two reasons to communicate: **a dim is summed while it is sharded**, or **an array is stored in
# one spec and used in another**.
#
# ## Two matmuls
#
# **Puzzle P04.** Two layers on a 2 × 2 mesh. `embed` is summed in the first matmul, `hidden` in the second. Look for
# the first reason: which sharded dims are summed, and where?

# %%
puzzles.P04.predict(...)

# %% [markdown]
# Now drag. The strip above the board ticks the conditions that your layout meets. A layout that shards nothing also
# sends nothing, but then every device does all of the work. So the goal has two conditions. (For two axes, hold Shift
# while you drop.)

# %%
puzzles.P04.show()

# %%
puzzles.P04.check()

# %% [markdown]
# ## Payload and wire
#
# `explain` gives two byte counts. The **payload** is what one device puts into a collective: its partial sum, or its
# slice. The **wire bytes** are what it sends, and they follow from the way a collective runs. The devices form a
# ring, and at each hop each device sends a piece to its neighbour.
#
# Open **Traffic** below, unfold the all-reduce, and step through it with the buttons, or with H and then the arrow
# keys. In the first half, each piece travels round the ring, and each device adds its part. In the second half, the
# finished pieces travel round again.

# %%
explorer = ml.explore(program, mesh, "embed:x")

explorer

# %% [markdown]
# With four devices, the array is cut into four pieces, and each half takes three hops. So a device sends 2 · 3/4 of
# the payload, and with *n* devices 2 · (n − 1)/n. More devices hardly change it:

# %%
for n in (2, 4, 8, 16):
    (reduced,) = program.plan(ml.mesh(x=n), "embed:x").collectives
    payload, wire = reduced.payload_bytes, reduced.wire_bytes
    print(f"{n:2} devices: payload {payload:,} B, sent {wire:,.0f} B, {wire / payload} times as much")

# %% [markdown]
# **Puzzle P05.** Here is a network that reads pictures of digits, with more dims than you need: `[batch rows cols]` ·
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
# `rows` and `cols` are summed too. Drag one of them, and see which array is now reduced: it has 1,024 columns instead
# of 10. The size of the summed array matters far more than the number of devices.
#
# That was the first part: what is sent, and why. A good place for a break. The second part is about other collectives,
# and about seconds.
#
# ## The two halves have names
#
# The first half alone leaves each device with one finished piece: a **reduce-scatter**. The second half alone passes
# the pieces round: an **all-gather**. Here are both in plain JAX, without meshlab. Four devices have one row each,
# and need the total of each column. Each row of the output is the result on one device.

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
# **Puzzle P07.** If the result may stay sharded, you do not need the second half.

# %%
puzzles.P07.predict(...)

# %% [markdown]
# This time, write the layout in code. The result's place is `out`, so its storage rule goes into `"out": {…}`.

# %%
puzzles.P07.check({"embed": "x"})

# %%
puzzles.P07.hint()

# %% [markdown]
# ## Reshard an array
#
# The second reason has another form. An array is stored sharded along its rows, and needed sharded along its columns.
# Each device keeps the block that it needs itself, and sends every other device the block that *that* device needs:
# an **all-to-all**. No device receives anything that it does not keep.
#
# The expensive way is to gather the whole array, then throw most of it away. Per device, an all-to-all sends (n −
# 1)/n of its slice; an all-gather passes on n − 1 whole slices.
#
# **Puzzle P13.** Four devices, and a program that only scales an array: all that moves is the array itself.

# %%
puzzles.P13.predict(...)

# %% [markdown]
# The argument's place is `a`, the result's place is `out`.

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
# A large array is sent at the bandwidth of the links. A small one is not: each hop takes at least a microsecond, so
# six hops take at least six. So 1,000 bytes take as long as 100,000.
#
# **Puzzle P09.** A matmul of 4,096 × 4,096 matrices in 32-bit floats, on these chips. The compute alone takes this
# long:

# %%
matmul = puzzles.P09.plan("embed:Z batch:X+Y").time.compute

print(f"{matmul * 1e6:.1f} µs")

# %% [markdown]
# Under `embed:Z batch:X+Y`, the result is summed over `Z`. How large is the partial sum on a device (which dims are
# left, and how are they sharded)? How much of it is sent? And how long does that take at the bandwidth above? Add the
# time of the compute.

# %%
puzzles.P09.predict(...)

# %% [markdown]
# Now beat it. You can make two things smaller: the payload, and the factor (n − 1)/n.

# %%
puzzles.P09.show()

# %%
puzzles.P09.check()

# %% [markdown]
# ## What you know now
#
# - Devices communicate for two reasons: a dim is summed while sharded, or an array is stored in one spec and used in
#   another.
# - A sum over a sharded dim needs an all-reduce. If the result stays sharded, it needs only a reduce-scatter, the
#   first half; the second half is an all-gather. Moving from one sharded dim to another is an all-to-all.
# - Time is wire bytes over bandwidth, but never less than the hops.
# - With *n* devices and a payload of *B* bytes, a device sends
#
# | collective | wire bytes |
# |---|---|
# | all-reduce | 2 · (n − 1)/n · B |
# | reduce-scatter, all-to-all | (n − 1)/n · B |
# | all-gather | (n − 1) · B |
#
# All of this was the forward pass. The next lesson adds gradients.
