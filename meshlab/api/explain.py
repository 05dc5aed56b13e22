"""Explains a plan to its user: every collective with its cause, the table, the JSON.

plan.explain()

all-reduce over model · logits [batch classes] · 4,000 B payload, 6,000 B sent · readme.py:7
because  `hidden` is summed while split over `model`.
remedy   Take `hidden` off `model`: then every device adds up the whole sum itself; sends 0 B instead of 6,000 B, …
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..engine.errors import MeshlabError, first_of
from ..engine.planning.shared_steps import counted_only
from ..engine.planning.steps import Compute
from ..engine.plans import turns, work
from ..engine.plans.collective import Collective, wire_bytes_by_axis
from ..engine.plans.remedies import Change, Remedy, sentence
from ..engine.plans.unused_rules import without_effect
from ..engine.plans.wording import quoted
from ..engine.specs.spec import Axes
from ..engine.tables import html_rows, prose, text_rows
from .priced import Plan

# So many different remedies are tried for one text: for each the program is planned, and its peak and time predicted.
_TRIED = 5
# JupyterLab sets HTML six pixels to the left of texts.
_BESIDE_TEXT = "padding-left:6px"
_NOTHING_SENT = "No device sends anything: the plan has no collectives."


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Every collective of a plan with its cause; prints as text.

    Attributes:
        rows: the collectives, in the order of the steps.
        work: what part of the work each device does.
        warnings: loops of unknown length, the line where parallelism is lost, keys of no ring, arguments
            that may be carried and are not, operations that run unsharded because no rule knows them, dims that the
            layout does not reach, rules at tags that have no effect, dims that are padded, and shardings in the
            function itself, which are ignored.
    """

    rows: tuple[Collective, ...]
    work: str
    warnings: tuple[str, ...]

    def __str__(self):
        sent = self._texts() or [_NOTHING_SENT]
        return "\n".join([*sent, *self._left(), self.work, *self.warnings])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        with_remedies = advised(self.rows)
        sent = [_html(row, id(row) in with_remedies) for row in self.rows] or [f"<p>{_NOTHING_SENT}</p>"]
        rest = [f"<p>{prose(text)}</p>" for text in (*self._left(), self.work, *self.warnings)]
        return f'<div style="{_BESIDE_TEXT}">{"".join([*sent, *rest])}</div>'

    def _texts(self) -> list[str]:
        with_remedies = advised(self.rows)
        return [_text(row, id(row) in with_remedies) for row in self.rows]

    def _left(self) -> list[str]:
        """Says how many collectives have remedies that are not tried here."""
        with_remedies = advised(self.rows)
        left = sum(bool(row.proposed) and id(row) not in with_remedies for row in self.rows)
        return (
            [f"Remedies of {left:,} that send less are tried when they are read, as .rows[0].remedies."] if left else []
        )


def advised(rows: Iterable[Collective]) -> frozenset[int]:
    """Returns the identities of the collectives that send most: as many as have few different remedies to try."""
    tried: set[tuple[Change, ...]] = set()
    chosen = []
    for row in sorted(rows, key=lambda c: -c.wire_bytes * c.times):
        more = tried | {remedy.changes for remedy in row.proposed if remedy.changes}
        if len(more) <= _TRIED:
            chosen.append(id(row))
            tried = more
    return frozenset(chosen)


def _html(c: Collective, with_remedies: bool) -> str:
    facts = "".join(f"<br><b>{word.capitalize()}:</b> {prose(text)}" for word, text in _facts(c, with_remedies))
    return f"<p><b>{prose(_head(c))}</b>{facts}</p>"


def _text(c: Collective, with_remedies: bool) -> str:
    return "\n".join([_head(c), *(f"  {word:<7}  {text}" for word, text in _facts(c, with_remedies))])


def _head(c: Collective) -> str:
    times = f" × {c.times}" if c.times > 1 else ""
    return (
        f"{c.kind} over {' and '.join(c.axes)} · {c.value} [{' '.join(c.dims)}] · "
        f"{c.payload_bytes:,} B payload, {c.wire_bytes:,.0f} B sent{times} · {c.source or 'no source line'}"
    )


def _facts(c: Collective, with_remedies: bool) -> list[tuple[str, str]]:
    """Returns what is said of a collective, each fact behind its word."""
    remedies = c.remedies if with_remedies else ()
    told = [("or" if i else "remedy", remedy.sentence) for i, remedy in enumerate(remedies)]
    return [(word, str(text)) for word, text in (("because", c.because), *told, ("chain", c.chain)) if text]


def warnings(plan: Plan) -> tuple[str, ...]:
    """Warns of all that a plan's user should know: see `Explanation.warnings`."""
    uncertain = (f"⚠ {text}" for text in plan.program.uncertain)
    said = (_lost, _gathered_keys, _without_rules, _not_reached, without_effect, _ignored, _padded, _uneven)
    return (*uncertain, *turns.warnings(plan.program), *itertools.chain.from_iterable(each(plan) for each in said))


