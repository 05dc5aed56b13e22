"""The real TPU and GPU compilers, without the hardware, on plans of the zoo."""

import dataclasses
import functools
import os
import re
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.compilers.compile_for import Progress, compile_for
from meshlab.cost.compilers.targets import gpus
from meshlab.cost.machines.installed_compilers import CompilerError, check_installed
from meshlab.models import zoo
from tests.processes import children

pytestmark = pytest.mark.share(4, of="file")

FSDP = {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}


def needs(platform):
    try:
        check_installed(platform)
    except CompilerError as error:
        pytest.skip(f"{error} (`make test` does so on Linux)")


@pytest.fixture(scope="module")
def tpu():
    needs("tpu")


@pytest.fixture(scope="module")
def gpu():
    needs("cuda")


@functools.cache
def program(name):
    return {model.name: model for model in zoo.models()}[name].trace()


@functools.cache
def small():
    Batch, Embed, Ffn = ml.dims(batch=256, embed=256, ffn=512)

    def step(w, x):
        return ml.relu(ml.dot(x, w, Embed)).sum(Ffn)

    return ml.trace(step, ml.f32[Embed, Ffn], ml.f32[Batch, Embed]).plan(ml.mesh(data=4), "embed:data")


@pytest.mark.parametrize(("platform", "machine"), [("tpu", "v5e:2x2"), ("cuda", "h100:1x4")])
def test_a_pipeline(platform, machine):
    """Branches that differ from stage to stage, with collectives in them, and the permutes behind them."""
    needs(platform)
    mesh = ml.mesh(machine, data=2, pipe=ml.stages(2), micro=ml.serial(4))
    plan = program("transformer_sgd").plan(
        mesh, {"batch": "data+micro", "layers": "pipe", "params/*": {"embed": "data"}}
    )
    assert compile_for(plan).ok


@pytest.mark.parametrize(("platform", "machine"), [("tpu", "v5e:2x4"), ("cuda", "h100:1x8")])
def test_a_pipeline_of_uneven_stages_with_a_ring(platform, machine):
    """Permutes in branches, which all stages take at once, and layers that some stages leave out."""
    needs(platform)
    mesh = ml.mesh(machine, pipe=ml.stages(2, layers=(1, 3)), cp=4, micro=ml.serial(4))
    plan = program("transformer_sgd").resize(layers=4).plan(mesh, "batch:micro layers:pipe seq:cp kv:cp")
    assert compile_for(plan).ok


def test_a_step_of_training_on_tpus(tpu):
    plan = program("transformer_adamw").plan(ml.mesh(data=2, model=4), "batch:data ffn:model")
    answer = compile_for(plan, "v5e:2x4")
    assert answer.ok
    assert answer.equal
    assert {(r.kind, r.axes): r.compiled for r in answer.comparison.rows} == {
        ("all-reduce", ("data",)): 30_020,
        ("all-reduce", ("model",)): 8_204,
    }
    assert any(c.times == 2 for c in answer.collectives)
    assert answer.device_kind == "TPU v5 lite"
    assert set(answer.versions) == {"jax", "jaxlib", "libtpu"}
    assert (answer.cycles or 0) > 1000
    # Arguments are held in tiles: no less than their numbers, and part of the peak.
    assert plan.memory.argument_bytes < answer.memory.argument_bytes < answer.peak_bytes
    assert answer.memory_rows[2] == ("at the peak", answer.predicted_memory.peak_bytes, answer.peak_bytes)
    assert "ENTRY" in answer.hlo
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.hlo = ""  # pyright: ignore[reportAttributeAccessIssue]
    text = str(answer)
    assert f"{answer.predicted_memory.peak_bytes / answer.peak_bytes - 1:+.0%}\n" in text
    assert text.startswith("✓ compiled for v5e:2x4: all collectives as predicted\n  TPU v5 lite × 8; jax")
    assert "  ✓ all-reduce over data" in text
    assert re.search("30,020 +30,020", text)
    assert "cycles of computation" in text
    page = answer._repr_html_()
    assert page.startswith("<div>✓ <b>v5e:2x4</b>: all collectives as predicted")
    assert page.count("<tr>") == 2 + 2 + 3
    assert "30,020</td>" in page


def test_differences_are_explained_one_by_one(tpu):
    plan = program("llama_bfloat16").plan(ml.mesh(data=8), FSDP)
    compiled = compile_for(plan, "v6e:2x4")
    assert compiled.ok
    assert not compiled.equal
    assert {d.rule for d in compiled.comparison.differences} <= {"narrowed", "summed whole", "gathered by adding"}
    assert "all differences of collectives are explained" in str(compiled)
    assert all(text in str(compiled) for text in compiled.explanations)
    assert "<li>summed whole" in compiled._repr_html_()


