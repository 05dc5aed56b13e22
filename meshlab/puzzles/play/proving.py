"""Proves that a puzzle is one, for who writes it and for CI: its answer passes, wrong tries fail, few layouts pass."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence

from ...engine.errors import LayoutError, MeshlabError
from ...engine.specs.layout import Layout
from .setting import Setting

# How many layouts are planned at most to count those that pass.
_MOST = 900
# How many may pass where the answer is one of dims alone.
FEW = 3
# How many wrong tries a puzzle has at least.
WRONG = 2
# Readers for whose sizes it is proved too.
READERS = ("ada", "ben", "eve")


@dataclasses.dataclass(frozen=True)
class Proof:
    """What is proved of a puzzle; true where nothing is wrong with it.

    Attributes:
        name: the puzzle's.
        problems: what is wrong with it.
        passing: the layouts that pass, of those that were tried.
        tried: how many were tried: all that put each mesh axis on few dims; the answer and the wrong tries alone where
            the answer has rules of places or scopes.
        seconds: that it took.
    """

    name: str
    problems: tuple[str, ...]
    passing: tuple[str, ...]
    tried: int
    seconds: float

    def __bool__(self):
        return not self.problems

    def __repr__(self):
        found = f"{len(self.passing)} of {self.tried} layouts pass: {', '.join(self.passing) or 'none'}"
        head = f"{self.name}: {'proved' if not self.problems else 'not a puzzle yet'} in {self.seconds:.2f} s"
        return "\n".join([head, *(f"  ✗ {problem}" for problem in self.problems), f"  {found}"])


def prove(setting: Setting) -> Proof:
    """Proves that a puzzle is one, or says in `problems` why not."""
    begun, answer = time.perf_counter(), Layout.of(setting.answer)
    problems = list(_problems(setting))
    of_dims = not answer.places and not answer.scopes
    layouts = list(_layouts(setting)) if of_dims else [Layout.of(each) for each in (setting.answer, *setting.wrong)]
    layouts = layouts if not problems else []
    tried, passing = len(layouts), [str(layout) for layout in layouts if _passes(setting, layout)]
    if len(passing) > FEW:
        problems.append(f"{len(passing)} layouts pass, more than {FEW}: the goal is too loose.")
    return Proof(setting.name, tuple(problems), tuple(passing), tried, time.perf_counter() - begun)


def _problems(setting: Setting) -> Iterator[str]:
    try:
        setting.goal_of(setting.program).refuse(setting.program, setting.mesh)
        verdict = setting.verdict(setting.answer)
        number = setting.number
    except MeshlabError as error:
        yield f"Its answer, its question or its goal does not fit: {error}"
        return
    if not verdict.met:
        yield f"The answer misses the goal: {verdict}"
    if number is not None and not abs(number) < float("inf"):
        yield f"The number that is asked for is {number}."
    if len(setting.wrong) < WRONG:
        yield f"It has {len(setting.wrong)} wrong tries, and needs {WRONG}: which wrong layouts would people try?"
    for layout in setting.wrong:
        yield from _wrong(setting, layout)
    for dim in setting.drawn:
        if dim not in setting.program.dims:
            yield f"`{dim}` is in `drawn`, but is not a dim of the program."
            return
    yield from _drawn(setting)


def _drawn(setting: Setting) -> Iterator[str]:
    """What is wrong with it for readers, at the sizes that their names draw."""
    for reader in READERS if setting.drawn else ():
        theirs = dataclasses.replace(setting, reader=reader)
        try:
            verdict = theirs.verdict(theirs.answer)
            passing = [given for given in theirs.wrong if _passes(theirs, Layout.of(given))]
        except MeshlabError as error:
            yield f"At the sizes drawn for a reader, `{reader}`, it does not fit: {error}"
            return
        if not verdict.met:
            yield (
                f"At the sizes drawn for a reader, `{reader}`, the answer misses the goal: {verdict}. If bounds depend"
                " on sizes, make `goal` a function: lambda program: ml.goal(sends=4 * program.dims[…])."
            )
            return
        yield from (
            f"At the sizes drawn for a reader, `{reader}`, the wrong try {given!r} passes." for given in passing
        )


def _wrong(setting: Setting, given: object) -> Iterator[str]:
    """What is wrong with a wrong try: it is not legal, it passes, or there is no hint of why it fails."""
    try:
        layout = Layout.of(given)  # pyright: ignore[reportArgumentType]
        verdict = setting.verdict(layout)
    except LayoutError as error:
        yield f"The wrong try {given!r} is not legal: {error}"
        return
    if verdict.met:
        yield f"The wrong try {given!r} passes."
    elif not any(each.because or each.value for each in verdict.each if not each.met):
        yield f"The wrong try {given!r} fails without a known reason."


def _passes(setting: Setting, layout: Layout) -> bool:
    try:
        return setting.verdict(layout).met
    except LayoutError:
        return False


def _layouts(setting: Setting) -> Iterator[Layout]:
    """Yields layouts: each mesh axis on no dim, one or two; on one alone where those are too many."""
    axes = [axis for axis, size in setting.mesh.axes.items() if size > 1]
    dims = list(setting.program.dims)
    few: list[Sequence[str]] = [(), *((dim,) for dim in dims)]
    many = [*few, *itertools.combinations(dims, 2)]
    choices = many if len(many) ** len(axes) <= _MOST else few
    for chosen in itertools.islice(itertools.product(choices, repeat=len(axes)), _MOST):
        rules: dict[str, list[str]] = {}
        for axis, on in zip(axes, chosen, strict=True):
            for dim in on:
                rules.setdefault(dim, []).append(axis)
        yield Layout.of({dim: tuple(row) for dim, row in rules.items()})
