# %% [markdown]
# # 10. Let the solver play
#
# You can lay out a model by hand now. A computer can too: it plans hundreds of layouts, and proves that no other is
# faster. Why learn the rest? Because its answer is for *one* size, *one* machine and *one* memory. In this lesson you
# play against it, read its proof, and predict when its answer flips.

# %%
import jax

import meshlab as ml
from meshlab import puzzles

# %% [markdown]
# ## Your move
#
# Two layers again, in a training step, this time large: 8,192 rows, and weights of 4,096 × 16,384. The machine is one
# node of eight H100s, and the mesh has a single axis.

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
# The board begins with `batch:x`. Find a layout with a step of 3 ms or less, before you read on. The board keeps its
# advice to itself.

# %%
explorer = ml.explore(program, mesh, "batch:x", goal=ml.goal(step="3 ms", quiet=True))

explorer

# %% [markdown]
# ## Its move
#
# `ml.auto.layout` searches by branch and bound. It takes up next what may be fastest, and drops whatever is certain
# to be slower, without planning it.

# %%
choice = ml.auto.layout(program, mesh)

print(choice.layout, f"{choice.proof.value * 1e3:.2f} ms", f"gap {choice.proof.gap:.1%}", f"{choice.proof.plans} plans")

# %% [markdown]
# The **gap** is what matters. The search knows a time that no layout can beat, the *bound*; the gap is how far the
# answer is above it. No gap: the answer is proved. And a proof is about what was searched, so it says what was *not*:

# %%
print(choice.proof)

# %% [markdown]
# Here it is small enough to check by hand. There is one mesh axis and there are three dims:

# %%
for layout in (None, "batch:x", "embed:x", "ffn:x"):
    plan = program.plan(mesh, layout)
    print(f"{layout or 'nothing split':14} {plan.time.estimate * 1e3:6.2f} ms, sends {plan.wire_bytes / 1e6:6,.0f} MB")

# %% [markdown]
# ## Why is mine slower?
#
# `waterfall` walks from your layout to its own, one change at a time, each of them planned.

# %%
choice.waterfall("batch:x")

# %% [markdown]
# In between it is worse than at both ends: with the batch whole and nothing else split, eight devices all do
# everything. Whoever takes only changes that help would not take the first one. That is why a search needs bounds.
#
# `exact_regrets` goes the other way: by how much is a step longer if a decision is taken back, and all the others may
# adapt? Each is searched for.

# %%
choice.exact_regrets()

# %%
choice.compare("batch:x")

# %% [markdown]
# ## It keeps to what you say
#
# Perhaps the batch *has* to be split, for your data arrives so. Then pin it, and the best of the rest is found:

# %%
pinned = ml.auto.layout(program, mesh, pin="batch:x")

print(pinned.layout, f"{pinned.proof.value * 1e3:.2f} ms, {pinned.proof.value / choice.proof.value - 1:+.1%}")

# %% [markdown]
# That is FSDP, from lesson 6, and it costs what the regret above says. And if you ask for too much? An answer that
# does not exist is an error, which says how far off you are:

# %%
try:
    ml.auto.layout(program, mesh, memory="400 MB")
except ml.MeshlabError as error:
    print(error)

# %% [markdown]
# ## When does it flip?
#
# `ffn:x` sums activations: one array of `batch × embed`, forward. `batch:x` sums gradients: two arrays of `embed ×
# ffn`. The first grows with the batch, and the second does not.
#
# **Predict.** At which batch do both send the same number of bytes?

# %%
puzzles.Q["10a"].predict(...)

# %% [markdown]
# Now ask for time in place of bytes. `exact_crossovers` searches anew at each size, each time with a proof.

# %%
flips = choice.exact_crossovers(batch=[8192, 16384, 32768, 65536])

flips

# %% [markdown]
# Where the bytes are equal the answer has flipped to FSDP. So a layout that is best for a small batch is not best for
# a large one: whenever you change a size, ask again.
#
# Does a faster network flip it as well? Here are links from a quarter of the bandwidth to four times as much:

# %%
links = choice.crossovers(bandwidth=[0.25, 0.5, 1, 2, 4])

links

# %% [markdown]
# It does not, over all that range: both layouts send over the same links, and `ffn:x` sends a quarter of the bytes.
# The network decides *how much* it wins by.
#
# ## Beat the solver
#
# Now a real one. Llama 3 70B on 64 H100s, in eight nodes of eight; the mesh is `data=8 × model=8`. The recipe in
# every book is FSDP over `data`, with tensor parallelism over `model`, inside a node.
#
# **Puzzle P20.** Tracing a model of this size takes a while, and nothing is traced before you predict. First its
# number:

# %%
puzzles.P20.predict(...)

# %% [markdown]
# **Predict.** By what factor is the recipe slower than the best layout that `ml.auto.layout` finds? 1 is *not at
# all*.

# %%
puzzles.Q["10b"].predict(...)

# %% [markdown]
# And now find one that is within 6 % of the solver's. Think of lesson 6: what is stored need not be computed. And ask
# which can be sent while a device computes, weights or sums of activations.

# %%
puzzles.P20.check("batch:data+model")

# %%
puzzles.P20.hint()

# %% [markdown]
# When you have it, let the solver check you: `ml.auto.layout(puzzles.P20.program, puzzles.P20.mesh)` takes about a
# minute, or `seconds=20` ends it early, with the gap that is left.
#
# ## What you know now
#
# - A search gives a layout and a bound; the gap between them is the proof, and it names what was not searched.
# - A waterfall says why yours is slower, a regret what a decision is worth.
# - Layouts flip with sizes: at a large batch weights move, at a small one activations.
# - The solver's clock is a model of the machine: `docs/accuracy.md` has how far off it is.
#
# That was the course. Take a model of your own (lesson 9), and play.
