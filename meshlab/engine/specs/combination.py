"""Combines the rules of two layouts: `one & other` demands what both of them demand.

    {"batch": "data"} & {"ffn": "model"}                         batch:data ffn:model
    {"params/*": {"ffn": "data"}} & {"ffn": "model"}             ffn:model · params/*: ffn:model+data

The second is fully sharded data parallelism beside tensor parallelism: what one layout stores over `data` the other
computes over `model`, so that it is stored over both, the axes of the computation major: gathering it over `data` then
leaves what is computed with. A dim that one has on devices and the other on an axis in time, in micro-batches, is on
both, the axis in time last. Nothing else is made of two demands. Where both give one dim, or one dim at one place,
different axes, or where globs overlap of which only the last would count, the two conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .spec import Axes

Rules = tuple[tuple[str, Axes], ...]
Places = tuple[tuple[str, Rules], ...]


def combined(
    one: tuple[Rules, Places], other: tuple[Rules, Places], in_time: frozenset[str] = frozenset()
) -> tuple[Rules, Places, list[str]]:
    """Combines the plain rules, and the rules at places, of two layouts.

    Returns:
        The plain rules; the rules at places; and a text for each conflict.
    """
    (plain, places), (other_plain, other_places) = one, other
    conflicts: list[str] = []
    both = _merged(plain, other_plain, "", conflicts, in_time)
    left = _stored_over(places, plain, other_plain, conflicts)
    right = _stored_over(other_places, other_plain, plain, conflicts)
    merged = {glob: _merged(rules, right.get(glob, ()), glob, conflicts) for glob, rules in left.items()}
    merged |= {glob: rules for glob, rules in right.items() if glob not in merged}
    conflicts += _hidden(left, right, merged)
    return both, tuple(merged.items()), list(dict.fromkeys(conflicts))


def overlap(one: str, other: str) -> bool:
    """Says whether some place may match both globs.

    Example:
        >>> overlap("params/*", "*/embedding"), overlap("params/*", "opt_state/*")
        (True, False)
    """
    rows, columns = len(one), len(other)
    meets = [[False] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            a, b = one[i : i + 1], other[j : j + 1]
            # A `*` is any characters, and a `?` at the end, which makes a place optional, one or none.
            empty = (a == "*" or one[i:] == "?", b == "*" or other[j:] == "?")
            meets[i][j] = (
                not (a or b)
                or (empty[0] and meets[i + 1][j])
                or (empty[1] and meets[i][j + 1])
                or (a == "*" and bool(b) and meets[i][j + 1])
                or (b == "*" and bool(a) and meets[i + 1][j])
                or (bool(a and b) and (a == b or "?" in (a, b)) and meets[i + 1][j + 1])
            )
    return meets[0][0]


def _name(dim: str) -> str:
    return dim.removesuffix("?")


def _text(axes: Axes) -> str:
    return f"on `{'+'.join(axes)}`" if axes else "replicated"


def _merged(one: Rules, other: Rules, place: str, conflicts: list[str], in_time: frozenset[str] = frozenset()) -> Rules:
    """Returns the rules of both, without the `?` where only one has it."""
    where = f"at `{place}`, " if place else ""
    rules = {_name(dim): (dim, axes) for dim, axes in one}
    for dim, given in other:
        name = _name(dim)
        known, its = rules.get(name, (dim, given))
        its, axes = _both_in_time(its, given, in_time)
        if its != axes:
            conflicts.append(f"{where}`{name}` is {_text(its)} in one and {_text(axes)} in the other")
        rules[name] = (min(known, dim, key=len), its)
    return tuple(sorted(rules.values()))


def _both_in_time(one: Axes, other: Axes, in_time: frozenset[str]) -> tuple[Axes, Axes]:
    """Gives the axes of both layouts the axes in time of both, behind those of devices, where only one has some."""
    devices = tuple(a for a in one if a not in in_time), tuple(a for a in other if a not in in_time)
    time = tuple(a for a in one if a in in_time), tuple(a for a in other if a in in_time)
    if not any(time) or (all(time) and time[0] != time[1]) or (all(devices) and devices[0] != devices[1]):
        return one, other
    both = (*(devices[0] or devices[1]), *(time[0] or time[1]))
    return both, both


def _stored_over(places: Places, plain: Rules, other: Rules, conflicts: list[str]) -> dict[str, Rules]:
    """Returns the rules at places where the dims are computed over the other layout's axes."""
    own = {_name(dim): axes for dim, axes in plain}
    computed = {_name(dim): axes for dim, axes in other}

    def stored(place: str, dim: str, axes: Axes) -> Axes:
        name = _name(dim)
        outer = computed.get(name, ())
        if not outer or name in own or outer == axes:
            return axes
        if not axes or set(axes) & set(outer):
            conflicts.append(
                f"at `{place}`, `{name}` is stored {_text(axes)} in one and computed {_text(outer)} in the other"
            )
            return axes
        return (*outer, *axes)

    return {place: tuple((d, stored(place, d, axes)) for d, axes in rules) for place, rules in places}


def _hidden(one: Mapping[str, Rules], other: Mapping[str, Rules], merged: Mapping[str, Rules]) -> Iterable[str]:
    """Yields the pairs of globs of which one would hide the other's rules at some place."""
    for glob in one:
        for second in other:
            shared = glob in other and second in one
            if glob != second and not shared and merged[glob] != merged[second] and overlap(glob, second):
                yield f"`{glob}` and `{second}` may match one place, where only the last of them would count"


def in_both_scopes(one: Places, other: Places, conflicts: list[str]) -> Places:
    """Combines rules in scopes, and adds a text for each conflict.

    Those of the second come last, and count in a scope inside one of the first's.
    """
    merged = dict(one)
    for glob, rules in other:
        if glob in merged:
            merged[glob] = _merged(merged[glob], rules, glob, conflicts)
            continue
        for known, others in one:
            shared = {_name(dim): axes for dim, axes in others}
            differ = [dim for dim, axes in rules if shared.get(_name(dim), axes) != axes]
            if differ and overlap(known, glob):
                where = f"`{known}` and `{glob}` may match one scope"
                conflicts += [f"{where}, where the layouts give `{_name(dim)}` different axes" for dim in differ]
        merged[glob] = rules
    return tuple(merged.items())
