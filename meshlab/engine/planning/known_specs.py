"""What was planned of a program on one mesh before: the steps of its operations, and the specs of operations alike.

    mul  [batch, embed] · [batch, embed]      of equal factors: under equal rules, for operands in equal specs, they
    add  [batch, embed] · [batch, embed]      have equal specs

All plans of a program on one mesh share it.
"""

from __future__ import annotations

from ..programs.program import Program, analysis
from ..rules import Factors
from ..specs.spec import Axes, Grid, Spec
from .operation_specs import OperationSpecs, specs_of_operation
from .steps import Compute

# The mesh axes that rules ask for some factors.
Asked = tuple[tuple[int, Axes], ...]


class Known:
    """The memo of one program on one mesh.

    Attributes:
        steps: by operation, specs of its operands, and whatever else decides.
    """

    def __init__(self, sizes: Grid):
        self._sizes = sizes
        self.steps: dict[tuple, Compute] = {}
        self._specs: dict[tuple, OperationSpecs] = {}

    def specs(
        self,
        factors: Factors,
        asked: Asked,
        operands: tuple[Spec | None, ...],
        zeros: tuple[bool, ...],
        *,
        unsplittable: frozenset[int],
        smaller: frozenset[int],
    ) -> OperationSpecs:
        """Returns the specs of an operation (`specs_of_operation`); factors that are equal are one object."""
        key = id(factors), asked, operands, zeros, unsplittable, smaller
        specs = self._specs.get(key)
        if specs is None:
            specs = self._specs[key] = specs_of_operation(
                factors, dict(asked), operands, zeros, sizes=self._sizes, unsplittable=unsplittable, smaller=smaller
            )
        return specs


def known_on(program: Program, sizes: Grid) -> Known:
    """Returns what was planned of a program on a mesh before."""
    known = _by_mesh(program)
    if sizes.key not in known:
        known[sizes.key] = Known(sizes)
    return known[sizes.key]


@analysis
def _by_mesh(_program: Program) -> dict[tuple, Known]:
    return {}