def test_a_mesh_lies_as_the_plan_has_it(tpu):
    """On the slice of its placement a mesh axis is neighbours; the collectives and their bytes are the same."""
    layout = "batch:data ffn:model"
    here, there = ml.lay(ml.mesh("v5e:4x4", data=4, model=4), model=1), ml.mesh(data=4, model=4)
    laid, listed = (compile_for(program("mlp_sgd").plan(m, layout), n) for m, n in ((here, None), (there, "v5e:4x4")))
    assert str(laid.target) == str(listed.target) == "v5e:4x4"
    assert laid.equal
    assert listed.equal
    assert laid.standing == tuple((x, y, 0, 0) for x in range(4) for y in range(4))
    # JAX lists a slice host by host.
    assert listed.standing is not None
    assert listed.standing[:4] == ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0))


def test_cycles_are_those_of_the_matrix_units(tpu):
    """A TPU v5e has four units of 128 x 128, each with a multiplication and an addition a cycle.

    How to Scale Your Model, "How to Think About TPUs": https://jax-ml.github.io/scaling-book/tpus/.
    """
    Rows, Inner, Cols, Turns = ml.dims(rows=4096, inner=4096, cols=4096, turns=3)

    def turned(x, weights):
        return ml.scan(lambda c, w: (ml.dot(c, w, Inner).rename(cols="inner"), ()), x, weights, Turns)[0]

    once = ml.trace(lambda x, w: ml.dot(x, w, Inner), ml.bf16[Rows, Inner], ml.bf16[Inner, Cols])
    thrice = ml.trace(turned, ml.bf16[Rows, Inner], ml.bf16[Turns, Inner, Cols])
    one, three = (compile_for(program.plan(ml.mesh(), {}), "v5e:1x1").cycles for program in (once, thrice))
    assert one is not None
    assert three is not None
    assert one == pytest.approx(2 * 4096**3 / (4 * 2 * 128**2), rel=0.05)
    # In a loop each turn also takes its weights out of the stack.
    assert 3 * one <= three <= 4.5 * one


def test_donated_arguments_take_no_place_twice(tpu):
    plan = program("mlp_adamw").plan(ml.mesh(data=4), FSDP)
    plain, donated = (compile_for(plan, "v5p:2x2x1", donate=donate) for donate in (False, True))
    assert plain.memory.alias_bytes == 0
    assert donated.memory.alias_bytes > 0
    assert donated.peak_bytes < plain.peak_bytes
    assert donated.predicted_memory.is_donated
    assert donated.predicted_memory.peak_bytes < plain.predicted_memory.peak_bytes
    assert "of these donated" in str(donated)
    assert "of these donated" not in str(plain)


@pytest.mark.parametrize("name", ["v2:2x2", "v3:2x2", "v4:2x2x1", "v7x:2x2x1"])
def test_generations_with_two_devices_a_chip(name, tpu):
    plan = program("mlp_sgd").plan(ml.mesh(data=2, model=4), "batch:data ffn:model")
    assert compile_for(plan, name).equal


def test_one_chip_is_part_of_a_host(tpu):
    plan = program("mlp_sgd").plan(ml.mesh(), "")
    compiled = compile_for(plan, "v5e:1x1")
    assert compiled.equal
    assert "no collectives" in str(compiled)


@pytest.mark.parametrize("name", gpus())
def test_every_gpu_of_which_there_are_figures(name, gpu):
    plan = program("mlp_sgd").plan(ml.mesh(data=2, model=4), "batch:data ffn:model")
    compiled = compile_for(plan, f"{name}:8")
    assert compiled.equal
    assert compiled.cycles is None
    assert "cycles" not in str(compiled)
    assert compiled.device_kind == gpus()[name]["name"]
    assert compiled.standing is None
    assert (compiled.memory.argument_bytes, compiled.peak_bytes > 0) == (plan.memory.argument_bytes, True)


def test_all_kinds_of_collectives_on_gpus(gpu):
    split = {"batch": "data", "heads": "model", "ffn": "model", "residual": {"seq": "model"}}
    Batch, Embed = ml.dims(batch=64, embed=64)
    turned = ml.trace(lambda x: x * 2, ml.f32[Batch, Embed])
    plans = [
        program("transformer_sgd").plan(ml.mesh(data=2, model=4), split),
        program("convnet").plan(ml.mesh(data=4, model=2), "batch:data rows:model"),
        turned.plan(ml.mesh(data=4), {"x": {"batch": "data"}, "out": {"embed": "data"}}),
    ]
    compiled = [compile_for(plan, "h100") for plan in plans]
    assert all(f.equal for f in compiled), compiled
    assert {r.kind for f in compiled for r in f.comparison.rows} == {
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "collective-permute",
    }


def test_products_whose_tiles_are_chosen_on_the_gpu_are_compiled_otherwise(gpu):
    answer = compile_for(program("moe_switch").plan(ml.mesh(data=4), "batch:data experts:data"), "h100")
    assert answer.equal
    assert answer.options == {"xla_gpu_enable_triton_gemm": False}
    assert "· compiled with xla_gpu_enable_triton_gemm=False: " in str(answer)


def test_programs_survive_the_way_to_the_other_process(tpu):
    """Keys of random bits, integers, loops that stop by their data, and outputs that are constants."""
    Batch, Embed = ml.dims(batch=64, embed=256)

    def step(key, x):
        y = x + jax.random.normal(key, x.array.shape).sum()
        turned = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, y.sum(Embed).array))
        return turned, 1.0, ml.tensor(jnp.arange(64), Batch)

    plan = ml.trace(step, jax.random.key(0), ml.f32[Batch, Embed]).plan(ml.mesh(data=4), "embed:data")
    assert compile_for(plan, "v5e:2x2").ok


