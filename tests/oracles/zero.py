"""A step of mixed precision as ZeRO counts it: 16-bit parameters and gradients, and in 32 bits a master copy and Adam.

    program("7.5B").plan(ml.mesh(x=64), PARAMETERS)         2 + 2 + 12 bytes for each parameter, over 64 devices

The model is a stack of feed-forward blocks, scanned, whose layers hold all of its parameters.
"""

import jax
import jax.numpy as jnp

import meshlab as ml

# Embed, ffn and layers of blocks with so many parameters, 2 · embed · ffn · layers; 64 divides embed.
SIZES = {"7.5B": (1600, 3750, 625), "128B": (3200, 32_000, 625), "small": (64, 128, 4)}


def dims(size, batch=64):
    """Batch, Embed, Ffn, Layers."""
    embed, ffn, layers = SIZES[size]
    return ml.dims(batch=batch, embed=embed, ffn=ffn, layers=layers)


def parameters(size):
    """How many parameters there are."""
    embed, ffn, layers = SIZES[size]
    return 2 * embed * ffn * layers


def weights(size, dtype):
    """The shapes of all weights in a dtype."""
    _, Embed, Ffn, Layers = dims(size)
    return {"up": dtype[Layers, Embed, Ffn], "down": dtype[Layers, Ffn, Embed]}


def loss(params, x, targets):
    """The mean squared error of the stack."""

    def one(x, w):
        return x + ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "ffn"), None

    out = ml.scan(ml.checkpoint(one), x, params, "layers")[0]
    return ml.square((out - targets).astype(ml.f32)).mean()


def step(params, state, x, targets):
    """One step of Adam; the new parameters are the master copy in 16 bits.

    With `main` among its state gradients are added up there, in 32 bits.
    """
    grads = jax.grad(loss)(params, x, targets)
    main = {name: state["main"][name] + g.astype(ml.f32) for name, g in grads.items()} if "main" in state else grads

    def updated(name):
        w, m, v = (state[kind][name] for kind in STATE)
        wide = main[name].astype(ml.f32)
        m, v = 0.9 * m + 0.1 * wide, 0.95 * v + 0.05 * wide * wide
        return w - 1e-3 * m / (ml.sqrt(v) + 1e-8), m, v

    new = {name: updated(name) for name in grads}
    state = state | {kind: {name: parts[i] for name, parts in new.items()} for i, kind in enumerate(STATE)}
    state |= {"main": main} if "main" in state else {}
    return {name: w.astype(jnp.bfloat16) for name, w in state["master"].items()}, state


STATE = ("master", "first", "second")
SPLIT = {"embed": "x"}
BASELINE = {"batch": "x"}
OPTIMIZER = BASELINE | {"state/*": SPLIT}
WHOLE_GRADIENTS = OPTIMIZER | {"grads/*": {"embed": None}}
GRADIENTS = OPTIMIZER | {"grads/*": SPLIT}
PARAMETERS = GRADIENTS | {"params/*": SPLIT}


def program(size, batch=64, state=STATE):
    """Traces a step."""
    Batch, Embed, _, _ = dims(size, batch)
    x = ml.bf16[Batch, Embed]
    wide = {kind: weights(size, ml.f32) for kind in state}
    return ml.trace(step, weights(size, ml.bf16), wide, x, x, carry={"params": 0, "state": 1})
