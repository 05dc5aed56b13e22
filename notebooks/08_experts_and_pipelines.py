# %% [markdown]
# # 8. Experts and pipelines
#
# Two more ideas divide a *model*, not a batch. A mixture of experts has many feed-forward layers, and each token
# visits only a few. A pipeline puts layers on different devices, and passes the work from one to the next. Each has a
# price that you can predict. This lesson has two parts, of a quarter of an hour each.

# %%
import meshlab as ml
from meshlab import puzzles

ml.simulate(8)

# %% [markdown]
# ## Tokens go to experts
#
# The program below is one layer of eight experts. Tokens come in `groups`. A table says which token goes to which
# expert, and each expert has `room` for four tokens of each group. Read the dims line by line:

# %%
Groups, Tokens, Embed = ml.dims(groups=8, tokens=16, embed=32)
Routes, Experts, Room, Ffn = ml.dims(routes=8, experts=8, room=4, ffn=64)


def layer(x, table, up, down):
    sent = ml.dot(table, x, "tokens")  # [groups routes room embed]
    sent = sent.rename(groups="senders", routes="experts")  # the same numbers, at the experts
    hidden = ml.relu(ml.dot(sent, up, "embed"))
    returned = ml.dot(hidden, down, "ffn").rename(senders="groups", experts="routes")
    return ml.dot(table, returned, "routes", "room")


# %%
tokens, table = ml.f32[Groups, Tokens, Embed], ml.f32[Groups, Tokens, Routes, Room]
program = ml.trace(layer, tokens, table, ml.f32[Experts, Embed, Ffn], ml.f32[Experts, Ffn, Embed])
mesh = ml.mesh(y=4)

# %% [markdown]
# We want to share out the groups *and* the experts. But in the middle one array has both, and two dims of one array
# cannot share an axis (lesson 2). So the program uses other names there: the groups become `senders`, and the
# `routes` become `experts`. At the lines with `rename`, the array may move to other devices. What if you shard only
# one of the two?

# %%
for layout in ("groups:y", "experts:y"):
    plan = program.plan(mesh, layout)
    for c in plan.collectives:
        print(f"{layout}: {c.kind}, {c.wire_bytes:,.0f} bytes. {c.because} {plan.work}")

# %% [markdown]
# Either way an array is gathered, and devices repeat work.
#
# **Puzzle P16.** Repeat no work, and send everything with two all-to-alls. First predict.

# %%
puzzles.P16.predict(...)

# %%
puzzles.P16.show()

# %% [markdown]
# A distractor: shard the experts *inside*, by `ffn`. That is tensor parallelism, from lesson 5. It does not repeat
# work either.

# %%
puzzles.P16.check("groups:y ffn:y")

# %%
puzzles.P16.hint()

# %% [markdown]
# **Predict.** By what factor does tensor parallelism in the experts, `groups:y ffn:y`, send more than the two
# all-to-alls of the puzzle, on these four devices?

# %%
puzzles.Q["8a"].predict(...)

# %% [markdown]
# ## Without a capacity
#
# `room` drops tokens: if five tokens of a group go to one expert, the fifth is dropped. `ml.dispatch` takes no table,
# but the numbers of the experts that each token chooses. It sorts all tokens by expert into `rows`, however many an
# expert gets, and `ml.combine` restores their order. Here each token goes to two experts:

# %%
Words, K = ml.dims(tokens=64, k=2)


def dropless(x, choice, up, down):
    rows, sent = ml.dispatch(x, choice, Experts, factor=2)  # [experts rows embed]
    hidden = ml.relu(ml.ragged_dot(rows, up, sent, "embed"))
    return ml.combine(ml.ragged_dot(hidden, down, sent, "ffn"), sent)


# %%
weights = ml.f32[Experts, Embed, Ffn], ml.f32[Experts, Ffn, Embed]
sorted_rows = ml.trace(dropless, ml.f32[Words, Embed], ml.i32[Words, K], *weights)

# %% [markdown]
# Tokens and experts never meet in one array, so one axis may split both, without other names.
#
# **Puzzle P21.** Split both. First predict how many collectives run if only the experts are split.

# %%
puzzles.P21.predict(...)

# %%
puzzles.P21.show()

# %%
puzzles.P21.check()

# %% [markdown]
# Here are both layouts of the program above:

# %%
for layout in ("experts:y", "tokens:y experts:y"):
    sent = [f"{c.kind}, {c.wire_bytes:,.0f} bytes" for c in sorted_rows.plan(mesh, layout).collectives]
    print(f"{layout}: {'; '.join(sent)}")

