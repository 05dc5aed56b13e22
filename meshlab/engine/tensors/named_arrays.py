"""Gives dim names to plain arrays, so that a program that knows nothing of meshlab can be traced.

    ml.trace(step, ml.named(params, {"*kernel": "in out", "*/query/kernel": "embed (heads=8 head)"}), opt_state,
             ml.named(tokens, "batch seq"))

The function itself sees the plain arrays. Not everything needs a name: the rules spread those that are given to all
that they meet, the optimizer's state included. A name is written for each axis: `_` for none, `...` in front for any
number of axes without a name, and `(heads head)` for one axis that merges two dims, major first; where a size cannot be
known from elsewhere it is written with it, `(heads=8 head)`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from ..errors import DimError, aside, listed, shown
from ..globs import matches
from .dim_lists import names as names_of
from .dims import NAME_RULE, Dim, is_name
from .tensor import Tensor
from .trace_errors import is_array
from .trees import is_tensor, placed_leaves

# So many paths are listed, and so many characters of one compared.
_NEAREST, _COMPARED = 4, 200
_NUMBER = re.compile(r"[0-9]+")
_WORDS = re.compile(r"\([^()]*\)|\S+")
_PART = re.compile(r"([^=]+)(?:=(\d{1,18}))?")


@dataclasses.dataclass(frozen=True)
class Merged:
    """The name of an axis that merges dims, major first; sizes where they were given."""

    parts: tuple[tuple[str, int | None], ...]

    def __str__(self):
        return "*".join(name for name, _ in self.parts)


AxisName = str | Merged | None


@dataclasses.dataclass(frozen=True, eq=False)
class NamedArray:
    """An array, or its shape, with a name for each axis; made by `ml.named`, and taken apart again by `ml.trace`."""

    array: Any
    names: tuple[AxisName, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        """The array's dtype."""
        return self.array.dtype


def _refuse(*_operands: Any):
    """Refuses arithmetic."""
    raise DimError("A named array is for ml.trace, and is not a number: compute with it inside the traced function.")


_PAIRED = "__add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __matmul__ __and__ __or__".split()
_REFLECTED = [name.replace("__", "__r", 1) for name in _PAIRED]
for _name in (*_PAIRED, *_REFLECTED, *"__lt__ __le__ __gt__ __ge__ __neg__ __abs__ __invert__".split()):
    setattr(NamedArray, _name, _refuse)


def _wrong(sizes: Sequence[int | None], total: int) -> str | None:
    """Returns why parts of these sizes, as far as known, make no axis of size `total`; None where they may."""
    known = math.prod(size or 1 for size in sizes)
    if None not in sizes:
        return None if known == total else f"{' × '.join(map(str, sizes))} is {known}, not {total}"
    return f"{known} does not divide {total}" if total % known else None


def _description(merged: Merged, sizes: Sequence[int | None], total: int, where: str) -> str:
    """Describes a merged axis, in front of its problem: "`heads*head` is heads=8 × head=? and has size 20 at …"."""
    factors = " × ".join(f"{part}={size or '?'}" for (part, _), size in zip(merged.parts, sizes, strict=True))
    return f"`{merged}` is {factors} and has size {total} at {where}: "


class Sizes:
    """Collects the size of each dim's name, and the sizes that disagree, which `check` refuses."""

    def __init__(self):
        self.known: dict[str, int] = {}
        self.where: dict[str, str] = {}
        self.problems: dict[tuple[str, int], str] = {}

    def note(self, name: str, size: int, where: str):
        before = self.known.setdefault(name, size)
        self.where.setdefault(name, where)
        if before != size:
            text = f"`{name}` has size {before} at {self.where[name]} and size {size} at {where}"
            self.problems.setdefault((name, size), text)

    def note_given(self, merged: Merged, where: str):
        """Notes the sizes that are written with a merged axis: they count for every other one, wherever."""
        for part, size in merged.parts:
            if size is not None:
                self.note(part, size, where)

    def of_parts(self, merged: Merged, total: int, where: str) -> list[tuple[str, int]]:
        """Returns the dims that an axis of size `total` merges, with their sizes; an unknown one follows from it."""
        sizes = [self.known.get(part) for part, _ in merged.parts]
        rest = total // math.prod(size or 1 for size in sizes)
        wrong = _wrong(sizes, total)
        if sizes.count(None) > 1 or wrong:
            fix = wrong or "write the unknown part with its size, (heads=8 head)"
            self.problems[str(merged), total] = _description(merged, sizes, total, where) + fix
            return []
        dims = [(part, size or rest) for (part, _), size in zip(merged.parts, sizes, strict=True)]
        for part, size in dims:
            self.note(part, size, where)
        return dims

    def check(self):
        """Refuses a name of two sizes, and a merged axis that is not the product of its parts."""
        if self.problems:
            problems = "; ".join(self.problems.values())
            raise DimError(f"A dim has one size in a program, but {problems}. Rename or resize one of them.")


