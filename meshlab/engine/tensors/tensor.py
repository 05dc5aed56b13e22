"""A tensor is an array whose axes have names.

A `Tensor` is one array and its dims. It is a pytree, so everything in JAX that takes trees takes tensors: `jax.grad`,
`jax.tree.map`, optax. Operations find axes by name; two tensors broadcast over the dims that they do not share.

    >>> import jax.numpy as jnp
    >>> from meshlab.engine.tensors.dims import dims
    >>> Batch, Hidden = dims(batch=2, hidden=3)
    >>> x, bias = tensor(jnp.ones((2, 3)), Batch, Hidden), tensor(jnp.arange(3.0), Hidden)
    >>> (x + bias).sum(Hidden)
    f32[batch=2]([6. 6.])

Marks (`marks.py`) write names into a jaxpr, on results whose names do not follow from an operand. A result without dims
is a scalar `jax.Array`: JAX wants one for a loss, and a tensor without names would say nothing more.

Dims are static: `jax.vmap` and `jax.lax.scan` take an axis off the array alone, `meshlab.vmap` and `meshlab.scan` off
both. JAX puts placeholders into trees, so a tensor that does not fit its dims is refused only at its first operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..argument_checks import is_whole, known_dtype
from ..errors import DimError, shown
from . import dim_lists
from .by_position import Positional
from .dim_lists import Dims
from .dims import Dim
from .dtypes import applied, beyond, fitting, short_name
from .marks import mark_names, mark_rename


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Tensor(Positional):
    """An array whose axes are dims.

    Args:
        array: a JAX or NumPy array, or a `jax.ShapeDtypeStruct`; its shape is the sizes of the dims.
        dims: one per axis.
    """

    array: Any
    dims: Dims
    # Whether a jaxpr has its names: not of constants, nor of what JAX makes of a tree.
    is_marked = False
    # NumPy then leaves `scalar * tensor` to the tensor; its functions ask for `__array__`, which refuses.
    __array_priority__ = 1000
    # `==` compares elements, so there is nothing that a hash could agree with.
    __hash__ = None  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __post_init__(self):
        object.__setattr__(self, "dims", dim_lists.distinct("A tensor", self.dims))
        if tuple(np.shape(self.array)) != self.shape:
            raise DimError(
                f"A tensor of {dim_lists.show(self.dims)} was given an array of shape {tuple(np.shape(self.array))}; "
                "the array has one axis for each dim, in this order."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return dim_lists.sizes(self.dims)

    @property
    def dtype(self) -> Any:
        """The array's dtype."""
        return self.array.dtype

    def __repr__(self) -> str:
        head = f"{short_name(getattr(self.array, 'dtype', 'Tensor'))}{dim_lists.show(self.dims)}"
        if isinstance(self.array, Tracer) or not isinstance(self.array, jax.Array | np.ndarray):
            return head
        if jnp.issubdtype(self.array.dtype, jax.dtypes.extended):  # keys are no numbers, and not shown
            return head
        return f"{head}({np.array2string(np.asarray(self.array), threshold=20, precision=4)})"

    def sum(self, *dims: Dim | str, **unnamed: Any) -> Any:
        """Returns the sum over the dims listed, or over all."""
        return reduce("sum", jnp.sum, self, dims, unnamed)

    def max(self, *dims: Dim | str, **unnamed: Any) -> Any:
        """Returns the maximum over the dims listed, or over all."""
        return reduce("max", jnp.max, self, dims, unnamed)

    def min(self, *dims: Dim | str, **unnamed: Any) -> Any:
        """Returns the minimum over the dims listed, or over all."""
        return reduce("min", jnp.min, self, dims, unnamed)

    def mean(self, *dims: Dim | str, **unnamed: Any) -> Any:
        """Returns the mean over the dims listed, or over all; it divides by the global size, however sharded."""
        return reduce("mean", jnp.mean, self, dims, unnamed)

    def rename(self, *unnamed: Any, **names: Dim | str) -> Tensor:
        """Returns the same tensor with other names, `x.rename(seq="kv")`: the place where data may move.

        Args:
            unnamed: nothing: a single name is refused.
            names: old=new; several at once are one reshard, so `x.rename(a="b", b="a")` swaps two names.

        Raises:
            DimError: a new size, or a name that would appear twice.
        """
        if unnamed or not names:
            given = f"given {', '.join(map(shown, unnamed))}" if unnamed else "called without names"
            raise DimError(f'rename was {given}; write x.rename(seq="kv").')
        after = list(self.dims)
        for old, new in names.items():
            axis = dim_lists.find("rename", self.dims, old)
            before = self.dims[axis]
            after[axis] = new if isinstance(new, Dim) else Dim(new, before.size)
            if after[axis].size != before.size:
                raise DimError(f"rename was asked to make {before} into {after[axis]}; a rename keeps the size.")
        after = dim_lists.distinct("The result of rename", after)
        marked = mark_rename(array_of("rename", self), dim_lists.names(self.dims), dim_lists.names(after))
        return _unchecked(marked, after, True)

    def astype(self, dtype: Any) -> Tensor:
        """Returns the tensor in another dtype: `x.astype(ml.bf16)` or `x.astype(jnp.bfloat16)`."""
        array = array_of("astype", self)
        return result(applied("astype", lax.convert_element_type, (array, known_dtype(dtype)), (self,)), self.dims)

    def __add__(self, other):
        return _operate("add", jnp.add, self, other)

    def __radd__(self, other):
        return _operate("add", jnp.add, other, self)

    def __sub__(self, other):
        return _operate("subtract", jnp.subtract, self, other)

    def __rsub__(self, other):
        return _operate("subtract", jnp.subtract, other, self)

    def __mul__(self, other):
        return _operate("multiply", jnp.multiply, self, other)

    def __rmul__(self, other):
        return _operate("multiply", jnp.multiply, other, self)

    def __truediv__(self, other):
        return _operate("divide", jnp.true_divide, self, other)

    def __rtruediv__(self, other):
        return _operate("divide", jnp.true_divide, other, self)

    def __floordiv__(self, other):
        return _operate("floor_divide", jnp.floor_divide, self, other)

    def __rfloordiv__(self, other):
        return _operate("floor_divide", jnp.floor_divide, other, self)

    def __mod__(self, other):
        return _operate("remainder", jnp.remainder, self, other)

    def __rmod__(self, other):
        return _operate("remainder", jnp.remainder, other, self)

    def __pow__(self, other):
        return _operate("power", jnp.power, self, other)

    def __rpow__(self, other):
        return _operate("power", jnp.power, other, self)

    def __neg__(self):
        return elementwise("negative", jnp.negative, self)

    def __pos__(self):
        return self

    def __abs__(self):
        return elementwise("abs", jnp.abs, self)

    def __invert__(self):
        return elementwise("invert", jnp.invert, self)

    def __and__(self, other):
        return _operate("and", jnp.bitwise_and, self, other)

    def __or__(self, other):
        return _operate("or", jnp.bitwise_or, self, other)

    def __eq__(self, other):
        return _operate("equal", jnp.equal, self, other)

    def __ne__(self, other):
        return _operate("not_equal", jnp.not_equal, self, other)

    def __lt__(self, other):
        return _operate("less", jnp.less, self, other)

    def __le__(self, other):
        return _operate("less_equal", jnp.less_equal, self, other)

    def __gt__(self, other):
        return _operate("greater", jnp.greater, self, other)

    def __ge__(self, other):
        return _operate("greater_equal", jnp.greater_equal, self, other)


