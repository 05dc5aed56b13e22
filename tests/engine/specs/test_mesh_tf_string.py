"""Mesh TensorFlow's string of a layout: read back the same, or all that it cannot say is listed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.layout import Layout
from meshlab.engine.specs.mesh_tf_string import said

names = st.from_regex(r"~?[a-z][a-z0-9_]{0,3}", fullmatch=True)
rules = st.dictionaries(names, names.map(lambda name: name.strip("~")), max_size=4)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (None, ""),
        ("hidden:model batch:data", "batch:data;hidden:model"),
        ({"batch": ("data",), "rows": None}, "batch:data"),
    ],
)
def test_one_pair_for_each_dim(layout: object, text: str) -> None:
    assert Layout.of(layout).to_string() == text  # type: ignore[arg-type]


@given(rules)
def test_a_layout_of_dims_on_one_axis_each_survives(plain: dict[str, str]) -> None:
    layout = Layout.of(plain)
    assert Layout.of(layout.to_string()) == layout
    # As Mesh TensorFlow reads it: `_parse_string_to_list_of_pairs` of its ops.py.
    pairs = [word.split(":") for word in re.sub("[,.;]", " ", layout.to_string()).split()]
    assert {dim: axis for dim, axis in pairs} == plain


def test_all_that_it_cannot_say_is_listed() -> None:
    layout = Layout.of(
        {
            "vocab": ("data", "model"),
            "embed.0": "model",
            "ensemble?": "data",
            "batch": "data",
            "params/*": {"embed": "data", "ffn": None},
            "grads/*": {},
        }
    )
    with pytest.raises(LayoutError, match="which cannot express all of this layout:\n  1. ") as caught:
        layout.to_string()
    lost = caught.value.problems
    for problem in (
        "`vocab` is on `data` and `model`: a dim has one mesh axis there",
        "`embed.0` is on `model`: a name cannot contain a character that separates rules",
        "`ensemble?` is optional: the format has no optional rules",
        "at `params/*` is stored embed:data, ffn:whole: the format has no rules for places",
        "at `grads/*` is stored nothing",
    ):
        assert any(problem in each for each in lost), problem
        assert problem in str(caught.value)
    assert len(lost) == 5
    assert said(layout) == ("batch:data;ensemble:data", lost)
