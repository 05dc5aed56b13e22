# %% [markdown]
# # 7. Long sequences: queries and keys are two dims
#
# Lesson 6 sharded the arrays that stay in memory between steps. It left the activations alone, and they grow with the
# length of a sequence. You can shard a batch until each device has one sequence; then you must shard the *sequence*.
# This lesson does so in four ways, and says when each is right.

# %%
import jax

import meshlab as ml
from meshlab import puzzles

ml.simulate(16)

# %% [markdown]
# ## How long is long?
#
# Take Llama 3 8B on eight H100s again, under FSDP, with one sequence on each device. Here is its peak for two
# lengths, again with donated arguments.

# %%
mesh = ml.mesh("h100", data=8)


def fsdp(seq, batch=8):
    program = ml.named_models()["llama3-8b"].trace(batch=batch, seq=seq)
    return program.plan(mesh, ml.layouts.fsdp(program, mesh))


lengths = {seq: fsdp(seq) for seq in (4096, 8192)}
for seq, plan in lengths.items():
    print(f"{seq:7,} tokens: peak {plan.memory.donated.peak_bytes / 1e9:.1f} GB")

# %% [markdown]
# **Predict.** How many GB is the peak at 32,768 tokens? Attention has a score for each pair of tokens. Is the peak
# linear in the length, or quadratic?

# %%
puzzles.Q["7a"].predict(...)

# %%
lengths |= {seq: fsdp(seq) for seq in (32_768, 131_072)}
for seq, plan in lengths.items():
    peak, seconds = plan.memory.donated.peak_bytes / 1e9, plan.time.estimate
    print(f"{seq:7,} tokens: {peak:5.1f} GB, fits: {plan.memory.donated.fits}, {seconds:5.2f} s")

# %% [markdown]
# Memory is linear, because a fused kernel, such as FlashAttention, computes a block of scores, uses it, and drops it; a
# plan on a GPU assumes such a kernel. *Time* is not linear (`plan.time.estimate` is the predicted time of a step on
# this machine): at the end, four times as many tokens take more than nine times as long. And 131,072 tokens do not fit.
# More devices do not help if each has its own sequence.
#
# ## Two dims
#
# In attention, a sequence meets itself: each query looks at all keys. Queries and keys have the same length, but they
# are two dims, and here they have two names. Watch what happens if we forget this. Here are the scores alone:

# %%
Batch, Seq, Embed, Heads, Head = ml.dims(batch=2, seq=64, embed=128, heads=8, head=16)


def scores(q, k):
    return ml.dot(q, k.rename(seq="kv"), Head)


heads = ml.f32[Batch, Seq, Heads, Head]
four = ml.mesh(y=4)

try:
    ml.trace(scores, heads, heads).plan(four, "seq:y kv:y")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# The scores are `[batch heads seq kv]`. If both dims are on one axis, no device holds block 2 of the queries with
# block 3 of the keys. So in this array one of the two stays whole on each device.
#
# **Puzzle P14.** The core of attention on four devices. First predict what it costs to *store* all three arrays
# sharded along the sequence, so that each device stores only its own tokens.

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
# ## A rule for a part of the program
#
# What you found sends nothing inside the core. But around it, in the norms and the feed-forward layers, the sequence
# is the right dim to shard. Can a layout do both? It can, if the core has a name. `jax.named_scope` gives it one:


# %%
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
# A key with `@` has rules for the operations in a scope, and there they replace the plain rules. So we shard the
# sequence everywhere, but in the core the heads *instead*. The error below shows why you must say "instead".

# %%
eight = ml.mesh(y=8)

try:
    layer.plan(eight, {"seq": "y", "@core": {"heads": "y"}})
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# **Predict.** With `seq:y` alone, keys and values are gathered before the core. With heads in the core, which arrays
# move from one spec to another, and by which collective? On eight devices, by what factor does gathering send more?

# %%
puzzles.Q["7b"].predict(...)

# %%
gathered = layer.plan(eight, "seq:y")
ulysses = layer.plan(eight, {"seq": "y", "@core": {"seq": None, "heads": "y"}})
for name, plan in {"gathered": gathered, "ulysses": ulysses}.items():
    print(f"{name}: {[c.kind for c in plan.collectives]}, {plan.wire_bytes:,.0f} bytes")

# %% [markdown]
# This layout is called **Ulysses**. `plan.check()` compiles it, and compares its result with the result on one
# device:

# %%
print(ulysses.check())

# %% [markdown]
# ## The ring: attention as one operation
#
# The error above came from the scores: one array with both dims. `ml.attention` is attention as one operation, which
# goes through the keys block by block, as a fused kernel does, and never makes this array. So both dims may be on one
# axis: each device keeps its queries, and the keys go around.


