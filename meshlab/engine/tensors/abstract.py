"""`f32[Batch, Hidden]` is an abstract tensor: a shape and a dtype without data.

They are what `ml.trace` needs to know of an argument, so that a model whose parameters fill a thousand devices is
traced on a laptop. `f32[()]` is a scalar: a plain `jax.ShapeDtypeStruct`, as a tensor without dims is a plain scalar.

    >>> from meshlab.engine.tensors.dims import dims
    >>> Batch, Hidden = dims(batch=100, hidden=1024)
    >>> f32[Batch, Hidden]
    f32[batch=100, hidden=1024]
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..errors import DimError, shown
from . import dim_lists
from .dims import Dim
from .dtypes import short_name
from .tensor import Tensor


class AbstractDtype:
    """Makes abstract tensors of a dtype, when it is given dims in brackets."""

    def __init__(self, dtype: Any):
        self.dtype = jnp.dtype(dtype)

    def __repr__(self) -> str:
        return short_name(self.dtype)

    def __call__(self, *dims: Any) -> Any:
        """Refuses dims in parentheses."""
        written = ", ".join(dim.name.capitalize() if isinstance(dim, Dim) else shown(dim) for dim in dims)
        raise DimError(f"{self}(...) was called; write dims in brackets: ml.{self}[{written or 'Batch, Hidden'}].")

    def __getitem__(self, dims: Dim | tuple[Dim, ...]) -> Any:
        wanted = dims if isinstance(dims, tuple) else (dims,)
        for dim in wanted:
            if not isinstance(dim, Dim):
                raise DimError(f"{self}[...] was given {dim!r}; it takes dims, made by ml.dims(batch=100).")
        struct = jax.ShapeDtypeStruct(dim_lists.sizes(wanted), self.dtype)
        return Tensor(struct, wanted) if wanted else struct


f32 = AbstractDtype(jnp.float32)
f16 = AbstractDtype(jnp.float16)
bf16 = AbstractDtype(jnp.bfloat16)
i32 = AbstractDtype(jnp.int32)
i16 = AbstractDtype(jnp.int16)
i8 = AbstractDtype(jnp.int8)
u32 = AbstractDtype(jnp.uint32)
u16 = AbstractDtype(jnp.uint16)
u8 = AbstractDtype(jnp.uint8)
bool_ = AbstractDtype(jnp.bool_)