def named(tree: Any, names: Any) -> Any:
    """Gives dim names to the axes of plain arrays, for `ml.trace`.

    Args:
        tree: a tree of arrays or `jax.ShapeDtypeStruct`s.
        names: a tree that matches, of texts such as "batch seq embed" (or tuples of dims); or texts by glob over the
            paths in the tree (`*` crosses `/`), of which the last that matches counts. One text is for every leaf.

    Returns:
        The tree, its named leaves wrapped. A leaf that nothing names stays as it is.

    Raises:
        DimError: a glob matches nothing, a text does not fit its array, a name appears twice, or a named leaf is not an
            array or already has names; all are listed.

    Example:
        ml.trace(step, ml.named(params, {"*/kernel": "embed ffn"}), ml.named(images, "... channel"))
    """
    leaves = [(place.removeprefix("/"), leaf) for place, leaf in placed_leaves("", tree)]
    problems = _unnameable(leaves, names)
    texts = _texts(tree, leaves, names, problems)
    wrapped = [
        leaf if text is None else NamedArray(leaf, _axes(text, place, leaf, problems))
        for (place, leaf), text in zip(leaves, texts, strict=True)
    ]
    if problems:
        raise DimError(f"named() was given invalid arguments: {'; '.join(dict.fromkeys(problems))}.")
    return jax.tree.unflatten(jax.tree.structure(tree, is_leaf=is_tensor), wrapped)


def _unnameable(leaves: Sequence[tuple[str, Any]], names: Any) -> list[str]:
    """Returns the problems that show before any name is read: no names at all, or something in their place."""
    if names is None:
        return ['no names were given; write ml.named(array, "batch embed")']
    if isinstance(names, str | tuple | Mapping):
        return []
    if any(isinstance(leaf, str) for _, leaf in leaves) and hasattr(names, "shape"):
        return ["the arrays come first and the names after them: ml.named(array, 'batch embed')"]
    return []


def _texts(tree: Any, leaves: Sequence[tuple[str, Any]], names: Any, problems: list[str]) -> list[Any]:
    """Returns the text that names each leaf; None where none does."""
    if problems:
        return [None] * len(leaves)
    if isinstance(names, str):
        return [names] * len(leaves)
    places = [place for place, _ in leaves]
    if isinstance(names, Mapping) and all(isinstance(text, str | tuple) for text in names.values()):
        texts: list[Any] = [None] * len(leaves)
        for glob, text in names.items():
            if not isinstance(glob, str):
                problems.append(f"{shown(glob)} is not a path; give names by globs over paths, as texts")
                continue
            matching = [i for i, place in enumerate(places) if matches(place, glob)]
            if not matching:
                near = _closest_glob(glob, places) or aside(glob, places) or _nearest(glob, places)
                problems.append(f"`{glob}` matches no path{near}")
            for i in matching:
                texts[i] = text
        return texts
    try:
        return jax.tree.structure(tree, is_leaf=is_tensor).flatten_up_to(names)
    except ValueError as error:
        axes = ' A tuple or a text names the axes of one array: ("batch", "embed").' if isinstance(names, list) else ""
        globs = next((f' Write names by glob, {{"{p}": "{_example(leaf)}"}}' for p, leaf in leaves if p), "")
        problems.append(
            f"the names have another tree than the arrays ({str(error).rstrip('.')}).{axes}{globs}".rstrip(".")
        )
        return [None] * len(leaves)


def _closest_glob(glob: str, places: Sequence[str]) -> str:
    """Suggests the glob that was probably meant: the same one, with an end or a beginning of paths added."""
    ends = dict.fromkeys("/" + place.rpartition("/")[2] for place in places)
    tried = (*(glob + end for end in ends), f"{glob}/*", f"*/{glob}", *(f"*/{glob}{end}" for end in ends))
    match = next((t for t in tried if any(matches(place, t) for place in places)), None)
    return f" (Did you mean `{match}`?)" if match else ""


def _kinds(places: Sequence[str]) -> list[str]:
    """Returns the paths, those that differ in a number alone as one glob: `block*/attention/query`."""
    same = Counter(_NUMBER.sub("*", place) for place in places)
    kinds = (kind if same[kind := _NUMBER.sub("*", place)] > 1 else place for place in places)
    return list(dict.fromkeys(kinds))


