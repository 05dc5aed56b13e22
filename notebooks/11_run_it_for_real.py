# %% [markdown]
# # 11. Run it for real
#
# So far you asked what a layout costs. Now you run it: you train, stop, go on under another layout, look inside a step,
# and start two processes. It takes twenty minutes, and no accelerator: the devices are simulated. On real ones, the
# cells are the same.
#
# This lesson needs Orbax. `make lab` has installed it; elsewhere, run `pip install "meshlab[lessons]"`.

# %%
import pathlib
import subprocess
import sys
import tempfile

import jax
import numpy as np

import meshlab as ml
from meshlab import puzzles
from meshlab.models.vision import digits

ml.simulate(8)

# %% [markdown]
# ## What is attached
#
# A mesh takes the devices that JAX has. If it has too few, meshlab simulates them on the CPU: the results and the bytes
# are real, the times are not.

# %%
ml.devices()

# %% [markdown]
# On a machine with accelerators, first run `meshlab doctor` in a terminal. It measures the devices and their links,
# checks a plan on them, and prints one report.
#
# ## A step, a plan
#
# Here are the network and the digits of the first notebook.


# %%
def loss(params, images, labels):
    hidden = ml.relu(ml.dot(images, params["w1"], "rows", "cols"))
    logits = ml.dot(hidden, params["w2"], "hidden")
    return ml.cross_entropy(logits, labels, "classes").mean()


def step(params, images, labels):
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, params, grads)


# %%
config, data = digits.Config(), digits.load()
Batch, Rows, Cols, Hidden, Classes = config.dims("batch rows cols hidden classes")
shapes = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
program = ml.trace(step, shapes, ml.f32[Batch, Rows, Cols], ml.i32[Batch])
mesh = ml.mesh(data=4, model=2)

explorer = ml.explore(program, mesh, "batch:data hidden:model")
explorer

# %% [markdown]
# Choose another layout if you like, and press **Run**: the board takes steps on random data. The rest of this lesson
# keeps the layout below. `plan.run` takes one step on the devices, and returns what `step` returns.

# %%
plan = program.plan(mesh, "batch:data hidden:model")
start = {name: digits.init(jax.random.key(0), config)[name] for name in shapes}
batches = [{"images": x, "labels": y} for x, y in digits.batches(data, config, epochs=4)]

value, params = plan.run(start, *batches[0].values())
print(f"loss {float(value):.4f}, and w1 is {params['w1'].array.sharding.spec}")

# %% [markdown]
# ## Train, and stop
#
# `plan.fit` takes many steps, and saves what they carry: here, after every 10 steps. Let the power fail in step 27.


# %%
def until_the_power_fails():
    yield from batches[:26]
    raise RuntimeError("The power fails.")


folder = pathlib.Path(tempfile.mkdtemp())
try:
    plan.fit({"params": start}, until_the_power_fails, steps=40, checkpoint=folder / "runs", every=10)
except RuntimeError as error:
    print(error)

# %% [markdown]
# **Predict.** The same call continues the training. Which step does it compute first?

# %%
puzzles.Q["11a"].predict(...)

# %% [markdown]
# A checkpoint does not depend on the layout. So let us go on under another one, where every device has all of the
# weights.
#
# **Predict.** How many bytes of the weights does a device get that it did not have before?

# %%
puzzles.Q["11b"].predict(...)

# %%
other = program.plan(mesh, "batch:data")
move = plan.move(other)

held, new = move.held[0], move.new[0]
print(f"{held:,} B on a device, of which {new:,} B are new; it sends {move.wire_bytes:,.0f} B for them")

# %% [markdown]
# Does the training notice? We compare its losses with a training that nothing interrupted, under the first layout.

# %%
fit = other.fit({"params": start}, batches, steps=40, checkpoint=folder / "runs", every=10)
whole = plan.fit({"params": start}, batches, steps=40)

print(f"goes on after step {fit.begun}; loss {fit.losses[-1]:.4f}, without interruption {whole.losses[-1]:.4f}")
print(f"largest difference in 40 steps: {np.max(np.abs(np.divide(fit.losses, whole.losses) - 1)):.0e}")

# %% [markdown]
# ## Look inside
#
# `plan.watch` runs a step and returns values from inside it: whole, or the part on one device. A value that is a
# partial sum has its addends, one for each part of `hidden`.

# %%
images, labels = batches[0].values()
seen = plan.watch(params, images, labels, values=["hidden", "logits"])

print("hidden:", seen["hidden"].whole.shape, "on device 3:", seen["hidden"].shards[3].shape)
print("logits: addends", seen["logits"].addends.shape)

# %% [markdown]
# Now suppose that the data has a NaN. One step spreads it: all of `w2` is NaN afterwards, on every device.
#
# **Predict.** The NaN is in row 100 of the images. How many of the 8 devices have it, before anything is sent?

# %%
puzzles.Q["11c"].predict(...)

# %%
bad = np.array(images.array)
bad[100, 3, 3] = np.nan

plan.find_nan(params, ml.tensor(bad, Batch, Rows, Cols), labels)

# %% [markdown]
# ## Two processes
#
# On a cluster your program runs in many processes. `ml.distributed()` joins them, and everything else stays the same.
# `meshlab run` starts them on one machine, so you can try this before you queue.

# %%
code = """
import jax, numpy as np
import meshlab as ml

ml.distributed()
print(ml.devices())
batch = ml.Dim("batch", 8)
plan = ml.trace(lambda x: x.sum(), ml.f32[batch]).plan(ml.mesh(data=8), "batch:data")
for step in range(3):
    total = float(plan.run(np.full(8, step, np.float32)))
    print(f"step {step}: {total}", flush=True)
"""


# %%
def run_in_two_processes(code):
    train = folder / "train.py"
    train.write_text(code)
    command = [sys.executable, "-m", "meshlab.cli", "run", str(train), "--processes", "2", "--simulate", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(*[line for line in done.stdout.splitlines() if "Gloo" not in line], sep="\n")
    print(*done.stderr.rpartition("Process ")[1:], sep="")


run_in_two_processes(code)

# %% [markdown]
# The two make one program: each step is a sum over 8 devices, four in each process. So what happens if process 1 leaves
# the loop one step earlier? Think of process 0 in its last step.

# %%
run_in_two_processes(code.replace("range(3)", "range(3 - jax.process_index())"))

# %% [markdown]
# Process 0 waits for numbers that nobody sends. `meshlab run` names the process that left, and ends both. The page
# "Run it for real" (`docs/clusters.md`) says how to start such a file under SLURM, on Kubernetes and on TPU slices, and
# what can go wrong there.
#
# ## What you know now
#
# - `plan.run` takes a step, and `plan.fit` many; the same call continues after a crash, under any layout.
# - `plan.move` says which bytes another layout needs on which device.
# - `plan.watch` shows values inside a step; `plan.find_nan` names the first NaN, with its line and its devices.
# - With `ml.distributed()`, the same file runs in many processes; all of them must make the same calls.
#
# That was the course. Take your own model (lesson 9), and play.
