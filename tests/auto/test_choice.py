"""`ml.auto.layout`: what it returns, what it refuses, and that nothing is returned which its plan does not confirm."""

from __future__ import annotations

import dataclasses
import os
import tempfile

import pytest

import meshlab as ml
from meshlab.auto.additive import ilp
from meshlab.auto.additive.solution import Solution
from meshlab.auto.brute_force import planned_layouts
from meshlab.auto.objective import OBJECTIVES, additive
from tests.auto.programs import MODELS, traced

pytestmark = pytest.mark.share(2, of="file")

MESH = ml.mesh(data=2, model=2)


def least_live(program, mesh, pin, forbid):
    return planned_layouts(program, mesh, "live", pin, forbid)[0].value


@pytest.mark.share(24)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("objective", ["traffic", "live"])
def test_the_proof_is_about_the_plan(name, objective):
    choice = ml.auto.layout(traced(name), MESH, objective=objective)
    proof = choice.proof
    assert choice.plan.layout == choice.layout
    assert proof.objective == objective
    assert proof.bound <= proof.value * (1 + 1e-6)
    assert proof.gap == pytest.approx(max(0.0, 1 - proof.bound / proof.value) if proof.value else 0.0, abs=1e-6)
    assert proof.gap <= (0.01 if objective == "traffic" else 0)
    if objective == "traffic":
        assert proof.value == choice.plan.wire_bytes
    assert proof.layouts >= 4
    assert proof.seconds > 0
    assert ("branch and bound" if objective == "traffic" else "CBC") in proof.method


def test_proof_in_words():
    proof = ml.auto.layout(traced("block"), MESH, exact=True).proof
    text = str(dataclasses.replace(proof, method="hand", seconds=0.25, plans=7, ties=(ml.Layout(),) * 3))
    assert text.startswith(
        "A device sends 28,676 bytes: no gap, 3 more within 0.5% (hand, 0.25 s, 7 plans). Searched: 121 ways to compute"
        " with at most 2 mesh axes for each dim; parameters and optimizer state split along one set of dims besides; "
    )
    assert text.endswith(
        "single changes of the answer, presets among them. Not searched: rules in scopes; two or more arrays each"
        " stored in its own way; rings; outputs stored differently from the arguments that they become."
    )
    loose = str(dataclasses.replace(proof, bound=proof.value / 2, gap=0.5, made=("`embed` whole",)))
    assert "bytes: lower bound 14,338 bytes, gap 50%" in loose
    assert "plans; the best layout of the space was changed: `embed` whole). " in loose
    choice = ml.auto.layout(traced("block"), ml.mesh(model=4), objective="live")
    assert "Searched: 11 layouts, at most one mesh axis for each dim, as Mesh TensorFlow's. Not" in str(choice)
    assert str(choice).startswith("batch:model: A device holds ")
    assert "<code>batch:model</code>" in choice._repr_html_()


def test_equal_layouts_are_settled_by_order():
    # The mesh axes are of one size: data, the last argument's dim, comes to lie on the first.
    for objective in ("traffic", "live"):
        choice = ml.auto.layout(traced("block"), ml.mesh(x=2, y=2), objective=objective)
        assert str(choice.layout) == "batch:x d_ff:y heads:y"


@pytest.mark.parametrize("axes", [{}, {"data": 1}, {"data": 3}], ids=str)
def test_a_mesh_that_nothing_fits_on(axes):
    for objective in ("traffic", "live"):
        choice = ml.auto.layout(traced("block"), ml.mesh(**axes), objective=objective)
        assert (choice.layout, choice.proof.layouts) == (ml.Layout(), 1)
        assert str(choice).startswith("nothing sharded: ")


@pytest.mark.share(6)
@pytest.mark.parametrize("objective", ["traffic", "live"])
@pytest.mark.parametrize(
    ("pin", "forbid"),
    [
        ("batch:data", None),
        ({"batch": "model"}, "heads:data"),
        ({"batch": None}, None),
        ({"batch": ()}, {"d_model": ("data", "model")}),
        (None, "batch:data+model"),
        ("batch:data wood?:data", "heads?:data wood?:iron"),
    ],
)
def test_what_is_pinned_and_forbidden(pin, forbid, objective):
    program = traced("block")
    choice = ml.auto.layout(program, MESH, objective=objective, pin=pin, forbid=forbid, exact=True)
    free = ml.auto.layout(program, MESH, objective=objective, exact=True)
    assert choice.proof.layouts < free.proof.layouts
    assert choice.proof.value >= free.proof.value
    if objective == "live":
        assert choice.proof.value == pytest.approx(least_live(program, MESH, pin, forbid))
    rules = choice.layout.rules
    for dim, axes in ml.Layout.of(pin).dim_rules if pin else ():
        assert dim.endswith("?") or rules[dim] == axes
    for dim, axes in ml.Layout.of(forbid).dim_rules if forbid else ():
        assert not set(rules.get(dim, ())) & set(axes)
    assert not isinstance(pin, dict) or all(dim not in rules for dim, axes in pin.items() if not axes)


