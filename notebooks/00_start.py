# %% [markdown]
# # Start: lay a model out by dragging
#
# You have a model and several devices. How should it be laid out on them, what will it cost, and why? This notebook
# answers for a small network that reads handwritten digits, on eight devices that your computer pretends to have. It
# takes about a quarter of an hour. Run the cells from the top, with Shift+Enter.
#
# You will
#
# 1. write the model with **names** on its dimensions,
# 2. say from outside how it is split: a **layout**,
# 3. read which communication follows, with its bytes, its cause and its cure: a **plan**,
# 4. train under four layouts and see the same losses,
# 5. and then drag the dimensions about with the mouse, and let the computer find the best layout.

# %%
import jax

import meshlab as ml
from meshlab.models.vision import digits

ml.simulate(8)

# %% [markdown]
# ## The data
#
# scikit-learn brings 1,797 handwritten digits of 8 × 8 pixels along; nothing is downloaded. Here is the first one,
# with its pixels' brightness from 0 to 9.

# %%
data = digits.load()
images, labels = data.train

for row in (images[0] * 9).astype(int):
    print(" ".join(str(pixel) if pixel else "." for pixel in row))
print("This is a", labels[0])

# %% [markdown]
# ## Names for dimensions
#
# An array's axes usually have positions, and one has to remember what axis 2 was. Here each has a **name and a
# size**, said once. `ml.f32[Batch, Rows, Cols]` is a tensor's type: its names, sizes and number format, without any
# data.

# %%
config = digits.Config()
Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=128, rows=8, cols=8, hidden=256, classes=10)

ml.f32[Batch, Rows, Cols]

# %% [markdown]
# ## The model
#
# Two matmuls with a `relu` between them, and out come the *logits*: a score for each of the ten classes. Each
# operation **names the dimensions that it uses up**: the first matmul sums over rows and columns, so what is left of
# `[batch, rows, cols]` and `[rows, cols, hidden]` is `[batch, hidden]`. `cross_entropy` uses up `classes`, and the
# mean uses up the rest: a loss has no dimensions.
#
# The training step is plain JAX: `jax.value_and_grad`, and a subtraction for each weight. Nothing in the model speaks
# of devices.


# %%
def classify(params, images):
    hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))
    logits = ml.dot(hidden, params["w2"], Hidden)
    return logits


def loss(params, images, labels):
    return ml.cross_entropy(classify(params, images), labels, Classes).mean()


def step(params, images, labels):
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)


# %% [markdown]
# ## The program
#
# `ml.trace` runs the step once, on types alone. What comes out is the **program**: every operation of the forward
# pass, the backward pass and the update, with a name on every axis. It knows nothing of devices yet, either.

# %%
shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
program = ml.trace(step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])

dict(program.dims)

# %% [markdown]
# ## The mesh and the layout
#
# A **mesh** arranges the devices in a grid whose axes have names as well: here eight devices, four along `data` and
# two along `model`. A **layout** is a list of *dimension : mesh axis*. `batch:data` says: wherever a tensor has a
# batch, cut it into four, and give each slice to the devices with that coordinate along `data`.
#
# Program, mesh and layout together make a **plan**: what each single device does.

# %%
mesh = ml.mesh(data=4, model=2)
plan = program.plan(mesh, "batch:data hidden:model")

plan

# %% [markdown]
# ## What is sent, and why
#
# A device that has only its own slices can do most of the work alone. But where a sum runs over a dimension that is
# **split**, each device has only a part of the sum, and the parts must be added up over the mesh axis: an
# *all-reduce*. So the losses and gradients, which sum over the batch, are added up over `data`; and the logits, which
# sum over `hidden`, over `model`.
#
# `explain` lists every such communication, with the line of your code that it comes from, why it is there, and what
# would remove it. *Payload* is what one device puts in; *wire* is what one device sends.

# %%
plan.explain()

# %% [markdown]
# These numbers are not estimates. `check` compiles the plan, reads the compiled program, and compares: the same
# collectives, over the same axes, with the same bytes. It also runs both the plan and the unsharded function on random
# data, and compares what they return.

# %%
print(plan.check())

# %% [markdown]
# ## Four layouts, one result
#
# A layout changes who computes what, and never *what* is computed. Let us see it: the same weights and the same
# batches, under no layout, with the batch split (data-parallel), with the hidden units split (model-parallel), and
# both.

# %%
start = digits.init(jax.random.key(0), config)
start = {name: start[name] for name in ("w1", "w2")}
batches = list(digits.batches(data, config, epochs=10))


def train(plan, params):
    losses = []
    for images, labels in batches:
        value, params = plan.run(params, images, labels)
        losses.append(float(value))
    return losses, params


# %%
layouts = {
    "no layout": None,
    "data-parallel": "batch:data",
    "model-parallel": "hidden:model",
    "both": "batch:data hidden:model",
}
losses = {}
for name, layout in layouts.items():
    plan = program.plan(mesh, layout)
    losses[name], trained = train(plan, start)
    first, last = losses[name][0], losses[name][-1]
    print(f"{name:15} loss {first:.5f} → {last:.5f}   sent per step: {plan.wire_bytes:9,.0f} bytes")

