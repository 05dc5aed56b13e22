"""Traits describe a primitive beside its factors, and are registered with its rule.

    @rule("cumsum", traits=opaque(linear=FIRST, multiplies=None, joins="sum"))

A rule says which axes are the same. The traits say which kind of work the primitive does, in which operands it is
linear, whether compilers compute it twice, how many matrices it multiplies, and so on. The engine and the cost model
read these traits, or derive a set of names from them once (`names_where`), so a primitive is added in one place. Code
that reads the parameters of one particular primitive may name it.

No trait has a default. A function for each kind (`elementwise`, `moving`, `reducing` …) sets the traits that its
primitives have in common, and takes the others.

**Linear is a fact, not a policy.** `Traits.linear` names sets of operands: the primitive is linear in those of one set
together, while the others are fixed. `select_n` is linear in all its cases together, `mul` in either factor alone.
Wherever that holds a partial sum may go through. Whether the planner lets it is policy (`Factors.through`): it does not
where more bytes would have to be reduced behind the operation.
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
# The operation that joins the elements along an axis.
Join = Literal["sum", "product", "max", "min", "and", "or", "xor"]
# An element may be joined twice without changing the result.
IDEMPOTENT: frozenset[Join] = frozenset(("max", "min", "and", "or"))
Groups = tuple[frozenset[int], ...]
Linear = Callable[[Operation], Groups]
# Returns the operand that holds indices, and the number of elements that they index, from the operands' shapes.
Indexes = Callable[[Operation, Sequence[tuple[int, ...]]], tuple[int, int]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traits:
    """Describes a primitive.

    Attributes:
        kind: the kind of work:

            "elementwise"   computes each element from those at the same place
            "constant"      reads no array: positions along an axis
            "broadcast"     repeats an array along new axes
            "bitcast"       gives the same bytes another shape
            "mark"          names, tags or wraps its operand and computes nothing
            "move"          moves or drops elements: transposes, slices, padding
            "concatenate"   joins arrays along an axis
            "reduce"        joins the elements along axes: sums, maxima
            "gather"        reads elements by index
            "update"        replaces a part of the first operand, at one place
            "scatter"       changes elements of the first operand, by index
            "matmul"        multiplies matrices, which compilers fuse with elementwise work
            "opaque"        anything else: reads memory and writes memory
        linear: the sets of operands in which an operation is linear, in those of one set together.
        expensive: whether an element takes many instructions, so that compilers do not compute it twice.
        commutes: whether its first two operands may be swapped.
        neutral: the number that as second operand (or as either, if it commutes) leaves the other unchanged; None.
        joins: the operation that joins elements along an axis; None where none are joined.
        multiplies: its matrix multiplications; None where it does not use the matrix units.
        reads_part: whether it reads only as many elements of its first operand as the result has.
        updates: the operand that replaces a part of its first operand, in place; None.
        indexes: returns the operand that holds indices, and the number of elements that they index; None.
        keeps: whether the result has the elements of the first operand in another shape, dtype or order of axes.
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
    return frozenset(name for name, traits in TRAITS.items() if test(traits))


# Linearity


def linear_in(*groups: Collection[int]) -> Linear:
    """Returns the trait of being linear in each of some sets of operands: in those of a set together."""
    sets = tuple(map(frozenset, groups))
    return lambda _operation: sets


def together(operation: Operation) -> Groups:
    """Returns all operands as one set: the operation is linear in all of them together."""
    return (frozenset(range(len(operation.inputs))),)


NOWHERE = linear_in()
FIRST = linear_in({0})


# Kinds


def _traits(kind: Kind, linear: Linear, **present: Any) -> Traits:
    """Builds the traits of a kind; those that are not given are absent."""
    absent: dict[str, Any] = dict.fromkeys(("neutral", "joins", "multiplies", "updates", "indexes"))
    absent |= dict.fromkeys(("expensive", "commutes", "reads_part", "keeps", "identity", "library"), False)
    return Traits(kind=kind, linear=linear, **(absent | present))


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
    return _traits(
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
    return _traits("constant", NOWHERE)


def broadcasting() -> Traits:
    return _traits("broadcast", FIRST, keeps=True)


def bitcasting(*, identity: bool) -> Traits:
    return _traits("bitcast", FIRST, keeps=True, identity=identity)


def marking(*, identity: bool, linear: Linear = FIRST) -> Traits:
    return _traits("mark", linear, keeps=True, identity=identity)


def moving(*, linear: Linear, reads_part: bool, keeps: bool) -> Traits:
    return _traits("move", linear, reads_part=reads_part, keeps=keeps)


def concatenating() -> Traits:
    return _traits("concatenate", together)


def reducing(joins: Join, *, library: bool) -> Traits:
    return _traits("reduce", FIRST if joins == "sum" else NOWHERE, joins=joins, library=library)


def gathering(*, linear: Linear, indexes: Indexes) -> Traits:
    return _traits("gather", linear, expensive=True, reads_part=True, indexes=indexes)


def updating(*, linear: Linear, updates: int) -> Traits:
    return _traits("update", linear, updates=updates)


def scattering(*, linear: Linear, updates: int, indexes: Indexes) -> Traits:
    return _traits("scatter", linear, updates=updates, indexes=indexes)


def multiplying(multiplies: Multiplies) -> Traits:
    return _traits("matmul", linear_in({0}, {1}), multiplies=multiplies, joins="sum")


def opaque(
    *,
    linear: Linear,
    multiplies: Multiplies | None,
    joins: Join | None = None,
    reads_part: bool = False,
    keeps: bool = False,
) -> Traits:
    return _traits("opaque", linear, multiplies=multiplies, joins=joins, reads_part=reads_part, keeps=keeps)
