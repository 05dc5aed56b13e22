"""What is handed in wrong to costs and to the Explorer is refused at the border, and changes nothing."""

import re

import numpy as np
import pytest

from tests.given import MESH, PROGRAM, ml, refused

intents = ml.widgets.documents.intents
ON_TPU = PROGRAM.plan(ml.mesh("v5e:2x2", data=2, model=2), "batch:data")
SWITCH = ml.Switch.of(8, egress=2e11)
FIGURES = {"flops": {"bf16": 4e14}, "memory": 64e9, "bandwidth": 2e12, "network": SWITCH}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ml.sweep(ON_TPU, batch=[[8], [16, 32]]),
            r"`batch` was given \[\[8\], \[16, 32\]\]. Give positive integers",
        ),
        (lambda: ml.sweep(ON_TPU, batch=[8, True]), r"`batch` was given \[8, True\]"),
        (
            lambda: ml.crossover(ON_TPU, ON_TPU, ["batch"], 1, 9),
            r"dim must be given by its name, .*, not \['batch'\]",
        ),
        (
            lambda: ml.crossover(ON_TPU, ON_TPU, "batch", 1, 10**400),
            "`low` and `high` must be numbers, 0 < low < high, not 1 and",
        ),
        (
            lambda: ml.crossover(ON_TPU, ON_TPU, "batch", 1, 9, of=["lower"]),
            r"A time has no figure \['lower'\]. There are",
        ),
        (
            lambda: ml.lay(ON_TPU.mesh, data=(0, 0)),
            r"`data` must be placed along one of the axes `0`, `1` of a slice of Google TPU v5e",
        ),
        (
            lambda: ml.collective_time("all-gather", 1, ON_TPU.mesh, []),
            r"`axes` must be the name of a mesh axis, or several, \(\"data\", \"model\"\), not \[\]",
        ),
        (
            lambda: ml.collective_time("all-gather", 1, ON_TPU.mesh, {"data"}),
            r"`axes` must be the name of a mesh axis, .*, not \{'data'\}",
        ),
        (lambda: ml.Hardware.of("mine", **FIGURES, errors=3), "`errors` must give relative errors by kind, .*, not 3"),
        (lambda: ml.Switch(8, *[ml.Figure(1.0)] * 3, protocols="LL"), "`protocols` must be an ml.Protocols, not 'LL'"),
        (
            lambda: ml.Figure(1, 3),
            r"source must be a text and `verified` True or False, not 3 and True: ml.F",
        ),
        (
            lambda: ml.compile_for(ON_TPU, timeout=float("nan")),
            "timeout must be a number of .* given nan",
        ),
        (
            lambda: ml.compile_for(ON_TPU, progress=3),
            "compile_for's progress was given 3 for its function; write progress=pri",
        ),
        (lambda: ml.compile_for(ON_TPU, cancel=3), "cancel=3; it must be a threading.Event or similar"),
        (lambda: ml.compile_for(ON_TPU, donate="yes"), "compile_for was given donate='yes'; it must be True or False"),
        (lambda: ml.simulate(np.ones(2, int)), "ml.simulate was given an array of shape"),
        (lambda: ml.explore(3, MESH), r"was given 3 for its program; write ml.explore\(ml.trace\(fn, ...\), mesh\)"),
        (lambda: ml.explore(MESH, PROGRAM), "for its program; .* The program comes first"),
        (
            lambda: ml.explore(PROGRAM, 3),
            r"was given 3 for its mesh; write ml.explore\(program, ml.mesh\(data=2\)\)",
        ),
        (lambda: ml.explore(PROGRAM, MESH, run=3), r"run was given 3; it must be a training: run=ml.Training\("),
        (lambda: ml.Training(3), "Training was given start=3; it must be a dict"),
        (lambda: ml.Training({}, steps=1.5), "Training was given steps=1.5; it must be an integer, at least 1"),
        (
            lambda: ml.explore(PROGRAM, MESH).place("batch", 3),
            "was given 3 for a mesh axis; write their names one by one",
        ),
        (
            lambda: ml.explore(PROGRAM, MESH).place(3, "data"),
            "The Explorer was given 3 for a dim; give a dim or its name",
        ),
        (lambda: ml.explore(PROGRAM, MESH).place("batch", "data", at=3), "given the place 3; it must be a text"),
        (
            lambda: ml.explore(PROGRAM, MESH).remove(ml.Dim("batch", 9)),
            '`batch` has size 8 .* as a dim of size 9. Name it "batch", or trace the program at that size',
        ),
        (lambda: ml.explore(PROGRAM, MESH).select(3), r"select\(\) was given 3; it must be a place"),
        (lambda: ml.explore(PROGRAM, MESH).known(3), "was given 3 for a machine; .* ml.Hardware.of"),
        (
            lambda: ml.explore(PROGRAM, MESH).subscribe(3),
            r"subscribe\(\) was given 3 for its function; write explorer.subs",
        ),
        (
            lambda: ml.Explorer.from_json("{}", max),
            r"^Explorer.from_json\(\) was given <built-in .* for its program; write Explorer.from_json\(text, ml.tr",
        ),
        (lambda: ml.Explorer.from_json(PROGRAM, "{}"), r"was given '\{\}' for its program; .* The text comes first"),
        (
            lambda: ml.Explorer.from_json(None, PROGRAM),
            r"Invalid document of the Explorer: it is not JSON \(.*\). Use the text from `explorer.to_json\(\)`",
        ),
        (lambda: ml.explore(PROGRAM, MESH).plan_at(3), r"plan_at\(\) was given 3; it must be a document: explorer.doc"),
        (lambda: ON_TPU.memory.at(3), r"plan.memory.at\(\) must be given a scenario, not 3; .* is ml.sweep\(plan"),
        (
            lambda: ON_TPU.mesh.on.describe("dta"),
            "There is no mesh axis 'dta'. Did you mean `data`.* There are `data`, `mo",
        ),
        (
            lambda: ml.Training({}, batches=lambda x: 3),
            r"a function of \(x\), and calls it with 0 arguments: write bat",
        ),
        (
            lambda: ml.auto.layout(PROGRAM, MESH, pin="batch:data+model", objective="live"),
            r'the search puts a dim on one axis: write pin="batch:data"$',
        ),
        (lambda: ml.Explorer.from_json("{}", PROGRAM, machines=["v5e"]), "was given 'v5e' for a machine"),
    ],
)
def test_what_costs_and_the_explorer_refuse(call, message):
    refused(call, ml.MeshlabError, message)


