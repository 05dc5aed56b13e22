# %% [markdown]
# # 9. Bring your own model
#
# The models so far were written with names. Yours is not, and you will not write it anew. In twenty minutes you take
# a model of Flax, and one of Equinox, as they are: name their arrays from outside, find a layout for a named machine,
# and carry it home as `PartitionSpec`s. The last part is for programs that already have shardings of their own.
#
# This lesson needs both libraries: `pip install flax equinox`.

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
# One block of a transformer in Flax, and a training step. No line of it is ours.


# %%
class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(num_heads=16, name="attention")(nn.LayerNorm()(x))
        return x + nn.Dense(1024, name="down")(nn.gelu(nn.Dense(4096, name="up")(nn.LayerNorm()(x))))


def train_step(params, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.square(Block().apply(p, x) - x).mean())(params)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads), loss


# %% [markdown]
# `jax.eval_shape` gives the shapes of the parameters without making them.

# %%
x = jax.ShapeDtypeStruct((32, 512, 1024), jnp.float32)
params = jax.eval_shape(Block().init, jax.random.key(0), x)

jax.tree.map(lambda each: each.shape, params)["params"]["attention"]

# %% [markdown]
# ## Names from outside
#
# `ml.named` gives each axis a name, by the path of its array. A key is a glob over paths, and the last one that
# matches counts: so `*/kernel` may come first, and exceptions after it. Here is a first try, with two mistakes in it:

# %%
try:
    ml.named(params, {"*/kernel": "embed ffn", "*/dwon/kernel": "ffn embed"})
except ml.MeshlabError as error:
    print(str(error).replace("; ", "\n"))

# %% [markdown]
# Attention's kernels have three axes, and `dwon` is misspelt. Better:

# %%
names = {
    "*/kernel": "embed ffn",
    "*/down/kernel": "ffn embed",
    "*/attention/*/kernel": "embed heads head",
    "*/attention/out/kernel": "heads head embed",
}
program = ml.trace(train_step, ml.named(params, names), ml.named(x, "batch seq embed"))

# %% [markdown]
# We have named matrices and the input. No bias, no norm, nothing inside the functions of Flax: the operations say
# which axis is which, through the backward pass and the update.
#
# **Predict.** We wrote six names: `batch`, `seq`, `embed`, `heads`, `head`, `ffn`. How many dims do its arrays have
# in all?

# %%
puzzles.Q["9a"].predict(...)

# %%
print("made up:", program.made_up)

program = program.rename({"~seq": "kv"})
print(program)

# %% [markdown]
# ## A layout for a machine
#
# A mesh may lie on a machine: `"h100:1x8"` is one node of eight H100s. You need not have it. With it a plan has a
# time, and says whether it fits.

# %%
mesh = ml.mesh("h100:1x8", data=2, model=4)
tried = {}
for layout in ("batch:data", "batch:data heads:model ffn:model", "batch:data+model"):
    plan = tried[layout] = program.plan(mesh, layout)
    sent, stored = plan.wire_bytes / 1e6, plan.stored.argument_bytes / 1e6
    print(f"{layout:34} {plan.time.estimate * 1e3:.2f} ms, sends {sent:5.1f} MB, stores {stored:5.1f} MB. {plan.work}")

# %% [markdown]
# The first one sends least of all, because the four devices of a row repeat the same work: `plan.work` says so. A
# goal forbids that, unless you say otherwise. Here is one, on the board: send at most 90 MB, and store at most 16 MB
# on a device. None of the three meets it. Beat it!

# %%
goal = ml.goal(sends="90 MB", stores="16 MB")
explorer = ml.explore(program, mesh, "batch:data heads:model ffn:model", goal=goal)

explorer

# %% [markdown]
# `explorer.goal` is the verdict on what stands on the board. If you are stuck: lesson 6 has the idea, and the batch
# may lie on both axes.

# %%
explorer.goal

# %% [markdown]
# ## Carry it home
#
# Whatever stands on the board can be exported. These are the rules as MaxText or T5X write them, and the specs of the
# parameters:

