# %% [markdown]
# # Start: lay a model out by dragging
#
# You have a model and several devices. How should you lay it out on them, what will it cost, and why? This notebook
# answers these questions for a small network that reads handwritten digits, on eight devices that your computer
# simulates. It takes about a quarter of an hour. Run the cells from the top, with Shift+Enter.
#
# You will
#
# 1. write the model with **names** on its dimensions,
# 2. say from outside how it is sharded: a **layout**,
# 3. read which communication follows, with its bytes, its cause and its cure: a **plan**,
# 4. train under four layouts and see the same losses,
# 5. drag the dimensions with the mouse, and let the computer find the best layout.

# %%
import jax

import meshlab as ml
from meshlab.models.vision import digits

ml.simulate(8)

# %% [markdown]
# ## The data
#
# scikit-learn comes with 1,797 handwritten digits of 8 × 8 pixels; nothing is downloaded. Here is the first one, with
# the brightness of its pixels from 0 to 9.

# %%
data = digits.load()
images, labels = data.train

for row in (images[0] * 9).astype(int):
    print(" ".join(str(pixel) if pixel else "." for pixel in row))
print("This is a", labels[0])

# %% [markdown]
# ## Names for dimensions
#
# The axes of an array usually have positions, and you have to remember what axis 2 was. Here each axis has a **name
# and a size**, which you declare once. `ml.f32[Batch, Rows, Cols]` is the type of a tensor: its names, sizes and
# number format, without any data.

# %%
config = digits.Config()
Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=128, rows=8, cols=8, hidden=256, classes=10)

ml.f32[Batch, Rows, Cols]

# %% [markdown]
# ## The model
#
# The model is two matmuls with a `relu` between them. It returns the *logits*: a score for each of the ten classes.
# Each operation **names the dimensions it uses up**. The first matmul sums over rows and columns, so `[batch, rows,
# cols]` times `[rows, cols, hidden]` gives `[batch, hidden]`. `cross_entropy` uses up `classes`, and the mean uses up
# the rest: a loss has no dimensions.
#
# The training step is plain JAX: `jax.value_and_grad`, and a subtraction for each weight. Nothing in the model
# mentions devices.


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
# `ml.trace` runs the step once, on types alone. The result is the **program**: every operation of the forward pass,
# the backward pass and the update, with a name on every axis. It does not know about devices yet either.

# %%
shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
program = ml.trace(step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])

dict(program.dims)

# %% [markdown]
# ## The mesh and the layout
#
# A **mesh** arranges the devices in a grid with named axes: here eight devices, four along `data` and two along
# `model`. A **layout** is a list of *dimension : mesh axis*. `batch:data` means: wherever a tensor has a batch, cut
# it into four slices, and give each slice to the devices with that coordinate along `data`.
#
# Program, mesh and layout together make a **plan**, which says what each device does.

# %%
mesh = ml.mesh(data=4, model=2)
plan = program.plan(mesh, "batch:data hidden:model")

plan

# %% [markdown]
# ## What is sent, and why
#
# A device can do most of the work with its own slices alone. But if an operation sums over a dimension that is
# **sharded**, each device computes only a part of the sum, and the parts must be added up over the mesh axis: an
# *all-reduce*. The loss and the gradients sum over the batch, so they are added up over `data`. The logits sum over
# `hidden`, so they are added up over `model`.
#
# `explain` lists every collective, with the line of your code that causes it, the reason, and a change that would
# remove it. *Payload* counts the bytes that one device puts in; *wire* counts the bytes that one device sends.

# %%
plan.explain()

# %% [markdown]
# These numbers are not estimates. `check` compiles the plan and compares it with the compiled program: the same
# collectives, over the same axes, with the same bytes. It also runs the plan and the unsharded function on random
# data, and compares their results.

# %%
print(plan.check())

# %% [markdown]
# ## Four layouts, one result
#
# A layout changes *where* a model is computed, never the result. Let us check: we train with the same weights and the
# same batches without a layout, with the batch sharded (data-parallel), with the hidden units sharded
# (model-parallel), and with both.

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
# The losses agree, up to 32-bit rounding, since the order of additions differs. The bytes do not: the data-parallel
# layout sends every gradient, and the model-parallel layout only the logits.
#
# And the network has learned to read. Here are digits that it has not seen. `classify` accepts them unchanged: no
# operation uses up their dimension `test`, so it rides along.

