"""Operations are called by words that people wrote, not by what JAX, Flax or Equinox made around their functions."""

from __future__ import annotations

import pytest

from meshlab.engine.code.operations import walk
from tests import checkpointed

CALLED = {
    "one layer": {"attention"},
    "grouped": {"grouped"},
    "one without a mask": {"a part"},  # a lambda in a lambda
    "both at once": {"attention", "a part"},
    "scanned": {"attention"},
    "Linen": {"Stack"},
    "NNX": {"__call__"},
    "Equinox": {"_mapped"},
}


@pytest.mark.parametrize("name", CALLED)
def test_what_is_computed_again_is_called_by_its_function(name: str) -> None:
    program = checkpointed.PROGRAMS[name]()
    again = [operation for operation in walk(program.code.block) if operation.name == "remat2"]
    assert {operation.called for operation in again} == {f"{function}, computed again" for function in CALLED[name]}
    labels = {program.value(value).label for operation in again for value in operation.outputs}
    assert not [label for label in labels if "remat" in label]


def test_all_else_is_called_by_its_primitive() -> None:
    code = checkpointed.PROGRAMS["one layer"]().code
    assert all(each.called == each.name for each in walk(code.block) if each.name != "remat2")