def test_progress_is_told_stage_by_stage(tpu):
    progress = []
    compile_for(small(), "v5e:2x2", progress=progress.append)
    stages = list(dict.fromkeys(p.stage for p in progress))
    assert stages[:2] == ["exporting", "starting"]
    assert set(stages[2:]) <= {"lowering", "compiling", "reading"}
    assert [p.seconds for p in progress] == sorted(p.seconds for p in progress)
    assert str(Progress("compiling", "v5e:2x2", 3.4)) == "compiling for v5e:2x2, 3 s"


def test_what_takes_too_long_is_ended(tpu):
    with pytest.raises(CompilerError, match=r"for v5e:2x2 was ended after 0.3 s, while .*timeout=0.6"):
        compile_for(small(), "v5e:2x2", timeout=0.3)
    assert not children("meshlab.cost.compilers.worker")
    with pytest.raises(CompilerError, match="timeout must be a number of seconds above 0; compile_for was given -1"):
        compile_for(small(), "v5e:2x2", timeout=-1)


def test_what_is_cancelled_is_ended(tpu):
    cancel = threading.Event()

    def stop(progress):
        if progress.stage == "starting":
            assert children("meshlab.cost.compilers.worker")
            cancel.set()

    with pytest.raises(CompilerError, match=r"Compiling for v5e:2x2 was cancelled after \d+.\d s \(starting\)"):
        compile_for(small(), "v5e:2x2", progress=stop, cancel=cancel)
    assert not children("meshlab.cost.compilers.worker")


def test_an_interrupt_ends_the_compiler(tpu):
    def interrupt(progress):
        if progress.stage == "starting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_for(small(), "v5e:2x2", progress=interrupt)
    assert not children("meshlab.cost.compilers.worker")


ABANDONED = """
import os, subprocess
import meshlab as ml
from meshlab.models import zoo

def leave(progress):
    if progress.stage == "compiling":
        print(subprocess.run(["ps", "-wweo", "pid,ppid,args"], capture_output=True, text=True).stdout, flush=True)
        os._exit(7)

program = {model.name: model for model in zoo.models()}["diffusion_sgd"].trace()
ml.compile_for(program.plan(ml.mesh(data=4), "batch:data"), "v5e:2x2", progress=leave)
"""


def test_the_compiler_ends_with_the_process_that_started_it(tpu, tmp_path):
    """A notebook's kernel that is ended leaves no compiler behind."""
    variables = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE, text=True, env=variables)
    output, _ = done.communicate(timeout=120)
    assert done.returncode == 7
    lines = (line.split() for line in output.splitlines() if "meshlab.cost.compilers.worker" in line)
    (child,) = (pid for pid, parent, *_ in lines if parent == str(done.pid))
    while running(child):
        time.sleep(0.1)
    (stage,) = tmp_path.glob("meshlab-*/stage")
    assert stage.read_text() == "compiling"
    assert not (stage.parent / "answer.json").exists()


def running(process: str) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_what_does_not_fit_is_said_in_the_compilers_words(tpu):
    Batch, Embed, Ffn = ml.dims(batch=8, embed=65_536, ffn=262_144)
    plan = ml.trace(lambda w, x: ml.dot(x, w, Embed), ml.f32[Embed, Ffn], ml.f32[Batch, Embed]).plan(
        ml.mesh(data=4), "ffn:data"
    )
    with pytest.raises(CompilerError, match="The compiler for v5e:2x2 rejects the plan: .*Ran out of memory on HBM"):
        compile_for(plan, "v5e:2x2")


def test_a_crash_of_the_compiler_is_told(monkeypatch, tmp_path, tpu):
    """Whatever ends the process: here a JAX that cannot be imported."""
    (tmp_path / "jax.py").write_text("raise SystemExit('no such luck')\n")
    monkeypatch.setenv("MESHLAB_COMPILERS", str(tmp_path))
    monkeypatch.setattr("meshlab.cost.compilers.compile_for.check_installed", lambda platform: None)
    with pytest.raises(CompilerError, match="rejects the plan: its process ended with status 1(?s:.*)no such luck"):
        compile_for(small(), "v5e:2x2")


def test_calls_back_into_python_are_refused(tpu):
    def fn(x):
        return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((4,), jnp.float32), x)

    plan = ml.trace(fn, jax.ShapeDtypeStruct((4,), jnp.float32)).plan(ml.mesh(data=4))
    with pytest.raises(CompilerError, match=r"compile_for compiles .* `pure_callback` at test_compile_for\.py:\d+\."):
        compile_for(plan, "v5e:2x2")


def test_nothing_is_started_for_what_cannot_be(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: pytest.fail("a compiler was started"))
    with pytest.raises(ml.MeshlabError, match="v5e:4x4 has 16 devices, and the plan's mesh 4"):
        compile_for(small(), "v5e:4x4")