# %%
def fused(w, x):
    q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
    mixed = ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), Seq, "kv")
    return ml.dot(mixed, w["o"], Heads, Head)


one = ml.trace(fused, weights, ml.f32[Batch, Seq, Embed])
ring = one.plan(eight, "seq:y kv:y")

# %% [markdown]
# **Predict.** On eight devices, how many times does each device pass its keys on to the next?

# %%
puzzles.Q["7c"].predict(...)

# %%
for c in ring.collectives:
    print(f"{c.times} times {c.kind}: {c.payload_bytes:,} bytes each")

print(f"gathered: {one.plan(eight, 'seq:y').wire_bytes:,.0f} bytes, ring: {ring.wire_bytes:,.0f} bytes")

# %% [markdown]
# The bytes are the same as with gathered keys. But a device never holds all keys, only its own and those on their
# way. That counts when a sequence is so long that its keys do not fit.
#
# The `layer` above writes its scores out. It does not return them, so meshlab can run it as the same operation, and it
# does so where a layout asks for a ring:

# %%
print([c.kind for c in layer.plan(eight, "seq:y kv:y").collectives])

# %% [markdown]
# **Puzzle P15.** The backward pass goes around as well: the gradients of keys and values are summed on their way around
# the ring, and end on the device of their keys. There are two heads for four devices, and no device may hold all keys.

# %%
puzzles.P15.predict(...)

# %%
puzzles.P15.show()

# %%
puzzles.P15.check("seq:y")

# %%
puzzles.P15.hint()

# %% [markdown]
# ## The mask, and a balanced ring
#
# In a language model the mask is *causal*: a token looks only at earlier tokens. So the device with the first tokens
# has hardly any work, the device with the last tokens has the most, and all wait for it.
#
# **Predict.** What percentage of all FLOPs does the busiest of eight devices do? An even split would be 12.5%.

# %%
puzzles.Q["7d"].predict(...)


# %%
def causal(q, k, v):
    return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), Seq, "kv", causal=True)


masked = ml.trace(causal, *[ml.f32[Batch, Seq, Heads, Head]] * 3)
for layout in ("seq:y kv:y", "seq:zigzag(y) kv:zigzag(y)"):
    plan = masked.plan(eight, layout)
    print(f"{layout}: {plan.work}, {plan.wire_bytes:,.0f} bytes")

# %% [markdown]
# Inside attention, `zigzag(y)` gives each device one block from the front and one from the back, so all have the same
# work. For this, devices exchange halves of their blocks before and after attention, which costs some bytes. In a ring
# both dims need `zigzag`: with only one of them, some device would still have the most work in each turn.
#
# ## One sequence of 131,072 tokens
#
# Back to Llama, with a single sequence on all eight devices. `ml.layouts` writes both layouts.

# %%
long = ml.named_models()["llama3-8b"].trace(batch=1, seq=131_072)
sharded = ml.layouts.fsdp(long, mesh)
both = {"gathered": sharded, "ulysses": sharded & ml.layouts.context_parallel(long, mesh, kind="ulysses")}
ways = {name: long.plan(mesh, layout) for name, layout in both.items()}
for name, plan in ways.items():
    peak, even = plan.memory.donated.peak_bytes / 1e9, plan.time.given(balanced=True).estimate
    print(f"{name}: peak {peak:.1f} GB, {plan.time.estimate:.2f} s; balanced {even:.2f} s")

# %% [markdown]
# Both fit now. Why is gathering so much slower? Not because of its bytes: the mask of this model is causal.
# `balanced=True` assumes that the work is even, as in programs that give each device one block from the front and one
# from the back. Heads are always balanced.
#
# ## Serving: fewer heads than devices
#
# Ulysses needs as many heads as devices. To *serve* a model is to answer people with it, one token at a time. The keys
# and values of all earlier tokens are kept in a *cache*, and the new token looks at all of them. They have few heads:
# groups of several queries share one. Suppose that there are eight heads, on sixteen devices:

# %%
decoding = puzzles.P18.program

try:
    decoding.plan(ml.mesh(a=16), "heads:a")
except ml.LayoutError as error:
    print(error)

# %% [markdown]
# The error suggests a mesh of two axes: heads on one, and the group of queries that share a head on the other.
#
# **Puzzle P18.** The cache takes most of the memory. Predict how many copies of it that layout holds, then do better.

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
# - Activations grow with the length: in proportion to it, with a fused kernel. Time grows faster.
# - Queries and keys are two dims: shard one, or neither. As one operation, attention takes both: the ring.
# - Gathering keys is simple. Ulysses trades the sequence for heads in the core, and sends 2/n of that on n devices.
# - With a causal mask, the blocks of a sequence have uneven work. In zig-zag order it is even.
# - With fewer heads than devices, the length of the cache is another dim to shard.
#
# The next lesson has two more dims to shard: experts, and layers.
