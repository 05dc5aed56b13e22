# %% [markdown]
# # 5. Tensor parallelism
#
# Data parallelism replicates the weights. If they are too large for that, or the batch is too small to shard, you can
# shard the matmuls themselves. In twenty minutes you will find the layout of a transformer layer that Megatron-LM
# made famous, say where it sums, forward and backward, and see what XLA's own partitioner sends under the same
# layout.

# %%
import jax

import meshlab as ml
from meshlab import puzzles

ml.simulate(4)

# %% [markdown]
# ## By column, then by row
#
# Half of a layer is a **feed-forward network**: two matmuls with a `relu` between them. `up` is `[embed ffn]`, `down`
# is `[ffn embed]`.

# %%
Batch, Seq, Embed, Heads, Head, Ffn = ml.dims(batch=8, seq=16, embed=32, heads=8, head=4, ffn=64)


def feed(w, x):
    return ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "ffn")


weights = {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}
program = ml.trace(feed, weights, ml.f32[Batch, Seq, Embed])
mesh = ml.mesh(y=4)

# %% [markdown]
# You can shard two dims of the weights. **Drag** `embed` onto `y` and read **Traffic**; then do the same with `ffn`.
# Which sends less, and which array is summed?

# %%
explorer = ml.explore(program, mesh)

explorer

# %% [markdown]
# Here is why. Under `embed:y` the first matmul computes partial sums. The `relu` of a partial sum is not a part of
# the `relu`, so the sums must be reduced before it: an array with all of `ffn`.

# %%
program.plan(mesh, "embed:y").explain()

# %% [markdown]
# Under `ffn:y` each device has some *columns* of `up`, computes the same columns of the hidden layer, and takes their
# `relu`. These are exactly what it needs for its *rows* of `down`. Only the result is a partial sum. **By column,
# then by row: two matmuls, one sum.**

# %%
program.plan(mesh, "ffn:y").explain()

# %% [markdown]
# ## By heads
#
# The other half is attention. You wrote its core in lesson 1. Around it are the matmuls that compute queries, keys
# and values, and one that combines the heads. Follow `heads` through the code: where is it summed?


# %%
def attend(w, x):
    q, k, v = (ml.dot(x, w[name], "embed") for name in "qkv")
    scores = ml.dot(q, k.rename(seq="kv"), "head")
    mixed = ml.dot(ml.softmax(scores, "kv"), v.rename(seq="kv"), "kv")
    return ml.dot(mixed, w["o"], "heads", "head")


weights |= {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}

# %% [markdown]
# **Puzzle P08** is about a whole layer: attention, then the feed-forward network. Before each of them, a *norm* brings
# the numbers of each token to a mean of 0 and a variance of 1. First, only `heads` is sharded.

# %%
puzzles.P08.predict(...)

# %% [markdown]
# Then `head`, the dim inside each head, and `ffn`, both on `y`. No array has both, so they may share the axis. Follow
# both through the code.

# %%
puzzles.Q["5a"].predict(...)

# %% [markdown]
# Now use the board. There are eight devices, and more dims than you need. Watch the strip: it also shows when work is
# repeated.

# %%
puzzles.P08.show()

# %%
puzzles.P08.check()

# %% [markdown]
# Here is `heads`, and three dims that do not work. `head` is already summed in the scores, which are large. If `embed`
# is sharded, each matmul that reads it sums over it, and each norm sums over it twice. `seq` does not send more than
# `heads`, but it gathers: queries of one part of a sequence need the keys and values of all parts. (Lesson 7 is about
# that.)

# %%
for layout in ("heads:y", "head:y", "seq:y", "embed:y"):
    plan = puzzles.P08.program.plan(mesh, layout)
    print(f"{layout:8} {len(plan.collectives)} collectives, a device sends {plan.wire_bytes:9,.0f} B")

# %% [markdown]
# Now in code. This try misses something:

# %%
puzzles.P08.check("batch:x heads:y")

# %%
puzzles.P08.hint()

# %% [markdown]
# ## Backward
#
# Here is the layer in code. To the result of each half it adds what went into that half: a *residual connection*. A
# layer in the middle of a network needs the gradient of its weights *and* of `x`, which it passes to the layer below.


# %%
def norm(x):
    return ml.normalize(x, "embed")


def layer(w, x, norm):
    x = x + attend(w, norm(x))
    return x + feed(w, norm(x))


def gradients(norm):
    def loss(w, x):
        return ml.square(layer(w, x, norm)).mean()

    return ml.trace(jax.value_and_grad(loss, argnums=(0, 1)), weights, ml.f32[Batch, Seq, Embed])


# %% [markdown]
# **Predict** with the rule of the last lesson: a copy in the forward pass is a sum in the backward pass.

# %%
puzzles.Q["5b"].predict(...)

# %% [markdown]
# Read the causes: two forward, at the end of each half, and two backward, at the beginning of each half, where a whole
# array goes into matmuls with sharded weights. (The Megatron-LM paper calls the first *g* and the second *f*.) The
# gradients of the weights need no sum: each has the sharded dim.

# %%
plan = gradients(norm).plan(mesh, "heads:y ffn:y")

plan.explain()

# %% [markdown]
# ## What a compiler does
#
# `plan.xla()` gives the same layout to XLA's own partitioner, which decides by itself where to sum. It reduces each
# partial sum at once. Which partial sums does the plan add up first? **Predict** the factor.

# %%
puzzles.Q["5c"].predict(...)

# %%
plan.xla()

# %% [markdown]
# In attention, three matmuls read the same array, for queries, keys and values, and each gives a partial gradient of
# it. In the plan, each device adds its three parts, and *then* one all-reduce sums over devices. This works because
# nothing else reads the output of the norm: these three parts are the whole gradient.
#
# And without norms? Then `x` itself goes into the three matmuls and into the residual connection. The gradient through
# that connection is whole on each device. You cannot add partial sums to a whole value before you reduce them: four
# devices would count the whole value four times.

# %%
without = gradients(lambda x: x).plan(mesh, "heads:y ffn:y")

print("with norms:   ", len(plan.collectives), "all-reduces")
print("without norms:", len(without.collectives), "all-reduces")

# %% [markdown]
# ## It has a name
#
# The layouts of the literature are functions of a program and a mesh. This one looks for dims with common names, such
# as `heads` and `ffn`:

# %%
print(ml.layouts.tensor_parallel(gradients(norm), mesh))

# %% [markdown]
# ## What you know now
#
# - Split the first matmul by column and the second by row, and only the result is summed. Attention by heads does the
#   same.
# - A layer sums twice forward, where its halves end, and twice backward, where they begin.
# - Partial sums may be added to each other, so they can wait. They may not pass a `relu`, or be added to a whole
#   value.
# - A partitioner that does not wait sends 50% more.
#
# The traffic of tensor parallelism grows with the batch; the traffic of data parallelism grows with the weights.
# Large models use both at once. In the next lesson the weights are *stored* sharded, and used whole.