# %%
test_images, test_labels = data.test
guesses = ml.argmax(classify(trained, test_images), Classes)

print(f"{(guesses == test_labels).mean():.1%} of {test_labels.shape[0]} digits are read right")

# %% [markdown]
# ## When a layout is invalid
#
# Nothing is silently ignored. A misspelt dimension, a missing axis, a size that does not divide: one error reports
# all of them before anything runs, and suggests what would fit.

# %%
try:
    program.plan(mesh, "hiden:model batch:dta classes:data")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# ## Now with the mouse
#
# The Explorer shows all of this at once. On the left, each mesh axis is a row and each dimension a chip. The columns
# say where a rule applies: `compute` for the layouts above, the others for how tensors are stored.
#
# - **Drag `hidden` onto `model`, in the column `compute`.** While you hold it, each zone shows what the drop would
#   change (★ is the best), or ✕ if it is not allowed; the line below says why. With the keyboard: Tab to the chip,
#   Enter, arrow keys, Enter. Or click the chip and then the zone.
# - Open **Traffic**: which all-reduce appeared, over which axis, from which line, and how many bytes does it move?
# - Drag `batch` onto `data`; undo; redo. Under **Devices** pick another tensor, and see which device holds which slice.
# - Leave the board alone for a moment: a line below the chips suggests the change that helps most.
# - Open **Run** and press the button: the network trains on the digits in the background, and you can stop it. The
#   loss is the same as above.

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
# far its answer can be from the best, what it searched and what it did not; no single change improves the answer.
# Here it minimises the bytes that a device sends, among the layouts that divide the work most evenly. We compare its
# answer with ours.

# %%
choice = ml.auto.layout(program, mesh, objective="traffic")

choice.compare("batch:data hidden:model")

# %% [markdown]
# Auto puts `hidden` on both axes, and the batch on none. Each device has an eighth of the weights and computes their
# gradients alone. Only the logits of all images are added up, and they are small. (`objective="memory"` minimises
# peak memory. The fastest layout depends on the machine: pick one in the Explorer above, and it shows the time of a
# step, and of each drop before you let go. Auto then finds the fastest layout that fits in its memory.)
#
# The Explorer above does the same: open **Compare**, and press **Find the least traffic**. Auto's layout becomes a
# row and a dot beside the layouts you tried; click either to use it.

# %% [markdown]
# ## A serial axis
#
# What if the batch does not fit? Then a device computes it in *micro-batches*, one after the other, and adds up the
# gradients. You need no new training loop: `ml.serial(4)` is a mesh axis whose four blocks run one after the other on
# each device, and **gradient accumulation is data parallelism over this axis**.
#
# **Drag `batch` onto `micro`.** It is added after `data`. A device sends the same bytes as before, since the sums of
# all micro-batches are reduced once; the causes under **Traffic** say so. If you choose a machine, **Memory** shows
# the activations of only one micro-batch. Gradients now stay in memory from one micro-batch to the next, which costs
# more than it saves in a network this small. `docs/serial.md` shows the savings for larger ones.

# %%
with_micro = ml.mesh(data=4, model=2, micro=ml.serial(4))
in_time = ml.explore(program, with_micro, "batch:data hidden:model", run=training)

in_time

# %% [markdown]
# ## Where to go from here
#
# - Take the lessons, `01_names.ipynb` to `11_run_it_for_real.ipynb`, twenty minutes each: predict what a layout
#   sends, drag until you meet a goal, and explain why.
# - Change the sizes, the mesh or the model above, and run the cells again: `ml.mesh(data=2, model=2, depth=2)` has
#   three axes.
# - If a model has scopes, open a column for one (**+ scope**, beside the presets): operations under
#   `jax.named_scope("core")` then have their own rules.
# - A layout can also say how tensors are *stored*, at a **place**: with `{"batch": "data", "params/*": {"hidden":
#   "data"}}`, each device keeps a slice of the weights and gathers them when it computes. That is fully sharded data
#   parallelism, and `ml.layouts.fsdp(program, mesh)` writes it for you. Plan it, and see which collectives replace
#   the all-reduce.
# - `meshlab.models.language.transformer` is a language model written the same way; `docs/architecture.md` explains
#   how meshlab works.
