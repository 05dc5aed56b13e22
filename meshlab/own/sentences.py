"""Says in a sentence why a collective is there.

sentence(subject, cause, "all-reduce", ("model",))      "dot_general sums `embed` of `x` and `w`, split over model."
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..engine.collectives.kinds import KINDS
from ..engine.rules import TRAITS
from ..engine.rules.traits import Join
from ..engine.specs.spec import Axes
from .causes import Cause
from .known import Found
from .started import printed
from .subject import Asked, Subject, of_spec


def sentence(subject: Subject, cause: Cause, kind: str, axes: Axes | None) -> str:
    """Says in a sentence why a collective is there."""
    dims, sizes = held(subject, cause), subject.jitted.axes
    split = dict.fromkeys("+".join(found.axes) for found in dims if found.axes)
    made = [found.value for found in dims if found.value in cause.made]
    read = [found.value for found in dims if found.value not in made]
    names = dict.fromkeys(found.dim for found in dims if found.dim)
    values = tuple(dict.fromkeys(map(subject.quoted, read or made)))
    said = _SENTENCES[_form(cause, dims)].format(
        dims=_quoted(names) or "an axis",
        dims_are="are" if len(names) > 1 else "is",
        values=_several(values),
        values_are="are" if len(values) > 1 else "is",
        over=" and ".join(split) or ("+".join(axes) if axes else "some mesh axes"),
        name=cause.operation.called if cause.operation else "",
        joins=_JOINS[_join(cause)],
        cuts=cause.cuts.called if cause.cuts else "",
        size=f"{cause.size:,}",
        sizes="+".join(f"{axis}={sizes[axis]}" for found in dims for axis in found.axes),
        place=cause.place,
        comes="is made" if cause.operation else "comes in",
        how=f"it {_done(kind)}",
        done=_done(kind),
        each=_each(subject, dims),
        others=_others(subject, cause),
        wants=_wants(subject, cause, values),
        asked=_asked(subject, cause),
    )
    return said[0].upper() + said[1:] if said.startswith(("a ", "the ")) else said


def _form(cause: Cause, dims: Collection[Found]) -> str:
    """Which sentence fits a cause: of arrays that an operation reads other ones hold than of what it makes."""
    made = [found for found in dims if found.value in cause.made]
    read = [found for found in dims if found.value not in cause.made]
    if cause.name == "otherwise" and made and read:
        return "several"
    is_asked = cause.name == "stored" and cause.operation is not None and read and all(found.axes for found in read)
    return "asked" if is_asked else cause.name


def held(subject: Subject, cause: Cause) -> tuple[Found, ...]:
    """What is split, of what is asked for otherwise: operands; that itself where it is made of them axis by axis."""
    read = tuple(found for found in cause.dims if found.value not in cause.made)
    if cause.constraint is None:
        return read if cause.place and read else cause.dims
    value = cause.constraint.value
    same = all(subject.dims(found.value) == subject.dims(value) for found in read)
    return tuple(dict.fromkeys(found._replace(value=value) for found in read)) if same else read


def _each(subject: Subject, dims: Iterable[Found]) -> str:
    """Says of some values how each is split: "`a` and `b` along `a.0` over y, `c` along `a.1` over x"."""
    values: dict[str, list[str]] = {}
    for dim, value, axes in dims:
        values.setdefault(f"along {_quoted([dim]) or 'an axis'} over {'+'.join(axes)}", []).append(
            subject.quoted(value)
        )
    return ", ".join(f"{_several(names)} {how}" for how, names in values.items())


def _others(subject: Subject, cause: Cause) -> str:
    """Says which arrays of an operation are not split as one of them is."""
    names = list(dict.fromkeys(map(subject.quoted, cause.others)))
    if not names:
        return f"no other array of {cause.operation.called if cause.operation else 'it'} is"
    return f"{_several(names)} {'are' if len(names) > 1 else 'is'} not"


def _wants(subject: Subject, cause: Cause, values: Collection[str]) -> str:
    """Says what a constraint stands at, one of the values or what is made of them, and how it wants that."""
    constraint = cause.constraint
    if constraint is None:
        return ""
    name = subject.quoted(constraint.value)
    what, how = "it" if name in values else name, _how(subject, constraint.value, constraint.splits, cause.dims)
    return f"the constraint {printed(constraint.spec)} at {constraint.source or 'an unknown line'} wants {what} {how}"


def _asked(subject: Subject, cause: Cause) -> str:
    """Says how `out_shardings` asks for a result."""
    places = zip(subject.jitted.outputs, subject.code.block.outputs, subject.jitted.results, strict=True)
    for place, value, sharding in places:
        if place == cause.place and isinstance(value, int) and sharding is not None:
            return _how(subject, value, of_spec(sharding.spec, len(subject.dims(value))), cause.dims)
    return "otherwise"


def _how(subject: Subject, value: int, asked: Asked, dims: Collection[Found]) -> str:
    """Says how some dims of a value are asked for, or what is asked to be split over the mesh axes of these.

    As in "whole along `x.0`, and split along `x.1` over model".
    """
    names, over = {found.dim for found in dims}, {axis for found in dims for axis in found.axes}
    ways: dict[str, list[str]] = {}
    for name, axes in zip(subject.dims(value), asked, strict=True):
        if name and axes is not None and (name in names or not over.isdisjoint(axes)):
            ways.setdefault("+".join(axes), []).append(name)
    said = [
        f"split along {_quoted(along)} over {axes}" if axes else f"whole along {_quoted(along)}"
        for axes, along in sorted(ways.items())
    ]
    return ", and ".join(said) or "otherwise"


def _done(kind: str) -> str:
    """What a kind of collective does to an array, in words."""
    known = KINDS[kind]
    return "is moved" if known.moves_blocks else "is gathered" if known.shard and not known.sums else "is summed"


def _join(cause: Cause) -> Join:
    """How the operation joins the elements along an axis; most are sums, of a gather's parts too."""
    traits = TRAITS.get(cause.operation.name) if cause.operation else None
    return (traits.joins if traits else None) or "sum"


