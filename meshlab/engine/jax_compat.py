"""Reads JAX beyond its documented surface; nothing else in meshlab does.

    carries(equation)           # of a scan: `num_carry` among its parameters until JAX 0.10, part of a tree since 0.11
    call(equation)              # the jaxpr inside `jit`, `custom_jvp_call`, `eval_jaxpr` (JAX 0.12), …

A jaxpr's equations, variables and primitives are documented (`jax.make_jaxpr`, `jax.extend.core`). How a call keeps the
jaxpr inside it, how a scan says what it carries, what a traceback or a name stack looks like, is not, and changes from
version to version. Each function here reads one such thing in all versions that are tested (`meshlab.tested`), and has
a test of its own: what the next JAX changes breaks that test, and is mended in this file, or `name_stacks` for scopes.

No function here changes a jaxpr: equations keep the parameters that JAX gave them, and are bound with them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from types import CodeType
from typing import Any, NamedTuple

import jax
from jax.experimental import multihost_utils, topologies
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from .name_stacks import RECOMPUTED, scopes_in

# --- jaxprs -----------------------------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """A jaxpr, whether or not it brings values for its constants.

    Attributes:
        invars: its inputs, without its constants.
        constants: variables that stand for arrays from outside, each with its array.
        equations: in order.
        outvars: its outputs.
    """

    invars: Sequence[Any]
    constants: tuple[tuple[Any, Any], ...]
    equations: Sequence[Any]
    outvars: Sequence[Any]


def opened(jaxpr: Any) -> Opened:
    """Returns the parts of a jaxpr; until JAX 0.11 one with constants is wrapped (`ClosedJaxpr`)."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    constants = tuple(zip(inner.constvars, getattr(jaxpr, "consts", ()), strict=True))
    return Opened(inner.invars, constants, inner.eqns, inner.outvars)


def needed(closed: Any, used: Sequence[bool]) -> Any:
    """Returns a closed jaxpr of some of its outputs, without the equations that they do not need, inside loops too.

    Args:
        closed: the jaxpr. It keeps all of its inputs and constants.
        used: for each of its outputs, whether it is kept.
    """
    jaxpr = closed.jaxpr
    inputs, count = (*jaxpr.constvars, *jaxpr.invars), len(jaxpr.constvars)
    pruned, _ = dce_jaxpr(jaxpr.replace(constvars=[], invars=inputs), list(used), instantiate=True)
    return ClosedJaxpr(pruned.replace(constvars=pruned.invars[:count], invars=pruned.invars[count:]), closed.consts)


def changed(equation: Any, **given: Any) -> Any:
    """Returns an equation with other `invars`, `outvars`, `params` or `effects`."""
    return equation.replace(**given)


def has_effects(equation: Any) -> bool:
    """Says whether an equation does more than make its results: print, read or write a reference, call back."""
    return bool(equation.effects)


def with_shape(aval: Any, shape: Sequence[int]) -> Any:
    return aval.update(shape=tuple(shape))


# --- equations with jaxprs inside -------------------------------------------------------------------------------------

# The jaxpr inside each call that returns what that computes, by the parameter that holds it. By the time that a program
# is traced differentiation is over, and custom derivatives are calls like others.
_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",  # until JAX 0.11
    "eval_jaxpr": "call_jaxpr",  # since then
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat_opt": "fwd_jaxpr",
}
# Of these JAX caches the jaxpr, for every caller of the function.
_RULED = ("custom_jvp_call", "custom_vjp_call")
_CACHED = ("jit", *_RULED)
# The names of `jax.checkpoint`'s primitive.
REMAT = ("remat2",)


def call(equation: Any) -> Any | None:
    """Returns the jaxpr inside an equation that is only wrapping, or None where it is more."""
    parameter = _CALLS.get(equation.primitive.name)
    return None if parameter is None else equation.params[parameter]


def is_ruled(equation: Any) -> bool:
    """Says whether a call has a rule of the user's for its derivatives."""
    return equation.primitive.name in _RULED


def is_cached(equation: Any) -> bool:
    """Says whether JAX caches the jaxpr of a call, so that other callers of the function have the very same."""
    return equation.primitive.name in _CACHED


def expanded(equation: Any) -> Any | None:
    """Returns the jaxpr that an operation stands for; None for one that stands for itself.

    Those are JAX 0.12's own (`jnp.searchsorted`, `jnp.frexp`), and a `while` under `vmap` (see `_together`). They are
    traced here and now: what is not the user's function has no lines, and no name stack, of theirs (see `innermost`).
    """
    if equation.primitive.name == "while" and equation.params["cond_jaxpr"].out_avals[0].shape:
        return _together(equation)
    if equation.primitive.name != "call_hi_primitive":
        return None
    operation = equation.params["_prim"]

    def run(*leaves: Any) -> Any:
        return jax.tree.leaves(operation.expand(*jax.tree.unflatten(operation.in_tree, leaves)))

    return jax.make_jaxpr(run)(*operation.in_avals_flat)


