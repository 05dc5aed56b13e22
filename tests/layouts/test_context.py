"""Context parallelism and hybrid sharding as layouts: what they are, what they send, and why they are refused."""

import ast
import re
from collections import Counter

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.models.zoo import imported_models, models

pytestmark = pytest.mark.share(2, of="file")

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

    refused("kind='ulyses'; it knows `gather`, `ulysses`, `ring`, `usp`. Did you mean `ulysses`?", kind="ulyses")
    refused(r"No operation is in a scope `@cor`; .* `@core`.*named_scope", kind="ulysses", core="@cor")
    refused("'hades' is not a dim of this program. Did you mean `heads`", kind="ulysses", heads="hades")
    refused("No dim in `@lookup` is called `heads`", kind="ulysses", core="@lookup")
    refused("'tokens' is not a dim", seq="tokens")
    decoding = MODELS["decoding"].trace()
    with pytest.raises(ml.LayoutError, match=r"(?s)No dim called `seq`, .* fits `context`.*may be on `context`"):
        ml.layouts.context_parallel(decoding, MESH)


def einsum_program(opened, layers=2):
    """Attention in plain JAX, whose keys get a made-up name; `opened` is the scope around scores and mixture."""

    def attention(x, w):
        q, k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in ("query", "key", "value"))
        with jax.named_scope(opened):
            scores = jnp.einsum("bshd,bthd->bhst", q, k)
            mixed = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)
        return jnp.einsum("bshd,hde->bse", mixed, w["out"])

    def loss(params, x):
        for w in params:
            with jax.named_scope("attention"):
                x = x + attention(x, w)
        return jnp.square(x).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    inwards = dict.fromkeys(("query", "key", "value"), array(32, 4, 8))
    arrays = [inwards | {"out": array(4, 8, 32)} for _ in range(layers)]
    names = {"*": "embed heads head", "*/out": "heads head embed"}
    return ml.trace(step, ml.named(arrays, names), ml.named(array(8, 16, 32), "batch seq embed"))


def named_keys(program):
    return program.rename({name: "kv" for name in program.made_up if name.startswith("~seq")})


def test_keys_that_are_renamed_are_split_outside_of_the_core():
    made_up = einsum_program("core")
    named = named_keys(made_up)
    layout = ml.layouts.context_parallel(named, MESH, kind="ulysses")
    inside = {"heads": "context", "kv": None, "seq": None}
    assert layout.to_dict() == {"kv": "context", "seq": "context", "@core": inside}
    plan = named.plan(MESH, layout)
    counts = counted(plan)
    assert counts["all-to-all", "context"] == 8 * 2
    assert not counts["all-gather", "context"]
    assert plan.check().ok
    # A made-up name cannot be in a rule: the preset leaves it out, and gradients of keys and values are gathered.
    without = ml.layouts.context_parallel(made_up, MESH, kind="ulysses")
    assert without.to_dict() == {"seq": "context", "@core": {"heads": "context", "seq": None}}
    # Of the first layer's no gradient goes further back.
    assert counted(made_up.plan(MESH, without))["all-gather", "context"] == 2


def test_gradients_of_keys_that_are_renamed_are_scattered():
    program = named_keys(einsum_program("core"))
    layout = ml.layouts.context_parallel(program, MESH)
    assert layout.to_dict() == {"kv": "context", "seq": "context", "@core": {"kv": None}}
    counts = counted(program.plan(MESH, layout))
    assert counts["all-gather", "context"] == counts["reduce-scatter", "context"] == 2 * 2


def test_without_a_core_keys_are_split_where_they_are_projected():
    model = next(model for model in imported_models() if model.name == "linen_encoder")
    program = model.trace().rename({"~seq_2": "kv"})
    layout = ml.layouts.context_parallel(program, MESH)
    assert layout.to_dict() == {"seq": "context", "@key": {"kv": "context"}, "@value": {"kv": "context"}}
    plan = program.plan(MESH, layout)
    assert counted(plan)["reduce-scatter", "context"] == 2 * 2
    assert plan.check().ok


def test_rules_for_keys_that_would_not_be_legal_are_left_out():
    """Nothing tells scores and projections apart in `plain_gpt`: its softmax is in no scope, and neither are they."""
    model = next(model for model in imported_models() if model.name == "plain_gpt")
    program = named_keys(model.trace())
    assert ml.layouts.context_parallel(program, MESH).to_dict() == {"seq": "context"}


def test_a_scope_of_a_core_begins_with_an_at():
    def refused(match, **options):
        with pytest.raises(ml.LayoutError, match=match) as caught:
            ml.layouts.context_parallel(einsum_program("core"), MESH, kind="ulysses", **options)
        assert "No dim called" not in str(caught.value)

    refused(r"core='core' is not a scope: a scope begins with `@`. Write core=\"@core\"", core="core")
    refused(r"core='cor' is not a scope: .* Write core=\"@…\"; the program's scopes are `@attention`", core="cor")
    refused(r"core=3 is not a scope", core=3)


def test_projections_are_no_part_of_the_core():
    def refused(program, match, **options):
        with pytest.raises(ml.LayoutError, match=match) as caught:
            ml.layouts.context_parallel(program, MESH, kind="ulysses", **options)
        return str(caught.value)

    match = r"`@attention` holds projections, .* gather whole sequences. Take core=\"@core\"."
    text = refused(einsum_program("core"), match, core="@attention")
    assert text.count("`dot_general` at") == 2, "one of each scope: those in, and the one out"
    nothing_else = r"holds projections.* Open a scope around only the scores, the softmax and the second matmul"
    refused(einsum_program("mixing"), nothing_else, core="@bse,ehd->bshd")


