"""Dims are names with sizes, and say what is wrong with those that are not."""

from typing import Any

import numpy as np
import pytest

from meshlab.engine.errors import DimError, MeshlabError, closest, listed
from meshlab.engine.tensors.dims import Dim, dims, is_name, name_of


def test_dims_come_in_the_order_given():
    assert dims(batch=100, hidden=1024) == (Dim("batch", 100), Dim("hidden", 1024))
    assert str(Dim("batch", 100)) == "batch=100"


def test_sizes_may_be_any_integers():
    size: Any = np.int64(3)
    assert Dim("a", size) == Dim("a", 3)
    assert type(Dim("a", size).size) is int


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a?", "3a", "a-b", "a*", "größe", "_", None, 3])
def test_a_name_that_cannot_stand_in_a_layout_is_refused(name):
    with pytest.raises(DimError, match="a name is ASCII letters, digits and `_`, with no digit in front"):
        Dim(name, 3)


@pytest.mark.parametrize("size", [2.0, "2", None, True, np.ones(2, int)])
def test_a_size_is_an_integer(size):
    with pytest.raises(DimError, match="Dim `a` was given the size .*; a size must be an integer"):
        Dim("a", size)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_is_at_least_one(size):
    with pytest.raises(DimError, match=f"Dim `a` was given the size {size}; a size must be at least 1"):
        Dim("a", size)


def test_no_dims_are_an_error():
    with pytest.raises(DimError, match=r"write dims\(batch=100, hidden=1024\)"):
        dims()


def test_a_dim_or_its_name():
    assert name_of(Dim("a", 2)) == name_of("a") == "a"
    assert is_name("a_1")
    assert not is_name("a.1")


def test_close_names_are_suggested_and_far_ones_are_not():
    assert closest("hiden", ["hidden", "batch"]) == " Did you mean `hidden`?"
    assert closest("hidden", ["hidden_odd", "hidden_even"]) == " Did you mean `hidden_odd` or `hidden_even`?"
    assert closest("hidden", ["batch", "cols"]) == ""
    assert listed(["a", "b"]) == "`a`, `b`"
    assert listed([]) == "none"


def test_every_error_is_a_meshlab_error_and_a_value_error():
    assert issubclass(DimError, MeshlabError)
    assert issubclass(MeshlabError, ValueError)
