"""Several programs of which one will do: what memory allows is chosen, and proved over all of them."""

from __future__ import annotations

import jax
import pytest

import meshlab as ml
from tests.auto.best_first.programs import grown

pytestmark = pytest.mark.share(2, of="file")

Batch, Embed, Ffn, Layers = ml.dims(batch=16_384, embed=4096, ffn=16_384, layers=8)
MESH = ml.mesh("v5p:2x2x2", data=4, model=2)


def step_of(recomputes: bool) -> ml.Program:
    def layer(x, w):
        return ml.dot(ml.relu(ml.dot(x, w["up"], Embed)), w["down"], Ffn), None

    def loss(params, x):
        once = ml.checkpoint(layer) if recomputes else layer
        return ml.square(ml.scan(once, x, params, Layers)[0]).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    return ml.trace(step, {"up": ml.f32[Layers, Embed, Ffn], "down": ml.f32[Layers, Ffn, Embed]}, ml.f32[Batch, Embed])


PROGRAMS = {"kept": step_of(False), "recomputed": step_of(True)}


def test_layers_are_recomputed_only_where_memory_binds() -> None:
    each = {name: ml.auto.layout(program, MESH, exact=True) for name, program in PROGRAMS.items()}
    assert each["kept"].proof.value < each["recomputed"].proof.value
    free = ml.auto.layout(PROGRAMS, MESH, exact=True)
    assert (free.name, free.proof.value) == ("kept", each["kept"].proof.value)
    assert free.plan.program is PROGRAMS["kept"]
    assert "; `recomputed`, at least " in free.proof.searched
    peak = {name: ml.auto.layout(p, MESH, objective="memory", exact=True).proof.value for name, p in PROGRAMS.items()}
    assert peak["recomputed"] < peak["kept"]
    less = (peak["kept"] - 1) / MESH.on.hardware.memory_bytes
    with pytest.raises(ml.auto.NothingFits):
        ml.auto.layout(PROGRAMS["kept"], MESH, memory=less)
    tight = ml.auto.layout(PROGRAMS, MESH, memory=less, exact=True)
    assert tight.name == "recomputed"
    assert tight.proof.value == ml.auto.layout(PROGRAMS["recomputed"], MESH, memory=less, exact=True).proof.value
    smallest = ml.auto.layout(PROGRAMS, MESH, objective="memory", exact=True)
    assert (smallest.name, smallest.proof.value) == ("recomputed", peak["recomputed"])


def test_progress_never_gets_worse() -> None:
    heard = []
    ml.auto.layout(PROGRAMS, MESH, progress=heard.append)
    values = [found.value for found in heard]
    assert values == sorted(values, reverse=True)
    assert all(found.plan is not None for found in heard)
    # Nothing is proved of both while one waits.
    assert heard[0].bound == 0
    assert 0 < heard[-1].bound <= heard[-1].value


def test_of_almost_equal_programs_the_first_will_do_unless_the_very_best_is_asked_for() -> None:
    program = grown("mlp_adamw").resize(batch=65_536)
    programs = {"more": program.resize(batch=65_544), "less": program}
    more, less = (ml.auto.layout(each, MESH, exact=True).proof.value for each in programs.values())
    assert less < more < 1.005 * less
    assert ml.auto.layout(programs, MESH).name == "more"
    best = ml.auto.layout(programs, MESH, exact=True)
    assert (best.name, best.proof.value, best.proof.gap) == ("less", less, 0)


def test_what_is_no_choice_of_programs() -> None:
    with pytest.raises(ml.MeshlabError, match=r"was given 3 for its program; write .* or several by name"):
        ml.auto.layout({"one": PROGRAMS["kept"], "two": 3}, MESH)  # type: ignore[dict-item]
    with pytest.raises(ml.MeshlabError, match=r"was given \{\} for its program"):
        ml.auto.layout({}, MESH)
    with pytest.raises(ml.MeshlabError, match='was given 2 programs for the objective "traffic"; several are compared'):
        ml.auto.layout(PROGRAMS, MESH, objective="traffic")
    with pytest.raises(ml.LayoutError, match="`bach` is not a dim of this program"):
        ml.auto.layout(PROGRAMS, MESH, pin="bach:data")
