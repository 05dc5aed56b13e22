"""A layout as one line of text, and back: what `str(layout)` prints `Layout.of` reads.

    batch:data vocab:data+model · params/*: embed:data · @core: heads:model seq:whole

    dim:axis         a rule; `dim:data+model` for several axes, major first, `dim:whole` for none. Spaces or commas
                     stand between rules. `dim:zigzag(data)` for positions in zig-zag order inside of attention.
    params/*: …      a glob over places or scopes, a colon and a space: the rules behind it are for what it matches, up
                     to the next glob. `{}` is no rule.
    · or ;           ends them: what follows is for all places again.
    "a name"         a name in double quotes, as JSON writes it, is taken as it is, whatever characters it has.

It knows no layout: `parts_of` gives words with the characters where they stand, and `cannot_be_read` points at those of
problems.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from ..errors import numbered
from .spec import Axes
from .zigzag import Zigzag, around, inside

Rules = Iterable[tuple[str, Axes]]
# A problem, and the character where it is.
Problem = tuple[int, str]

WHOLE, NOTHING, BETWEEN = "whole", "{}", " · "
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf'(?P<end>[;·])|(?P<word>(?:{_QUOTED}|[^\s,;·"])+)|(?P<open>"[^\s,;·]*)')
_RULE = re.compile(rf'(?P<name>(?:{_QUOTED}|[^:"])+):(?P<axes>.*)\Z', re.DOTALL)
# Names that mean themselves without quotes.
_PLAIN = re.compile(r'[^\s,;:·"{][^\s,;:·"]*\Z')
# An error shows so many characters of a text before its first problem, and behind that.
_BEFORE, _BEHIND = 30, 70


@dataclasses.dataclass(frozen=True)
class Written:
    """A rule as it was written, or a glob (`axes` None), behind which its rules follow.

    Attributes:
        at: the character of the text where it stands, from 0 on.
        name: the dim, or the glob.
        axes: the mesh axes; none for a dim that is whole.
    """

    at: int
    name: str
    axes: Axes | None


def text_of(dim_rules: Rules, by_glob: Iterable[tuple[str, Rules]]) -> str:
    """Returns rules, and those of globs in their order, as one line."""

    def rules(pairs: Rules) -> str:
        return " ".join(f"{_quoted(dim)}:{around(axes, '+'.join(map(_axis, axes))) or WHOLE}" for dim, axes in pairs)

    parts = [rules(dim_rules), *(f"{_quoted(glob)}: {rules(own) or NOTHING}" for glob, own in by_glob)]
    return BETWEEN.join(filter(None, parts))


def _quoted(name: str) -> str:
    return name if _PLAIN.match(name) else json.dumps(name)


def _axis(name: str) -> str:
    return json.dumps(name) if name == WHOLE else _quoted(name)


def parts_of(text: str) -> tuple[list[list[Written]], list[Problem]]:
    """Returns the parts of a text, each with its glob first if it has one, and what cannot be read.

    Example:
        >>> parts, _ = parts_of("batch:data · params/*: embed:whole")
        >>> [[(each.at, each.name, each.axes) for each in part] for part in parts]
        [[(0, 'batch', ('data',))], [(13, 'params/*', None), (23, 'embed', ())]]
    """
    parts: list[list[Written]] = [[]]
    problems: list[Problem] = []
    bare: set[int] = set()  # where globs stand that `{}` follows
    for found in _TOKEN.finditer(text):
        at, word = found.start(), found["word"]
        last = parts[-1][-1] if parts[-1] else None
        if found["end"]:
            parts.append([])
        elif found["open"]:
            problems.append((at, "the quotes that begin here are not closed"))
        elif word == NOTHING and last and last.axes is None:
            bare.add(last.at)
        else:
            written = _written(word, at)
            if isinstance(written, str):
                fix = f"; a rule has no space: `{last.name}:{word}`" if last and last.axes is None else ""
                problems.append((at, written + ("" if ":" in word else fix)))
            elif written.axes is None:
                parts.append([written])
            else:
                parts[-1].append(written)
    problems += _without_rules(parts, bare, {at for at, _ in problems})
    return [part for part in parts if part], sorted(problems)


def _written(word: str, at: int) -> Written | str:
    """Reads one word, or says what is wrong with it."""
    shown = f"`{word[:80]}`"
    found = _RULE.match(word)
    if found is None:
        return f"{shown} is not a `dim:axis` pair" + (" (write an ASCII `:`)" if "\uff1a" in word else "")
    name, axes = _name(found["name"]), found["axes"]
    if name is None:
        return f"{shown}: quotes must be around a whole name"
    if not axes:
        return Written(at, name, None)
    if ":" in axes:
        return f"{shown} is not a `dim:axis` pair; put a space after the colon of a place: `{found['name']}: {axes}`"
    within = inside(axes)
    names = [_name(axis) for axis in (within if within is not None else axes).split("+")]
    if not all(names):
        return f"{shown} is not a `dim:axis` pair: an axis is missing"
    if within is None and WHOLE in axes.split("+"):
        return Written(at, name, ()) if axes == WHOLE else f"{shown}: `{WHOLE}` means no axis, and must be alone"
    kind = tuple if within is None else Zigzag
    return Written(at, name, kind(axis for axis in names if axis))


def _name(written: str) -> str | None:
    """Reads a name, in quotes or not; None where it cannot be read."""
    if '"' not in written:
        return written
    try:
        return str(json.loads(written)) if re.fullmatch(_QUOTED, written) else None
    except ValueError:
        return None


def _without_rules(parts: Sequence[Sequence[Written]], bare: set[int], wrong: set[int]) -> Iterator[Problem]:
    """Yields the globs that no rule follows, but for those whose rules could not be read."""
    for part in parts:
        first = part[0] if part else None
        if first and first.axes is None and len(part) == 1 and first.at not in bare:
            if not any(at > first.at for at in wrong):
                fix = f"write `{first.name}:data` for a dim, `{first.name}: {NOTHING}` for a place without rules"
                yield first.at, f"`{first.name}:` is followed by no rule: {fix}"


def cannot_be_read(text: str, problems: Sequence[Problem], hint: str) -> tuple[str, tuple[str, ...]]:
    """Returns the message for a text that cannot be read, with marks where its problems are, and these as texts."""
    first = min(at for at, _ in problems)
    begin = max(0, first - _BEFORE)
    line = re.sub(r"\s", " ", text[begin : first + _BEHIND])
    ahead, behind = "… " if begin else "", " …" if len(text) > first + _BEHIND else ""
    marks = {at - begin for at, _ in problems if at - begin < len(line)}
    below = "".join("^" if at in marks else " " for at in range(max(marks) + 1))
    texts = tuple(f"character {at + 1}: {problem}" for at, problem in problems)
    shown = f"    {ahead}{line}{behind}\n    {' ' * len(ahead)}{below}"
    return f"The layout cannot be read:\n{shown}\n{numbered(texts)}\n{hint}", texts
