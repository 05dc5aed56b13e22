"""What the oracles share: small traced programs, machines as a text rounds them, and what is read off their plans.

An oracle is a figure that others have published. Wherever a program can be written for it, the program is traced,
planned and priced by the same model that prices every plan; nothing here knows the formula that the figure came from.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab.cost.collectives import seconds
from meshlab.cost.flops import PRODUCTS, step_flops
from meshlab.cost.hardware import Figure, Torus, hardware
from meshlab.cost.topology import place
from meshlab.engine.parts import counted
from meshlab.engine.steps import Compute
from meshlab.models import mlp
from meshlab.models.initial import shapes

ONE = ml.mesh(x=1)
# Large enough that what a text leaves out beside it, for it is "much less", is beyond the fourth digit.
HUGE = 2**30


# Machines


def machine(name, *, flops=None, bandwidth=None, link=None, host=None, memory=None):
    """A machine with nothing but bandwidth, its figures rounded as a text rounds them."""
    found = hardware(name)
    given = "as the text rounds it"
    if flops:
        found = dataclasses.replace(found, flops=dict.fromkeys(found.flops, Figure(flops, given)))
    for field, value in (("bandwidth", bandwidth), ("host", host), ("memory", memory)):
        if value:
            found = dataclasses.replace(found, **{field: Figure(value, given)})
    none, network, outside = Figure(0.0, given), found.network, found.outside
    if isinstance(network, Torus):
        network = dataclasses.replace(network, hop=none, link=Figure(link, given) if link else network.link)
    else:
        network = dataclasses.replace(network, base=none, step=none)
    return dataclasses.replace(found, network=network, outside=outside and dataclasses.replace(outside, latency=none))


# Programs


def product(batch, embed, ffn, left=ml.bf16, right=None):
    """x: [batch, embed] times w: [embed, ffn]; weights in fewer bits are widened on their way to the product."""
    Batch, Embed, Ffn = ml.dims(batch=batch, embed=embed, ffn=ffn)

    def multiply(x, w):
        return ml.dot(x, w if w.dtype == x.dtype else w.astype(x.dtype), "embed")

    return ml.trace(multiply, left[Batch, Embed], (right or left)[Embed, Ffn])


def block(batch, embed, ffn, step=False):
    """The feed-forward block of a transformer in bf16: its forward pass, or with the gradients of all its inputs."""
    config = mlp.Block(batch, embed, ffn)
    Batch, Embed, _ = config.dims

    def forward(params, x):
        hidden = ml.tag(ml.dot(x, params["up"], "embed"), "hidden")
        return ml.tag(ml.dot(hidden, params["down"], "ffn"), "residual")

    def backward(params, x, cotangent):
        out, pull = jax.vjp(forward, params, x)
        return out, *pull(cotangent)

    params = in_dtype(shapes(mlp.init_block, config), jnp.bfloat16)
    x = ml.bf16[Batch, Embed]
    return ml.trace(backward, params, x, x) if step else ml.trace(forward, params, x)


def stack(batch, embed, ffn, layers=8):
    """The gradients of a scan over such blocks: fully sharded, their weights are gathered in either pass."""
    Batch, Embed, Ffn, Layers = ml.dims(batch=batch, embed=embed, ffn=ffn, layers=layers)

    def forward(params, x):
        def one(x, w):
            return ml.dot(ml.dot(x, w["up"], "embed"), w["down"], "ffn"), None

        return ml.scan(one, x, params, "layers")[0]

    def backward(params, x, cotangent):
        out, pull = jax.vjp(forward, params, x)
        return out, *pull(cotangent)

    params = {"up": ml.bf16[Layers, Embed, Ffn], "down": ml.bf16[Layers, Ffn, Embed]}
    x = ml.bf16[Batch, Embed]
    return ml.trace(backward, params, x, x)


def in_dtype(tree, dtype):
    """The shapes of a tree of floats in another dtype."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, dtype), tree)


def parameters(init, config):
    """How many parameters a model of the zoo has."""
    return elements(shapes(init, config))


def elements(tree):
    """How many numbers a tree of arrays has."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


# What is read off a plan


def flops(plan):
    """Operations of all products of one run, on one device."""
    steps = ((step, times) for step, times in counted(plan.planned.steps) if isinstance(step, Compute))
    found = ((step, times) for step, times in steps if step.operation.name in PRODUCTS)
    return sum(times * step_flops(step, plan.program, plan.grid) for step, times in found)


def moved(plan):
    """Bytes that cross a device's memory at least: all arguments once, all outputs once."""
    return plan.memory.argument_bytes + plan.memory.output_bytes


def compute_seconds(plan, on, dtype="bfloat16"):
    """Seconds of all products at a machine's full rate."""
    return flops(plan) / on.flops_per_second(dtype)


def memory_seconds(plan, on):
    """Seconds that arguments and outputs take to cross the memory once."""
    return moved(plan) / on.bytes_per_second


def communication_seconds(plan, on, shape=None, book=True):
    """Seconds of all collectives, one after the other."""
    placed = place(on, shape, plan.mesh)
    return sum(c.times * seconds(c.kind, full_bytes(c, plan.mesh), placed, c.axes, book=book) for c in plan.collectives)


def full_bytes(collective, mesh):
    """Bytes of the array that a collective moves, unsplit along the axes that it runs over."""
    parts = math.prod(mesh.axes[axis] for axis in collective.axes)
    whole = collective.kind in ("all-reduce", "reduce-scatter")
    return collective.payload_bytes * (1 if whole else parts)


def crossing(difference, low, high):
    """Where a difference of two times changes its sign; both are straight lines of what is varied.

    Args:
        difference: of a size, in seconds.
        low: a size.
        high: another.
    """
    at_low, at_high = difference(low), difference(high)
    assert at_low * at_high < 0, f"no crossing between {low} and {high}: {at_low}, {at_high}"
    return low + (high - low) * at_low / (at_low - at_high)
