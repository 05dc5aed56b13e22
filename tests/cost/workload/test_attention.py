"""How attention is run where nobody says: fused on GPUs and TPUs, without what a causal mask hides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.step_time.flops import touches_scores
from meshlab.cost.workload.attention import as_run, masked
from meshlab.cost.workload.causal_masks import causal_masks, unmasked
from meshlab.cost.workload.options import Options
from meshlab.engine.attention.scores import attentions, scores_of
from meshlab.models import zoo
from meshlab.models.language import gpt2

MODELS = {model.name: model for model in zoo.models()}
B, H, S, D = ml.dims(batch=4, heads=8, seq=1024, head=64)
KV = ml.Dim("kv", 1024)
ARGUMENTS = [ml.f32[B, H, S, D]] * 3
ONE = 2 * 4 * 8 * 1024 * 1024 * 64  # operations of one matmul with all scores


def attention(mask):
    """Attention whose scores are changed by what `mask` gives of [seq, kv]."""

    def attend(x, y, z):
        scores = mask(ml.dot(x, y.rename(seq="kv"), D))
        return ml.dot(ml.softmax(scores, KV), z.rename(seq="kv"), KV)

    return ml.trace(attend, *ARGUMENTS)


def ordered():
    return ml.arange(S) >= ml.arange(KV)


def plain(change):
    """The same in plain JAX."""

    def attend(x, y, z):
        scores = change(jnp.einsum("bhqd,bhkd->bhqk", x, y))
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), z)

    return ml.trace(attend, *[ml.named(jax.ShapeDtypeStruct((4, 8, 64, 16), jnp.float32), "batch heads seq head")] * 3)


CAUSAL = {
    "a comparison": lambda s: ml.where(ordered(), s, -1e30),
    "the other way round": lambda s: ml.where(ml.arange(KV) <= ml.arange(S), s, -1e30),
    "hidden where not": lambda s: ml.where(ml.arange(KV) > ml.arange(S), -1e30, s),
    "a difference": lambda s: ml.where(ml.arange(S) - ml.arange(KV) >= 0, s, -1e30),
    "positions from a later one": lambda s: ml.where(ml.arange(S) + 3 >= ml.arange(KV) + 3, s, -1e30),
    "added": lambda s: s + ml.where(ordered(), 0.0, -1e30),
}
PLAIN = {
    "tril": lambda s: jnp.where(jnp.tril(jnp.ones((64, 64), bool)), s, -jnp.inf),
    "added finfo": lambda s: (
        s + jnp.where(jnp.arange(64)[:, None] >= jnp.arange(64)[None], 0.0, jnp.finfo("float32").min)
    ),
    "transposed": lambda s: jnp.where((jnp.arange(64)[:, None] < jnp.arange(64)[None]).T, s, -1e10),
    "turned round": lambda s: jnp.where(~(jnp.arange(64)[:, None] >= jnp.arange(64)[None]), -1e10, s),
    "of what counts, too": lambda s: jnp.where(
        jnp.where(jnp.arange(64) < 60, jnp.arange(64)[:, None] >= jnp.arange(64)[None], False), s, -1e10
    ),
    "broadcast": lambda s: jnp.where((jnp.arange(64)[:, None] >= jnp.arange(64))[None, None], s, -1e10),
}
OPEN = {
    "nothing": lambda s: s,
    "a window to both sides": lambda s: ml.where(ml.abs(ml.arange(S) - ml.arange(KV)) < 16, s, -1e30),
    "a bias by position": lambda s: ml.where(ordered(), s, s * 0.5),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_masks_are_found(name):
    program = attention(CAUSAL[name])
    assert causal_masks(program) == {frozenset({"seq", "kv"})}
    assert list(masked(program).values()) == [("seq", "kv")]


@pytest.mark.parametrize("name", PLAIN)
def test_causal_masks_of_plain_jax_are_found(name):
    program = plain(PLAIN[name])
    assert len(attentions(program)) == len(masked(program)) == 1


@pytest.mark.parametrize("name", OPEN)
def test_what_hides_no_half_is_no_causal_mask(name):
    assert causal_masks(attention(OPEN[name])) == frozenset()


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("name", "kinds", "hidden"),
    [
        ("llama_adamw", 1, 1),
        ("gpt2", 1, 1),
        ("moe_sgd", 1, 1),
        ("t5_adafactor", 3, 1),
        ("vit", 1, 0),
        ("decoding", 1, 0),
    ],
)
def test_masks_of_the_zoo(name, kinds, hidden):
    """T5 reads its source without a mask, in the encoder and from the decoder."""
    program = MODELS[name].trace()
    assert (len(attentions(program)), len(masked(program))) == (kinds, hidden)


@pytest.mark.share(3)
@pytest.mark.parametrize("model", zoo.imported_models(), ids=lambda model: model.name)
def test_masks_of_models_that_others_wrote(model):
    """Layers that are written out have a name for the keys each, and one mask."""
    program = model.trace()
    kinds = {"plain_gpt": 2, "equinox_decoder": 2, "linen_encoder": 1, "nnx_mixer": 0}[model.name]
    assert len(attentions(program)) == kinds
    assert len(masked(program)) == (kinds if model.name != "linen_encoder" else 0)


@pytest.mark.parametrize(
    ("machine", "name", "run"),
    [
        ("v5e", "a comparison", "causal"),
        ("h100", "a comparison", "causal"),
        ("h100", "nothing", "flash"),
        ("cpu", "a comparison", "stored"),
    ],
)
def test_it_is_run_as_users_of_the_machine_do(machine, name, run):
    program = attention((CAUSAL | OPEN)[name])
    plan = program.plan(ml.mesh(machine, data=1))
    time, memory = plan.time, plan.memory
    assert time.scenario.attention == memory.attention == run
    assert time.estimate == time.given(attention=run).estimate
    assert memory.peak_bytes == memory.given(run).peak_bytes == memory.given("default").peak_bytes
    assert time.flops == {"causal": ONE, "flash": 2 * ONE, "stored": 2 * ONE}[run]
    said = {"causal": "skips what its causal mask hides", "flash": "stores no scores", "stored": "are stored"}[run]
    assert said in str(time)
    assert ("in a fused kernel" in str(memory)) == (run != "stored")
    assert as_run("default", "gpu", ml.trace(lambda x: x, ml.f32[B]).plan(ml.mesh(data=1))) == "stored"


def test_scores_that_a_collective_sends_are_stored():
    """Split along the head they are partial sums: no kernel holds them back, and what sends them is priced."""
    program = attention(CAUSAL["a comparison"])
    mesh = ml.mesh("h100", model=2)
    plan = program.plan(mesh, "head:model")
    sent = [c for c in plan.collectives if {"seq", "kv"} <= set(c.dims)]
    assert sent
    assert plan.time.scenario.attention == plan.memory.attention == "stored"
    assert plan.time.communication["model"] >= sum(
        c.times * ml.collective_time(c.kind, c.payload_bytes, mesh, c.axes) for c in sent
    )
    assert program.plan(mesh, "heads:model").time.scenario.attention == "causal"


@pytest.mark.parametrize("n", [1, 2, 4, 8])
@pytest.mark.parametrize("split", ["seq", "kv"])
def test_the_device_with_the_most_work_is_counted(n, split):
    """Of n parts of the queries in order the last sees all keys but half a part: nearly twice the mean."""
    plan = attention(CAUSAL["a comparison"]).plan(ml.mesh("v5p", data=n), {split: "data"} if n > 1 else {})
    time = plan.time
    assert time.flops == pytest.approx(2 * ONE / n * (1 - 1 / (2 * n)))
    assert time.given(balanced=True).flops == pytest.approx(ONE / n)
    assert time.given(attention="flash").flops == pytest.approx(2 * ONE / n)
    assert "balanced over the devices" in str(time.given(balanced=True))


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
@pytest.mark.parametrize("columns", [1, 2, 5])
def test_the_share_of_the_worst_block(rows, columns):
    """Counted on a grid of positions."""
    size = 240
    grid = np.arange(size)[:, None] >= np.arange(size)[None, :]
    blocks = grid.reshape(rows, size // rows, columns, size // columns).mean((1, 3))
    assert unmasked(rows, columns) == pytest.approx(blocks.max(), abs=0.02)
    np.testing.assert_array_equal(unmasked(np.array([rows, rows]), columns), [unmasked(rows, columns)] * 2)


def test_where_no_mask_is_known_causal_is_taken_at_its_word():
    """A mask that is an argument, say."""
    mask = ml.f32[S, KV]
    program = ml.trace(lambda x, y, z, m: _with(m, x, y, z), *ARGUMENTS, mask)
    assert not masked(program)
    time = program.plan(ml.mesh("v5p", data=2), "seq:data").time
    assert time.scenario.attention == "flash"
    assert time.given(attention="causal").flops == pytest.approx(time.flops * 0.75)


def _with(mask, x, y, z):
    scores = ml.dot(x, y.rename(seq="kv"), D) + mask
    return ml.dot(ml.softmax(scores, KV), z.rename(seq="kv"), KV)


def test_a_step_of_training_hides_the_same_part_of_all_its_matmuls():
    """Two forward, the same two again for the backward pass, which keeps nothing of a layer, and four."""
    config = gpt2.Config(batch=2, seq=256)
    program = ml.trace(jax.grad(gpt2.loss), *gpt2_arguments(config))
    flash, default = (program.plan(ml.mesh("v5e", data=1)).time.given(attention=a) for a in ("flash", "default"))
    scores = 8 * 2 * config.batch * config.heads * config.head * config.seq**2 * config.layers
    assert flash.flops - default.flops == pytest.approx(scores / 2)


def gpt2_arguments(config):
    params = jax.eval_shape(lambda key: gpt2.init(key, config), jax.random.key(0))
    return params, *gpt2.inputs(config)


def test_options_are_yes_or_no():
    with pytest.raises(ml.HardwareError, match="`balanced` must be True or False, not 3"):
        Options(balanced=3)  # type: ignore[arg-type]


def test_a_score_is_of_the_kind_that_has_most_of_its_dims():
    """Gemma's queries of a window read the keys of theirs and of the window before, and all blocks."""
    program = MODELS["gemma"].trace()
    kinds = sorted(attentions(program), key=lambda kind: len(kind.keys))
    assert [len(kind.keys) for kind in kinds] == [1, 2]
    for value, kind in scores_of(program).items():
        assert (kind == kinds[1]) == (kinds[1].keys <= set(program.names[value]))


def test_only_what_a_mask_hides_is_halved():
    """T5's encoder sees all of its source."""
    time = MODELS["t5"].trace().plan(ml.mesh("v5e", data=1)).time
    flash, causal = time.given(attention="flash"), time.given(attention="causal")
    work = [(step.runs, cost.flops * times) for step, times, cost in flash.spent.kernels if step.runs]
    halved = sum(flops for operation, flops in work if causal.scenario.masked(operation))
    assert 0 < halved < sum(flops for operation, flops in work if touches_scores(operation, flash.scenario))
    assert flash.flops - causal.flops == pytest.approx(halved / 2)
    assert flash.model_flops - causal.model_flops == pytest.approx(halved / 2)
