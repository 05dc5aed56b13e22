"""Rules of the marks: names, renames and tags compute nothing and send nothing.

Under a rename the axes that keep their name run through; a renamed axis is two factors of one size: each side has its
own sharding, and where the two differ the value is resharded.
"""

from __future__ import annotations

from ..code.operations import Operation
from .table import Factors, Facts, rule
from .traits import marking

_ONE = frozenset((0,))


@rule("dim_names", traits=marking(identity=True))
@rule("tag", traits=marking(identity=False))
def _identity(_operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.results[0])))
    return Factors((axes,), (axes,), through=_ONE)


@rule("rename", traits=marking(identity=False))
def _rename(operation: Operation, facts: Facts) -> Factors:
    before, after = operation.params["before"], operation.params["after"]
    rank = len(before)
    result = tuple(i if before[i] == after[i] else i + rank for i in range(rank))
    return Factors((tuple(range(rank)),), (result,), through=_ONE)