def _nearest(glob: str, places: Sequence[str]) -> str:
    """Says which paths there are: the nearest, where there are many."""
    kinds = _kinds(places)
    if len(kinds) <= _NEAREST:
        return f": the paths are {listed(kinds)}"
    likeness = {kind: difflib.SequenceMatcher(None, glob[:_COMPARED], kind[:_COMPARED]).ratio() for kind in kinds}
    return f": the nearest paths are {listed(sorted(kinds, key=lambda kind: -likeness[kind])[:_NEAREST])}"


def _axes(text: Any, place: str, leaf: Any, problems: list[str]) -> tuple[AxisName, ...]:
    where = f"`{place}`" if place else "the array"
    if isinstance(leaf, Tensor | NamedArray):
        has = leaf.names if isinstance(leaf, NamedArray) else names_of(leaf.dims)
        problems.append(f"{where} has names already: {' '.join(str(name or '_') for name in has)}")
        return ()
    if not is_array(leaf):
        problems.append(f"{where} is {shown(leaf)} ({type(leaf).__name__}), which is not an array")
        return ()
    shape = tuple(getattr(leaf, "shape", ()))
    if not isinstance(text, str | tuple):
        problems.append(
            f"{where} is given {shown(text)} ({type(text).__name__}); names are a text with one name for each axis, "
            f'"{_example(leaf)}", say'
        )
        return (None,) * len(shape)
    words = list(text) if isinstance(text, tuple) else _WORDS.findall(text)
    if words[:1] == ["..."]:
        words = ["_"] * (len(shape) - len(words) + 1) + words[1:]
    if len(words) != len(shape):
        counted = f"{len(words)} name" + ("s" if len(words) != 1 else "")
        problems.append(f"{where} has shape {shape}, for which {shown(text)} has {counted}{_misread(text, words)}")
        return (None,) * len(shape)
    axes = tuple(_axis(word, size, where, problems) for word, size in zip(words, shape, strict=True))
    flat = [n for name in axes if name for n in str(name).split("*")]
    twice = sorted({n for n in flat if flat.count(n) > 1})
    problems += [
        f'{where} has the dim `{n}` twice: for a square weight, leave one axis unnamed: "{n} _"' for n in twice
    ]
    return axes


def _example(leaf: Any) -> str:
    """Returns names for the axes of an array, for a message to propose."""
    rank = len(getattr(leaf, "shape", ()))
    return " ".join(["batch", "seq", "embed"][:rank] if rank < 4 else ["...", "batch"])


def _misread(text: Any, words: Sequence[Any]) -> str:
    """Returns the likely reason why a text has another number of names than was meant, for the end of a message."""
    if not isinstance(text, str):
        return ""
    fixes = []
    if "," in text:
        apart = " ".join(text.replace(",", " ").split())
        fixes.append(f'; separate names with spaces only: "{apart}"')
    if any(word.count("(") != word.count(")") for word in words):
        fixes.append('; a bracket is open: one axis of two dims is "(heads head)"')
    if "..." in words[1:]:
        fixes.append("; `...` may only come first")
    return "".join(fixes)


def _axis(word: Any, size: int, where: str, problems: list[str]) -> AxisName:
    """Returns the name of one axis, given by a dim, which brings its size, or by a word."""
    if isinstance(word, Dim):
        if word.size != size:
            problems.append(f"{where} is given the dim {word} for an axis of size {size}")
        return word.name
    if word is None or word == "_":
        return None
    if not isinstance(word, str):
        problems.append(f"{where} is given {shown(word)} for a name; give a dim, its name, or None")
        return None
    merged = word.startswith("(") and word.endswith(")")
    parts = [_PART.fullmatch(part) for part in (word[1:-1] if merged else word).split()]
    names = [part[1] for part in parts if part]
    sound = all(parts) and (len(parts) > 1 if merged else len(parts) == 1 and "=" not in word)
    if not sound or not all(map(is_name, names)):
        fix = f"; {NAME_RULE}" if sound and not set(word) & set("(),") else ""
        fix = "; separate names with spaces only" if "," in word else fix
        problems.append(
            f'{where} is given {shown(word)}, which is neither a name, "_", "..." in front, nor "(heads head)"{fix}'
        )
        return None
    pairs = tuple((part[1], int(part[2]) if part[2] else None) for part in parts if part)
    problems += [f"{where} is given {name}=0 in {word!r}; a size must be at least 1" for name, n in pairs if n == 0]
    sizes = [n for _, n in pairs]
    if merged and 0 not in sizes and (wrong := _wrong(sizes, size)):
        problems.append(_description(Merged(pairs), sizes, size, where) + wrong)
    return Merged(pairs) if merged else pairs[0][0]
