"""What a mesh axis is: into how many parts it cuts a dim, and where those are.

    in space    each device along the axis has one part
    in time     each device runs the parts, its blocks, one after the other, in a loop

Who counts devices, shards values, prices, saves or draws a mesh asks for this alone. So a kind of axis that is added to
the table (`axis_kinds.py`) is sharded over, run, priced, saved and drawn as the others are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ..argument_checks import is_whole
from ..errors import MeshError, shown

# When devices communicate, for an axis in time: once, around its loop, or in each iteration.
ONCE, EACH = "once", "each"


@dataclasses.dataclass(frozen=True)
class Axis:
    """The size of a mesh axis of some kind.

    Attributes:
        size: the number of parts.
        maker: the function of `ml` that makes it, and its key in JSON.
        noun: what such an axis is called in a sentence.
        unit: what stands behind its size on the board; "" where it is devices.
        meaning: what it means, in a sentence for the board; "" where there is nothing to say.
    """

    size: int

    maker: ClassVar[str]
    noun: ClassVar[str]
    unit: ClassVar[str] = ""
    meaning: ClassVar[str] = ""

    def __post_init__(self):
        if problems := self.problems():
            text = f"ml.{self.maker}() was given {' and '.join(problems)}"
            raise MeshError(f"{text}. Write ml.{self.maker}(8), say.")
        object.__setattr__(self, "size", operator.index(self.size))

    def problems(self) -> list[str]:
        """Returns what is wrong with the size and the options."""
        if is_whole(self.size) and operator.index(self.size) >= 1:
            return []
        return [f"the size {shown(self.size)}, which must be an integer of at least 1"]

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Returns what may be given beside the size."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.name != "size")

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        return {name: value for name in self.option_names() if (value := getattr(self, name)) is not None}

    @property
    def source(self) -> str:
        """What a person writes for it in Python."""
        return f"ml.{self}"

    @property
    def in_words(self) -> str:
        """What it means, in a sentence or two for the board; "" where there is nothing to say."""
        return self.meaning

    def resized(self, size: int) -> Self:
        """Returns the axis with another number of parts."""
        return dataclasses.replace(self, size=size)

    def to_dict(self) -> Any:
        """Returns it as JSON-like data, which `read` reads back."""
        return {self.maker: self.size, **self.options}

    @classmethod
    def read(cls, given: Mapping[Any, Any]) -> Self | None:
        """Returns the axis that JSON-like data are of; None where they are of another kind, or invalid."""
        options = {name: value for name, value in given.items() if name != cls.maker}
        if cls.maker not in given or not options.keys() <= {*cls.option_names()}:
            return None
        with contextlib.suppress(MeshError):
            return cls(given[cls.maker], **options)
        return None

    @classmethod
    def entry(cls) -> str:
        """Says how such an axis is written in JSON."""
        options = [f'"{name}"' for name in cls.option_names()]
        return f'{cls.noun} has {{"{cls.maker}": 8}}' + (f", and {' and '.join(options)}" if options else "")

    def __str__(self):
        options = (
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"
            for name, value in self.options.items()
        )
        return f"{self.maker}({', '.join([str(self.size), *options])})"

    def __format__(self, _how: str):
        return str(self)


@dataclasses.dataclass(frozen=True)
class Devices(Axis):
    """An axis along which devices stand; a mesh is given a number for it, and JSON has one."""

    maker, noun = "devices", "an axis of devices"

    @property
    def source(self) -> str:
        return str(self)

    def to_dict(self) -> int:
        return self.size

    def __str__(self):
        return str(self.size)


@dataclasses.dataclass(frozen=True)
class InTime(Axis):
    """An axis in time: a device has all parts of what is split over it, one after the other.

    Attributes:
        reduce: when partial sums are reduced among devices: "once", after the loop, or in "each" iteration; None: once,
            but in each iteration where the sum's target spec is sharded, so that no device holds the whole sum.
        gather: when what all iterations read is gathered: "once", in front of the loop, or in "each" iteration; None:
            as partial sums are reduced.
    """

    reduce: str | None = None
    gather: str | None = None

    def problems(self) -> list[str]:
        options = (name for name in ("reduce", "gather") if getattr(self, name) not in (None, ONCE, EACH))
        wrong = (f'{name}={shown(getattr(self, name))}, which must be "once", "each" or None' for name in options)
        return [*super().problems(), *wrong]

    @classmethod
    def entry(cls) -> str:
        return super().entry() + ' of "once" or "each"'
