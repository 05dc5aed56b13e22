# %% [markdown]
# # 10. Let the solver play
#
# Now you can lay out a model by hand. A computer can too: it plans many layouts, and proves that none of the layouts
# that it searched is faster. So why learn the rest? Because its answer is for *one* size, *one* machine and *one*
# memory limit. In this lesson you play against the solver, read its proof, and predict when its answer flips.

# %%
import jax

import meshlab as ml
from meshlab import puzzles

# %% [markdown]
# ## Your move
#
# We take two layers again, in a training step, but this time large ones: 8,192 rows, and weights of 4,096 × 16,384.
# The machine is one node of eight H100s, and the mesh has a single axis.

# %%
Batch, Embed, Ffn = ml.dims(batch=8192, embed=4096, ffn=16384)


def loss(params, x):
    return ml.square(ml.dot(ml.relu(ml.dot(x, params["up"], Embed)), params["down"], Ffn) - x).mean()


def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)


# %%
program = ml.trace(step, {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Embed])
mesh = ml.mesh("h100:1x8", x=8)
yours = program.plan(mesh, "batch:x")

print(f"batch:x takes {yours.time.estimate * 1e3:.2f} ms and sends {yours.wire_bytes / 1e6:,.0f} MB")

# %% [markdown]
# The board starts with `batch:x`. Before you read on, find a layout with a step of 3 ms or less. The board gives no
# advice.

# %%
explorer = ml.explore(program, mesh, "batch:x", goal=ml.goal(step="3 ms", quiet=True))

explorer

# %% [markdown]
# ## Its move
#
# `ml.auto.layout` searches by branch and bound. It expands the most promising layouts first, and prunes layouts that
# are certainly slower without planning them.

# %%
choice = ml.auto.layout(program, mesh)

proof = choice.proof
print(choice.layout, f"{proof.value * 1e3:.2f} ms", f"gap {proof.gap:.1%}", f"{proof.plans} plans")

# %% [markdown]
# The **gap** matters most. The search knows a time that no layout can beat, the *bound*; the gap is how far the
# answer is above the bound. If there is no gap, the answer is proved. But a proof only covers what was searched, so
# it also says what was *not*:

# %%
print(choice.proof)

# %% [markdown]
# This problem is small enough to check by hand. There is one mesh axis and there are three dims (storage aside):

# %%
for layout in (None, "batch:x", "embed:x", "ffn:x"):
    plan = program.plan(mesh, layout)
    name = layout or "nothing split"
    print(f"{name:14} {plan.time.estimate * 1e3:6.2f} ms, sends {plan.wire_bytes / 1e6:6,.0f} MB")

# %% [markdown]
# ## Why is mine slower?
#
# `waterfall` goes from your layout to the solver's, one change at a time, and plans each step.

# %%
choice.waterfall("batch:x")

# %% [markdown]
# The step in between is worse than both ends: with the batch whole and nothing else sharded, all eight devices do all
# of the work. A search that takes only changes that help would never take the first one. That is why a search needs
# bounds.
#
# `exact_regrets` asks about one decision at a time: how much longer is a step if you reverse one decision, and let
# all the others adapt? It searches for each answer.

# %%
choice.exact_regrets()

# %%
choice.compare("batch:x")

# %% [markdown]
# ## Add constraints
#
# Perhaps the batch *must* be sharded, because your data arrives that way. Then pin it, and the solver finds the best
# of the rest:

# %%
pinned = ml.auto.layout(program, mesh, pin="batch:x")

print(pinned.layout, f"{pinned.proof.value * 1e3:.2f} ms, {pinned.proof.value / choice.proof.value - 1:+.1%}")

# %% [markdown]
# That is FSDP, from lesson 6, and it costs as much as the regret above says. And if you ask for too much? If no
# layout meets your constraints, the error says how far off you are:

# %%
try:
    ml.auto.layout(program, mesh, memory="400 MB")
except ml.MeshlabError as error:
    print(error)

# %% [markdown]
# ## When does it flip?
#
# `ffn:x` sums activations, and `batch:x` sums gradients. Which of these sums grows with the batch?
#
# **Predict.** At which batch do both layouts send the same number of bytes?

# %%
puzzles.Q["10a"].predict(...)

# %% [markdown]
# Now compare times instead of bytes. `exact_crossovers` searches again at each size, each time with a proof.

# %%
flips = choice.exact_crossovers(batch=[8192, 16384, 32768, 65536])

flips

# %% [markdown]
# At the size where the bytes are equal, the answer has already flipped to FSDP. So the best layout for a small batch
# is not the best for a large one: whenever you change a size, ask again.
#
# Does a faster network flip it as well? Here are links from a quarter of the bandwidth to four times as much:

# %%
links = choice.crossovers(bandwidth=[0.25, 0.5, 1, 2, 4])

links

# %% [markdown]
# It does not, over the whole range: both layouts send over the same links, and `ffn:x` sends a quarter of the bytes.
# The network only decides *by how much* it wins.
#
# ## Beat the solver
#
# Now a real model: Llama 3 70B on 64 H100s, in eight nodes of eight, with the mesh `data=8 × model=8`. The usual
# recipe is FSDP over `data`, with tensor parallelism over `model`, inside a node.
#
# **Puzzle P20.** This cell traces the model, which takes a while. Here is what the recipe computes:

# %%
llama, nodes = puzzles.P20.program, puzzles.P20.mesh
recipe = ml.layouts.fsdp(llama, nodes, data="data") & ml.layouts.tensor_parallel(llama, nodes, model="model")

print(f"{llama.plan(nodes, recipe).time.compute:.2f} s of compute")

# %% [markdown]
# Communication that does not overlap with compute comes on top. **Predict** the time of a step.

# %%
puzzles.P20.predict(...)

# %% [markdown]
# It is slower than the best layout that `ml.auto.layout` finds, by a third or so. **Predict.** By what factor does it
# *send* more?

# %%
puzzles.Q["10b"].predict(...)

# %% [markdown]
# Now find a layout within 6% of the solver's. Think of lesson 6: storage is not computation.

# %%
puzzles.P20.check("batch:data+model")

# %%
puzzles.P20.hint()

# %% [markdown]
# When you have it, let the solver check you: `ml.auto.layout(puzzles.P20.program, puzzles.P20.mesh)` takes about a
# minute; `seconds=20` ends it early and reports the remaining gap.
#
# ## What you know now
#
# - A search gives a layout and a bound; the gap between them is the proof, and the proof names what was not searched.
# - A waterfall says why your layout is slower; a regret says how much a decision is worth.
# - The best layout flips with sizes: with a large batch, weights move; with a small one, activations.
# - The solver's times come from a model of the machine; `docs/accuracy.md` reports its errors.
#
# In the last lesson you run it for real: train, stop, go on under another layout, and look inside.
