# %% [markdown]
# # 6. Memory: storage is not computation
#
# Most rules so far said how a dim is *computed*. But in training, most of the memory holds what stays from one step to
# the next: weights and optimizer state. In twenty minutes you will shard these without touching the computation. That
# is ZeRO and FSDP, in one line each.

# %%
import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab import puzzles

ml.simulate(8)

# %% [markdown]
# ## What a step stores
#
# One matrix of 7 billion parameters stands for a whole model, in bfloat16. Adam stores three more arrays in float32: a
# master copy, and two moments `m` and `v`. This creates no data: `ml.trace` only needs types.

# %%
Batch, Embed, Ffn = ml.dims(batch=8, embed=8000, ffn=875_000)


def step(params, state, x):
    g = jax.grad(lambda w: ml.square(ml.dot(x, w, Embed)).mean().astype(jnp.float32))(params).astype(jnp.float32)
    m, v = 0.9 * state["m"] + 0.1 * g, 0.99 * state["v"] + 0.01 * g * g
    master = state["master"] - 1e-3 * m / (ml.sqrt(v) + 1e-8)
    return master.astype(jnp.bfloat16), {"master": master, "m": m, "v": v}


# %%
wide = ml.f32[Embed, Ffn]
program = ml.trace(step, ml.bf16[Embed, Ffn], {"master": wide, "m": wide, "v": wide}, ml.bf16[Batch, Embed])
mesh = ml.mesh("h100", data=8)

program.places

# %% [markdown]
# These are the program's **places**: its arguments, its results, and the gradient of each parameter.
#
# **Predict.** Eight devices, data parallelism. How many GB of arguments does *each* device store?

# %%
puzzles.Q["6a"].predict(...)

# %% [markdown]
# Eight devices hold eight copies of the same numbers. An H100 has 80 GB, so this does not even fit. (As in lesson 4,
# `memory.donated` is the memory of a step in which the new weights and state take the place of the old ones.)

# %%
plan = program.plan(mesh, "batch:data")

print(f"peak {plan.memory.donated.peak_bytes / 1e9:.0f} GB, fits: {plan.memory.donated.fits}")

# %% [markdown]
# ## Shard what is stored
#
# A layout may have rules for a **place**. They only say how an array is *stored*. `*` matches anything, so `state/*`
# covers all three of Adam's arrays:

# %%
zero1 = {"batch": "data", "state/*": {"ffn": "data"}}

for c in program.plan(mesh, zero1).collectives:
    print(f"{c.kind} of {c.value}, {c.wire_bytes / 1e9:.2f} GB. {c.because}")

# %% [markdown]
# Each device *computes* as before. But it updates only its eighth of the master copy, so it needs only its eighth of
# the summed gradient: the all-reduce becomes a reduce-scatter. Then the new weights are gathered. An all-reduce *is*
# these two (lesson 3), so the traffic stays the same.
#
# That is **ZeRO-1**. Predict what a device stores now; the puzzle keeps your number.

# %%
puzzles.P10.predict(...)

# %% [markdown]
# **ZeRO-2** also shards the gradients: add `{"grads/*": {"ffn": "data"}}`.
#
# **Predict.** By how many GB do the stored arguments shrink from ZeRO-1 to ZeRO-2?

# %%
puzzles.Q["6b"].predict(...)

# %% [markdown]
# **ZeRO-3** also shards the weights. It is also called **FSDP**, fully sharded data parallelism.
#
# ## Drag it
#
# On the board, each place has its own column: a chip in `compute` says how a dim is computed, a chip in `params`,
# `grads` or `state` how it is stored. Solve **P10**: which chip goes into which column? (Another way to store less is
# to *compute* with `embed` sharded. Which condition does that miss?)

# %%
puzzles.P10.show()

# %%
puzzles.P10.check()

# %%
puzzles.P10.hint()

# %% [markdown]
# `ml.layouts` writes data parallelism and the three ZeROs. Here they are side by side:

# %%
presets = {"ZeRO-0": ml.layouts.data_parallel, "ZeRO-1": ml.layouts.zero1, "ZeRO-2": ml.layouts.zero2}
presets["ZeRO-3"] = ml.layouts.zero3
table = {}
for name, preset in presets.items():
    plan = program.plan(mesh, preset(program, mesh))
    table[name] = plan.stored.argument_bytes / 1e9, plan.memory.donated.peak_bytes / 1e9, plan.wire_bytes / 1e9
    print("{}: stored {:6.2f} GB, peak {:6.2f} GB, sent {:.1f} GB".format(name, *table[name]))

