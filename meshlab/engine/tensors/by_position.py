"""Refuses uses of a tensor's axes by position, each with the named form to write instead.

x[0]        A tensor of [batch=8] was indexed, but its axes have names, not positions. Use ml.take, …
x.T         A tensor's axes have names, not positions: `.T` is not needed: …
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import DimError, brief, shown
from . import dim_lists


class TensorAttributeError(DimError, AttributeError):
    """An attribute that arrays have and tensors do not, since their axes have names."""


# The named form, by the attribute that arrays have.
_INSTEAD = {
    "T": "not needed: operations find axes by name, in any order",
    "mT": "not needed: operations find axes by name, in any order",
    "transpose": "not needed: operations find axes by name, in any order",
    "reshape": "written ml.merge(x, (A, B), Both) and ml.unmerge(x, Both, (A, B))",
    "ravel": "written ml.merge(x, (A, B), Both)",
    "flatten": "written ml.merge(x, (A, B), Both)",
    "squeeze": "not needed: a dim of size 1 is summed away, x.sum(One)",
    "ndim": "len(x.dims)",
    "size": "the product of x.shape",
    "at": "written ml.where(mask, new, x)",
    "dot": "written ml.dot(x, w, Hidden)",
}


class Positional:
    """Gives tensors their refusals, as their base class."""

    dims: dim_lists.Dims

    def __getitem__(self, index):
        raise DimError(
            f"A tensor of {dim_lists.show(self.dims)} was indexed, but its axes have names, not positions. "
            "Use ml.take, ml.split or ml.where, or index `.array`."
        )

    def __iter__(self):
        return self[0]

    def __matmul__(self, other):
        raise DimError("`@` does not say which dims to sum over. Write ml.dot(x, w, Hidden) with the dims to sum over.")

    __rmatmul__ = __matmul__

    def __len__(self):
        raise DimError(f"A tensor of {dim_lists.show(self.dims)} has no length; ask a dim for its size: Batch.size.")

    def __float__(self):
        raise DimError(
            f"A tensor of {dim_lists.show(self.dims)} is not a single number. Sum its dims away, x.sum(), or read "
            "`.array`."
        )

    __int__ = __complex__ = __float__

    def __getattr__(self, name: str):
        # What arrays have and tensors do not; JAX and Python ask for names of their own, which are none of the user's.
        if name in _INSTEAD:
            raise TensorAttributeError(f"A tensor's axes have names, not positions: `.{name}` is {_INSTEAD[name]}.")
        text = brief(f"A tensor has no attribute `{name}`; its array, without names, is `.array`.")
        raise AttributeError(text, name=name)

    def __bool__(self):
        raise DimError(
            f"A tensor of {dim_lists.show(self.dims)} has no single truth value. "
            "Use ml.where to choose element by element; `x is None` to ask for None."
        )

    def refuse_unnamed(self, what: str, given: Mapping[str, Any]):
        """Refuses arguments that arrays take, `x.sum(axis=0)`; `np.sum(x)` passes them all as None."""
        if all(value is None for value in given.values()):
            self.__array__()
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in given.items() if value is not None)
        dims = f'"{self.dims[0].name}"' if self.dims else ""
        raise DimError(
            f"{what} was given {arguments}, but the axes of {dim_lists.show(self.dims)} have names, not positions."
            f" Name the dims alone: x.{what}({dims})."
        )

    def __array__(self, dtype=None, copy=None):
        raise DimError(
            f"A tensor of {dim_lists.show(self.dims)} was passed to NumPy or jax.numpy, which have no named axes. "
            "Use meshlab's operation of that name, or pass `.array`."
        )
