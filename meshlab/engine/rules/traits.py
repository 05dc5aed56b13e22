"""Traits: everything that the house asks of a primitive besides its factors, registered beside its rule.

    @rule("cumsum", traits=opaque(linear=FIRST, multiplies=None, joins="sum"))

A rule says which axes belong together. The traits say which kind of work the primitive does, in which operands it is
linear, whether compilers compute it twice, how many matrices it multiplies, and so on. The engine and the cost model
read these traits, or derive a set of names from them once (`names_where`), so a primitive is added in one place. Code
that takes apart the parameters of one particular primitive may name it.

No trait has a default. A function for each kind (`elementwise`, `moving`, `reducing` …) sets what its primitives
have in common, and asks for the rest.

**Linear is a fact, not a policy.** `Traits.linear` names sets of operands: the primitive is linear in those of one set
together, while the others stay as they are. `select_n` is linear in all its cases together, `mul` in either factor
alone. Wherever that holds a partial sum may go through. Whether the planner lets it go through is its policy
(`Factors.through`): it does not where more bytes would have to be reduced behind the operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, get_args

from ..code.operations import Operation
from .matmuls import Multiplies

Kind = Literal[
    "elementwise", "constant", "broadcast", "bitcast", "mark", "move", "concatenate", "reduce", "gather", "update",
    "scatter", "matmul", "opaque",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
# What joins the elements along an axis.
Join = Literal["sum", "product", "max", "min", "and", "or", "xor"]
# What is joined so may come once more without a difference.
IDEMPOTENT: frozenset[Join] = frozenset(("max", "min", "and", "or"))
Groups = tuple[frozenset[int], ...]
Linear = Callable[[Operation], Groups]
# The operand that holds indices, and how many there are to choose from, from the operation and its operands' shapes.
Indexes = Callable[[Operation, Sequence[tuple[int, ...]]], tuple[int, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """What a primitive is.

    Attributes:
        kind: the kind of work:

            "elementwise"   each element of those at the same place
            "constant"      of no array: positions along an axis
            "broadcast"     one array repeated along new axes
            "bitcast"       the same bytes under another shape
            "mark"          one of ours, which says something of its operand and does nothing
            "move"          elements change places or are left out: transposes, slices, padding
            "concatenate"   arrays joined along an axis
            "reduce"        axes joined away: sums, maxima
            "gather"        elements found by index
            "update"        a part of the first operand replaced, at one place
            "scatter"       elements of the first operand changed, by index
            "matmul"        matrix multiplications, which compilers fuse with what is around them
            "opaque"        anything else: it reads memory and writes memory
        linear: for an operation the sets of operands in which it is linear: in those of one set together.
        expensive: whether an element takes many instructions, so that compilers do not compute it twice.
        commutes: whether its first two operands may change places.
        neutral: the number that as second operand (or as either, if it commutes) leaves the other as it is; None.
        joins: what joins elements along an axis, where something does; None.
        multiplies: the matrix multiplications that it amounts to; None where the matrix units have nothing to do.
        reads_part: whether it reads of its first operand no more than it makes.
        updates: the operand with which it changes a part of its first operand, in place; None.
        indexes: which operand holds indices, and into how many elements; None.
        keeps: whether the result holds the elements of the first operand in another shape, dtype or order of axes.
        identity: whether it returns its first operand, and is left out of programs.
        library: whether the library computes it to which XLA for CPUs hands large sums (openxla/xla, `YnnMatcher`).
    """

    kind: Kind
    linear: Linear
    expensive: bool
    commutes: bool
    neutral: Any
    joins: Join | None
    multiplies: Multiplies | None
    reads_part: bool
    updates: int | None
    indexes: Indexes | None
    keeps: bool
    identity: bool
    library: bool


TRAITS: dict[str, Traits] = {}
# The first version of JAX with a primitive, where that is younger than the oldest version supported.
SINCE = {
    "log2": "0.12.0",
    "mulhi": "0.10.2",
    "one_minus_square": "0.12.0",
    "polynomial": "0.12.0",
    "stack": "0.10.1",
    "unstack": "0.10.1",
}


def names_where(test: Callable[[Traits], object]) -> frozenset[str]:
    """The names of the primitives whose traits pass a test."""
    return frozenset(name for name, traits in TRAITS.items() if test(traits))


# In which operands


def linear_in(*groups: Collection[int]) -> Linear:
    """Linear in each of some sets of operands: in those of a set together, the others held fixed."""
    found = tuple(map(frozenset, groups))
    return lambda _operation: found


def together(operation: Operation) -> Groups:
    """Linear in all operands together."""
    return (frozenset(range(len(operation.inputs))),)


NOWHERE = linear_in()
FIRST = linear_in({0})


# Kinds


def _made(kind: Kind, linear: Linear, **given: Any) -> Traits:
    """The traits of a kind: those that are not given are absent from it."""
    absent: dict[str, Any] = dict.fromkeys(("neutral", "joins", "multiplies", "updates", "indexes"))
    absent |= dict.fromkeys(("expensive", "commutes", "reads_part", "keeps", "identity", "library"), False)
    return Traits(kind=kind, linear=linear, **(absent | given))


def elementwise(
    *,
    linear: Linear,
    expensive: bool,
    commutes: bool,
    library: bool,
    neutral: Any = None,
    keeps: bool = False,
    identity: bool = False,
) -> Traits:
    """Each element of the result comes of the elements at the same place."""
    return _made(
        "elementwise",
        linear,
        expensive=expensive,
        commutes=commutes,
        library=library,
        neutral=neutral,
        keeps=keeps,
        identity=identity,
    )


def constant() -> Traits:
    """Made of no array."""
    return _made("constant", NOWHERE)


def broadcasting() -> Traits:
    """The operand is repeated along new axes."""
    return _made("broadcast", FIRST, keeps=True)


def bitcasting(*, identity: bool) -> Traits:
    """The operand's bytes under another shape."""
    return _made("bitcast", FIRST, keeps=True, identity=identity)