def test_of_a_module_with_projections_the_layout_is_written_by_hand():
    program = next(model for model in imported_models() if model.name == "linen_encoder").trace()
    with pytest.raises(ml.LayoutError, match=r"First program = program.rename\(.*Write it by hand: \{") as caught:
        ml.layouts.context_parallel(program, MESH, kind="ulysses", core="@MultiHeadDotProductAttention_0")
    names, layout = re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", str(caught.value))
    named = program.rename(ast.literal_eval(names))
    plan = named.plan(MESH, ast.literal_eval(layout))
    counts = counted(plan)
    assert counts["all-to-all", "context"] >= 8 * 2
    assert counts["all-gather", "context"] < counted(program.plan(MESH, "seq:context"))["all-gather", "context"]
    assert plan.check().ok


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
    with pytest.raises(ml.LayoutError, match="`data` is the axis of both the shards and their copies"):
        ml.layouts.hsdp(program, mesh, replica="data")
    with pytest.raises(ml.LayoutError, match="None of its other axes is called `replica`, `replicas`, `pod`"):
        ml.layouts.hsdp(program, ml.mesh(data=2, model=4))


def attending(heads=True):
    Batch, Seq, Heads, Depth = ml.dims(batch=2, seq=32, heads=4, depth=8)

    def step(q, k, v):
        def loss(q, k, v):
            with jax.named_scope("core"):
                out = ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=True)
            return (out**2).sum()

        return jax.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)

    dims = (Batch, Seq, *((Heads,) if heads else ()), Depth)
    return ml.trace(step, ml.f32[dims], ml.f32[dims], ml.f32[dims])


def test_a_ring_has_queries_and_keys_on_its_axis():
    program = attending()
    layout = ml.layouts.context_parallel(program, MESH, kind="ring")
    assert layout.to_dict() == {"seq": "context", "kv": "context"}
    plan = program.plan(MESH, layout)
    assert counted(plan)["collective-permute", "context"] == 6 * 4 - 4
    assert plan.check().ok


def test_usp_has_a_ring_over_one_axis_and_heads_over_another():
    program, mesh = attending(), ml.mesh(ring=4, ulysses=2)
    layout = ml.layouts.context_parallel(program, mesh, kind="usp", context=("ring", "ulysses"))
    both, core = ["ring", "ulysses"], {"seq": "ring", "kv": "ring", "heads": "ulysses"}
    assert layout.to_dict() == {"seq": both, "kv": both, "@core": core}
    counts = counted(program.plan(mesh, layout))
    assert counts["all-to-all", "ulysses"] == 8
    assert counts["collective-permute", "ring"] == 20


def test_a_ring_of_a_model_without_the_operation(program):
    layout = ml.layouts.context_parallel(program, MESH, kind="ring")
    assert layout.to_dict() == {"seq": "context", "kv": "context"}
    # Of each layer: forward, again, and the backward pass.
    assert counted(program.plan(MESH, layout))["collective-permute", "context"] % (8 * 4 - 6) == 0


def test_usp_finds_its_axes_by_their_names():
    program, many = attending(), ml.mesh(data=2, ring=2, ulysses=2)
    given = ml.layouts.context_parallel(program, many, kind="usp", context=("ring", "ulysses"))
    assert ml.layouts.context_parallel(program, many, kind="usp") == given
    with pytest.raises(ml.LayoutError, match="two mesh axes.*was given `context`.*`ring` and `ulysses`"):
        ml.layouts.context_parallel(program, ml.mesh(data=2, context=2, model=2), kind="usp")
    # A ring and Ulysses by themselves are on the axis of their name.
    alone = ml.layouts.context_parallel(program, ml.mesh(data=2, ring=2), kind="ring")
    assert alone == ml.layouts.context_parallel(program, ml.mesh(data=2, ring=2), kind="ring", context="ring")


def test_what_a_ring_needs_is_said():
    def refused(match, program, mesh=MESH, **options):
        with pytest.raises(ml.LayoutError, match=match):
            ml.layouts.context_parallel(program, mesh, **options)

    gemma = MODELS["gemma"].trace()
    refused(r"for attention as one operation, and this program has none\..*ml\.attention\(q, k, v", gemma, kind="ring")
    refused(r"No queries of attention .*seq=\"seq\"", attending(), kind="ring", seq="depth")
    refused("It takes two mesh axes", attending(), kind="usp", context="context")
    both = ml.mesh(ring=4, ulysses=2)
    refused(r"No dim in `@core` is called", attending(heads=False), both, kind="usp", context=("ring", "ulysses"))


def test_heads_that_do_not_divide_are_named():
    def core(q, k, v):
        with jax.named_scope("core"):
            return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv")

    array = ml.f32[tuple(ml.dims(seq=64, heads=4, head=8))]
    program = ml.trace(core, array, array, array)
    with pytest.raises(ml.LayoutError, match="`heads` has size 4, which 8 .*Sizes that fit: 8") as caught:
        ml.layouts.context_parallel(program, ml.mesh(context=8), kind="ulysses")
    assert "No dim called" not in str(caught.value)