def _unchecked(array: Any, dims: Dims, is_marked: bool = False) -> Tensor:
    """Makes a tensor without looking at the array."""
    unchecked = object.__new__(Tensor)
    vars(unchecked).update(array=array, dims=dims, is_marked=is_marked)
    return unchecked


jax.tree_util.register_pytree_with_keys(
    Tensor,
    flatten_with_keys=lambda x: ([(jax.tree_util.GetAttrKey("array"), x.array)], x.dims),
    unflatten_func=lambda dims, children: _unchecked(next(iter(children)), dims),
    flatten_func=lambda x: ((x.array,), x.dims),
)


def tensor(array: Any, *dims: Dim | str) -> Any:
    """Gives an array's axes their names.

    Args:
        array: a JAX or NumPy array, or nested lists of numbers.
        dims: one per axis; for a name alone, the size is the array's.

    Returns:
        A `Tensor`, or, without dims, a scalar `jax.Array`.

    Raises:
        DimError: the array does not fit the dims, is of no numbers, or of integers that are too large.

    Example:
        >>> tensor([[1, 2, 3], [4, 5, 6]], "batch", Dim("hidden", 3))
        i32[batch=2, hidden=3]([[1 2 3]
         [4 5 6]])
    """
    if isinstance(array, Tensor):
        raise DimError(f"tensor was given a tensor of {dim_lists.show(array.dims)}; use x.rename to change its names.")
    array = array if isinstance(array, jax.Array) else _on_host(array)
    if isinstance(array, jax.Array) and not isinstance(array, Tracer) and array.is_deleted():
        raise DimError("tensor was given a deleted array: its memory was donated to an earlier call.")
    if len(dims) != array.ndim:
        given = ", ".join(map(str, dims)) or "no dims"
        raise DimError(f"tensor was given {given} for an array of shape {array.shape}; it takes one dim for each axis.")
    named = tuple(dim if isinstance(dim, Dim) else Dim(dim, size) for dim, size in zip(dims, array.shape, strict=True))
    if isinstance(array, Tracer):
        return result(array, named)
    return Tensor(array, named) if dims else jnp.asarray(array)