# %% [markdown]
# The smallest of the three all-to-alls sends the numbers of the experts; the other two send rows to the experts, and
# back.
#
# An array has a fixed size, so each device has a fixed number of *places* for rows: `factor` times its share of all
# rows, twice in the program above. A row without a place is dropped.
#
# **Predict.** On four devices, which is the smallest factor that never drops a choice?

# %%
puzzles.Q["8b"].predict(...)

# %% [markdown]
# P21 has that factor. Places take memory. This is the peak with a factor of 1, and with one that never drops:

# %%
print(sorted_rows.plan(mesh, "tokens:y experts:y").memory.range)

# %% [markdown]
# **Predict.** Experts are not chosen equally often. Say tokens choose the first of the eight experts as often as all
# others together, and the others equally often. How many times the mean number of rows does its device get?

# %%
puzzles.Q["8c"].predict(...)

# %% [markdown]
# All devices wait for the busiest one. On a machine, `plan.time` names it, and says what a factor of 2 then drops:

# %%
on_h100 = sorted_rows.plan(ml.mesh("h100:1x4", y=4), "tokens:y experts:y")
print(on_h100.time.given(load=(7, 1, 1, 1, 1, 1, 1, 1)).experts[0])

# %% [markdown]
# ## A real one
#
# Mixtral 8x7B has 32 layers of eight experts each. We have two *nodes*, machines with eight H100s each: `data` is
# between the nodes, on a network, and `model` is inside, on the faster NVLink. The batch is on both axes. Here are
# three layouts that do the same work:

