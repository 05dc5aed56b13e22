# %% [markdown]
# # 9. Bring your own model
#
# The models so far were written with names. Yours is not, and you do not want to rewrite it. In twenty minutes you
# name the arrays of a Flax model and of an Equinox model from outside, find a layout for a named machine, and export it
# as `PartitionSpec`s. The last part is for programs that already have shardings.
#
# This lesson needs both libraries. `make lab` has installed them; elsewhere, run `pip install "meshlab[lessons]"`.

# %%
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab import puzzles

ml.simulate(8)

# %% [markdown]
# ## A model that knows nothing of meshlab
#
# Here is one transformer block in Flax, and a training step.


# %%
class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(num_heads=16, name="attention")(nn.LayerNorm()(x))
        return x + nn.Dense(1024, name="down")(nn.gelu(nn.Dense(4096, name="up")(nn.LayerNorm()(x))))


def train_step(params, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.square(Block().apply(p, x) - x).mean())(params)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads), loss


# %%
x = jax.ShapeDtypeStruct((32, 512, 1024), jnp.float32)
params = jax.eval_shape(Block().init, jax.random.key(0), x)

jax.tree.map(lambda each: each.shape, params)["params"]["attention"]

# %% [markdown]
# ## Names from outside
#
# These are shapes; no array was created. `ml.named` names the axes of each array by its path. A key is a glob over
# paths, and the last key that matches applies. Here is a first try, with two mistakes:

# %%
try:
    ml.named(params, {"*/kernel": "embed ffn", "*/dwon/kernel": "ffn embed"})
except ml.MeshlabError as error:
    print(str(error).replace("; ", "\n"))

# %% [markdown]
# Attention's kernels have three axes, and `dwon` is misspelt. So put `*/kernel` first, and exceptions after it:

# %%
names = {
    "*/kernel": "embed ffn",
    "*/down/kernel": "ffn embed",
    "*/attention/*/kernel": "embed heads head",
    "*/attention/out/kernel": "heads head embed",
}
program = ml.trace(train_step, ml.named(params, names), ml.named(x, "batch seq embed"))

# %% [markdown]
# We have named only the matrices and the input: no bias, no norm, nothing inside Flax. meshlab derives all other
# names from the operations, through the backward pass and the update.
#
# **Predict.** We wrote six names: `batch`, `seq`, `embed`, `heads`, `head`, `ffn`. How many dims does the program
# have in all?

# %%
puzzles.Q["9a"].predict(...)

# %%
print("made up:", program.made_up)

program = program.rename({"~seq": "kv"})
print(program)

# %% [markdown]
# ## A layout for a machine
#
# You can place a mesh on a machine: `"h100:1x8"` is one node of eight H100s. On a machine, a plan has a time, and says
# whether it fits. You do not need the hardware.

# %%
mesh = ml.mesh("h100:1x8", data=2, model=4)
tried = {}
for layout in ("batch:data", "batch:data heads:model ffn:model", "batch:data+model"):
    plan = tried[layout] = program.plan(mesh, layout)
    sent, stored = plan.wire_bytes / 1e6, plan.stored.argument_bytes / 1e6
    time = f"{plan.time.estimate * 1e3:.2f} ms"
    print(f"{layout:34} {time}, sends {sent:5.1f} MB, stores {stored:5.1f} MB. {plan.work}")

# %% [markdown]
# The first one sends the least, because the four devices of a row repeat the same work, as `plan.work` says. A goal
# forbids this by default. Here is one: send at most 90 MB, and store at most 24 MB per device. None of the three meets
# it. The board starts with the fastest. One drop is enough; lesson 6 has the idea.

# %%
goal = ml.goal(sends="90 MB", stores="24 MB")
explorer = ml.explore(program, mesh, "batch:data+model", goal=goal)

explorer

# %% [markdown]
# Is it met?

# %%
explorer.goal

# %% [markdown]
# ## Export it
#
# You can export the layout on the board: as specs of arguments and results, as axis rules for MaxText or T5X
# (`explorer.form("axis rules")`), or as Python code that does not need meshlab at all. That code ends with a `jit`
# that has the shardings:

# %%
inputs, outputs = explorer.plan.partition_specs
text = explorer.form("jit")

