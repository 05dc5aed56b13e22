"""What adds up over a program is least by the search's arrays, and by each solver, which knows nothing of them."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.auto.additive.pulp_compat import solvers
from meshlab.auto.best_first import bounds, solved_bounds
from tests.auto.best_first.programs import FEW, MODELS, grown


@pytest.mark.share(16)
@pytest.mark.parametrize("axes", [{"a": 4, "b": 2}, {"a": 2, "b": 2, "c": 2}])
@pytest.mark.parametrize("name", [*FEW, "moe_sgd"])
def test_the_least_is_the_solvers(name: str, axes: dict[str, int]) -> None:
    program = grown(name) if name in FEW else MODELS[name].trace()
    choice = ml.auto.layout(program, ml.mesh("v5p:2x2x2", **axes), seconds=1e-6)
    proved = choice.solved_bounds()
    assert [each.what for each in proved] == [
        what for what in ("seconds of kernels", "bytes at the peak") for _ in solvers()
    ]
    for each in proved:
        assert each.solved == pytest.approx(each.value, rel=1e-6)
        assert each.value > 0
    assert proved[0].value <= choice.proof.value
    assert proved[-1].value <= choice.plan.memory.donated.peak_bytes
    assert "by integer programming (CBC through PuLP" in str(proved[0])


def test_a_solver_that_says_something_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = ml.auto.layout(grown("mlp_sgd"), ml.mesh("v5p:2x2x2", a=8))
    with monkeypatch.context() as patched:
        patched.setattr(solved_bounds, "compute_bounds", lambda *args: 2 * bounds.compute_bounds(*args))
        with pytest.raises(ml.MeshlabError, match="The least seconds of kernels is .* by the search and .* by integer"):
            choice.solved_bounds()
    monkeypatch.setattr(solved_bounds, "solve", lambda *_: ("Not Solved", []))
    with pytest.raises(
        ml.MeshlabError, match=r"asked for the least sum over .* has proved none \(it says 'Not Solved'"
    ):
        choice.solved_bounds()
