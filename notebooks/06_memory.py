# %% [markdown]
# # 6. Memory: what is stored need not be computed
#
# Most rules so far said how a dim is *computed*. A model that is trained is mostly something else: numbers that lie
# in memory from one step to the next. In twenty minutes you will cut these numbers up without touching the
# computation. That is ZeRO and FSDP, in one line each.
#
# Predict first, as always: write your number in place of the `...`.

# %%
import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab import puzzles

ml.simulate(8)

# %% [markdown]
# ## Fourteen bytes a parameter
#
# One matrix of 7 billion parameters stands for a whole model. It is kept in bfloat16, which is 2 bytes. Adam keeps
# three more copies in float32: a master copy, and two moments `m` and `v`. No data is made here: `ml.trace` needs
# types only.

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
# These are the program's **places**: its arguments, its results, and the gradient of each parameter. You will need
# their names in a moment.
#
# **Predict.** Eight devices, data parallelism. How many GB of arguments does *each* device store?

# %%
puzzles.Q["6a"].predict(...)

# %% [markdown]
# Eight devices hold the same numbers eight times. An H100 has 80 GB, so this does not even fit:

# %%
plan = program.plan(mesh, "batch:data")

print(f"peak {plan.memory.donated.peak_bytes / 1e9:.0f} GB, fits: {plan.memory.donated.fits}")

# %% [markdown]
# ## Store it split
#
# A layout may hold rules for a **place**. They say how an array is *stored*, and nothing else. `*` stands for
# anything, so `state/*` is all three of Adam's arrays:

# %%
zero1 = {"batch": "data", "state/*": {"ffn": "data"}}

for c in program.plan(mesh, zero1).collectives:
    print(f"{c.kind} of {c.value}, {c.wire_bytes / 1e9:.2f} GB. {c.because}")

# %% [markdown]
# Read it slowly, for this is the whole trick. Each device *computes* as before. But it updates only its eighth of the
# master copy, so it needs only its eighth of the summed gradient: the all-reduce has become a reduce-scatter. The new
# weights are then gathered. An all-reduce *is* a reduce-scatter and an all-gather (lesson 3), so nothing more is
# sent.
#
# That is **ZeRO-1**. Predict what a device stores now; the puzzle keeps your number.

# %%
puzzles.P10.predict(...)

# %% [markdown]
# **ZeRO-2** cuts the gradients as well: `{"grads/*": {"ffn": "data"}}` on top of that.
#
# **Predict.** By how many GB do the stored arguments shrink from ZeRO-1 to ZeRO-2?

# %%
puzzles.Q["6b"].predict(...)

# %% [markdown]
# **ZeRO-3** cuts the weights too: `"params": {"ffn": "data"}`. Its other name is **FSDP**, fully sharded data
# parallelism.
#
# **Predict.** How many GB does a device store under ZeRO-3?

# %%
puzzles.Q["6c"].predict(...)

# %% [markdown]
# Here is the whole table. `ml.layouts` writes the four layouts.

# %%
presets = {"ZeRO-0": ml.layouts.data_parallel, "ZeRO-1": ml.layouts.zero1, "ZeRO-2": ml.layouts.zero2}
presets["ZeRO-3"] = ml.layouts.zero3
table = {}
for name, preset in presets.items():
    plan = program.plan(mesh, preset(program, mesh))
    table[name] = plan.stored.argument_bytes / 1e9, plan.memory.donated.peak_bytes / 1e9, plan.wire_bytes / 1e9
    print("{}: stored {:6.2f} GB, peak {:6.2f} GB, sent {:.1f} GB".format(name, *table[name]))

# %% [markdown]
# All four send the same bytes. And look at the peak: ZeRO-3 stores half of what ZeRO-1 stores, and needs as much
# memory. Why? It gathers the *one* matrix, whole, before it can multiply. A real model has many layers, and gathers
# one at a time; you will see it below.
#
# ## Drag it
#
# On the board places have columns of their own: a chip in `compute` says how a dim is computed, one in `params`,
# `grads` or `state` how it is stored. Solve **P10**: which chip goes into which column?

# %%
puzzles.P10.show()

# %%
puzzles.P10.check()

# %% [markdown]
# It is tempting to split the *computation* by `embed` instead; that cuts what is stored as well. Try it, and read
# which condition it misses.