@pytest.mark.parametrize(
    ("intent", "reason", "fix"),
    [
        (intents.Auto("trafic"), r"A search for 'trafic' was asked for. Did you mean `traffic`\?$", "Ask for one of "),
        (intents.Auto(3), "A search for 3 was asked for", "Ask for one of `time`, `memory`, `traffic`, `live`."),
        (
            intents.On(None, {"model": 0}),
            "placement of `model` was asked for, and no machine. Name one, as",
            "",
        ),
        (intents.On("v5e", 5), r'placements of mesh axes: 5; they must be placements by mesh axis: {"model": 0}', ""),
        (intents.On("v5e", (("a",),)), r"placements of mesh axes: \(\('a',\),\); they must be", ""),
        (intents.On(3), "A mesh must be placed on a machine's name, such as `v5e:4x4`, or a Hardware, not 3", ""),
        (
            intents.On(ml.Hardware.of("mine", **FIGURES)),
            "On was given mine itself; it must be a name. Write expl",
            "",
        ),
        (intents.On("v5e", {"tensor": 0}), "the mesh has no axis `tensor`; it has `data`, `model`", ""),
        (intents.On("v5e:2x2", {"data": 0, "model": 0}), "does not fit along axis `0` of the slice 2x2", ""),
        (intents.On("v5e:2x2", {"data": 1, "model": 1}), "does not fit along axis `1`", ""),
        (intents.Lay({"modell": None}), "no axis `modell`. Did you mean `model`. It has `data`, `model`", ""),
        (intents.Lay({"modell": 0}), r"no axis `modell` \(Did you mean `model`\?\); it has `data`, `model`", ""),
        (intents.Lay(5), "Invalid placements of mesh axes: 5; they must be placements", ""),
    ],
)
def test_intents_that_cannot_be_are_answered(intent, reason, fix):
    explorer = ml.explore(PROGRAM, ON_TPU.mesh)
    answer = explorer.apply(intent)
    assert not answer
    assert re.search(reason, answer.reason)
    assert answer.fix == fix or (fix and answer.fix.startswith(fix))
    assert (explorer.revision, explorer.searches.last) == (0, None)


def test_what_an_intent_says_in_another_spelling_is_read():
    explorer = ml.explore(PROGRAM, ON_TPU.mesh)
    assert explorer.apply(intents.Load("batch:data"))
    assert explorer.place("hidden", "model")
    assert str(explorer.layout) == "batch:data hidden:model"
    assert explorer.apply(intents.Lay({"model": 0}))
    assert explorer.document.machine.along == (("model", 0),)


def test_rules_that_are_not_there_are_not_removed():
    answer = ml.explore(PROGRAM, MESH).remove("batch", at="parms/*")
    assert not answer
    assert "There are no rules at `parms/*`. Did you mean " in answer.reason
    assert ml.explore(PROGRAM, MESH).remove("batch", at="q").reason == "There are no rules at `q`. No place has any."
    explorer = ml.explore(PROGRAM, MESH, {"params/*": {"embed": "model"}})
    assert explorer.remove("batch", at="q").reason == "There are no rules at `q`. There are rules at `params/*`."
    assert "`parms/*`. Did you mean `params/*`" in explorer.remove("embed", at="parms/*").reason
    assert explorer.remove("q").reason == "There is no dim `q`. There are `embed`, `hidden`, `batch`."
    assert explorer.remove("bach").reason == "There is no dim `bach`. Did you mean `batch`?"