@pytest.mark.parametrize("name", ["mlp", "mlp_sgd", "two_layer"])
def test_whatever_is_pinned_alone(name):
    """What may not stand beside a pin is no part of any layout that is tried."""
    program = traced(name)
    refusals = program.refusals(MESH)
    pins = [f"{dim}:data" for dim, axes in refusals.items() if axes["data"] is None]
    assert len(pins) > 2
    for pin in pins:
        choice = ml.auto.layout(program, MESH, objective="live", pin=pin)
        assert choice.proof.value == pytest.approx(least_live(program, MESH, pin, None)), pin
        sent = ml.auto.layout(program, MESH, pin=pin)
        assert ":".join((pin.split(":")[0], *sent.layout.rules[pin.split(":")[0]])) == pin


def test_a_pin_to_an_axis_of_one_device_is_kept():
    choice = ml.auto.layout(traced("two_layer"), ml.mesh(one=1, data=2), pin="hidden:one")
    assert str(choice.layout) == "hidden:one io:data"


def test_unknown_objective():
    with pytest.raises(
        ml.MeshlabError,
        match=r"objective 'trafic'; the objectives are `time`, `memory`, `traffic`, `live`. Did you mean `traffic`\?",
    ):
        ml.auto.layout(traced("block"), MESH, objective="trafic")


def test_arguments_of_other_types():
    with pytest.raises(
        ml.MeshlabError, match=r"^ml.auto.layout\(\) was given .* for its program; write ml.auto.layout\("
    ):
        ml.auto.layout(MESH, traced("block"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.MeshlabError, match=r"for its mesh; write ml.auto.layout\(program"):
        ml.auto.layout(traced("block"), {"data": 2})  # pyright: ignore[reportArgumentType]


def test_invalid_constraints_are_refused_together():
    with pytest.raises(
        ml.LayoutError, match=r"^ml.auto.layout\(\) cannot search with pin=\{'bach': .* and forbid='length"
    ) as error:
        ml.auto.layout(
            traced("block"),
            MESH,
            pin={
                "bach": "data",
                "heads": "modal",
                "length": ("data", "model"),
                "kv": None,
                "params/*": {"d_ff": "data"},
            },
            forbid="length:data d_kw:model sky:data batch:north",
            objective="live",
        )
    text = str(error.value)
    for problem in (
        "pin: `bach` is not a dim of this program. Did you mean `batch`?",
        "pin: `heads:modal`: the mesh has no axis `modal`. Did you mean `model`?",
        'pin: `length` is pinned to several axes; the search puts a dim on one axis: write pin="length:data"',
        "pin: `kv` is not a dim of this program. Did you mean `d_kv`?",
        "pin: 'params/*' is a place; rules at places are not part of the search: leave it out; to pin it, plan with"
        " {**choice.layout.to_dict(), 'params/*': {'d_ff': ('data',)}}",
        "forbid: `d_kw` is not a dim of this program. Did you mean `d_kv`?",
        "forbid: `sky` is not a dim of this program. Its dims are `d_model`, ",
        "forbid: `batch:north`: the mesh has no axis `north`. Its axes are `data`, `model`.",
        "`length:data` is both pinned and forbidden",
    ):
        assert problem in text


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        ("batch:data length:data", r"with pin='batch:data length:data' and .*:\n  1. pin: .* cannot both be on `data`"),
        ("heads:eight", "`heads` has size 4, which 8 .* does not divide"),
        (3, r"cannot search with pin=3 and forbid=None:\n  1. pin: A layout was given as int: 3. Write"),
        ({"batch": {"x": "data"}}, r"1. pin: `batch` is a dim, so give it an axis: 'batch': 'data'$"),
        ({"batch": {"x": "north"}}, r"1. pin: `batch` is a dim, so give it an axis: 'batch': 'data'$"),
        ({"params/*": {"x": "data"}}, r"1. pin: 'params/\*' is a place; .* leave it out$"),
        ({"@core": {"x": "data"}}, r"1. pin: '@core' is a scope; rules in scopes are not part of .* leave it out$"),
    ],
)
def test_pins_that_no_legal_layout_has(pin, reason):
    with pytest.raises(ml.LayoutError, match=reason):
        ml.auto.layout(traced("block"), ml.mesh(data=2, eight=8), objective="live", pin=pin)


