"""The table of techniques, as the sections of docs/techniques.md: every number from a formula, which a plan equals."""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Iterator

import meshlab as ml

from . import accumulated, activations, combined, data_parallel, model_parallel, pipelined
from .compiled import section
from .technique import Step, Technique, Term, evaluated

ROWS: tuple[Technique, ...] = (
    *model_parallel.MESH_TENSORFLOW,
    *activations.SPACE,
    *activations.EXPERTS,
    *data_parallel.ROWS,
    *model_parallel.MEGATRON_LM,
    *model_parallel.T5X_AND_GSPMD,
    *activations.SEQUENCES,
    *combined.ROWS,
    *activations.TABLES,
    *accumulated.ROWS,
    *pipelined.ROWS,
)


def page() -> str:
    """Returns the whole table: all techniques in brief, sizes, and each technique by itself."""
    parts = [*_brief(), "", "## Sizes", "", *_sizes()]
    for row in ROWS:
        parts += ["", *_technique(row)]
    return "\n".join([*parts, "", *section(ROWS)])


def _brief() -> Iterator[str]:
    yield "| technique | collectives of a step | a device sends | there | here |"
    yield "| --- | --- | ---: | --- | --- |"
    for row in ROWS:
        collectives = "<br>".join(
            f"{times:,} {kind} over `{'+'.join(axes)}`" for (kind, axes), (times, _) in row.sent("large").items()
        )
        collectives = collectives or "none"
        cells = f"[{row.name}](#{anchor(row.name)})", collectives, sent(row), row.there, row.here
        yield f"| {' | '.join(cells)} |"


def anchor(name: str) -> str:
    """Returns the anchor of a heading."""
    return "".join(c for c in name.lower().replace(" ", "-") if c.isalnum() or c == "-")


def sent(row: Technique) -> str:
    """Returns how many gigabytes a device sends."""
    return f"{row.plan('large').wire_bytes / 1e9:,.3f} GB"


def steps() -> tuple[Step, ...]:
    """Returns what is trained, each once."""
    return tuple(dict.fromkeys(row.step for row in ROWS))


def _sizes() -> Iterator[str]:
    yield "| trained | of the page | compiled and run | compiled for accelerators | `n` devices, and |"
    yield "| --- | --- | --- | --- | --- |"
    for step in steps():
        sizes = (" ".join(f"{k}={v:,}" for k, v in _fields(step.sizes[size])) for size in ("large", "small", "middle"))
        defined = "<br>".join(f"`{name} = {formula}`" for name, formula in step.defined.items())
        yield f"| {step.name} | {' | '.join(sizes)} | {defined} |"


def _fields(sizes: object) -> Iterator[tuple[str, int]]:
    for field in dataclasses.fields(sizes):  # pyright: ignore[reportArgumentType]
        value = getattr(sizes, field.name)
        if not isinstance(value, bool):
            yield field.name, value


def _technique(row: Technique) -> Iterator[str]:
    layout = row.plan("large").layout
    names = row.step.names(row.mesh, "large")
    counted, _ = row.ring_bytes("large")
    yield f"## {row.name}"
    yield ""
    yield _paragraph(f"A {row.step.name}, on {row.mesh}. Sources: {', '.join(f'<{url}>' for url in row.sources)}.")
    yield ""
    yield from (_paragraph(f"*There:* {row.there} *Here:* {row.here} {row.remark}".rstrip()), "")
    yield from ("```python", *_code(row.written, layout), "```", "")
    if not row.terms:
        yield "No device sends anything."
        return
    yield "| sent | collective | over | times | bytes of the operands on a device |"
    yield "| --- | --- | --- | --- | --- |"
    yield from (_line(term, names) for term in row.terms)
    yield ""
    if defined := [f"`{name} = {formula}`" for name, formula in _defined(row)]:
        yield from (_paragraph(f"Here {', '.join(defined)}."), "")
    yield _paragraph(
        f"In all a device of a ring sends `{row.law}` = {round(counted):,} bytes"
        f"{', and what is in italics.' if any(term.beside for term in row.terms) else '.'}"
    )
    if row.bubble:
        yield ""
        yield _paragraph(
            f"The bubble is `{row.bubble}` = {evaluated(row.bubble, names):.3f} of a stage's working time. In lockstep"
            f" it is `{row.lockstep}` = {evaluated(row.lockstep, names):.3f}, if a backward cell takes as long as two"
            " forward cells."
        )


def _defined(row: Technique) -> Iterator[tuple[str, str]]:
    """Yields what the formulas of a technique call by a name, in the order in which it is defined."""
    waiting, used = [row.law, *(text for term in row.terms for text in (term.times, term.total))], set[str]()
    while waiting:
        names = {node.id for node in ast.walk(ast.parse(waiting.pop())) if isinstance(node, ast.Name)} - used
        used |= names
        waiting += [row.step.defined[name] for name in names if name in row.step.defined]
    yield from ((name, formula) for name, formula in row.step.defined.items() if name in used)


def _code(written: str, layout: ml.Layout) -> Iterator[str]:
    """Yields the layout as it is written, and where a preset wrote it what that is."""
    yield from textwrap.wrap(written, 116, break_long_words=False, break_on_hyphens=False)
    if "ml.layouts" in written:
        yield from textwrap.wrap(str(layout), 116, break_on_hyphens=False, initial_indent="# ", subsequent_indent="# ")


def _line(term: Term, names: dict[str, int]) -> str:
    what = f"*{term.what}*" if term.beside else term.what
    times, total = evaluated(term.times, names), evaluated(term.total, names)
    many = f"`{term.times}` = {times:,}" if term.times != str(times) else f"{times:,}"
    count = f"`{term.total}` = {round(total):,}" if term.total != str(total) else f"{total:,}"
    return f"| {what} | {term.kind} | {term.axes} | {many} | {count} |"


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
