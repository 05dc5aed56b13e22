# %% [markdown]
# # 1. Names: name what you sum over
#
# The axes of an array usually have positions, and you have to remember what axis 2 was. In this course each axis has
# a name. In twenty minutes you will write two layers of a network and the core of attention without a single
# positional axis. This lesson uses one device. From the next lesson on there are many, and the names say what goes
# where.
#
# You **predict** first: write your answer in place of the `...`, and run the cell. The first prediction counts. Being
# wrong is fine: it is what you will remember.

# %%
import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab import puzzles

# %% [markdown]
# ## A dim is a name with a size
#
# `ml.dims` makes **dims**, and `ml.tensor` combines an array with its dims. Here is a batch of two examples, with
# three numbers each:

# %%
Batch, Embed, Hidden = ml.dims(batch=2, embed=3, hidden=4)

x = ml.tensor(jnp.arange(6.0).reshape(2, 3), Batch, Embed)
up = ml.tensor(jnp.ones((3, 4)), Embed, Hidden)

x

# %% [markdown]
# Names are checked. Here the array is the wrong way round:

# %%
try:
    ml.tensor(jnp.ones((3, 2)), Batch, Embed)
except ml.MeshlabError as error:
    print(error)

# %% [markdown]
# ## Name what you sum over
#
# A matmul multiplies two arrays and sums over some dims. With `ml.dot` you list the summed dims, and nothing else.
# The listed dims disappear; **every other dim stays, once**.

# %%
hidden = ml.dot(x, up, Embed)

print("names:    ", *hidden.dims)
print("positions:", jnp.einsum("be,eh->bh", x.array, up.array).shape)

# %% [markdown]
# **Predict** three results: their dims, in a string with spaces, in any order. First, `x` has one more dim than
# before.

# %%
puzzles.Q["1a"].predict(...)

# %% [markdown]
# Second, two arrays with the same dims.

# %%
puzzles.Q["1b"].predict(...)

# %% [markdown]
# Third, the queries and keys of attention. Go dim by dim: is it listed? If not, it stays.

# %%
puzzles.Q["1c"].predict(...)

# %% [markdown]
# ## The order does not matter
#
# An operation finds a dim by its name, in any position. Here are the same weights, stored the other way round, and
# the same result:

# %%
turned = ml.tensor(up.array.T, Hidden, Embed)

same = bool((ml.dot(x, turned, Embed).array == hidden.array).all())
print(*turned.dims, "→", "the same numbers" if same else "other numbers")

# %% [markdown]
# So you need no transpose, no `axis=-1`, no `keepdims`. Sums and means name their dims as well, and additions match
# the dims they share:

# %%
bias = ml.tensor(jnp.array([0.0, 10.0, 20.0, 30.0]), Hidden)

print(x.sum(Batch))
print(hidden + bias)

# %% [markdown]
# ## What goes wrong
#
# Here are five mistakes that people make in the first hour. Read what each error suggests.

# %%
mistakes = [
    lambda: ml.dot(x, up, "embd"),
    lambda: x @ up,
    lambda: x.T,
    lambda: x.sum(axis=0),
    lambda: x + jnp.ones((2, 3)),
]
for mistake in mistakes:
    try:
        mistake()
    except (ml.MeshlabError, AttributeError) as error:
        print(error, "\n")

# %% [markdown]
# One mistake raises no error: if you list too few dims, the others stay. So check the dims of a result.

# %%
print("nothing listed:", *ml.dot(x, up).dims)

# %% [markdown]
# ## Two layers
#
# Now a network. Each line names the dims it uses up, and no line mentions the batch.


# %%
def network(weights, x):
    hidden = ml.relu(ml.dot(x, weights["up"], Embed))
    return ml.dot(hidden, weights["down"], Hidden)


weights = {"up": up, "down": ml.tensor(jnp.ones((4, 3)), Hidden, Embed)}

