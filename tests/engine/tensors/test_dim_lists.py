"""Finding and uniting dims."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshlab.engine.errors import DimError
from meshlab.engine.tensors import dim_lists
from meshlab.engine.tensors.dims import Dim, dims

A, B, C = dims(a=2, b=3, c=4)
SOME = st.lists(st.sampled_from((A, B, C)), unique=True).map(tuple)


def test_union_keeps_the_first_order_and_adds_what_is_new():
    assert dim_lists.union("add", (B, A), (C, A)) == (B, A, C)


def test_union_takes_the_longer_where_it_holds_the_shorter_in_order():
    assert dim_lists.union("add", (C,), (A, C)) == (A, C)
    assert dim_lists.union("add", (), (A, C)) == (A, C)
    assert dim_lists.union("add", (C, A), (A, C)) == (C, A)


@given(SOME, SOME, SOME)
def test_union_holds_every_dim_once(first, second, third):
    result = dim_lists.union("add", first, second, third)
    assert sorted(dim_lists.names(result)) == sorted({dim.name for dim in (*first, *second, *third)})


def test_find_takes_a_dim_or_its_name():
    assert dim_lists.find("sum", (A, B), B) == dim_lists.find("sum", (A, B), "b") == 1


def test_without_dims_all_axes_are_meant():
    assert dim_lists.find_all("sum", (A, B), ()) == (0, 1)
    assert dim_lists.without((A, B, C), [1]) == (A, C)


def test_what_is_missing_is_named_with_what_is_near():
    Hidden = Dim("hidden", 3)
    with pytest.raises(DimError, match=r"sum was asked for the dim `hiden` of \[hidden=3\].*Did you mean `hidden`"):
        dim_lists.find("sum", (Hidden,), "hiden")


def test_one_name_has_one_size():
    with pytest.raises(DimError, match="add met two sizes of the dim `a`: a=2 and a=5"):
        dim_lists.union("add", (A,), (Dim("a", 5),))
    with pytest.raises(DimError, match="sum met two sizes of the dim `a`: a=2 and a=5"):
        dim_lists.find("sum", (A,), Dim("a", 5))


def test_a_dim_is_listed_once():
    with pytest.raises(DimError, match="sum was given a dim twice: `a`, `a`"):
        dim_lists.find_all("sum", (A, B), (A, "a"))
    with pytest.raises(DimError, match=r"A tensor has the dim `a` twice: \[a=2, a=2\]"):
        dim_lists.distinct("A tensor", (A, A))