def _lost(plan: Plan) -> Iterator[str]:
    """Warns of the operation from which on work is whole."""
    if plan.whole_from is not None:
        yield work.warning(plan.work, plan.whole_from)


def _gathered_keys(plan: Plan) -> Iterator[str]:
    """Yields the queries and keys of attention that share mesh axes, and are split in two ways: no ring."""
    met: dict[tuple[str, str], tuple[Axes, Axes]] = {}
    for operation, factors in plan.program.factors.items():
        for pair in factors.exchangeable:
            dims, rules = dict(plan.program.factor_dims[operation]), plan.rules.within(operation.scope)
            query, key = (dims.get(factor, "") for factor in sorted(pair))
            met[query, key] = rules.get(query, ()), rules.get(key, ())
    for (query, key), (one, other) in met.items():
        if one != other and set(one) & set(other):
            yield (
                f"⚠ Attention gathers `{key}`. This is not a ring: `{query}` is split over {quoted(one)}, and `{key}`"
                f" over {quoted(other)}. A ring needs both on the same axes, in the same order."
            )


def _ignored(plan: Plan) -> Iterator[str]:
    """Warns of the shardings that the function itself asks for."""
    if ignored := plan.program.code.ignored:
        yield f"⚠ A plan follows its layout, and ignores shardings in the function: {first_of(ignored)}."


def _padded(plan: Plan) -> Iterator[str]:
    if sizes := padded_sizes(plan):
        text = ", ".join(f"{dim} {plan.program.dims[dim]:,} → {size:,}" for dim, size in sizes.items())
        yield f"padded: {text}, wherever sharded; results are exact."


def _uneven(plan: Plan) -> Iterator[str]:
    """Says which stage has how many layers, where not all have as many: that pads nothing that the user has."""
    for dim, axes in dict.fromkeys(rule for each in plan.rules.every for rule in each.items()):
        if axes and (parts := plan.grid.uneven.get(axes[0])):
            *most, last = (f"{count:,}" for count in parts)
            counts = f"{dim} {plan.program.dims[dim]:,} as {', '.join(most)} and {last}"
            yield f"stages: {counts} over {axes[0]}, each with room for {max(parts):,}."


def padded_sizes(plan: Plan) -> dict[str, int]:
    """Returns the padded size of each dim that some rule shards unevenly, but for the layers of stages (`_uneven`)."""
    borne = {name for names in plan.program.names for name in names}
    sizes: dict[str, int] = {}
    for dim, axes in (rule for each in plan.rules.every for rule in each.items()):
        size = plan.program.dims.get(dim, 0)
        if axes and axes[0] in plan.grid.uneven:
            continue
        if dim in borne and (padded := plan.grid.padded_size(size, axes)) != size:
            sizes[dim] = max(padded, sizes.get(dim, 0))
    return {dim: sizes[dim] for dim in plan.program.dims if dim in sizes}


def _without_rules(plan: Plan) -> tuple[str, ...]:
    """Warns of operations that run unsharded on every device."""
    unknown = {
        (step.operation.name, str(step.operation.source or "an unknown line"))
        for step, _ in counted_only(Compute, plan.planned.steps)
        if not step.known
    }
    return tuple(
        f"⚠ `{name}` at {where} has no rule: its operands are gathered and it runs unsharded on every device."
        for name, where in sorted(unknown)
    )


def _not_reached(plan: Plan) -> Iterator[str]:
    """Warns of merged axes of arguments with a dim that is sharded elsewhere, but not major there, or does not fit."""
    minor: dict[tuple[str, str], list[str]] = {}
    short: dict[str, str] = {}
    compute = plan.rules.compute
    for argument in plan.program.arguments:
        for axis in plan.program.names[argument.value]:
            major = (axis or "").split("*")[0]
            if axis and axis != major and len(compute.get(axis, ())) < len(compute.get(major, ())):
                short.setdefault(axis, argument.place)
            for dim in (axis or "").split("*")[1:]:
                if not set(compute.get(dim, ())) <= set(compute.get(axis or "", ())):
                    minor.setdefault((dim, axis or ""), []).append(argument.place)
    for (dim, axis), places in minor.items():
        more, major = f" and {len(places) - 1} more" if len(places) > 1 else "", axis.split("*")[0]
        yield (
            f"⚠ `{dim}` is not sharded in `{places[0]}`{more}: the axis `{axis}` is split over `{dim}` only where each"
            f" device has one of `{major}`. Give each of its dims an axis, and merge them in the function."
        )
    for axis, place in short.items():
        major = axis.split("*")[0]
        yield (
            f"⚠ The axis `{axis}` of `{place}` is not sharded over all of"
            f" {' and '.join(f'`{a}`' for a in compute[major])}: the devices do not divide `{major}` of"
            f" {plan.program.dims[major]:,}, and merged axes are not padded. Give each of its dims an axis, and merge"
            " them in the function."
        )