def _together(equation: Any) -> Any:
    """Returns several loops that `vmap` joined as one jaxpr: it runs as long as any does; the others keep their values.

    JAX leaves that to its lowering; the test returns a boolean for each loop, along leading axes of all carried values.
    """
    params = equation.params
    test, body = (jaxpr_as_fun(params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    tested, count = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def run(*given: Any) -> Any:
        def going(carry: tuple[Any, ...]) -> Any:
            return test(*given[:tested], *carry)[0]

        def iteration(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            goes = going(carry)
            results = body(*given[tested:count], *carry)
            return tuple(
                jax.numpy.where(goes.reshape(goes.shape + (1,) * (after.ndim - goes.ndim)), after, before)
                for after, before in zip(results, carry, strict=True)
            )

        return jax.lax.while_loop(lambda carry: going(carry).any(), iteration, tuple(given[count:]))

    return jax.make_jaxpr(run)(*(v.aval for v in equation.invars))


class Body(NamedTuple):
    """A jaxpr that a loop, a branch or a rematerialised region runs.

    Attributes:
        jaxpr: what runs.
        constants: which of the equation's inputs are its first inputs, the same in every iteration.
    """

    jaxpr: Any
    constants: slice


class Nested(NamedTuple):
    """The jaxprs inside an equation that is more than wrapping.

    Attributes:
        inputs: which of the equation's inputs are no constants of a body.
        bodies: of `scan` and `remat` the body, of `while` the body and the test, of `cond` the branches.
    """

    inputs: slice
    bodies: tuple[Body, ...]


def nested(equation: Any) -> Nested | None:
    """Returns the jaxprs inside a loop, a branch or a rematerialised region; None for all other equations."""
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        count = _scan_constants(params)
        return Nested(slice(count, None), (Body(params["jaxpr"], slice(count)),))
    if name == "while":
        tested, count = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        body, test = Body(params["body_jaxpr"], slice(tested, count)), Body(params["cond_jaxpr"], slice(tested))
        return Nested(slice(count, None), (body, test))
    if name == "cond":
        return Nested(slice(1), tuple(Body(branch, slice(1, None)) for branch in params["branches"]))
    if name in REMAT:
        return Nested(slice(None), (Body(params["jaxpr"], slice(0)),))
    return None


def platforms(equation: Any) -> tuple[tuple[str, ...] | None, ...] | None:
    """Returns for each branch of a `platform_dependent` the platforms that it is for, None for all others.

    Returns:
        None where the equation is no such choice: `cond` decides then when it runs.
    """
    return equation.params.get("branches_platforms")


def carries(equation: Any) -> int:
    """Counts the values that a scan carries from iteration to iteration; its other inputs and outputs are stacks."""
    params = equation.params
    return params["num_carry"] if "num_carry" in params else len(params["ft_in"].unpack()[1])


def _scan_constants(params: dict[str, Any]) -> int:
    return params["num_consts"] if "num_consts" in params else len(params["ft_in"].unpack()[0])


def scan_options(equation: Any) -> dict[str, Any]:
    """Returns a scan's options, by the names that `jax.lax.scan` has for them."""
    return {name: equation.params[name] for name in ("length", "reverse", "unroll")}


def is_barrier(equation: Any) -> bool:
    """Says whether a `remat` keeps the rematerialised values apart from the first ones."""
    return equation.params["prevent_cse"] and equation.params["differentiated"]


# Parameters that say what stands inside, and how its constants come in.
_JAXPRS = frozenset(("jaxpr", "cond_jaxpr", "body_jaxpr", "branches"))
_COMING_IN = frozenset(("num_consts", "num_carry", "ft_in", "ft_out", "linear", "cond_nconsts", "body_nconsts"))
_NOT_OWN = _JAXPRS | _COMING_IN


def own_params(equation: Any) -> dict[str, Any]:
    """Returns an equation's parameters without those of the jaxprs inside; for a scan, the count of its carries too."""
    params = {name: value for name, value in equation.params.items() if name not in _NOT_OWN}
    return params | {"carries": carries(equation)} if equation.primitive.name == "scan" else params


def solver(equation: Any) -> tuple[Any, list[int]]:
    """Returns the jaxpr that solves a `custom_linear_solve`, and which of the equation's inputs it reads, in order."""
    lengths = equation.params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    right = range(sum(lengths), len(equation.invars))
    return equation.params["jaxprs"].solve, [*range(start, start + lengths.solve), *right]


def reducer(equation: Any) -> Opened:
    """Returns the function by which a reduction over windows combines two elements."""
    return opened(equation.params["jaxpr"])


# --- where an equation comes from -------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """One frame of a traceback: the file, the line that ran, the function, and the line where that begins."""

    file: str
    line: int
    function: str
    starts: int


# How a jaxpr says which function it is the trace of: `relu at /path/functions.py:71`.
_DEFINED = re.compile(r" at (?P<file>.+):(?P<line>\d+)$")


def innermost(equation: Any, wanted: Callable[[str], bool]) -> Frame | None:
    """Returns the innermost frame in a file that is asked for, of those that an equation was made under.

    What is around `expanded` is not where the operation stands, and is left out.
    """
    for code, offset in _frames(equation):
        file = code.co_filename
        if file == __file__ and code.co_name == expanded.__name__:
            return None
        if wanted(file):
            line = type(equation.source_info.traceback).code_addr2line(code, offset)
            return Frame(file, line, code.co_name, code.co_firstlineno)
    return None


def was_made_in(equation: Any, file: str, line: int) -> bool:
    """Says whether an equation was made under the function that begins at a line of a file."""
    return any(code.co_firstlineno == line and code.co_filename == file for code, _ in _frames(equation))


def columns(equation: Any, file: str, line: int) -> tuple[tuple[int, int], ...]:
    """Returns what each frame at a line runs, innermost first: the bytes of the line where it begins and ends."""
    here = [pair for pair in _frames(equation) if pair[0].co_filename == file]
    places = [type(equation.source_info.traceback).code_addr2location(code, offset) for code, offset in here]
    return tuple((start, end) for first, start, last, end in places if first == last == line)


def calls(equation: Any) -> tuple[tuple[Any, int], ...]:
    """Returns the calls that an equation was made under, to be compared with those of others, but for libraries'."""
    frames = _frames(equation)
    return tuple((code, offset) for code, offset in frames if f"{os.sep}site-packages{os.sep}" not in code.co_filename)


def _frames(equation: Any) -> Iterator[tuple[CodeType, int]]:
    """Returns the frames that an equation was made under, innermost first, each as its code and how far it had run.

    `traceback.frames` has an object for each, which takes over four times as long; most are JAX's own, and passed over.
    """
    traceback = equation.source_info.traceback
    return zip(*traceback.raw_frames(), strict=True) if traceback is not None else iter(())


def is_backward(equation: Any) -> bool:
    return "transpose(" in str(equation.source_info.name_stack)


def is_differentiated_twice(equation: Any) -> bool:
    """Says whether an operation belongs to a derivative of a derivative; under `jax.checkpoint` JAX names one twice."""
    stack, is_remat = str(equation.source_info.name_stack), equation.primitive.name in REMAT
    return "jvp(transpose(" in stack or ("jvp(jvp(" in stack and not is_remat)


def is_rematerialised(equation: Any) -> bool:
    """Says whether an equation computes again, under `jax.checkpoint`, what the forward pass did not keep."""
    return RECOMPUTED in str(equation.source_info.name_stack)


def scopes(equation: Any) -> tuple[str, ...]:
    """Returns the user's named scopes that an equation was made in, outermost first; Flax opens one for each module."""
    return scopes_in(str(equation.source_info.name_stack))


def defined_at(jaxpr: Any) -> tuple[str, int] | None:
    """Returns the file and the first line of the function that a jaxpr is the trace of; None where JAX knows none."""
    defined = _DEFINED.search(getattr(jaxpr, "jaxpr", jaxpr).debug_info.func_src_info or "")
    return None if defined is None else (defined["file"], int(defined["line"]))


def function_name(jaxpr: Any) -> str:
    """Returns the name of the function that a jaxpr is the trace of; "" where JAX knows none."""
    return getattr(jaxpr, "jaxpr", jaxpr).debug_info.func_name or ""


# --- settings, flags, keys, devices -----------------------------------------------------------------------------------


def setting(name: str) -> Any:
    return getattr(jax.config, name)


# Of XLA's two generators of code for CPUs the plainer one, which jaxlib 0.11 no longer has: an unknown flag ends the
# process.
PLAIN_GENERATOR = {"xla_cpu_use_fusion_emitters": False} if version("jaxlib").startswith("0.10.") else {}


def is_threefry(dtype: Any) -> bool:
    """Says whether keys of a dtype are those of Threefry, JAX's default generator."""
    return str(dtype) == "key<fry>"


def generator(dtype: Any) -> Any:
    """Returns the generator of keys of a dtype, as `jax.random.key` takes it; JAX tells that of arrays alone."""
    generators: list[Any] = []
    jax.eval_shape(lambda key: generators.append(jax.random.key_impl(key)), jax.ShapeDtypeStruct((), dtype))
    return generators[0]


def in_memory_order(array: Any) -> Any:
    """Returns an array whose axes are laid out in memory in their own order, in a compiled function."""
    return with_layout_constraint(array, Layout(tuple(range(array.ndim))))


def absent_devices(platform: str, **described: Any) -> Sequence[Any]:
    """Returns the devices of a machine that is not there, which its compiler compiles for.

    Args:
        platform: "tpu" or "cuda".
        **described: what the compiler's plugin takes to know the machine: `topology_name="v5e:4x4"`, …
    """
    return topologies.get_topology_desc(platform=platform, **described).devices


def join(**given: Any) -> bool:
    """Calls `jax.distributed.initialize`; returns False where neither arguments nor a launcher speak of processes."""
    try:
        jax.distributed.initialize(**given)
    except ValueError as error:
        if "coordinator_address should be defined" not in str(error):
            raise
        return False
    return True


def gathered(array: Any) -> Any:
    """Returns the numbers of an array whose shards are in several processes; called in all of them."""
    return multihost_utils.process_allgather(array, tiled=True)