# %%
puzzles.P10.check("embed:data")

# %%
puzzles.P10.hint()

# %% [markdown]
# ## Say it in code
#
# Now two layers, with their loss and gradients, on four devices. **P11** asks for FSDP in rules. The parameters are
# `params/up` and `params/down`; the gradients come out at `out/1/*`. First predict.

# %%
puzzles.P11.predict(...)

# %% [markdown]
# A first try, with a slip in it. A rule whose place fits nothing is an error, not a rule that is silently ignored:

# %%
puzzles.P11.check({"batch": "x", "parms/*": {"embed": "x"}})

# %% [markdown]
# Without the slip, the weights are stored as asked. What is missing now?

# %%
puzzles.P11.check({"params/*": {"embed": "x"}})

# %%
puzzles.P11.hint()

# %% [markdown]
# ## Beat it
#
# FSDP moves *weights*, so that each device can keep its own rows of the batch. Is that always best? In **P12** the
# batch is small beside the weights. Store as little as FSDP does, and send a quarter. The number to predict is
# another one: the same specs are handed to XLA's partitioner, which knows nothing of FSDP. What does it send, as a
# multiple of our plan?

# %%
puzzles.P12.predict(...)

# %%
puzzles.P12.check("batch:x")

# %%
puzzles.P12.hint()

# %% [markdown]
# ## A real model
#
# Llama 3 8B, with AdamW, one sequence of 4,096 tokens on each of eight H100s. Half of the memory is taken, say: a
# device may use 40 GB at its peak.
#
# **Predict.** How many GB is the peak under FSDP? You know the number of parameters (8.0 billion), and here the
# weights are stored in float32 too, 12 bytes a parameter in all. The rest is what a step makes: bfloat16 copies of
# the weights and their gradients, 2 bytes a parameter each, split as well, and some GB for one layer at a time, whose
# activations are computed again in the backward pass. Within 25 % is right.

# %%
puzzles.Q["6d"].predict(...)

# %%
llama = ml.named_models()["llama3-8b"].trace(batch=8, seq=4096)
goal = ml.goal(peak="40 GB")
plans = {name: llama.plan(mesh, preset(llama, mesh)) for name, preset in presets.items()}
for name, plan in plans.items():
    peak = plan.memory.donated.peak_bytes / 1e9
    print(f"{name}: peak {peak:5.1f} GB, sent {plan.wire_bytes / 1e9:.1f} GB, meets the goal: {goal.judge(plan).met}")

# %% [markdown]
# Only FSDP meets the goal. But the bytes are no longer the same. Ask for the weights of one kind, `down`:

# %%
for name in ("ZeRO-1", "ZeRO-3"):
    for c in plans[name].collectives:
        if "layers/down" in c.value:
            print(f"{name}: {c.times} × {c.kind} of {c.value}, {c.dtype}")

# %% [markdown]
# ZeRO-1 gathers the new weights as they are stored, in float32. FSDP gathers them in bfloat16, in front of each of
# the 32 layers, drops them, and gathers them again for the backward pass.
#
# Nor does the peak fall to an eighth. `plan.memory.donated.parts` says what it is made of:

# %%
before, after = plans["ZeRO-0"].memory.donated.parts, plans["ZeRO-3"].memory.donated.parts
for part in sorted({**before, **after}, key=lambda part: -before.get(part, 0)):
    print(f"{part:16} {before.get(part, 0) / 1e9:6.2f} GB  →  {after.get(part, 0) / 1e9:6.2f} GB")

# %% [markdown]
# What is stored between steps falls to an eighth: *optimizer state*, and *master copies*, which are the float32
# weights. So do the *parameters*, their bfloat16 copies. Gradients fall less, since those of a layer are whole until
# they are scattered. *Gathered weights* are the price: one layer at a time, small. *Activations* stay what they were,
# for FSDP does not split them more than data parallelism does.
#
# ## What you know now
#
# - A rule of a dim says how it is computed; a rule at a place says how an array is stored.
# - ZeRO-1, 2 and 3 store optimizer state, gradients and weights split. Gradients are not stored between steps.
# - With one matrix, all of them send what data parallelism sends; with layers, FSDP gathers twice.
# - Activations are not stored between steps, and FSDP leaves them alone.
#
# Activations grow with the length of a sequence. That is the next lesson.