# %%
mixtral = ml.named_models()["mixtral-8x7b"].trace(batch=16, seq=4096)
nodes = ml.mesh("h100:2x8", data=2, model=8)
sharded = {"params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
split = {"batch": "data+model", "groups": "data+model", "@experts": {"groups": "data"}, **sharded}
layouts = {
    "FSDP over all": ml.layouts.fsdp(mixtral, nodes, data=("data", "model")),
    "ffn in the experts": {"ffn": "model", **split},
    "experts": {"experts": "model", **split},
}

# %%
plans = {name: mixtral.plan(nodes, layout) for name, layout in layouts.items()}
for name, plan in plans.items():
    seconds, peak = plan.time.estimate, plan.memory.donated.peak_bytes / 1e9
    sent, exposed = plan.wire_bytes / 1e9, plan.time.exposed
    print(f"{name:18} {seconds:.2f} s, peak {peak:.0f} GB, sends {sent:3.0f} GB, {exposed:.2f} s exposed")

# %% [markdown]
# Bytes are not everything: FSDP sends more than `ffn`, but more of that overlaps with compute, and less is *exposed*.
# Experts win, and here is why. Over `model`, experts send each token only to the devices of its experts; `ffn` sends
# all tokens to all devices; and FSDP sends the weights of all eight experts, though each token visits only two.

# %%
for name in ("ffn in the experts", "experts"):
    inside = {}
    for c in plans[name].collectives:
        if c.axes == ("model",) and c.kind != "all-reduce":
            inside[c.kind] = inside.get(c.kind, 0) + c.wire_bytes * c.times / 1e9
    print(name, {kind: f"{sent:.1f} GB" for kind, sent in inside.items()})

# %% [markdown]
# The factor is the number of devices again, now eight. That was the first part, and a good place for a break.
#
# ## A pipeline in a table
#
# The second part is about layers. Four *stages* are on four devices, and a batch is cut into micro-batches, which pass
# through the stages. While stage 2 works on micro-batch 1, stage 1 already has micro-batch 2. Draw it: a row for each
# stage, a column for each tick.

# %%
STAGES, MICRO = 4, 8
busy = [[0 <= tick - stage < MICRO for tick in range(MICRO + STAGES - 1)] for stage in range(STAGES)]

for stage, row in enumerate(busy):
    print(f"stage {stage}", "".join(f"{tick - stage:3}" if works else "  ·" for tick, works in enumerate(row)))

# %% [markdown]
# The dots are the **bubble**: devices that wait for the pipeline to fill or to drain.
#
# **Predict.** Four stages, eight micro-batches: what share of the table is dots? Write it as a fraction, such as `1 /
# 3`.

# %%
puzzles.Q["8d"].predict(...)

# %% [markdown]
# With `p` stages and `m` micro-batches, the table has `m + p - 1` columns, and each row has `p - 1` dots. So the bubble
# is `(p - 1) / (m + p - 1)`, as in the GPipe paper (arXiv 1811.06965).
#
# **Predict.** What is the least number of micro-batches with which four stages have a bubble *below* 10%?

# %%
puzzles.Q["8e"].predict(...)

# %% [markdown]
# ## A pipeline of a train step
#
# A train step has a backward pass as well: each micro-batch comes back through the stages. You write none of this. In
# the mesh below, `pipe` is an *axis of stages*, and `micro` cuts the batch into micro-batches, one after the other. The
# step is an ordinary one: a scan over eight layers, its gradients, and the update.

# %%
step = puzzles.P17.program
plan = step.plan(puzzles.P17.mesh, "batch:data+micro layers:pipe")
print(plan.schedule)
for c in plan.collectives:
    print(f"{c.times} × {c.kind} over {'+'.join(c.axes)}, {c.wire_bytes:,.0f} bytes: {c.value}")

# %% [markdown]
# Activations go on to the next stage, and their gradients come back. The gradients of the weights are summed over
# `data` once, after all micro-batches: each stage has its own layers.
#
# **Puzzle P17.** Find this layout on the board. A stage that waits could have worked, so its waiting counts as work
# here. First predict how much that makes.

# %%
puzzles.P17.predict(...)

# %%
puzzles.P17.show()

# %%
puzzles.P17.check()

# %% [markdown]
# ## Schedules
#
# In which order should a stage run its cells, forward and backward? *GPipe* runs all micro-batches forward, then all
# of them backward. *1F1B* runs a backward cell as soon as it can. Each row is a stage, each column a tick, and `1F3` is
# part 1 of the model, forward, micro-batch 3:

# %%
for name in ("gpipe", "1f1b"):
    print(ml.Schedule.of(name, stages=4, micro=8).csv())

# %% [markdown]
# From the forward cell of a micro-batch to its backward cell, a stage must keep its activations: the micro-batch is *in
# flight*.
#
# **Predict.** With four stages and eight micro-batches under 1F1B, how many are in flight at once on the first stage?

# %%
puzzles.Q["8f"].predict(...)

# %% [markdown]
# Both wait equally long if each stage runs by itself. But a plan is one program, a loop over the ticks: all stages
# exchange after each tick, and a tick lasts as long as its longest cell. Then 1F1B waits longer, because one stage runs
# a forward cell while another runs a backward cell, which takes twice as long.
#
# **Predict.** In lockstep, for what share of the step does a stage wait under 1F1B, with four stages and eight
# micro-batches?

# %%
puzzles.Q["8g"].predict(...)

# %% [markdown]
# So plans use `paired` unless you name another schedule: each of its ticks is a forward cell and then a backward cell,
# on all stages. In `interleaved`, each stage has several parts of the model. Here is what the schedules mean for Llama
# 3 8B. `memory.stages` has the peak of each stage:

# %%
llama = ml.named_models()["llama3-8b"].trace(batch=32, seq=4096)
layout = {"batch": "data+micro", "layers": "pipe", **sharded}
for name in ("gpipe", "1f1b", "paired", "interleaved"):
    on_h100 = ml.mesh("h100:2x8", data=4, pipe=ml.stages(4, name), micro=ml.serial(8))
    plan = llama.plan(on_h100, layout)
    time, stages = plan.time, [f"{stage.peak_bytes / 1e9:.1f}" for stage in plan.memory.donated.stages]
    waits = f"waits {time.bubble:.0%}, by itself {time.free_running.bubble:.0%}"
    print(f"{name:12} {time.estimate:.2f} s, {waits}; peaks {', '.join(stages)} GB")

# %% [markdown]
# In lockstep, `gpipe` and `paired` are the fastest, and `paired` keeps less than `gpipe`. On the board, Time draws the
# schedule of a layout, and Memory shows the peak of each stage.
#
# ## What you know now
#
# - If an array moves from one sharded dim to another, it takes an all-to-all; on n devices, this sends 1/n of a
#   gather.
# - Without a capacity, rows have places: a factor of n on n devices never drops, and all wait for the busiest device.
# - Experts on an axis send tokens; tensor parallelism inside experts sends n times as much; FSDP sends weights.
# - A pipeline of p stages and m micro-batches is idle for (p − 1)/(m + p − 1) of the time.
# - A layout makes a pipeline of a train step; its schedule decides how long stages wait, and how much each one keeps.
#
# Now you know all the pieces. Next: your own model.
