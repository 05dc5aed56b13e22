"""The section of docs/auto.md beside XLA's auto-sharding: the journal's lines, priced by today's predictions.

Three tables. How long both searched. What their layouts take by `plan.time`, XLA's computed in the fastest way that
stores all as it does. And what the TPU compiler made of both: its own cycles, at the clock at which the machine's
FLOP/s are reached, and its collectives, in seconds of `ml.collective_time`, as if none were hidden.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import meshlab as ml
from benchmarks.pages import Section
from benchmarks.xla_auto.answers import Line, seconds_of
from benchmarks.xla_auto.environment import PACKAGES
from benchmarks.xla_auto.questions import GIBIBYTES, MACHINE, PROGRAMS, Question, questions
from meshlab.cost.machines.units import bytes_text, seconds_text

SECTION = Section("xla")
# A v5e multiplies and adds in four units of 128 x 128, once a cycle.
_FLOPS_A_CYCLE = 2 * 4 * 128**2
# Collectives whose operand is a part of the array that `ml.collective_time` asks for.
_PARTS = ("all-gather", "all-to-all", "collective-permute")
_HEADS = "| program | mesh | cap |"

ByQuestion = Mapping[Question, Mapping[str, Line]]


@dataclasses.dataclass(frozen=True)
class Account:
    """What the compiler says of a program.

    Attributes:
        computing: seconds of its cycles.
        sending: seconds of its collectives.
        peak: bytes of one device.
    """

    computing: float
    sending: float
    peak: int


@dataclasses.dataclass(frozen=True)
class Row:
    """A question and its answers; what there is none of is None.

    Attributes:
        question: the question.
        xla: XLA's line.
        auto: Auto's.
        once: seconds of XLA's layout as it answers it.
        repeated: seconds of it with parameters stored alike before and after.
        found: seconds of Auto's layout.
        unsaid: why XLA's layout has no seconds; "" if it has.
        compiled: what the compiler says of XLA's program, and of Auto's.
    """

    question: Question
    xla: Line
    auto: Line
    once: float | None
    repeated: float | None
    found: float | None
    unsaid: str
    compiled: tuple[Account | None, Account | None]

    @property
    def ratio(self) -> float:
        """How many times as long XLA's pass took as Auto's proof, or at least took."""
        return self.xla["seconds"] / self.auto["seconds"]

    def compared(self, which: str) -> float | None:
        """How many times as long as Auto's XLA's layout takes, `once` or `repeated`; None without both."""
        theirs = getattr(self, which)
        return theirs / self.found if theirs and self.found else None

    @property
    def compiled_slower(self) -> float | None:
        """How many times as long as Auto's plan XLA's program takes, by the compiler's account; None without both."""
        theirs, ours = (account and account.computing + account.sending for account in self.compiled)
        return theirs / ours if theirs and ours else None

    @property
    def started(self) -> str:
        """The first cells of its row."""
        own = f"its own, {bytes_text(self.xla['budget'])}"
        return f"| {self.question.program} | {self.question.mesh} | {own if self.question.own else self.question.cap} |"


def by_question(lines: Sequence[Line]) -> dict[Question, dict[str, Line]]:
    """Sorts the journal's lines by their questions."""
    found: dict[Question, dict[str, Line]] = {}
    for line in lines:
        question = Question(line["program"], line["mesh"], line["cap"])
        found.setdefault(question, {})[line["kind"]] = line
    return found


def rows(lines: ByQuestion) -> list[Row]:
    """Prices the answers to each question that has all of them."""
    return [_row(q, lines[q]) for q in questions() if {"xla", "auto", "said"} <= set(lines.get(q, ()))]


def _row(question: Question, lines: Mapping[str, Line]) -> Row:
    xla, auto, said = lines["xla"], lines["auto"], lines["said"]
    program, mesh = question.traced(), question.placed
    layouts = (said.get("once"), said.get("repeated"), auto.get("rules"))
    once, repeated, found = (None if each is None else seconds_of(program, mesh, each) for each in layouts)
    compiled = _account(xla, mesh), _account(auto, mesh)
    return Row(question, xla, auto, once, repeated, found, said.get("unsaid", ""), compiled)


def _account(line: Line, mesh: ml.Mesh) -> Account | None:
    if "cycles" not in line:
        return None
    assert mesh.on is not None, "it is made on a machine"
    clock = mesh.on.hardware.rate("bf16").value / _FLOPS_A_CYCLE
    return Account(line["cycles"] / clock, sending(line["collectives"], mesh), line["peak"])


def sending(collectives: Iterable[Sequence[Any]], mesh: ml.Mesh) -> float:
    """Adds up the seconds of compiled collectives: of each its kind, its axes, the bytes of its operand, its times."""
    seconds = 0.0
    for kind, axes, payload, times in collectives:
        parts = math.prod(mesh.axes[axis] for axis in axes) if kind in _PARTS else 1
        seconds += times * ml.collective_time(kind, payload * parts, mesh, tuple(axes))
    return seconds


# The page


def page(lines: ByQuestion) -> str:
    """Writes the section."""
    every = rows(lines)
    parts = (_opening(), _words(every), _searches(every), _layouts(every), _compiled(every))
    return "\n\n".join("\n".join(part) for part in parts)