_JOINS: dict[Join, str] = {
    "sum": "sums",
    "product": "multiplies over",
    "max": "takes the maximum over",
    "min": "takes the minimum over",
    "and": "takes the conjunction over",
    "or": "takes the disjunction over",
    "xor": "takes the exclusive disjunction over",
}
_SENTENCES = {
    "looked_up": "{name} looks up along {dims}, which {dims_are} split over {over}: each device looks up its part, and"
    " they are summed.",
    "summed": "{name} {joins} {dims} of {values}, split over {over}.",
    "along": "{name} goes along {dims}, which {dims_are} split over {over}.",
    "uneven": "The {size} that {cuts} has along {dims} do not divide by {sizes}: {how}.",
    "otherwise": "{values} {values_are} split along {dims} over {over}, and {others}: {how}.",
    "several": "The arrays of {name} are split in several ways, {each}: one {done}.",
    "constrained": "{values} {values_are} split along {dims} over {over}, and {wants}: {how}.",
    "asked": "{values} {values_are} split along {dims} over {over}, and `{place}` has to come out {asked}: {how}.",
    "stored": "`{place}` must come out with {dims} split otherwise over {over} than it {comes}.",
    "read": "It is read where {dims} of {values} {dims_are} split over {over}, and is not made so.",
    "made": "{dims} of {values} {dims_are} split over {over}, and what reads it needs it whole.",
    "hop": "One hop of a move: {dims} of {values} goes to or from other mesh axes.",
    "manual": "It is your own: {name} says what each device sends.",
    "whole": "{values} {values_are} split along {dims} over {over}, and so is what {name} makes of it; XLA's"
    " partitioner does not run it so: {how}.",
    "own": "No cause was found beside {name}, which XLA's partitioner runs so.",
}


def _quoted(names: Iterable[str]) -> str:
    return _several([f"`{name}`" for name in names])


def _several(names: Iterable[str]) -> str:
    return " and ".join(list(dict.fromkeys(names))[:3])