print(inputs[0]["params"]["up"], inputs[1])
print("\n".join(text.splitlines()[-4:]))

# %% [markdown]
# Does it work? Run it in an empty namespace, pass our function, and let XLA compile it. `ml.explain` reads the compiled
# program.

# %%
alone = {}
exec(text, alone)
exported = ml.explain(alone["jit"](train_step), params, x)

print(f"XLA sends {exported.wire_bytes / 1e6:.1f} MB, the plan {explorer.plan.wire_bytes / 1e6:.1f} MB")

# %% [markdown]
# It works. Once you have met the goal, run the last two cells again: now XLA sends more than the plan. The export has
# only the specs of arguments and results, and XLA decides what is between. `print(exported)` shows what it adds.
#
# ## The same in Equinox
#
# An Equinox model is one tree of arrays and functions. `eqx.partition` takes the arrays out, and `ml.named` names them
# by their paths. Here is the feed-forward half of the block:

# %%
mlp = eqx.filter_eval_shape(eqx.nn.MLP, 1024, 1024, 4096, 1, jax.nn.gelu, key=jax.random.key(0))
arrays, static = eqx.partition(mlp, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))


def mlp_loss(arrays, x):
    return jnp.square(jax.vmap(eqx.combine(arrays, static))(x)).mean()


# %%
weights = ml.named(arrays, {"layers/0/weight": "ffn embed", "layers/1/weight": "embed ffn"})
rows = ml.named(jax.ShapeDtypeStruct((64, 1024), jnp.float32), "batch embed")
mlp_plan = ml.trace(jax.value_and_grad(mlp_loss), weights, rows).plan(mesh, "batch:data ffn:model")

mlp_plan.explain()

# %% [markdown]
# Over `model`, the second product is summed; over `data`, the loss and each gradient. With Flax NNX, call `nnx.split`
# before the step and `nnx.merge` inside it; `docs/own-model.md` has the code.
#
# ## Your own `jit`
#
# Perhaps you already have shardings. `ml.explain` says what they cost. This function transposes an array whose rows are
# on `data`, and returns the *new* rows on `data`.

# %%
four = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def on(*axes):
    return jax.sharding.NamedSharding(four, jax.sharding.PartitionSpec(*axes))


turned = jax.jit(lambda x: jnp.tanh(x).T, out_shardings=on("data"))
argument = jax.ShapeDtypeStruct((16, 64), jnp.float32, sharding=on("data"))

# %% [markdown]
# **Predict.** How many bytes does a device send? The array has 16 × 64 floats, on four rows of devices. Lesson 3 has
# everything you need.

# %%
puzzles.Q["9b"].predict(...)

# %%
ml.explain(turned, argument)

# %% [markdown]
# ## A line that fixes it
#
# A common mistake: the batch is on `data`, and so is the *width* of the embedding table. XLA has to choose, and chooses
# badly.


# %%
def lookup(table, tokens, up):
    rows = table[tokens]
    hidden = jnp.tanh(rows @ up)
    return hidden


def given(shape, kind, *axes):
    return jax.ShapeDtypeStruct(shape, kind, sharding=on(*axes))


# %%
table, tokens = given((512, 64), jnp.float32, None, "data"), given((32, 64), jnp.int32, "data")
report = ml.explain(jax.jit(lookup), table, tokens, given((64, 256), jnp.float32, None, "model"))

report

# %% [markdown]
# `report.lines` looks for the fewest lines that make the program send less. It compiles the program with each
# candidate, and shows only lines that it has compiled.

# %%
mended = report.lines
for line in mended.lines:
    print(line.code)
print(f"{mended.before.sent:,.0f} bytes sent before, {mended.after.sent:,.0f} after")

# %% [markdown]
# ## What you know now
#
# - `ml.named` names the arrays of any model by their paths; the operations propagate the names.
# - A sequence that meets itself has two dims: the second gets a made-up name, which you can replace.
# - On a named machine, a plan has a time; a goal forbids repeated work.
# - You can export the layout on the board as `PartitionSpec`s, as axis rules, or as Python without meshlab.
# - `ml.explain` says why each collective is in your own `jit`, and which line removes it.
#
# In the next lesson the computer finds the layout.