def _opening() -> Iterator[str]:
    versions = ", ".join(package.replace("==", " ") for package in PACKAGES)
    yield from _text(
        "XLA has a pass with the same aim, `jax.experimental.pjit.AUTO`, which JAX 0.10.0 has and 0.10.2 has not: an"
        " integer program over the shardings of every operation, for one mesh axis and then for one more, that"
        f" minimises bytes sent. Both were asked for the same functions on {MACHINE}, without a TPU ({versions};"
        " without Shardy, with which the pass leaves arguments whole), under one cap for both:"
        f" {GIBIBYTES} GiB, which does not bind, and XLA's own default, 1.1 times the least that it thinks possible."
        " `python -m benchmarks.xla_auto` makes the environment, asks, and writes this."
    )
    yield ""
    yield from (f"- *{name}*: {make.__doc__}" for name, make in PROGRAMS.items())


def _words(every: Sequence[Row]) -> Iterator[str]:
    unanswered = sum(not row.xla["ended"] for row in every)
    once, repeated = ([row.compared(which) for row in every] for which in ("once", "repeated"))
    compiled = [row.compiled_slower for row in every]
    slower = [each > 1 for each in compiled if each is not None]
    yield from _text(
        f"XLA's pass took {_range(row.ratio for row in every)} times the processor seconds of Auto's proof,"
        f" {_range(map(_by_clock, every))} times as long by the clock of two cores where it ended, and had no answer to"
        f" {unanswered} of {len(every)} questions when its time was over. By `plan.time` its layout takes"
        f" {_range(once)} times as long as Auto's as it answers, which may leave a gather to the next step, and"
        f" {_range(repeated)} times where steps are repeated; Auto's is within 1 % of the best that it searches, and"
        f" XLA stores each array as it likes. By the compiler's account the program that XLA makes takes"
        f" {_range(compiled)} times as long, and is the slower one in {sum(slower)} of {len(slower)}: the pass counts"
        " bytes, not work, and with memory to spare has devices do the same work. Where it is faster, it computes one"
        " product along one dim and the next along another, on the same axis; a layout gives a dim its axes for the"
        " whole program, or a scope. The perceptron's peaks are above XLA's cap for both: a compiler's peak counts"
        " copies in on-chip memory, where most of so small a program is."
    )


def _clock(xla: Any) -> float:
    """The seconds by the clock in which XLA solved all stages, from its log."""
    return sum(stage["seconds"] for stage in xla["stages"])


def _by_clock(row: Row) -> float | None:
    """How many times as long XLA's pass took as Auto's proof, by the clock; None where it was ended."""
    return _clock(row.xla) / row.auto["seconds"] if row.xla["ended"] else None


def _range(ratios: Iterable[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio is not None]
    return " to ".join(f"{each:.2f}" if each < 9.995 else f"{each:.0f}" for each in (min(known), max(known)))


def _searches(every: Sequence[Row]) -> Iterator[str]:
    yield from _text(
        "Seconds of processors: XLA's pass without compiling, `ml.auto.layout` to a layout within 1 % of its answer,"
        " and to the proof. XLA's solver runs on several threads: beside, its seconds by the clock of two cores, from"
        " its log. Auto runs on one."
    )
    yield ""
    yield f"{_HEADS} XLA's pass | by the clock | Auto: good | Auto: proved | XLA ÷ Auto |"
    yield "|---|---|---|" + "---:|" * 5
    for row in every:
        xla, auto = row.xla, row.auto
        if xla["ended"]:
            clock = _clock(xla)
            told, ratio = f"{xla['seconds']:.2f} s | {clock:.2f} s", f"{row.ratio:.0f}"
        else:
            told, ratio = f"ended after {xla['seconds']:.0f} s | –", f"> {row.ratio:.0f}"
        yield f"{row.started} {told} | {auto['found']:.2f} s | {auto['seconds']:.2f} s | {ratio} |"


def _layouts(every: Sequence[Row]) -> Iterator[str]:
    yield from _text(
        "What the layouts take by `plan.time`, with the scores of attention stored, as XLA does. XLA says how arguments"
        " and outputs are stored, not where it computes: its layout has the fastest way to compute that Auto knows."
        " *Once* is as it answers. It may return parameters otherwise than it takes them; *repeated* stores them alike,"
        " in the better of both ways."
    )
    yield ""
    yield f"{_HEADS} XLA's, once | XLA's, repeated | Auto's | Auto's layout |"
    yield "|---|---|---|" + "---:|" * 3 + "---|"
    for row in every:
        cells = ["–" if each is None else seconds_text(each) for each in (row.once, row.repeated, row.found)]
        yield f"{row.started} {' | '.join(cells)} | `{ml.Layout.of(row.auto['rules'])}` |"
    reasons = dict.fromkeys(row.unsaid for row in every if row.unsaid)
    yield from (f"\n–: {reason}." for reason in reasons)


def _compiled(every: Sequence[Row]) -> Iterator[str]:
    yield from _text(
        "And what the TPU compiler made of both: XLA's own program, and Auto's plan. *Computing* is the compiler's"
        " cycles, at the clock at which a v5e has its FLOP/s; *sending* its collectives at the machine's links, none of"
        " them hidden. Nothing is donated."
    )
    yield ""
    yield f"{_HEADS} XLA's: computing | sending | peak | Auto's: computing | sending | peak |"
    yield "|---|---|---|" + "---:|" * 6
    for row in every:
        cells = [text for account in row.compiled for text in _told(account)]
        yield f"{row.started} {' | '.join(cells)} |"


def _told(account: Account | None) -> list[str]:
    if account is None:
        return ["–"] * 3
    return [seconds_text(account.computing), seconds_text(account.sending), bytes_text(account.peak)]


def _text(words: str) -> Iterator[str]:
    yield from textwrap.wrap(words, 120, break_on_hyphens=False, break_long_words=False)
