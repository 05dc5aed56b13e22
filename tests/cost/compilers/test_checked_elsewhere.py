"""A plan is checked against programs of absent devices: bytes in a TPU's tiles, and as they are on a GPU."""

import functools
from types import SimpleNamespace

import pytest

import meshlab as ml
from meshlab.cost.machines.installed_compilers import CompilerError, check_installed
from meshlab.engine.verifying.check import against
from meshlab.engine.verifying.stored_bytes import stored_bytes
from meshlab.models import zoo

MESH = ml.mesh(data=2, model=4)
LAYOUTS = {
    "mlp_adamw": {"batch": "data", "ffn": "model"},
    "moe_switch": {"batch": "data"},
}


@functools.cache
def planned(name):
    model = {model.name: model for model in zoo.models()}[name]
    return model.trace().plan(MESH, LAYOUTS[name])


def analysis(compiled):
    """What `memory_analysis()` said in the compiler's process."""
    sizes = compiled.memory
    return SimpleNamespace(argument_size_in_bytes=sizes.argument_bytes, output_size_in_bytes=sizes.output_bytes)


@pytest.mark.share(3)
@pytest.mark.parametrize("target", ["v5e:2x4", "h100:1x1x8"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_bytes_are_those_that_the_compiler_counts(name, target):
    platform = "tpu" if target.startswith("v") else "cuda"
    try:
        check_installed(platform)
    except CompilerError as error:
        pytest.skip(f"{error} (`make test` does so on Linux)")
    plan = planned(name)
    compiled = ml.compile_for(plan, target)
    report = against(plan, compiled.hlo, analysis(compiled), platform)
    predicted, found = report.memory
    assert predicted == found
    assert report.bytes_equal == compiled.equal
    assert report.ok == compiled.equal
    exact = plan.stored.argument_bytes, plan.stored.output_bytes
    assert (predicted > exact) if platform == "tpu" else (predicted == exact)
    # What is not stored as planned is found on either.
    wrong = SimpleNamespace(
        **{**vars(analysis(compiled)), "argument_size_in_bytes": compiled.memory.argument_bytes + 512}
    )
    assert not against(plan, compiled.hlo, wrong, platform).ok


def test_an_array_of_another_shape_is_not_rounded_to_the_planned_one():
    a = ml.Dim("a", 16)
    plan = ml.trace(lambda x: x * 2, ml.f32[a, ml.Dim("b", 16)]).plan(ml.mesh(x=2), "a:x")
    layout = "entry_computation_layout={{(f32[{0}]{{1,0:T(8,128)}})->f32[8,16]{{1,0:T(8,128)}}}}"
    head = f"HloModule jit_run, {layout}, num_partitions=2"
    sizes = SimpleNamespace(argument_size_in_bytes=4096, output_size_in_bytes=4096)
    assert stored_bytes(plan, head.format("8,16"), sizes, "tpu") == ((4096, 4096), (4096, 4096))
    assert stored_bytes(plan, head.format("4,16"), sizes, "tpu") == ((512, 4096), (4096, 4096))
    assert stored_bytes(plan, head.format("8,16"), sizes, "cpu") == ((512, 512), (4096, 4096))