# %%
print(explorer.form("axis rules"))

inputs, outputs = explorer.plan.partition_specs
inputs[0]["params"]["attention"]["query"], inputs[0]["params"]["up"], inputs[1]

# %% [markdown]
# The form `jit` is a piece of Python that needs no meshlab at all. It ends in a `jit` with the shardings in it. Its
# first lines:

# %%
text = explorer.form("jit")

print("\n".join(text.splitlines()[:12]), "\n…\n", "\n".join(text.splitlines()[-4:]), sep="")

# %% [markdown]
# Does it work? We run that text where nothing else is, put our function in, and let XLA compile it. `ml.explain`
# reads what XLA made of it. Nothing else says whether an export is worth anything.

# %%
alone = {}
exec(text, alone)
exported = ml.explain(alone["jit"](train_step), params, x)

print(f"XLA sends {exported.wire_bytes / 1e6:.1f} MB, the plan {explorer.plan.wire_bytes / 1e6:.1f} MB")

# %% [markdown]
# It works, and it sends more. The export holds the specs of arguments and results alone. Between them XLA decides,
# and it does not always decide as the plan does: `explorer.form("jit").lost` says that. Look at what it adds:

# %%
print(*text.lost)

print("\n".join(str(exported).splitlines()[:9]))

# %% [markdown]
# ## The same in Equinox, and in NNX
#
# An Equinox model is a tree, arrays and functions in one. `eqx.partition` takes the arrays out; these get names by
# their paths, and everything else stays.


# %%
mlp = eqx.filter_eval_shape(eqx.nn.MLP, 1024, 1024, 4096, 1, key=jax.random.key(0))
arrays, static = eqx.partition(mlp, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))


def loss(arrays, x):
    return jnp.square(jax.vmap(eqx.combine(arrays, static))(x)).mean()


weights = ml.named(arrays, {"layers/0/weight": "ffn embed", "layers/1/weight": "embed ffn"})
rows = ml.named(jax.ShapeDtypeStruct((64, 1024), jnp.float32), "batch embed")
ml.trace(jax.value_and_grad(loss), weights, rows).plan(mesh, "batch:data ffn:model")

# %% [markdown]
# With Flax NNX it is `nnx.split` before and `nnx.merge` inside; the paths end in `/value`.
#
# ## Your own `jit`
#
# Perhaps you have shardings already, and want to know what they cost. `ml.explain` takes the function as it is. This
# one transposes an array whose rows lie on `data`, and returns the *new* rows on `data`.

# %%
four = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def on(*axes):
    return jax.sharding.NamedSharding(four, jax.sharding.PartitionSpec(*axes))


turned = jax.jit(lambda x: jnp.tanh(x).T, out_shardings=on("data"))
argument = jax.ShapeDtypeStruct((16, 64), jnp.float32, sharding=on("data"))

# %% [markdown]
# **Predict.** How many bytes does a device send? It is an array of 16 × 64 floats, on four rows of devices. Lesson 3
# has all that you need.

# %%
puzzles.Q["9b"].predict(...)

# %%
ml.explain(turned, argument)

# %% [markdown]
# ## A line that mends it
#
# Here is a mistake that people make. The batch lies on `data`, and so does the *width* of a table that is looked up.
# XLA has to choose, and chooses badly.


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
# `report.lines` looks for the fewest lines that let it send less. It compiles the program with each of them: none is
# shown that was not tried.

# %%
mended = report.lines
for line in mended.lines:
    print(line.code)
print(f"{mended.before.sent:,.0f} bytes sent before, {mended.after.sent:,.0f} after")

# %% [markdown]
# ## What you know now
#
# - `ml.named` names the arrays of any model by their paths; the operations carry the names on.
# - A sequence that meets itself has two dims: the second gets a made-up name, which you replace.
# - A mesh on a named machine gives a plan a time; a goal keeps you honest.
# - Whatever stands on the board leaves as `PartitionSpec`s, as axis rules, or as Python without meshlab.
# - `ml.explain` says why each collective is in a `jit` of your own, and which line removes it.
#
# In the last lesson the computer drags.