# %% [markdown]
# ZeRO-2 equals ZeRO-1: with the state sharded, the plan scatters each gradient as soon as it is summed. All four send
# the same bytes. And look at the peak: ZeRO-3 stores half as much as ZeRO-1, but needs as much memory. It gathers the
# *one* matrix, whole, before the matmul. A real model has many layers, and gathers one at a time.
#
# ## Write it in code
#
# Now take two layers, with their loss and gradients, on four devices. **P11** asks for FSDP, written as rules. The
# parameters are at `params/up` and `params/down`, the loss is at `out/0`, and the gradients are at `out/1/up` and
# `out/1/down`. First predict.

# %%
puzzles.P11.predict(...)

# %% [markdown]
# Here is a first try, with a typo. A rule whose place matches nothing is an error; it is not silently ignored:

# %%
puzzles.P11.check({"parms/*": {"embed": "x"}})

# %% [markdown]
# Without the typo, the weights are stored as the goal asks. What is missing?

# %%
puzzles.P11.check({"params/*": {"embed": "x"}})

# %%
puzzles.P11.hint()

# %% [markdown]
# ## A real model
#
# Take Llama 3 8B, with AdamW, and one sequence of 4,096 tokens on each of eight H100s. A device may use 40 GB at its
# peak.
#
# **Predict.** How many GB is the peak under FSDP, within 25%? The model has 8.0 billion parameters. The weights are
# stored in float32: they are the master copy. A step also has bfloat16 copies of the weights, gradients, and
# activations, recomputed layer by layer in the backward pass.

# %%
puzzles.Q["6c"].predict(...)

# %%
llama = ml.named_models()["llama3-8b"].trace(batch=8, seq=4096)
goal = ml.goal(peak="40 GB")
plans = {name: llama.plan(mesh, preset(llama, mesh)) for name, preset in presets.items()}
for name, plan in plans.items():
    peak, sent = plan.memory.donated.peak_bytes / 1e9, plan.wire_bytes / 1e9
    print(f"{name}: peak {peak:5.1f} GB, sent {sent:.1f} GB, meets the goal: {goal.judge(plan).met}")

# %% [markdown]
# Only FSDP meets the goal. The four do not send the same any more: ZeRO-1 gathers the new weights once, in float32.
# FSDP gathers them in bfloat16, layer by layer, drops them, and gathers them again for the backward pass. The peak does
# not fall to an eighth either. Here are its parts:

# %%
before, after = plans["ZeRO-0"].memory.donated.parts, plans["ZeRO-3"].memory.donated.parts
for part in sorted({**before, **after}, key=lambda part: -before.get(part, 0)):
    print(f"{part:16} {before.get(part, 0) / 1e9:6.2f} GB  →  {after.get(part, 0) / 1e9:6.2f} GB")

# %% [markdown]
# *Optimizer state*, *master copies* (the float32 weights) and *parameters* (their bfloat16 copies) fall to an eighth.
# Gradients fall less: a layer's are whole until they are scattered. *Gathered weights* are a small price: one layer at
# a time. *Activations* stay the same.
#
# ## What you know now
#
# - A plain rule says how a dim is computed; a rule at a place says how an array is stored.
# - ZeRO-1, 2 and 3 shard the stored optimizer state, gradients and weights. Gradients are not stored between steps.
# - With one matrix, all of them send as much as data parallelism; with layers, FSDP gathers twice.
# - Activations are not stored between steps, and FSDP does not shard them.
#
# Activations grow with the length of a sequence. That is the next lesson.
#
# ## One more, if you like
#
# FSDP moves *weights*, so that each device can keep its own rows of the batch. In **P12** the batch is small compared
# with the weights. Store as little as FSDP does, and send a quarter. Predict another number: under the specs of
# FSDP, XLA's partitioner sums each gradient with an all-reduce and then takes its part. How many times the bytes of
# the plan does it send?

# %%
puzzles.P12.predict(...)

# %%
puzzles.P12.check("batch:x")

# %%
puzzles.P12.hint()