def marking(*, identity: bool) -> Traits:
    """Says something of the operand, which it returns."""
    return _made("mark", FIRST, keeps=True, identity=identity)


def moving(*, linear: Linear, reads_part: bool, keeps: bool) -> Traits:
    """Elements change places, or are left out."""
    return _made("move", linear, reads_part=reads_part, keeps=keeps)


def concatenating() -> Traits:
    """Arrays are joined along an axis."""
    return _made("concatenate", together)


def reducing(joins: Join, *, library: bool) -> Traits:
    """Axes are joined away."""
    return _made("reduce", FIRST if joins == "sum" else NOWHERE, joins=joins, library=library)


def gathering(*, linear: Linear, indexes: Indexes) -> Traits:
    """Elements of the first operand are found by index."""
    return _made("gather", linear, expensive=True, reads_part=True, indexes=indexes)


def updating(*, linear: Linear, updates: int) -> Traits:
    """A part of the first operand is replaced."""
    return _made("update", linear, updates=updates)


def scattering(*, linear: Linear, updates: int, indexes: Indexes) -> Traits:
    """Elements of the first operand are changed, by index."""
    return _made("scatter", linear, updates=updates, indexes=indexes)


def multiplying(multiplies: Multiplies) -> Traits:
    """Matrices are multiplied, and compilers fuse that with what is around it."""
    return _made("matmul", linear_in({0}, {1}), multiplies=multiplies, joins="sum")


def opaque(
    *,
    linear: Linear,
    multiplies: Multiplies | None,
    joins: Join | None = None,
    reads_part: bool = False,
    keeps: bool = False,
) -> Traits:
    """Anything else: it reads memory and writes memory."""
    return _made("opaque", linear, multiplies=multiplies, joins=joins, reads_part=reads_part, keeps=keeps)
