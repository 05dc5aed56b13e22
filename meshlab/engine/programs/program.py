"""The data of a program: a traced function with a dim name on every axis of every value.

A program knows no mesh and no layout. Whatever depends on the program alone (factors, uses, which dims share no
mesh axis) is computed once: as a property here, or elsewhere as an `analysis`, whose result is kept here. So a change
of layout re-plans in milliseconds. Users hold an `api.Program`, which adds the verbs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Self, TypeVar

from .. import globs
from ..argument_checks import is_whole
from ..code.operations import Code, Operation, Scope, use_counts, walk
from ..errors import MeshlabError, closest, shown, some
from ..passes.prints import Print
from ..rules import Factors
from ..specs.scopes import matches
from ..tensors.named_arrays import AxisName
from .constants import broadcast_values, constant_values, uniform_values
from .naming import Cuts
from .scoping import Ruled, Scoping
from .signatures import FactorNames, factor_names, factors_by_operation, renamed, signatures
from .spread_names import Names, Parts
from .values import Argument, Carry, Value


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A traced function; made by `ml.trace`.

    Attributes:
        fn: the function.
        code: its operations in normal form.
        names: the dim names of each value, by number.
        dims: the user's dims with their sizes, in order of first appearance.
        made_of: for the name of a merged axis (`heads*head`) or a part (`embed.0`), the factors whose splits it bears.
        cuts: the (operand, axis) pairs at which a name was cut, by the number of the operation's first result.
        parameters: the names of the function's parameters.
        arguments: the arrays among the arguments, in order.
        outputs: the places of the outputs, in order.
        carries: outputs that are the next call's arguments.
        uncertain: says of arguments that may be carried, and are not, why that is not certain.
        structure: the tree of the arguments, Tensors as leaves.
        templates: the leaves of the arguments as they were traced, without data.
        out_shapes: the outputs' tree, of abstract tensors and arrays.
        named: the names that were given to the axes of each argument; None for arrays that the rules name.
        again: traces the function with other arguments.
        renames: the present names of dims that were renamed since, by those in the function.
        unmerged: the operations before equal ones were merged: what layouts with rules by scope start from.
        scoping: of the program that such a layout has, where its rules differ (`scoped.py`).
        gradients: for the place of each gradient that of its parameter (`gradients.py`).
        zigzags: the scopes and dims of positions that are in zig-zag order inside of attention (`zigzagged.py`).
        traced: the program that this one is with those in that order.
        printing: the program that returns what `jax.debug.print` prints as well; None where nothing is printed.
        prints: of such a program what makes lines of its last outputs (`passes/prints.py`).
    """

    fn: Callable
    code: Code
    names: tuple[Names, ...]
    dims: Mapping[str, int]
    made_of: Mapping[str, Parts]
    cuts: Cuts
    parameters: tuple[str, ...]
    arguments: tuple[Argument, ...]
    outputs: tuple[str, ...]
    carries: tuple[Carry, ...]
    structure: Any
    templates: tuple[Any, ...]
    out_shapes: Any
    named: tuple[tuple[AxisName, ...] | None, ...]
    again: Callable[..., Any]
    unmerged: Code
    uncertain: tuple[str, ...] = ()
    renames: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scoping: Scoping = dataclasses.field(default_factory=Scoping)
    gradients: Mapping[str, str] = dataclasses.field(default_factory=dict)
    zigzags: frozenset[tuple[Scope, str]] = frozenset()
    traced: Program | None = None
    printing: Program | None = None
    prints: tuple[Print, ...] = ()

    @property
    def carry(self) -> dict[str, int]:
        """The output that is the next call's argument, by parameter."""
        return {c.parameter: c.output for c in self.carries}

    @property
    def tags(self) -> dict[str, tuple[Operation, ...]]:
        """The operations that mark the function's own tags, by tag."""
        return {tag: operations for tag, operations in self.marks.items() if tag not in self.gradients}

    @functools.cached_property
    def marks(self) -> dict[str, tuple[Operation, ...]]:
        """The operations that mark a place inside the function, by place: its tags, and gradients."""
        by_tag: dict[str, list[Operation]] = {}
        for operation in walk(self.code.block):
            if operation.name == "tag":
                by_tag.setdefault(operation.params["tag"], []).append(operation)
        return {tag: tuple(operations) for tag, operations in by_tag.items()}

    @functools.cached_property
    def places(self) -> tuple[str, ...]:
        """Where values are stored: arguments, outputs (`out/...`), tags and gradients (`grads/...`)."""
        return (*(a.place for a in self.arguments), *self.outputs, *self.marks)

    @functools.cached_property
    def place_dims(self) -> dict[str, frozenset[str]]:
        """The user's dims that the axes of what is stored at each place bear."""
        stored = {place: [value] for place, value in self.places_values.items()}
        stored |= {place: [op.outputs[0] for op in operations] for place, operations in self.marks.items()}
        return {p: frozenset(d for v in stored.get(p, ()) for d in self.dims_of(v) if d) for p in self.places}

    @functools.cached_property
    def dims_by_scope(self) -> dict[Scope, frozenset[str]]:
        """The user's dims that operations in each scope have; of sums of cotangents, which are in none, too."""
        scopes: dict[Scope, set[str | None]] = {}
        for operation in walk(self.unmerged.block):
            scopes.setdefault(operation.scope, set()).update(self.ruled(operation)[1])
        return {scope: frozenset(filter(None, dims)) for scope, dims in scopes.items()}

    def dims_in(self, glob: str) -> frozenset[str]:
        """Returns the user's dims that operations have in the scopes that a glob matches: `@core`."""
        return frozenset[str]().union(*(dims for scope, dims in self.dims_by_scope.items() if matches(glob, scope)))

    def matching(self, glob: str) -> tuple[str, ...]:
        """Returns the places that a glob matches."""
        if not isinstance(glob, str):
            raise MeshlabError(f"{shown(glob)} is not a glob over places; write program.matching('params/*').")
        if glob not in self._matching:
            self._matching[glob] = tuple(place for place in self.places if globs.matches(place, glob))
        return self._matching[glob]

    @functools.cached_property
    def _matching(self) -> dict[str, tuple[str, ...]]:
        return {}

    @functools.cached_property
    def values(self) -> tuple[Value, ...]:
        """Every value that the normal form computes, arguments first."""
        block = self.code.block
        numbers = [*block.inputs]
        for operation in walk(block):
            numbers += operation.outputs
            for block in operation.blocks:
                numbers += block.inputs
        return tuple(self.value(n) for n in numbers)

    def value(self, number: int) -> Value:
        """Returns the value of a number."""
        self._check_number(number)
        place = self.stored_at.get(number)
        outer = self.outermost(number)
        maker = self.makers.get(outer)
        named = self.stored_at.get(outer)
        source = maker.source if maker else None
        text = maker.called if maker else "constant"
        if maker and source and maker.called == maker.name:
            text += f" in {source.function}"
        gradient = self.gradients.get(maker.params["tag"]) if maker and maker.name == "tag" else None
        label = named or (f"gradient of {gradient}" if gradient else source and source.target) or text
        code = self.code
        return Value(
            number, self.names[number], code.shapes[number], code.dtypes[number], maker and maker.source, label, place
        )

    def _check_number(self, number: Any):
        if not is_whole(number) or not 0 <= number < len(self.code.shapes):
            place = next(iter(self.places_values), "out")
            raise MeshlabError(
                f"There is no value {shown(number)}: values are numbered 0 to {len(self.code.shapes) - 1}. To find"
                f" a value by its place, use program.place('{place}')."
            )

    def outermost(self, number: int) -> int:
        """Returns for a block's input the value outside that it is (a slice of); any other value itself."""
        return self._outer.get(number, number)

    def place(self, place: str) -> Value:
        """Returns the value that is stored at a place (the first one, for a tag).

        Raises:
            MeshlabError: there is no such place, or the output there is a constant.
        """
        number = self.places_values.get(place) if isinstance(place, str) else None
        if number is None:
            near = closest(place, self.places) or f" Its places are {some(self.places)}."
            raise MeshlabError(
                f"There is no value at {f'`{place}`' if isinstance(place, str) else shown(place)}.{near}"
            )
        return self.value(number)

    def find(self, value: Value | str) -> Value:
        """Returns the value that is stored at a place, or a value of this program itself.

        Raises:
            MeshlabError: there is no such place, or it is no value of this program.
        """
        if isinstance(value, str):
            return self.place(value)
        if not isinstance(value, Value):
            raise MeshlabError(
                f"{shown(value)} is not a value of this program: give a place, such as"
                f" `{next(iter(self.places), 'out')}`, or one of program.values."
            )
        shapes, dtypes = self.code.shapes, self.code.dtypes
        number = value.number
        if number >= len(shapes) or (shapes[number], dtypes[number]) != (value.shape, value.dtype):
            raise MeshlabError(
                f"`{value.label}` of shape {value.shape} is a value of another program: take it from this program's"
                " program.values or program.place(...)."
            )
        return value

    @functools.cached_property
    def makers(self) -> dict[int, Operation]:
        """The operation that makes each value."""
        makers = {}
        for operation in walk(self.code.block):
            makers.update(dict.fromkeys(operation.outputs, operation))
        return makers

    @functools.cached_property
    def _outer(self) -> dict[int, int]:
        """For each block's input the value outside that it is (a slice of), through all blocks."""
        outer: dict[int, int] = {}
        for operation in walk(self.code.block):
            for block in operation.blocks if operation.name != "cond" else ():
                for outside, inside in zip(operation.inputs, block.inputs, strict=True):
                    if isinstance(outside, int):
                        outer[inside] = outer.get(outside, outside)
        return outer

    @functools.cached_property
    def stored_at(self) -> dict[int, str]:
        """The place of each argument and output, by the number of its value."""
        outputs = zip(self.code.block.outputs, self.outputs, strict=True)
        places = {v: place for v, place in outputs if isinstance(v, int)}
        return places | {a.value: a.place for a in self.arguments}

    @functools.cached_property
    def places_values(self) -> dict[str, int]:
        """The value that is stored at each place."""
        outputs = zip(self.code.block.outputs, self.outputs, strict=True)
        values = {place: v for v, place in outputs if isinstance(v, int)}
        values |= {place: operations[0].outputs[0] for place, operations in self.marks.items()}
        return values | {a.place: a.value for a in self.arguments}

    @functools.cached_property
    def uses(self) -> list[int]:
        """How often each value is read."""
        return use_counts(self.code)

    @functools.cached_property
    def original_of(self) -> dict[int, int]:
        """For the result of each rename or tag the value whose array it is: both are the same data."""
        originals: dict[int, int] = {}
        for operation in walk(self.code.block):
            if operation.name in ("rename", "tag") and isinstance(operation.inputs[0], int):
                originals[operation.outputs[0]] = originals.get(operation.inputs[0], operation.inputs[0])
        return originals

    @functools.cached_property
    def uniform(self) -> tuple[frozenset[int], frozenset[int]]:
        """The values that hold one number everywhere, and those of them that are zero."""
        return uniform_values(self.code)

    @functools.cached_property
    def materialisable(self) -> frozenset[int]:
        """Values that are made where they are read, in any spec: constants, iotas, broadcasts (of what is moved)."""
        return constant_values(self.code, self.uniform[0]) | self.broadcasts

    @functools.cached_property
    def broadcasts(self) -> frozenset[int]:
        """The values that broadcast a smaller one, which is resharded instead: a bias, a mean along its own axis."""
        return broadcast_values(self.code)

    @property
    def merge_names(self) -> list[Names]:
        """The names of each value's axes that keep equal values apart: those that users gave."""
        made_up = {new for old, new in self.renames.items() if old.startswith("~")}
        return [tuple(n if n in self.dims and n not in made_up else None for n in axes) for axes in self.names]

    def ruled(self, operation: Operation) -> Ruled:
        """Returns what of an operation decides which rules it has: its scope, and the dims that it reads and makes."""
        scope = () if operation.name == "add_any" else operation.scope  # a sum of cotangents has no rules of its own
        return scope, frozenset().union(*map(self.dims_of, (*operation.reads, *operation.outputs)))

    def scope_class(self, operation: Operation) -> Hashable:
        """Returns which rules an operation has for the dims that differ: equal where it may be merged with another."""
        return self.scoping.of(*self.ruled(operation)) if self.scoping.numbers else ()

    def under(self, scoping: Scoping) -> Self:
        """Returns the program, its code as it is, under other rules by scope; what follows from the code is shared."""
        other = dataclasses.replace(self, scoping=scoping)
        vars(other).update((name, getattr(self, name)) for name in _OF_CODE)
        return other

    @functools.cached_property
    def factors(self) -> dict[Operation, Factors]:
        """The factors of every operation without blocks; equal ones are one object."""
        return factors_by_operation(self.code, *self.uniform, self.materialisable)

    @functools.cached_property
    def addressed(self) -> tuple[Names, ...]:
        """The names of each value's axes that rules may shard; None for the others."""
        return renamed(self.names, lambda name: name if name in self.dims or name in self.made_of else None)

    @functools.cached_property
    def signatures(self) -> dict[Operation, int]:
        """A number for each operation without blocks: equal for those of equal factors, addressed names and cuts."""
        return signatures(self.factors, self.addressed, self.cuts)

    @functools.cached_property
    def factor_dims(self) -> dict[Operation, FactorNames]:
        """The name of each factor of an operation that rules may shard; equal ones are one object."""
        return factor_names(self.signatures, self.factors, self.addressed, self.cuts)

    def dim_of(self, name: str | None) -> str | None:
        """Returns the user's dim whose sharding an axis of this name bears; None for made-up names and minor parts."""
        minor = any(part.before > 1 for part in self.made_of.get(name or "", ())[:1])
        return None if minor else next(iter(self.splitters(name)), None)

    def splitters(self, name: str | None) -> tuple[str, ...]:
        """Returns the user's dims whose mesh axes split an axis of this name, major first; of a minor part too."""
        dim = name or ""
        return (dim,) if dim in self.dims else tuple([part.dim for part in self.made_of.get(dim, ())])

    def dims_of(self, value: int) -> tuple[str | None, ...]:
        """Returns the user's dim whose sharding each axis of a value bears."""
        if type(value) is not int or not 0 <= value < len(self.names):
            self._check_number(value)
        return self._dims_of[value]

    @functools.cached_property
    def _dims_of(self) -> tuple[tuple[str | None, ...], ...]:
        return renamed(self.addressed, self.dim_of)

    @functools.cached_property
    def insides(self) -> dict[int, int]:
        """For each result of an operation with blocks the value inside that it is; of several blocks in the first."""
        return {
            outer: inner
            for operation in walk(self.code.block)
            for block in operation.blocks[:1]
            for outer, inner in zip(operation.outputs, block.outputs, strict=True)
            if isinstance(inner, int)
        }

    @functools.cached_property
    def analyses(self) -> dict[Callable, Any]:
        """The memo of the analyses that ran (`analysis`)."""
        return {}

    @functools.cached_property
    def scoped_analyses(self) -> dict[Callable, Any]:
        """The memo of those whose results follow from the rules by scope too (`scoped_analysis`)."""
        return {}

    def __repr__(self):
        dims = " ".join(f"{name}={size}" for name, size in self.dims.items()) or "no named dims"
        return f"Program({getattr(self.fn, '__name__', 'fn')}: {len([*walk(self.code.block)])} operations over {dims})"


# Whatever follows from the code of a program, but for what is asked of it for itself.
_OF_CODE = tuple(
    name
    for name, each in vars(Program).items()
    if isinstance(each, functools.cached_property) and name not in ("scoped_analyses", "values")
)

Result = TypeVar("Result")


def analysis(function: Callable[[Program], Result]) -> Callable[[Program], Result]:
    """Makes a function of a program's code run once for each code; its programs store the result."""
    return _once(function, lambda program: program.analyses)


def scoped_analysis(function: Callable[[Program], Result]) -> Callable[[Program], Result]:
    """Makes a function of a program run once for each program, which stores the result."""
    return _once(function, lambda program: program.scoped_analyses)


def _once(
    function: Callable[[Program], Result], stored: Callable[[Program], dict[Callable, Any]]
) -> Callable[[Program], Result]:
    @functools.wraps(function)
    def once(program: Program) -> Result:
        results = stored(program)
        if once not in results:
            results[once] = function(program)
        return results[once]

    return once
