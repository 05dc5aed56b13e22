"""What a training says of its program: names, values, batches."""

from __future__ import annotations

import numpy as np
import pytest

from meshlab.engine.errors import RunError
from meshlab.opening.open_explorer import explore
from meshlab.training.feeding import Training
from tests.widgets import small


def test_a_training_that_does_not_fit() -> None:
    with pytest.raises(RunError, match=r"starts from `parms`, which is not an argument .* Did you mean `params`"):
        explore(small.program(), small.mesh(), run=Training({"parms": 0}))
    with pytest.raises(RunError, match="starts from `a`, `b`, which are not arguments of this program"):
        explore(small.program(), small.mesh(), run=Training({"a": 0, "b": 0}))
    with pytest.raises(RunError, match="lacks a value to start from for `params`"):
        explore(small.program(), small.mesh(), run=Training({}, small.batches))
    with pytest.raises(RunError, match="lacks a value to start from for `images`, `labels`"):
        explore(small.program(), small.mesh(), run=Training({"params": small.params()}))
    with pytest.raises(RunError, match="given steps=0; it must be an integer, at least 1"):
        Training({}, steps=0)
    with pytest.raises(RunError, match="given batches of type generator, which one run uses up; it must be"):
        Training({}, small.batches())  # type: ignore[arg-type]
    with pytest.raises(RunError, match="given batches of type list; it must be a function that returns them"):
        Training({}, list(small.batches()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"w1": np.zeros((16, 4, 4), np.float32)},
            r"`params/w1` has shape \(16, 4, 4\), where \(4, 4, 16\) was traced",
        ),
        ({"w1": np.zeros((4, 4, 16), np.int32)}, "`params/w1` has dtype int32, where float32 was traced"),
        ({"w1": "s", "w2": 3}, r"1. `params/w1` is 's' \(str\), .*\n  2. `params/w2` has shape \(\), where"),
        ({"w3": 0}, "the program does not know `params/w3`"),
    ],
)
def test_a_start_that_is_not_like_what_was_traced(changed: dict, message: str) -> None:
    training = Training({"params": {**small.params(), **changed}}, small.batches)
    with pytest.raises(RunError, match=rf"`start` does not fit the program; give arrays .*:\n.*{message}"):
        explore(small.program(), small.mesh(), run=training)
