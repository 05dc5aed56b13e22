# %% [markdown]
# # 4. The backward pass
#
# You can derive what a forward pass sends. Training also has a backward pass, and under the most common layout,
# nearly all bytes are sent there. In twenty minutes you will be able to say for each gradient whether it is summed
# over devices, over which axis, and why.

# %%
import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab import puzzles

ml.simulate(4)

# %% [markdown]
# ## One matmul forward, two backward
#
# The forward pass computes `y = dot(x, w, embed)`. The backward pass takes the gradient `dy` of the result, and
# computes two gradients. Their dims leave no choice: `dx` is `[batch embed]` like `x`, and `dy` is `[batch hidden]`,
# so `hidden` must be summed. `dw` is `[embed hidden]` like `w`, so `batch` must be summed. JAX agrees:

# %%
Batch, Embed, Hidden = ml.dims(batch=16, embed=64, hidden=32)
x = ml.tensor(jax.random.normal(jax.random.key(0), (16, 64)), Batch, Embed)
w = ml.tensor(jax.random.normal(jax.random.key(1), (64, 32)), Embed, Hidden)

y, backward = jax.vjp(lambda x, w: ml.dot(x, w, Embed), x, w)
dy = ml.tanh(y)
dx, dw = backward(dy)

print("dx sums hidden:", bool(jnp.allclose(dx.array, ml.dot(dy, w, Hidden).array, atol=1e-4)))
print("dw sums batch: ", bool(jnp.allclose(dw.array, ml.dot(x, dy, Batch).array, atol=1e-4)))

# %% [markdown]
# There are three dims and three matmuls, and each dim is summed in exactly one matmul:
#
# | sharded dim | array without it | what is summed |
# |---|---|---|
# | `embed` | `y` | `y`, forward |
# | `hidden` | `x` | the gradient of `x`, backward |
# | `batch` | `w` | the gradient of `w`, backward |
#
# **The rule.** An array without the sharded dim is whole on each device, so there are copies of it. If copies go
# *into* a matmul, each device computes the gradient of its own copy, and the backward pass sums these gradients. You
# know this from one device: a number that is used four times collects four gradients.

# %%
pulls = jnp.array([1.0, 2.0, 3.0, 4.0])

jax.grad(lambda number: (jnp.broadcast_to(number, 4) * pulls).sum())(0.0)

# %% [markdown]
# ## Data parallelism
#
# Now take the loss and both gradients, on four devices. `batch:x` is **data parallelism**: each device has a quarter
# of the examples, and all of `w`.


# %%
def loss(w, x):
    return ml.square(ml.dot(x, w, Embed)).mean()


gradients = jax.value_and_grad(loss, argnums=(0, 1))
program = ml.trace(gradients, ml.f32[Embed, Hidden], ml.f32[Batch, Embed])
mesh = ml.mesh(x=4)

# %% [markdown]
# **Predict.** The loss is a mean over the batch, so it is summed too.

# %%
puzzles.Q["4a"].predict(...)

# %% [markdown]
# Here is everything that is sent. `out/0` is the loss, `out/1/0` the gradient of `w`, and `out/1/1` the gradient of
# `x`.

# %%
program.plan(mesh, "batch:x").explain()

# %% [markdown]
# The loss is tiny; the gradient of `w` is as large as `w`, however few examples there are. Nothing is sent for the
# gradient of `x`: it has a batch, so each device computes its own rows.
#
# **Drag** `hidden` onto `x`, then `embed`, and read **Traffic**. Which array is summed, and is that forward or
# backward? Compare with the table above. (The loss is a mean over `batch` and `hidden`, so sharding either one adds
# an all-reduce of the loss.)

# %%
explorer = ml.explore(program, mesh)

explorer

# %% [markdown]
# Under `embed:x` only `y` is summed, in the forward pass. All devices need its gradient, and all have it, since the
# sum gave each of them a copy of `y`. So a **sum in the forward pass is a copy in the backward pass**, and sends
# nothing there: the same rule, in reverse.

# %%
program.plan(mesh, "embed:x").explain()

# %% [markdown]
# ## A network with more dims
#
# **Puzzle P06.** The gradients of the network that reads digits: `[batch rows cols]` · `[rows cols hidden]`, then
# `[batch hidden]` · `[hidden classes]`, with batch 100, rows 28, cols 28, hidden 1,024, classes 10. Which arrays lack
# the batch, and how large are they?

# %%
puzzles.P06.predict(...)

# %% [markdown]
# Now send far less. Which dim do both weights have? And how large is the array that is summed over it? (The gradient
# of the images is not needed.)

# %%
puzzles.P06.show()

# %%
puzzles.P06.check()

# %% [markdown]
# Is that layout always better? Its sum has a batch dim, and the gradients of data parallelism do not. So it depends
# on the batch. Replace the second layout with yours:

# %%
for batch in (100, 10_000, 1_000_000):
    larger = puzzles.P06.program.resize(batch=batch)
    print(f"batch of {batch:,}")
    for layout in ("batch:x", "rows:x"):
        print(f"  {layout:8} sends {larger.plan(mesh, layout).wire_bytes:13,.0f} B")

# %% [markdown]
# This is why everybody starts with data parallelism: the work grows with the batch, but the traffic does not.
#
# ## One after the other
#
# A large batch has a price: the activations of the forward pass stay in memory for the backward pass, and they grow
# with the batch. If they do not fit, a device computes **micro-batches** one after the other, and adds up their
# gradients. In a layout, this is another axis: `ml.serial(4)` has four blocks and no devices. Each device runs the
# blocks in turn.

# %%
in_time = ml.mesh(data=4, micro=ml.serial(4))

print(in_time, "on", in_time.size, "devices")

# %% [markdown]
# The gradient of a weight is now a sum over devices *and* over micro-batches. A device can add up its own
# micro-batches first, and send one sum at the end. Or it can send a sum after each micro-batch.
#
# **Puzzle P19.** A step of two layers, with 4,096 examples, and `data` and `micro` as above.

# %%
puzzles.P19.predict(...)

# %% [markdown]
# Data parallelism alone uses 1.36 MB at its peak, and the limit is 600 kB.

# %%
puzzles.P19.show()

# %%
puzzles.P19.check()

# %% [markdown]
# Now write it in code, and compare. Put your layout here; `reduce` says when the sums are sent. `plan.memory.donated`
# is the memory of a step whose results take the place of its arguments, as new weights take the place of the old.

# %%
yours = "batch:data"

for reduce in ("once", "each"):
    schedule = ml.mesh(data=4, micro=ml.serial(4, reduce=reduce))
    plan = puzzles.P19.program.plan(schedule, yours)
    print(f"{reduce}: sends {plan.wire_bytes:9,.0f} B, peak {plan.memory.donated.peak_bytes:11,} B")

# %% [markdown]
# ## What you know now
#
# - A matmul adds two matmuls to the backward pass, and each of its three dims is summed in one of the three.
# - A copy in the forward pass is a sum in the backward pass, and a sum in the forward pass is a copy.
# - Data parallelism sums each gradient once per step: the bytes depend on the weights, not on the batch.
# - Micro-batches are a serial mesh axis. Sums over devices can wait for the last one.
#
# In the next lesson the batch stays whole, and you shard the weights of a transformer.
