# %% [markdown]
# # 2. Meshes and shards: what does each device hold?
#
# In the last lesson every axis of an array got a name. Now there are several devices. In twenty minutes you will be
# able to say, for any layout, which slice of an array each device holds, how many copies there are, and which layouts
# are not allowed.
#
# You **predict** first: write your number in place of the `...`, and run the cell. The first prediction counts. Being
# wrong is fine: it is what you will remember.

# %%
import meshlab as ml
from meshlab import puzzles

ml.simulate(64)

# %% [markdown]
# ## A mesh is a grid of devices
#
# A **mesh** arranges devices in a grid, and gives each axis of the grid a name and a size. Here are eight devices:
# four rows along `data`, two columns along `model`. They are numbered row by row, so device 5 is in row 2 and column
# 1, counted from 0.

# %%
mesh = ml.mesh(data=4, model=2)

for device in range(mesh.size):
    print(f"device {device}: data {device // 2}, model {device % 2}")

# %% [markdown]
# ## A layout maps dims to mesh axes
#
# The program below is two layers of a network: `x` is `[batch, embed]`, the weights `up` are `[embed, hidden]`, and
# `down` is `[hidden, embed]`. A **layout** is a list of *dim : mesh axis*. `batch:data` means: cut every array that
# has a `batch` into four along it, one part for each row of the mesh.

# %%
Batch, Embed, Hidden = ml.dims(batch=64, embed=32, hidden=128)


def forward(weights, x):
    return ml.dot(ml.relu(ml.dot(x, weights["up"], Embed)), weights["down"], Hidden)


weights = {"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}
program = ml.trace(forward, weights, ml.f32[Batch, Embed])
plan = program.plan(mesh, "batch:data hidden:model")

# %% [markdown]
# `plan.shard(place, device)` gives the slice that a device holds: a range for each axis. Device 0 has the first
# quarter of the batch, and all of `embed`.

# %%
plan.shard("x", 0)

# %% [markdown]
# **Predict.** The batch has 64 rows. What is the first row of `x` that device 5 holds?

# %%
puzzles.Q["2a"].predict(...)

# %% [markdown]
# Here are all eight. Devices in one row of the mesh hold the *same* rows of `x`: no dim of `x` is on `model`, so each
# part is **replicated** along `model`, which means that each column has a copy.

# %%
for device in range(mesh.size):
    (first, last), _ = plan.shard("x", device)
    print(f"device {device}: rows {first:2} to {last - 1:2} of x, and all columns")

# %% [markdown]
# ## Drag it
#
# The board shows the same. Open **Devices**, pick `x`, and drag `batch` onto `data`: the grid colours each device by
# the slice it holds. Then pick `up` and drag `hidden` onto `model`. With the keyboard: Tab to the chip, Enter, arrow
# keys, Enter.

# %%
explorer = ml.explore(program, mesh)

explorer

# %% [markdown]
# A dim may be on several axes. `batch:data+model` cuts the batch into eight. The first axis is the **major** one: it
# makes the large blocks, and the second axis cuts within them. On the board, hold Shift while you drop `batch` on the
# second axis.

# %%
eight = program.plan(mesh, "batch:data+model")
turned = program.plan(mesh, "batch:model+data")

print("data first:", [eight.shard("x", device)[0][0] for device in range(8)])
print("model first:", [turned.shard("x", device)[0][0] for device in range(8)])

# %% [markdown]
# ## Copies
#
# An array that a layout does not cut at all has a copy on each device. This costs memory first of all: under
# `batch:data`, all eight devices hold all of the weights, so together they hold eight copies.

# %%
for layout in ("", "batch:data", "batch:data hidden:model"):
    plan = program.plan(mesh, layout)
    print(f"{layout or 'nothing split':24} {plan.stored.argument_bytes:7,} bytes of arguments on a device")

# %% [markdown]
# **Puzzle P01.** A larger mesh: 4 × 8 × 2 devices, and an array of 64 × 8 × 8 floats. First predict, here or on the
# board below: it asks as well, and shows no numbers before.

# %%
puzzles.P01.predict(...)

# %% [markdown]
# Now its board, and a task: store only one copy of the array in total. `puzzles.P01.check()` checks the layout on the
# board, and each `puzzles.P01.hint()` helps a little more.

# %%
puzzles.P01.show()

# %%
puzzles.P01.check()

# %% [markdown]
# **Puzzle P02.** This time, count the bytes on a device. The array is a table of 128 × 2,048 bytes.

# %%
puzzles.P02.predict(...)

# %%
puzzles.P02.show()

# %%
puzzles.P02.check()

# %% [markdown]
# ## What is not allowed
#
# Two dims of one array cannot be on the same mesh axis: a device with coordinate 2 along `data` would hold block 2 of
# both, and no device would hold block 2 of one with block 3 of the other. The mesh must have the axis. And the axis
# must divide the size evenly: here is a batch of 66 on four rows. meshlab reports each problem before anything runs,
# with what would fit:

# %%
odd = program.resize(batch=66)

for given, layout in ((program, "embed:data hidden:data"), (program, "embed:rows"), (odd, "batch:data")):
    try:
        given.plan(mesh, layout)
    except ml.LayoutError as error:
        print(error, "\n")

# %% [markdown]
# **Puzzle P03.** Two layers on a 2 × 2 mesh. How many layouts are legal? Write them down: which pairs of dims meet in
# an array?

# %%
puzzles.P03.predict(...)

# %% [markdown]
# And now in code instead of by dragging: give each device all of `x`, and a quarter of each weight. A layout is a
# string; replace it with yours.

# %%
puzzles.P03.check("batch:x")

# %%
puzzles.P03.hint()

# %% [markdown]
# ## What you know now
#
# - A mesh is a grid of devices with named axes, and devices are numbered row by row.
# - `dim:axis` cuts every array with that dim; an array without the dim is replicated along the axis.
# - `dim:a+b` cuts by `a` first, then by `b` within.
# - Two dims of one array need two axes, and the axes must divide the sizes.
#
# So far devices only *hold* arrays; they have not sent anything. In the next lesson they communicate.