@pytest.mark.parametrize("options", [3, "attention", {3: 4}, ["prefetch"]])
def test_options_are_a_dict(options):
    with pytest.raises(ml.HardwareError, match=r"ml.auto.layout\(\) was given options=.*; they are a dict: options="):
        ml.auto.layout(traced("block"), MESH, options=options)


def test_what_is_no_layout_is_refused_in_both():
    with pytest.raises(ml.LayoutError, match=r"1. pin: A layout was given as set: .*\n  2. forbid: .* given as list"):
        ml.auto.layout(traced("block"), MESH, pin={"batch"}, forbid=["batch"])  # type: ignore[arg-type]


def test_a_scanned_dim_cannot_be_pinned():
    with pytest.raises(ml.LayoutError, match="`layers` is the dim of a scan"):
        ml.auto.layout(traced("transformer"), MESH, pin="layers:data")
    assert "layers" not in ml.auto.layout(traced("transformer"), MESH).layout.rules


def test_what_the_solver_did_not_prove_is_not_returned(monkeypatch):
    monkeypatch.setattr(ilp, "solve", lambda *program: ("Not Solved", []))
    with pytest.raises(
        ml.MeshlabError, match=r"asked for the best of 93 layouts and has proved none \(it says 'Not Solved'\)"
    ):
        ml.auto.layout(traced("block"), MESH, objective="live")


def fail(monkeypatch, name, **changes):
    """Lets the solver of an objective say something else than it has found."""
    objective = OBJECTIVES[name]

    def answer(asked):
        assert objective.answer is not None
        found = objective.answer(asked)
        return dataclasses.replace(found, **{name: change(found) for name, change in changes.items()})

    monkeypatch.setitem(OBJECTIVES, name, dataclasses.replace(objective, answer=answer))


def test_what_the_plan_does_not_confirm_is_not_returned(monkeypatch):
    fail(monkeypatch, "live", value=lambda solution: solution.value + 4)
    with pytest.raises(ml.MeshlabError, match="for its live of .* bytes, but its plan has"):
        ml.auto.layout(traced("block"), MESH, objective="live")


def test_work_that_the_plan_does_not_confirm_is_not_returned(monkeypatch):
    fail(monkeypatch, "live", most_work=lambda solution: 1.0)
    with pytest.raises(ml.MeshlabError, match="multiply-adds on a device, but its plan does"):
        ml.auto.layout(traced("block"), MESH, objective="live")


def test_an_objective_is_one_object(monkeypatch):
    """What is listed is searched, proved, gone through by brute force and compared, with no other change."""
    arguments = dataclasses.replace(
        OBJECTIVES["live"],
        name="whole",
        quantity="whole_dims",
        title="dims that are whole",
        verb="leaves",
        text=lambda cost: f"{cost:,.0f} dims whole",
        of_plan=lambda plan, _: len(plan.program.dims) - len(plan.layout.rules),
        answer=additive(
            lambda program, mesh, space, watch: Solution(
                frozenset({("batch", "data"), ("heads", "model")}), len(program.dims) - 2, 0, "hand"
            )
        ),
    )
    monkeypatch.setitem(OBJECTIVES, "whole", arguments)
    choice = ml.auto.layout(traced("block"), MESH, objective="whole")
    dims = len(traced("block").dims)
    assert f"A device leaves {dims - 2} dims whole: " in str(choice.proof)
    assert planned_layouts(traced("block"), MESH, "whole")[0].value < dims - 2
    comparison = choice.compare()
    assert ("dims that are whole", f"{dims} dims whole", f"{dims - 2} dims whole") in comparison.lines()
    assert comparison.to_dict()["rows"][1]["whole_dims"] == dims - 2


def test_the_solver_leaves_no_files(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ml.auto.layout(traced("block"), MESH, objective="live")
    assert os.listdir(tmp_path) == []
