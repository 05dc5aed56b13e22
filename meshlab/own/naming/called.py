"""Says what a value is called in explanations: no name stands for another value than its own.

`params/up`                                          what comes in or goes out, by its place
`hidden`                                             what a line assigns
`x @ up`                                             what a part of a line makes
the gradient of `params/up`                          of the backward pass, where it is certain whose
a term of the gradient of `params/up`                of those that are added up
a value of `jax.nn.gelu(hidden)`                     what a part of a line makes on the way
a value of the backward pass of `jax.nn.gelu(hidden)`
a value of model.py:41                               where no short part of the line is known
"""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Callable, Collection, Iterator, Mapping

from ...engine.code.operations import Code, Operation
from ...engine.programs.spread_names import Names
from ...engine.rules import MARKS
from .gradients import Gradients, Part, part

# A part of a line that is longer is no name.
_LONGEST = 60


@dataclasses.dataclass(frozen=True, eq=False)
class Described:
    """What is known of a program; see `Subject`.

    Attributes:
        code: its operations.
        dims: the names of each value's axes.
        made_by: the operation that makes each value.
        readers: those that read each.
        places: of what comes in or goes out.
        assigned: the names that lines assign values to; of constrained values too.
        handed_on: for what a loop or a branch hands to what is inside the value that it comes from.
        carried: what loops change from turn to turn.
    """

    code: Code
    dims: Callable[[int], Names]
    made_by: Mapping[int, Operation]
    readers: dict[int, list[Operation]]
    places: Mapping[int, str]
    assigned: Mapping[int, str]
    handed_on: Mapping[int, int]
    carried: Collection[int]


class Called:
    """What the values of one program are called."""

    def __init__(self, subject: Described):
        self.subject = subject
        self.gradients = Gradients(subject.code, subject.dims, subject.readers, self.name)
        self._known: dict[int, str] = {}

    def __call__(self, value: int) -> str:
        """Returns what a value is called, names in backticks."""
        if value not in self._known:
            self._known[value] = self._called(value)
        return self._known[value]

    def _called(self, value: int) -> str:
        name = self.name(value)
        maker = self.subject.made_by.get(value)
        if name is not None and not (maker and maker.backward and value in self.subject.places):
            return name
        return self._gradient(value) or name or self._by_line(value)

    def name(self, value: int) -> str | None:
        """Returns the name of a value: its place, what a line assigns, or the part of a line that makes it."""
        subject = self.subject
        if value in subject.handed_on:
            name = self.name(subject.handed_on[value])
            is_changed = name is not None and value in subject.carried and not name.endswith("(carried)`")
            return f"{name[:-1]} (carried)`" if name is not None and is_changed else name
        if value not in subject.made_by:
            return f"`{subject.places[value]}`" if value in subject.places else None
        return next(filter(None, map(self._own, self._alike(value))), None)

    def _alike(self, value: int) -> Iterator[int]:
        """Yields a value, and what only marks it: what it is handed on as, and what it was before."""
        yield value
        for further in (self._marked, self._unmarked):
            one = further(value)
            while one is not None:
                yield one
                one = further(one)

    def _marked(self, value: int) -> int | None:
        """A value as it is handed on, where nothing else reads it."""
        readers = self.subject.readers.get(value, ())
        return readers[0].outputs[0] if len(readers) == 1 and readers[0].name in MARKS else None

    def _unmarked(self, value: int) -> int | None:
        maker = self.subject.made_by.get(value)
        return maker.reads[0] if maker is not None and maker.name in MARKS and len(maker.reads) == 1 else None

    def _own(self, value: int) -> str | None:
        """The name of a value that is not only marked otherwise."""
        subject = self.subject
        maker, name = subject.made_by.get(value), subject.places.get(value)
        name = name or subject.assigned.get(value)
        if name or maker is None:
            return f"`{name}`" if name else None
        return self._part(value, maker) or (self._first_run(value, maker) if maker.rematerialised else None)

    def _part(self, value: int, maker: Operation) -> str | None:
        """The part of a line that makes a value of the forward pass, where all that is read of it is made alike."""
        key = part(maker)
        if key is None or maker.backward:
            return None
        made = self.gradients.results(key)
        return _code(key) if value in made and set(made.values()) == {maker.name} else None

    def _first_run(self, value: int, maker: Operation) -> str | None:
        """What is computed again has the name of what was computed first."""
        key, position = part(maker), maker.outputs.index(value)
        alike = [one for one in self.gradients.parts.get(key, ()) if one.name == maker.name] if key else []
        first = [one.outputs[position] for one in alike if not one.rematerialised]
        names = {self.name(v) for v in first if self.subject.dims(v) == self.subject.dims(value)}
        return names.pop() if len(names) == 1 else None

    def _gradient(self, value: int) -> str | None:
        found = self.gradients.of(value)
        return f"{'a term of ' if found.is_term else ''}the gradient of {found.of}" if found else None

    def _by_line(self, value: int) -> str:
        subject, maker = self.subject, self.subject.made_by.get(value)
        if value in subject.handed_on:
            return self(subject.handed_on[value])
        if maker is None:
            return "a carry of a loop" if value in subject.carried else "a constant"
        key = part(maker)
        where = (_code(key) if key is not None and not maker.blocks else None) or (maker.source and str(maker.source))
        of = "the backward pass of " if maker.backward and not maker.rematerialised else ""
        return f"a value of {of}{where}" if where else f"`{maker.called}`"


def _code(key: Part) -> str | None:
    """The text of a part of a line; None of one that is too long for a name."""
    start, end = key.columns[0]
    line = linecache.getline(key.source.file, key.source.line)
    text = line.encode()[start:end].decode(errors="ignore")
    return f"`{text}`" if 0 < len(text) <= _LONGEST and "`" not in text else None