_AS_FLOATS = "give floats, np.asarray(numbers, np.float32), say"


def _on_host(given: Any) -> np.ndarray:
    """Returns numbers as a NumPy array; its 64-bit defaults become those of JAX."""
    if isinstance(given, jax.ShapeDtypeStruct):
        raise DimError(f"tensor was given {given}, a shape without data; write it as ml.f32[Batch, Hidden].")
    try:
        array = None if isinstance(given, Dim) else np.asarray(given)
    except (ValueError, TypeError):  # lists of several lengths
        array = None
    # Integers of more than 64 bits are objects to NumPy.
    if array is not None and array.dtype == object and any(is_whole(x) and abs(x) >= 2**63 for x in array.flat):
        raise DimError(f"tensor was given {shown(given)}, with an integer that is too large; {_AS_FLOATS}.")
    if array is None or not any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.number, jnp.bool_)):
        raise DimError(
            f"tensor was given {shown(given)}; its array must be numbers, or lists of numbers of equal length:"
            " ml.tensor([[1, 2], [3, 4]], Batch, Hidden)."
        )
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype != dtype and (lost := beyond(array, dtype)) is not None:
        raise DimError(f"tensor was given {lost:,}, which {dtype} cannot hold; {_AS_FLOATS}.")
    return array.astype(dtype, copy=False)


def array_of(what: str, x: Any) -> Any:
    """Returns a tensor's array; refuses a shape without data, and an array that does not fit its dims."""
    if not isinstance(x, Tensor):
        raise DimError(f"{_given(what, x)}; it takes a tensor. Name the axes: ml.tensor(array, Batch, Hidden).")
    if isinstance(x.array, jax.ShapeDtypeStruct):
        raise DimError(
            f"{what} was given {x!r}, which is a shape without data. Pass it to ml.trace, or make it with ml.tensor."
        )
    if getattr(x.array, "shape", None) != x.shape:
        raise DimError(f"{what} was given {misfit(x)}")
    return x.array


