# %% [markdown]
# # 5. Tensor parallelism
#
# Data parallelism copies the weights. If they are too large for that, or the batch is too small to split, then the
# matmuls themselves are split. In twenty minutes you will find the layout of a transformer layer that Megatron-LM
# made famous, say where it sums, forward and backward, and see what XLA's own partitioner makes of the same layout.

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
# Two dims of the weights can be split. **Drag** `embed` onto `y`, read **Traffic**, and then `ffn` instead. Which
# sends less, and what is it that is summed?

# %%
explorer = ml.explore(program, mesh)

explorer

# %% [markdown]
# Now in words. Under `embed:y` the first matmul makes partial sums. `relu` of a part is not a part of the `relu`, so
# they must be added up before it: an array with all of `ffn`.

# %%
program.plan(mesh, "embed:y").explain()

# %% [markdown]
# Under `ffn:y` each device has some *columns* of `up`, makes those columns of the first product, and takes their
# `relu`. These are exactly what it needs for its *rows* of `down`. Only the result is a partial sum. **By column,
# then by row: two matmuls, one sum.**

# %%
program.plan(mesh, "ffn:y").explain()

# %% [markdown]
# ## By heads
#
# The other half is attention. You wrote its core in lesson 1; around it are the matmuls that make queries, keys and
# values, and one that puts the heads together. Follow `heads` through the code: where is it summed?


# %%
def attend(w, x):
    q, k, v = (ml.dot(x, w[name], "embed") for name in "qkv")
    scores = ml.dot(q, k.rename(seq="kv"), "head")
    mixed = ml.dot(ml.softmax(scores, "kv"), v.rename(seq="kv"), "kv")
    return ml.dot(mixed, w["o"], "heads", "head")


weights |= {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}

# %% [markdown]
# **Puzzle P08** is about a whole layer: attention, then the feed-forward network, with a norm in front of each. First
# only `heads` is split.

# %%
puzzles.P08.predict(...)

# %% [markdown]
# Then `heads` and `ffn`, both on `y`. They never meet in an array, so they may share it.

# %%
puzzles.Q["5a"].predict(...)

# %% [markdown]
# Now the board. There are eight devices, and more dims than you need. Watch the strip: it also says when work is
# repeated.

# %%
puzzles.P08.show()

# %%
puzzles.P08.check()

# %% [markdown]
# Here are the dims that do not lead there. `head` is summed in the scores already, which are large. A split `embed`
# is summed by each matmul that reads it, and twice by each norm. `seq` does not send more than `heads`, but it
# gathers: queries of one part of a sequence need the keys and values of all parts. (That is for long sequences; a
# later lesson has it.)

# %%
for layout in ("heads:y", "head:y", "seq:y", "embed:y"):
    plan = puzzles.P08.program.plan(mesh, layout)
    print(f"{layout:8} {len(plan.collectives)} collectives, a device sends {plan.wire_bytes:9,.0f} B")

# %% [markdown]
# And now in code. This try lacks something:

# %%
puzzles.P08.check("batch:x heads:y")

# %%
puzzles.P08.hint()

# %% [markdown]
# ## Backward
#
# Here is the layer in code. A layer in the middle of a network needs the gradient of its weights *and* of `x`, which
# it hands to the layer below.


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
# **Predict** with the rule of the last lesson: what is copied forward is summed backward. Which arrays are whole on
# all devices, and go into a matmul with a weight that is split? The gradients of the weights are no problem: each has
# the dim that is split.

# %%
puzzles.Q["5b"].predict(...)

# %% [markdown]
# Read the causes: two forward, where a half ends, and two backward, where it begins. (The paper on Megatron-LM calls
# the first kind of place *g* and the second *f*.)

# %%
plan = gradients(norm).plan(mesh, "heads:y ffn:y")

plan.explain()

# %% [markdown]
# In attention three matmuls take the same array, for queries, keys and values. Each gives a partial gradient of it. A
# sum is linear: the device adds its three parts first, and *then* they are summed over devices, once. It may do so
# because nothing else reads what comes out of the norm: these three parts are all that there is.
#
# ## What a compiler does
#
# `plan.xla()` gives the same layout to XLA's own partitioner, which decides by itself where to sum. It sums each
# partial sum as soon as it is made. **Predict** the factor. (Running this cell takes a while: XLA compiles the step.)

# %%
puzzles.Q["5c"].predict(...)

# %%
plan.xla()

# %% [markdown]
# And without norms? Then `x` itself goes into the three matmuls, and on to the residual as well. Through the residual
# comes a gradient that is whole on each device. A part and a whole cannot be added before the parts are summed: four
# devices would count the whole four times.

# %%
without = gradients(lambda x: x).plan(mesh, "heads:y ffn:y")

print("with norms:   ", len(plan.collectives), "all-reduces")
print("without norms:", len(without.collectives), "all-reduces")

# %% [markdown]
# ## It has a name
#
# The layouts of the literature are functions of a program and a mesh. This one looks for dims with the names that
# people use, such as `heads` and `ffn`:

# %%
print(ml.layouts.tensor_parallel(gradients(norm), mesh))

# %% [markdown]
# ## What you know now
#
# - Split the first matmul by column and the second by row, and only the result is summed. Attention by heads does the
#   same.
# - A layer sums twice forward, where its halves end, and twice backward, where they begin.
# - Partial sums may be added to each other, and wait. They may not pass a `relu`, or be added to what is whole.
# - A partitioner that does not wait sends half as much again.
#
# What is sent here grows with the batch; in data parallelism it grows with the weights. Large models use both at
# once. In the next lesson the weights are *stored* split, and computed with whole.
