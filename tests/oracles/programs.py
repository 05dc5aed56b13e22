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
from meshlab.cost.machines.hardware import Figure, Torus, hardware
from meshlab.cost.machines.placement import place_mesh
from meshlab.cost.step_time.flops import matmul_of
from meshlab.cost.step_time.time import time_of
from meshlab.cost.workload.options import Options
from meshlab.cost.workload.scenario import Scenario
from meshlab.engine.planning.shared_steps import counted
from meshlab.engine.planning.steps import Compute
from meshlab.models.basic import mlp
from meshlab.models.parts.initial import shapes

ONE = ml.mesh(x=1)
# Large enough that what a text leaves out beside it, for it is "much less", is beyond the fourth digit.
HUGE = 2**30


# Machines


def machine(name, *, flops=None, bandwidth=None, inter_node=None):
    """A machine as the books count it, which reaches all of its figures, and these rounded as a text rounds them."""
    ideal = hardware(name).ideal
    if flops:
        ideal = dataclasses.replace(ideal, flops=dict.fromkeys(ideal.flops, rounded(flops)))
    if bandwidth:
        ideal = dataclasses.replace(ideal, bandwidth=rounded(bandwidth))
    if inter_node and ideal.inter_node:
        ideal = dataclasses.replace(ideal, inter_node=dataclasses.replace(ideal.inter_node, link=rounded(inter_node)))
    return ideal


def torus(name):
    """The network of a TPU."""
    network = hardware(name).network
    assert isinstance(network, Torus)
    return network


def host(on):
    """Bytes/s between a device and its host."""
    assert on.host is not None
    return on.host.value


def rounded(value):
    """A figure as a text has it."""
    return Figure(value, "as the text rounds it")


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

    def forward(params, x):
        hidden = ml.tag(ml.dot(x, params["up"], "embed"), "hidden")
        return ml.tag(ml.dot(hidden, params["down"], "ffn"), "residual")

    def backward(params, x, cotangent):
        out, pull = jax.vjp(forward, params, x)
        return out, *pull(cotangent)

    params = in_dtype(shapes(mlp.init_block, config), jnp.bfloat16)
    x = ml.bf16[config.dims("batch embed")]
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


def gradients(batch, embed, ffn):
    """The backward pass of a block alone: what its forward pass has made is given."""
    Batch, Embed, Ffn = ml.dims(batch=batch, embed=embed, ffn=ffn)

    def backward(params, x, hidden, cotangent):
        of_hidden = ml.dot(cotangent, params["down"], "embed")
        of_down, of_up = ml.dot(hidden, cotangent, "batch"), ml.dot(x, of_hidden, "batch")
        return {"up": of_up, "down": of_down}, ml.dot(of_hidden, params["up"], "ffn")

    params = {"up": ml.bf16[Embed, Ffn], "down": ml.bf16[Ffn, Embed]}
    return ml.trace(backward, params, ml.bf16[Batch, Embed], ml.bf16[Batch, Ffn], ml.bf16[Batch, Embed])


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


def time(plan, on=None, shape=None, book=True, slices=1):
    """What the model predicts of a plan on a machine, without (n-1)/n if `book`."""
    placed = place_mesh(on or hardware("v5e").ideal, shape, plan.mesh, count=slices)
    return time_of(Scenario(plan, {}, plan.grid, (placed,), options=Options(book=book)))


def flops(plan):
    """Operations of all products of one run, on one device."""
    steps = ((step, times) for step, times in counted(plan.planned.steps) if isinstance(step, Compute))
    scenario = Scenario(plan, {}, plan.grid, ())
    products = ((matmul_of(step, scenario), times) for step, times in steps)
    return sum(times * product.flops for product, times in products if product is not None)


def moved(plan, on=None):
    """Bytes that cross a device's memory."""
    return time(plan, on).memory_bytes


def compute_seconds(plan, on, dtype="bfloat16", shape=None):
    """Seconds of all products at a machine's full rate."""
    return time(plan, on, shape).flops / on.flops_per_second(dtype)


def memory_seconds(plan, on):
    """Seconds that all that is read and written takes to cross the memory."""
    return moved(plan, on) / on.bytes_per_second


def communication_seconds(plan, on, shape=None, book=True):
    """Seconds of all collectives, one after the other."""
    return sum(time(plan, on, shape, book).communication.values())


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