network(weights, x)

# %% [markdown]
# Dims that you do not name ride along. The same function takes sequences, or a single example:

# %%
(Seq,) = ml.dims(seq=5)
sequences = ml.tensor(jnp.ones((2, 5, 3)), Batch, Seq, Embed)
single = ml.tensor(jnp.ones(3), Embed)

print(*network(weights, sequences).dims)
print(*network(weights, single).dims)

# %% [markdown]
# ## Gradients have names too
#
# A loss has no dims left: `mean()` uses up all of them. `jax.grad` works as usual, and the gradient of a weight has
# the dims of the weight.


# %%
def loss(weights, x):
    return ml.square(network(weights, x) - x).mean()


gradients = jax.grad(loss)(weights, x)

for name, gradient in gradients.items():
    print(f"{name}:", *gradient.dims)

# %% [markdown]
# `jax.vmap` maps over position 0: it removes an axis from the array, but not its name. The first operation reports
# the mismatch. `ml.vmap` maps over a dim: inside, the dim is gone; outside, it is back.

# %%
try:
    jax.vmap(lambda row: ml.dot(row, up, Embed))(x)
except ml.MeshlabError as error:
    print(error)

print("\nml.vmap:", *ml.vmap(lambda row: ml.dot(row, up, Embed), Batch)(x).dims)

# %% [markdown]
# ## The program
#
# `ml.trace` runs a function on **types** alone: `ml.f32[Batch, Embed]` is a tensor's names, sizes and number format,
# without any data. The result is the program, with a name on every axis.

# %%
types = {"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}
program = ml.trace(network, types, ml.f32[Batch, Embed])

for value in program.values:
    print(f"{' '.join(value.dims):15} {value.label}")

# %% [markdown]
# Here is the program on a board. Open **Program**, and click the chip `hidden` on the left: the board marks every
# value that has this dim. It comes in with both weights, passes through `relu`, and ends in the second `dot`, which
# sums over it. (`ml.mesh(one=1)` is a single device; the next lesson has more.)

# %%
explorer = ml.explore(program, ml.mesh(one=1))

explorer

# %% [markdown]
# ## One dim, two roles
#
# In attention, every position of a sequence looks at every position of the same sequence. Both are `seq`, so a `dot`
# lets `seq` ride along **once**, and compares each position only with itself. To get two dims, rename one of them:

# %%
print("each with itself:", *ml.dot(sequences, sequences, Embed).dims)

keys = sequences.rename(seq="kv")
print("each with each:  ", *ml.dot(sequences, keys, Embed).dims)

# %% [markdown]
# `ml.softmax(scores, "kv")` turns the scores into positive numbers that sum to 1 along `kv`. The dim stays.

# %%
scores = ml.dot(sequences, keys, Embed)

ml.softmax(scores, "kv").sum("kv")

# %% [markdown]
# ## Your turn: the core of attention
#
# **Puzzle C01.** You need only two `dot`s and a `softmax`. The keys and values already have their `kv`.

# %%
puzzles.C01

# %% [markdown]
# Write it here, and run the cell as often as you like. The check compares it with a correct function at randomly
# drawn sizes, so it must be right for any sizes. Each `puzzles.C01.hint()` says a little more.


# %%
def attend(q, k, v):
    scores = ml.dot(q, k, "kv")
    return scores


puzzles.C01.check(attend)

# %%
puzzles.C01.hint()

# %% [markdown]
# ## What you know now
#
# - A dim is a name with a size, and a tensor is an array with its dims, in any order.
# - `dot` lists the dims to sum over. They disappear; every other dim stays, once.
# - Dims that you do not name ride along: the same function takes a batch, sequences, or neither.
# - A gradient has the dims of its weight.
# - If one dim has two roles, `rename` makes two dims of it.
#
# Nothing in this lesson said how many devices there are. In the next lesson you shard a dim over a mesh of devices,
# by its name.
