# %% [markdown]
# # 1. Names: what is summed over is named
#
# The axes of an array usually have positions, and one has to remember what axis 2 was. In this course each axis has a
# name. In twenty minutes you will write two layers of a network and the core of attention without one positional
# axis. There is one device in this lesson; from the next one on there are many, and it is the names that say what
# goes where.
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
# `ml.dims` makes **dims**, and `ml.tensor` puts an array and its dims together. Here are two examples in a batch,
# three numbers each:

# %%
Batch, Embed, Hidden = ml.dims(batch=2, embed=3, hidden=4)

x = ml.tensor(jnp.arange(6.0).reshape(2, 3), Batch, Embed)
up = ml.tensor(jnp.ones((3, 4)), Embed, Hidden)

x

# %% [markdown]
# Names are checked. Here somebody has the array the wrong way round:

# %%
try:
    ml.tensor(jnp.ones((3, 2)), Batch, Embed)
except ml.MeshlabError as error:
    print(error)

# %% [markdown]
# ## Name what you sum over
#
# A matmul multiplies two arrays, and sums over some dims. With `ml.dot` you list the dims that are summed, and
# nothing else. Those are gone afterwards; **every other dim stays, once**.

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
# Second, two arrays of the same dims.

# %%
puzzles.Q["1b"].predict(...)

# %% [markdown]
# Third, queries and keys, as attention has them. Go dim by dim: is it listed? If it is not, it stays.

# %%
puzzles.Q["1c"].predict(...)

# %% [markdown]
# ## The order does not matter
#
# A name is found wherever it stands. Here are the same weights, stored the other way round, and the same result:

# %%
turned = ml.tensor(up.array.T, Hidden, Embed)

same = bool((ml.dot(x, turned, Embed).array == hidden.array).all())
print(*turned.dims, "→", "the same numbers" if same else "other numbers")

# %% [markdown]
# So there is no transpose, no `axis=-1`, no `keepdims`. Sums and means name their dims as well, and additions find
# the dims that they share:

# %%
bias = ml.tensor(jnp.array([0.0, 10.0, 20.0, 30.0]), Hidden)

print(x.sum(Batch))
print(hidden + bias)

# %% [markdown]
# ## What goes wrong
#
# Five mistakes that people make in the first hour. Read what each error proposes.

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
# One mistake raises no error: if you list too few dims, the others stay. So look at the dims of a result.

# %%
print("nothing listed:", *ml.dot(x, up).dims)

# %% [markdown]
# ## Two layers
#
# Now a network. Each line names what it uses up, and nothing says where the batch is.


# %%
def network(weights, x):
    hidden = ml.relu(ml.dot(x, weights["up"], Embed))
    return ml.dot(hidden, weights["down"], Hidden)


weights = {"up": up, "down": ml.tensor(jnp.ones((4, 3)), Hidden, Embed)}

network(weights, x)

# %% [markdown]
# What is not named rides along. The same function takes sequences, and a single example:

# %%
(Seq,) = ml.dims(seq=5)
sequences = ml.tensor(jnp.ones((2, 5, 3)), Batch, Seq, Embed)
single = ml.tensor(jnp.ones(3), Embed)

print(*network(weights, sequences).dims)
print(*network(weights, single).dims)

# %% [markdown]
# ## Gradients have names too
#
# A loss has no dims left: `mean()` uses up all of them. `jax.grad` is JAX's own, and the gradient of a weight has the
# dims of the weight.


# %%
def loss(weights, x):
    return ml.square(network(weights, x) - x).mean()


gradients = jax.grad(loss)(weights, x)

for name, gradient in gradients.items():
    print(f"{name}:", *gradient.dims)

# %% [markdown]
# `jax.vmap` maps over position 0, and takes an axis away from the array behind the back of its names; the first
# operation says so. `ml.vmap` maps over a dim: inside it is gone, outside it is back.

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
# without any numbers. What comes out is the program, with a name on every axis.

# %%
types = {"up": ml.f32[Embed, Hidden], "down": ml.f32[Hidden, Embed]}
program = ml.trace(network, types, ml.f32[Batch, Embed])

for value in program.values:
    print(f"{' '.join(value.dims):15} {value.label}")

# %% [markdown]
# Here it is on a board. Open **Program**, and click the chip `hidden` on the left: each place that has this dim is
# marked. It comes in with a weight, passes through `relu`, and ends in the second `dot`, which sums it.
# (`ml.mesh(one=1)` is a single device; the next lesson has more.)

# %%
explorer = ml.explore(program, ml.mesh(one=1))

explorer

# %% [markdown]
# ## One dim, two roles
#
# In attention every position of a sequence looks at every position of the same sequence. Both are `seq`, so a `dot`
# lets `seq` ride along **once**, and compares each position with itself alone. Another name makes two dims of it:

# %%
print("each with itself:", *ml.dot(sequences, sequences, Embed).dims)

keys = sequences.rename(seq="kv")
print("each with each:  ", *ml.dot(sequences, keys, Embed).dims)

# %% [markdown]
# `ml.softmax(scores, "kv")` makes numbers positive, with the sum 1 along the dim that is named. The dim stays.

# %%
scores = ml.dot(sequences, keys, Embed)

ml.softmax(scores, "kv").sum("kv")

# %% [markdown]
# ## Your turn: the core of attention
#
# **Puzzle C01.** All that you need is two `dot`s and a `softmax`. The keys and values already have their `kv`.

# %%
puzzles.C01

# %% [markdown]
# Write it here, and run the cell as often as you like. It is compared with the right one at sizes that are drawn, so
# that it has to be right for all of them. `puzzles.C01.hint()` goes a step further each time.


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
# - A dim is a name with a size, and a tensor is an array with its dims, in whatever order.
# - `dot` lists the dims that are summed. They are gone; every other dim stays, once.
# - What is not named rides along: the same function takes a batch, sequences, or neither.
# - Gradients have the dims of what they are gradients of.
# - `rename` makes two dims where one has two roles.
#
# Nothing here said how many devices there are. In the next lesson a dim is cut over a mesh of them, by its name.
