# %% [markdown]
# # 7. Long sequences: queries and keys are two dims
#
# Lesson 6 cut up whatever lies in memory between steps. It left the activations alone, and they grow with the length
# of a sequence. A batch can be split until a device has one sequence; then the *sequence* must be split. This lesson
# does it in three ways, and says when each of them is right.

# %%
import jax

import meshlab as ml
from meshlab import puzzles

ml.simulate(16)

# %% [markdown]
# ## How long is long?
#
# Llama 3 8B on eight H100s again, under FSDP, one sequence on each device. Here is its peak for two lengths.

# %%
mesh = ml.mesh("h100", data=8)


def fsdp(seq, batch=8):
    program = ml.named_models()["llama3-8b"].trace(batch=batch, seq=seq)
    return program.plan(mesh, ml.layouts.fsdp(program, mesh))


for seq in (4096, 8192):
    print(f"{seq:7,} tokens: peak {fsdp(seq).memory.donated.peak_bytes / 1e9:.1f} GB")

# %% [markdown]
# **Predict.** How many GB is the peak at 32,768 tokens? Attention has a score for each pair of tokens. Is the peak
# linear in the length, or quadratic?

# %%
puzzles.Q["7a"].predict(...)

# %% [markdown]
# **Predict.** And at 131,072 tokens?

# %%
puzzles.Q["7b"].predict(...)

# %%
lengths = {seq: fsdp(seq) for seq in (8192, 32_768, 131_072)}
for seq, plan in lengths.items():
    peak, seconds = plan.memory.donated.peak_bytes / 1e9, plan.time.estimate
    print(f"{seq:7,} tokens: {peak:5.1f} GB, fits: {plan.memory.donated.fits}, {seconds:5.2f} s")

# %% [markdown]
# Memory is linear, for a fused kernel computes scores and drops them: a plan on a GPU assumes such a kernel. *Time*
# is not: at the end four times as many tokens take more than nine times as long. And at 131,072 tokens it does not
# fit. More devices do not help, if each of them has a sequence of its own.
#
# ## Two dims
#
# In attention a sequence meets itself: each query looks at all keys. Both are as long, but they are two dims, and
# here they have two names. Watch what happens when we forget it:

# %%
program = puzzles.P14.program

try:
    program.plan(puzzles.P14.mesh, "seq:y kv:y")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# The scores are `[batch heads seq kv]`. No device can hold block 2 of the queries with block 3 of the keys, if both
# are cut along one axis. So split the queries, and have the keys whole; or the other way round; or neither.
#
# **Puzzle P14.** The core of attention on four devices. First predict what it costs to *store* all three arrays split
# along the sequence, as a device does that has only its own tokens.

# %%
puzzles.P14.predict(...)

# %%
puzzles.P14.show()

# %% [markdown]
# The board has five chips, and one of them solves it. Why do the other four fail? Here is one that fails:

# %%
puzzles.P14.check("kv:y")

# %%
puzzles.P14.hint()

# %% [markdown]
# ## Ulysses: a rule for a part of the program
#
# Splitting by heads sends nothing inside the core. But around it, in the norms and the feed-forward layers, the
# sequence is the dim to split. Can a layout do both? It can, if the core has a name. `jax.named_scope` gives it one:

# %%
Batch, Seq, Embed, Heads, Head = ml.dims(batch=2, seq=64, embed=128, heads=8, head=16)


def attention(w, x):
    q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
    with jax.named_scope("core"):
        k, v = k.rename(seq="kv"), v.rename(seq="kv")
        mixed = ml.dot(ml.softmax(ml.dot(q, k, Head), "kv"), v, "kv")
    return ml.dot(mixed, w["o"], Heads, Head)


# %%
weights = {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}
layer = ml.trace(attention, weights, ml.f32[Batch, Seq, Embed])

layer.scopes

# %% [markdown]
# A key with `@` holds rules for what is computed in a scope, and there they replace the others. So: the sequence
# everywhere, and in the core the heads *instead*. The error below is why "instead" has to be said.

# %%
eight = ml.mesh(y=8)

try:
    layer.plan(eight, {"seq": "y", "@core": {"heads": "y"}})
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# **Predict.** With `seq:y` alone, keys and values are gathered in front of the core. With heads in the core, queries,
# keys, values and results change hands: an all-to-all each. On eight devices, by what factor does gathering send
# more?

# %%
puzzles.Q["7c"].predict(...)

# %%
gathered = layer.plan(eight, "seq:y")
ulysses = layer.plan(eight, {"seq": "y", "@core": {"seq": None, "heads": "y"}})
for name, plan in {"gathered": gathered, "ulysses": ulysses}.items():
    print(f"{name}: {[c.kind for c in plan.collectives]}, {plan.wire_bytes:,.0f} bytes")

# %% [markdown]
# Its name is **Ulysses**. `plan.check()` compiles it, and compares what it computes with one device's result:

# %%
print(ulysses.check())

# %% [markdown]
# ## One sequence of 131,072 tokens
#
# Back to Llama: one sequence alone, on all eight devices. `ml.layouts` writes both layouts.

# %%
long = ml.named_models()["llama3-8b"].trace(batch=1, seq=131_072)
sharded = ml.layouts.fsdp(long, mesh)
both = {"gathered": sharded, "ulysses": sharded & ml.layouts.context_parallel(long, mesh, kind="ulysses")}
ways = {name: long.plan(mesh, layout) for name, layout in both.items()}
for name, plan in ways.items():
    even = plan.time.given(balanced=True).estimate
    print(
        f"{name}: peak {plan.memory.donated.peak_bytes / 1e9:.1f} GB, {plan.time.estimate:.2f} s; balanced {even:.2f} s"
    )

# %% [markdown]
# Both fit now, easily. Why is gathering so much slower? Not for its bytes. The mask is *causal*: a token looks at
# earlier ones only. The device with the first tokens has hardly anything to do, the one with the last tokens has
# most, and all wait for it. `balanced=True` deals the tokens out evenly, as programs do that take one block from the
# front and one from the back. Heads are balanced as they are.
#
# ## Serving: fewer heads than devices
#
# Ulysses needs as many heads as devices. When a model is *served*, one token looks at a long cache of keys, and keys
# have few heads. Eight, say, on sixteen devices:

# %%
decoding = puzzles.P18.program

try:
    decoding.plan(ml.mesh(a=16), "heads:a")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# The error proposes a mesh of two axes: heads on one, and the group of queries that share a head on the other. It is
# legal. Is it good? The cache is what costs memory.
#
# **Puzzle P18.** Predict how often that layout holds the cache, then do better.

# %%
puzzles.P18.predict(...)

# %%
puzzles.P18.show()

# %%
puzzles.P18.check("heads:a group:b")

# %%
puzzles.P18.hint()

# %% [markdown]
# ## What you know now
#
# - Activations grow with the length; with a fused kernel they do so in proportion, and time faster.
# - Queries and keys are two dims: split one, or neither.
# - Gathering keys is simple. Ulysses trades the sequence for heads in the core, and sends 2/n of that on n devices.
# - A causal mask makes blocks of a sequence uneven.
# - With fewer heads than devices, the length of the cache is another dim to split.
#
# The next lesson has two more dims to split: experts, and layers.
