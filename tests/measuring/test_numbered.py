"""Scopes change nothing of a compiled program but its metadata."""

import re

import pytest

import meshlab as ml
from meshlab.engine.jax_compat import setting
from meshlab.engine.jax_programs import numbers_in
from meshlab.engine.verifying.hlo_text import parse_module
from meshlab.measuring.numbered import numbered
from tests.engine.pipelines.stacks import program

pytestmark = pytest.mark.share(2, of="file")

# By name a program's step, the mesh, and the layout.
CASES = {
    "scan": ("plain", {"data": 2, "model": 2}, "batch:data embed:model"),
    "remat": ("remat", {"data": 4}, "batch:data"),
    "micro-batches": ("plain", {"data": 2, "micro": ml.serial(4)}, "batch:data+micro"),
    "pipeline": ("tied", {"pipe": ml.stages(2), "data": 2, "micro": ml.serial(2)}, "batch:data+micro layers:pipe"),
}


def bare(text: str | None) -> list[str]:
    """The lines of a compiled program, without all that says where they are from, which XLA takes names from too."""
    assert text is not None
    lines = text.splitlines()[1:]
    first = next(place for place, line in enumerate(lines) if line.endswith("{"))
    numbers: dict[str, str] = {}

    def number(name: re.Match[str]) -> str:
        return numbers.setdefault(name[0], f"%{len(numbers)}")

    return [re.sub(r"%[\w.\-]+", number, re.sub(r", metadata=\{[^}]*\}", "", line)) for line in lines[first:]]


@pytest.mark.parametrize("case", CASES)
def test_the_compiled_program_is_the_same(case: str):
    name, axes, layout = CASES[case]
    plan = program(name).plan(ml.mesh(**axes), layout)
    plain = plan.compile().as_text()  # JAX's cache has it now, and must not give it back
    made = numbered(plan)
    assert bare(made.text) == bare(plain)
    assert plain is not None
    assert not any(numbers_in(path) for path in re.findall(r'op_name="([^"]*)"', plain))
    paths = [i.op_name for c in parse_module(made.text).values() for i in c.instructions.values()]
    found = {number for path in paths for numbers in numbers_in(path) for number in numbers}
    assert len(found) > len(made.number_of) / 2
    assert found <= set(made.number_of.values())


def test_jax_keeps_its_settings():
    before = setting("jax_compilation_cache_include_metadata_in_key")
    plan = program("plain").plan(ml.mesh(data=2), "batch:data")
    assert numbered(plan) is numbered(plan)
    assert setting("jax_compilation_cache_include_metadata_in_key") == before