def explain(plan: Plan) -> Explanation:
    return Explanation(plan.collectives, work.sentence(plan.work), warnings(plan))


def rows(plan: Plan) -> list[tuple[str, str]]:
    """Lists the plan's table: exact figures by name, then predicted ones, where the mesh is placed on a machine."""
    stored = plan.stored
    lines = [
        ("mesh", str(dataclasses.replace(plan.mesh, on=None))),  # its machine stands with the times
        ("layout", str(plan.layout) or "nothing is sharded"),
        ("work per device", str(plan.work)),
        ("collectives", f"{sum(c.times for c in plan.collectives):,} a step"),
        ("sent per device", f"{plan.wire_bytes:,.0f} B a step"),
    ]
    order = list(plan.mesh.axes)
    by_axis = wire_bytes_by_axis(sorted(plan.collectives, key=lambda c: [order.index(a) for a in c.axes]))
    lines += [(f"  over {axes}", f"{count:,.0f} B") for axes, count in by_axis.items()]
    lines.append(("arguments per device", f"{stored.argument_bytes:,} B"))
    lines.append(("outputs per device", f"{stored.output_bytes:,} B"))
    peak, donated = plan.memory.peak_bytes, plan.memory.donated.peak_bytes
    less = f"; {donated:,} B with carried arguments donated" if donated < peak else ""
    lines.append(("peak memory per device", f"{peak:,} B, predicted{less}"))
    if stages := plan.memory.stages:
        least, most = (of(stages, key=lambda each: each.peak_bytes) for of in (min, max))
        text = (
            f"{most.peak_bytes:,} B on stage {most.stage} (most), {least.peak_bytes:,} B on stage {least.stage} (least)"
        )
        is_even = least.peak_bytes == most.peak_bytes
        lines.append(("  peaks of the stages", f"{most.peak_bytes:,} B on each" if is_even else text))
    if plan.mesh.on is None:
        return lines
    lines.append(("device memory", f"{plan.memory.limit_bytes:,} B: {plan.memory.verdict}"))
    try:
        return lines + plan.time.rows()
    except MeshlabError as error:  # the machine lacks a figure; all else is known without it
        return [*lines, ("estimated step time", f"not predicted: {error}")]


def table(plan: Plan) -> str:
    return "\n".join([text_rows(rows(plan)), *warnings(plan)])


def html_table(plan: Plan) -> str:
    return html_rows(rows(plan)) + "".join(f"<p>{prose(w)}</p>" for w in warnings(plan))


def to_json(plan: Plan) -> str:
    """Writes the plan as JSON: mesh, layout, collectives, memory, and the time where the mesh is on a machine.

    Where the machine lacks a figure, "time" is null and "no_time" says which.
    """
    with_remedies = advised(plan.collectives)
    predicted: dict[str, Any] = {"peak_bytes": plan.memory.peak_bytes, "parts": dict(plan.memory.parts)}
    predicted["peak_because"] = plan.memory.because
    if stages := plan.memory.stages:
        predicted["stages"] = [{"peak_bytes": each.peak_bytes, **dataclasses.asdict(each)} for each in stages]
    if plan.mesh.on is not None:
        predicted |= {"limit_bytes": plan.memory.limit_bytes, "fits": plan.memory.fits}
        try:
            predicted["time"] = plan.time.to_dict()
        except MeshlabError as error:
            predicted |= {"time": None, "no_time": str(error)}
    return json.dumps(
        {
            "schema": 1,
            "mesh": plan.mesh.to_dict(),
            "layout": plan.layout.to_dict(),
            "collectives": [_collective_json(c, id(c) in with_remedies) for c in plan.collectives],
            "wire_bytes": plan.wire_bytes,
            "work": work.to_dict(plan.work, plan.whole_from),
            "memory": dict(plan.stored.parts),
            "padded": padded_sizes(plan),
            "warnings": warnings(plan),
        }
        | predicted,
        indent=2,
    )


def _collective_json(c: Collective, with_remedies: bool) -> dict[str, Any]:
    """Returns a collective as JSON; remedies of those that send most alone, for each is planned."""
    facts = dataclasses.asdict(dataclasses.replace(c, proposed=(), trials=None))
    facts = {name: fact for name, fact in facts.items() if name not in ("proposed", "trials")}
    facts["source"] = str(c.source) if c.source else None
    remedies = c.remedies if with_remedies else ()
    return facts | {"remedies": [_remedy_json(remedy) for remedy in remedies], "remedy": sentence(remedies)}


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    outcome = remedy.outcome
    told = {"sent": outcome.sent, "peak_bytes": outcome.peak, "seconds": outcome.seconds} if outcome else None
    changes = [dataclasses.asdict(change) for change in remedy.changes]
    return {"text": remedy.text, "effect": remedy.effect, "changes": changes, "outcome": told}