# %% [markdown]
# The losses agree (to the rounding of 32-bit numbers, since sums are added in another order). The bytes do not: with
# these sizes the data-parallel layout sends every gradient, and the model-parallel one only the logits.
#
# And it has learned to read. These are digits that it has not seen; `classify` takes them as they are, because their
# dimension `test` is one that no operation uses up, and rides along.

# %%
test_images, test_labels = data.test
guesses = ml.argmax(classify(trained, test_images), Classes)

print(f"{(guesses == test_labels).mean():.1%} of {test_labels.shape[0]} digits are read right")

# %% [markdown]
# ## When a layout is invalid
#
# Nothing is silently ignored. A misspelt dimension, an axis that is not there, a size that does not divide: all of it
# is said before anything runs, at once, and with what would fit.

# %%
try:
    program.plan(mesh, "hiden:model batch:dta classes:data")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# ## Now with the mouse
#
# The Explorer shows all of this at once. On the left each mesh axis is a row and each dimension a chip; the columns are
# where a rule holds: `compute` for the layouts above, the others for how tensors are stored.
#
# - **Drag `hidden` onto `model`, in the column `compute`.** While you hold it each zone says what the drop would change
#   (★ is the best), or ✕; over a zone with ✕ the line below says why. With the keyboard: Tab to the chip, Enter, arrow
#   keys, Enter. Or click the chip and then the zone.
# - Open **Traffic**: which all-reduce has appeared, over which axis, from which line, and how many bytes it moves.
# - Drag `batch` onto `data`; undo; redo. Under **Devices** pick another tensor, and see which device holds which slice.
# - Leave the board alone for a moment: a line below the chips proposes the change that helps most.
# - Open **Run** and press the button: it trains on the digits in the background, and you can stop it. The loss comes
#   out as above.

# %%
training = ml.Training(
    {"params": start},
    batches=lambda: ({"images": images, "labels": labels} for images, labels in batches),
    steps=len(batches),
)
explorer = ml.explore(program, mesh, run=training)

explorer

# %% [markdown]
# Every gesture is also a method (`explorer.place("hidden", "model")`, `explorer.undo()`), and `explorer.layout` is
# always the layout on the board. A snapshot is a picture of the board that stays in a saved notebook:

# %%
explorer.snapshot()

# %% [markdown]
# ## Let the computer choose
#
# `ml.auto.layout` searches layouts by branch and bound, with any number of mesh axes for each dimension. It says how
# far from the best its answer can be, what was searched and what was not; no single change makes the answer better.
# Here: of those that share the work out as evenly as can be, the one under which a device sends the fewest bytes.
# Beside it, ours.

# %%
choice = ml.auto.layout(program, mesh, objective="traffic")

choice.compare("batch:data hidden:model")

# %% [markdown]
# It has `hidden` on both axes, and the batch on none: each device has an eighth of the weights and of their gradients,
# which nobody has to add up; what is added up are the logits, of all images, which are small.
# (`objective="memory"` asks for the least peak memory. What is fastest in seconds depends on the machine: pick one
# in the Explorer above, and it tells the time of a step, and of each drop before you let go; Auto then finds the
# fastest layout that fits in its memory.)
#
# The Explorer above does the same: open **Compare**, and press **Find the least traffic**. Auto's layout becomes a row
# and a dot beside those that you tried; a click on either takes it over.

# %% [markdown]
# ## An axis in time
#
# What if the batch does not fit? Then a device computes it in *micro-batches*, one after the other, and adds up the
# gradients. That needs no other training loop: `ml.serial(4)` is a mesh axis whose four blocks run one after the other
# on each device, and **accumulating gradients is data parallelism over it**.
#
# **Drag `batch` onto `micro`.** It is added behind `data`. The bytes that a device sends stay what they were, since the
# sums of all micro-batches are reduced once; under **Traffic** the causes say so. With a machine
# chosen, **Memory** has the activations of one micro-batch alone; gradients are held from one to the next, which in a
# network as small as this one is more.
# `docs/serial.md` has what it saves for larger ones.

# %%
in_time = ml.explore(program, ml.mesh(data=4, model=2, micro=ml.serial(4)), "batch:data hidden:model", run=training)

in_time

# %% [markdown]
# ## Where to go from here
#
# - Take the lessons, `01_names.ipynb` to `10_the_solver.ipynb`, twenty minutes each: predict what a layout sends, drag
#   until a goal is met, and say why.
# - Change the sizes, the mesh or the model above, and run again: `ml.mesh(data=2, model=2, depth=2)` has three axes.
# - Open a column for a scope (**+ scope**, beside the presets) where a model has any: what runs under
#   `jax.named_scope("core")` is then computed by rules of its own.
# - A layout may say how tensors are *stored*, at a **place**: with `{"batch": "data", "params/*": {"hidden":
#   "data"}}` each device keeps a slice of the weights and gathers them when it computes. That is fully sharded data
#   parallelism, and `ml.layouts.fsdp(program, mesh)` writes it for you. Plan it, and see which collectives take the
#   place of the all-reduce.
# - `meshlab.models.language.transformer` is a language model in the same words; `docs/architecture.md` says how it all
#   works.