def own(name="h100", **more):
    return ml.Hardware.of(name, **(FIGURES | more))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: own(flops={}), ml.HardwareError, r"`flops` is empty; give FLOP/s by dtype, {\"bf16\": 4e14}"),
        (
            lambda: own("my machine:1"),
            ml.HardwareError,
            "`name` must not have a `:`, behind which a mesh has the shape of its slice",
        ),
        (
            lambda: ml.Efficiency.of(matmul=1.2),
            ml.HardwareError,
            "Invalid efficiency: `matmul` must be a share .*, not 1.2",
        ),
        (lambda: ml.sweep(ON_TPU, batch=[8, 8]), ml.HardwareError, r"\[8, 8\], in which a size appears twice"),
        (lambda: ml.sweep(ON_TPU, on=["v5e", "v5e"]), ml.HardwareError, "in which a machine appears twice"),
        (lambda: ml.mesh("v5e:4x4"), ml.MeshError, r"no axes; name them: ml.mesh\('v5e:4x4', data=16\)"),
        (
            lambda: ml.mesh(on=2),
            ml.MeshError,
            r"given 2 without a name. Each mesh axis has one: write ml.mesh\(data=2\)",
        ),
        (
            lambda: ml.collective_time("all-gather", 1, ON_TPU.mesh, "data+model"),
            ml.HardwareError,
            r"`axes` must be written \(\"data\", \"model\"\), not",
        ),
        (lambda: ml.auto.layout(PROGRAM, MESH, cancel=True), ml.MeshlabError, "cancel=True; give a threading.Event"),
        (
            lambda: ml.auto.layout(PROGRAM, ml.mesh(data=3), pin="batch:data"),
            ml.LayoutError,
            r"Sizes that fit: 6 or 9\.$",
        ),
        (lambda: ml.explore(PROGRAM, MESH).apply("place batch"), ml.MeshlabError, r"write explorer.place\(dim, axes\)"),
        (
            lambda: ml.explore(PROGRAM, MESH).apply(intents.Place),
            ml.MeshlabError,
            r"apply\(\) was given the class Place for an intent; write explorer.apply\(Place\(dim, axes\)\)\.$",
        ),
        (
            lambda: ml.explore(PROGRAM, MESH).apply(ml.Layout.of("batch:data")),
            ml.MeshlabError,
            r"explorer.load\(layout\)",
        ),
        (lambda: ml.explore(PROGRAM, MESH).what_if(3), ml.MeshlabError, "was given 3 for an intent; write explorer.pl"),
        (
            lambda: ml.explore(PROGRAM, MESH).view(wait="no"),
            ml.MeshlabError,
            r"view\(\) was given wait='no'; it must be True or False",
        ),
        (
            lambda: ml.explore(PROGRAM, MESH).apply(None),
            ml.MeshlabError,
            r"given None for an intent; write explorer.place",
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_fix(call, error, message):
    refused(call, error, message)


def test_a_rule_that_is_not_there_is_not_removed():
    explorer = ml.explore(PROGRAM, MESH, "batch:data")
    assert explorer.remove("embed").reason == "`embed` has no rule to remove: only rules at places shard it."
    explorer.place("embed", "model", at="params/*")
    assert explorer.remove("batch", at="params/*").reason == "`batch` has no rule at `params/*` to remove."
    assert explorer.remove("embed", at="params/*")
    assert explorer.remove("batch")
    assert explorer.place("batch")
    assert explorer.place("batch", "data")


def test_the_explorer_does_not_advise_to_pad():
    assert ml.explore(PROGRAM, ml.mesh(data=3)).place("batch", "data").fix == "Sizes that fit: 6 or 9."


def test_ones_own_machine_has_not_the_error_of_another_of_its_name():
    plan = PROGRAM.plan(ml.mesh(own(flops={"f32": 1e14}), data=2), "batch:data")
    assert dict(plan.time.rows())["accuracy"].startswith("Not measured for this h100 yet")
    there = PROGRAM.plan(ml.mesh("h100", data=2), "batch:data")
    assert not dict(there.time.rows())["accuracy"].startswith("Not measured")


def test_attention_that_is_not_there_is_said():
    rows = dict(ON_TPU.time.given(attention="flash").rows())
    assert rows["attention"] == "none in this program: `flash` has no effect"
    assert "attention" not in dict(ON_TPU.time.rows())
