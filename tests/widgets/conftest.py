"""A small program that trains, on a mesh of 2 by 4, and an Explorer of it."""

from __future__ import annotations

import comm
import pytest

from meshlab.api.stages import Program
from meshlab.engine.specs.mesh import Mesh
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.widgets import small


@pytest.fixture(scope="session")
def program() -> Program:
    return small.program()


@pytest.fixture(scope="session")
def mesh() -> Mesh:
    return small.mesh()


@pytest.fixture(autouse=True)
def channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another test has imported ipykernel, channels send nothing without its kernel."""
    monkeypatch.setattr(comm, "create_comm", comm.DummyComm)


@pytest.fixture
def explorer(program: Program, mesh: Mesh) -> Explorer:
    return explore(program, mesh, run=small.training(steps=5))
