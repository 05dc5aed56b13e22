"""Context parallelism and hybrid sharding as layouts: what they are, what they send, and why they are refused."""

from collections import Counter

import pytest

import meshlab as ml
from meshlab.models.zoo import models

MODELS = {model.name: model for model in models()}
MESH = ml.mesh(data=2, context=4)


@pytest.fixture(scope="module")
def program():
    return MODELS["transformer_sgd"].trace()


def counted(plan):
    counts = Counter()
    for c in plan.collectives:
        counts[c.kind, "+".join(c.axes)] += c.times
    return counts


def test_keys_and_values_are_gathered_and_their_gradients_scattered(program):
    layout = ml.layouts.context_parallel(program, MESH)
    assert layout.to_dict() == {"seq": "context"}
    plan = program.plan(MESH, layout)
    counts = counted(plan)
    layers = program.dims["layers"]
    assert counts["all-gather", "context"] == 4 * layers  # forward, and again where the layer is rematerialised
    assert counts["reduce-scatter", "context"] == 2 * layers
    assert plan.check().ok


def test_ulysses_exchanges_heads_for_the_sequence(program):
    layout = ml.layouts.context_parallel(program, MESH, kind="ulysses")
    assert layout.to_dict() == {"seq": "context", "@core": {"heads": "context", "seq": None}}
    plan = program.plan(MESH, layout & ml.layouts.data_parallel(program, MESH))
    counts = counted(plan)
    assert counts["all-to-all", "context"] == 12 * program.dims["layers"]
    assert not any(kind == "all-gather" for kind, _ in counts)
    assert plan.check().ok


def test_what_a_program_has_not_got_is_said(program):
    def refused(match, **options):
        with pytest.raises(ml.LayoutError, match=match):
            ml.layouts.context_parallel(program, MESH, **options)

    refused("kind='ulyses'; it knows `gather`, `ulysses`. Did you mean `ulysses`?", kind="ulyses")
    refused(r"No operation is in a scope `@cor`; .* `@core`.*named_scope", kind="ulysses", core="@cor")
    refused("'hades' is no dim of this program. Did you mean `heads`", kind="ulysses", heads="hades")
    refused("No dim in `@lookup` is called `heads`", kind="ulysses", core="@lookup")
    refused("'tokens' is no dim", seq="tokens")
    decoding = MODELS["decoding"].trace()
    with pytest.raises(ml.LayoutError, match=r"(?s)No dim called `seq`, .* fits `context`.*may be on `context`"):
        ml.layouts.context_parallel(decoding, MESH)


def test_hybrid_sharding_gathers_and_scatters_within_a_group(program):
    mesh = ml.mesh(replica=2, data=4)
    layout = ml.layouts.hsdp(program, mesh)
    assert layout.rules["batch"] == ("replica", "data")
    assert {axes for rules in layout.places.values() for axes in rules.values()} == {("data",)}
    plan = program.plan(mesh, layout)
    counts = counted(plan)
    assert counts["reduce-scatter", "data"] > 0
    assert counts["reduce-scatter", "data"] <= counts["all-reduce", "replica"]
    assert {axes for kind, axes in counts if kind == "all-gather"} == {"data"}
    # What goes from group to group is a shard of each gradient.
    whole = sum(c.payload_bytes * c.times for c in plan.collectives if c.kind == "reduce-scatter")
    across = sum(c.payload_bytes * c.times for c in plan.collectives if c.axes == ("replica",))
    assert across == whole // 4
    assert plan.check().ok
    with pytest.raises(ml.LayoutError, match="`data` is the axis of the shards and of their copies"):
        ml.layouts.hsdp(program, mesh, replica="data")
    with pytest.raises(ml.LayoutError, match="None of the mesh's axes is called `replica`, `pod`"):
        ml.layouts.hsdp(program, ml.mesh(data=2, model=4))