def misfit(x: Tensor) -> str:
    """Describes a tensor that does not fit its dims, and what to do, for a message."""
    return (
        f"a tensor of {dim_lists.show(x.dims)} whose array has the shape {getattr(x.array, 'shape', None)}. "
        "A raw JAX transform has changed the axes of the array and not the dims: "
        "use ml.scan, ml.vmap or ml.checkpoint, which change both."
    )


def operand(what: str, x: Any, name: str = "") -> tuple[Any, Dims]:
    """Returns the array and the dims of a tensor or a scalar; errors say which argument it is, if `name` does."""
    if isinstance(x, Tensor):
        return array_of(what, x), x.dims
    if not (isinstance(x, bool | int | float | np.generic) or hasattr(x, "dtype")):
        fix = " Name the axes: ml.tensor(array, Batch, Hidden)." if isinstance(x, list | tuple) else ""
        raise DimError(f"{_given(what, x, name)}; it takes tensors and numbers.{fix}")
    if np.shape(x):
        given = _given(what, x, name)
        raise DimError(f"{given}. Name its axes: ml.tensor(array, Batch, Hidden). Only numbers need no names.")
    return x, ()


def _given(what: str, x: Any, name: str = "") -> str:
    """Describes a value without names, and the argument that it came for, for the beginning of a message."""
    place = f" for `{name}`" if name else ""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{what} was given an array of shape {tuple(x.shape)} without names{place}"
    return f"{what} was given {shown(x)}, a {type(x).__name__}{place}"


def result(array: Any, dims: Dims, *, follow: bool = False) -> Any:
    """Returns the result of an operation: a tensor, marked unless its names follow; without dims the scalar."""
    return _unchecked(array if follow else mark_names(array, dim_lists.names(dims)), dims, True) if dims else array


def expand(array: Any, dims: Dims, wanted: Dims) -> Any:
    """Returns an array with its axes in the order of other dims, broadcast over those that it lacks.

    Args:
        array: [dims].
        dims: a subset of `wanted`.
        wanted: the dims of the result. A scalar stays one.
    """
    if not dims or dims == wanted:
        return array
    order = tuple(dim for dim in wanted if dim in dims)
    if order != dims:
        array = lax.transpose(array, tuple(dims.index(dim) for dim in order))
    if order == wanted:
        return array
    return lax.broadcast_in_dim(array, dim_lists.sizes(wanted), tuple(wanted.index(dim) for dim in order))


def elementwise(what: str, function: Callable[..., Any], *operands: Any) -> Any:
    """Applies a function of arrays of one shape, after broadcasting by name."""
    arrays, dims = zip(*(operand(what, x) for x in operands), strict=True)
    if int in map(type, operands):
        fitting(what, operands)
    union = dim_lists.union(what, *dims)
    alike = [expand(array, has, union) for array, has in zip(arrays, dims, strict=True)]
    # The rules spread the names of a marked operand with all dims: a mark would only say them again.
    follow = any(isinstance(x, Tensor) and x.is_marked and x.dims == union for x in operands)
    return result(applied(what, function, alike, operands), union, follow=follow)


def reduce(
    what: str, function: Callable[..., Any], x: Tensor, dims: tuple[Dim | str, ...], unnamed: Mapping[str, Any]
) -> Any:
    """Applies a reduction over the dims listed, or over all; refuses the `unnamed` arguments that arrays take."""
    if unnamed:
        x.refuse_unnamed(what, unnamed)
    # The operand is marked, not the result, whose axes it has: so the gradient that a sum spreads has names too.
    array, gone = mark_names(array_of(what, x), dim_lists.names(x.dims)), dim_lists.find_all(what, x.dims, dims)
    return result(applied(what, function, (array,), (x,), axis=gone), dim_lists.without(x.dims, gone), follow=True)


def _operate(what: str, function: Callable[..., Any], left: Any, right: Any) -> Any:
    """Applies an operator; leaves it to Python where an operand is no array and no number."""
    for x in (left, right):
        if not (isinstance(x, Tensor | bool | int | float) or hasattr(x, "dtype")):
            return NotImplemented
    return elementwise(what, function, left, right)
