"""Where nothing does all that is asked, the error names the constraints that are in the way, each tried."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.auto.brute_force import priced_layouts
from tests.auto.best_first.programs import grown

MESH = ml.mesh("v5p:2x2x2", a=4, b=2)
CAPACITY = MESH.on.hardware.memory_bytes


def test_a_pin_that_sends_over_a_silent_axis_is_named() -> None:
    with pytest.raises(ml.auto.NothingAllowed) as caught:
        ml.auto.layout(grown("mlp_adamw"), MESH, pin="batch:a", silent="a", forbid={"ffn": "b"})
    words = [each.constraint for each in caught.value.in_the_way]
    assert words == ["the pin `batch:a`", "`a` silent"]
    assert "found no layout that satisfies all pins and sends nothing over `a`. Without the pin `batch:a`, `" in str(
        caught.value
    )
    without = caught.value.in_the_way[0].layout
    grown("mlp_adamw").plan(MESH, without).assert_silent("a")


def test_of_several_that_only_together_are_in_the_way_all_are_named() -> None:
    with pytest.raises(ml.auto.NothingAllowed) as caught:
        ml.auto.layout(grown("mlp_adamw"), MESH, pin="batch:a ffn:b", silent=["a", "b"])
    assert [each.constraint for each in caught.value.in_the_way] == ["all that is pinned, forbidden and silent"]


def test_what_keeps_a_layout_from_fitting_is_named() -> None:
    prices = list(priced_layouts(grown("mlp_adamw"), MESH))
    most = min(price.peak_bytes for price in prices if "a" in price.layout.rules.get("batch", ()))
    cap = f"{(most - 1) / 1e6:.3f} MB"
    fitting = [price for price in prices if price.peak_bytes <= most - 1]
    with pytest.raises(ml.auto.NothingFits) as caught:
        ml.auto.layout(grown("mlp_adamw"), MESH, pin={"batch": "a"}, forbid={"embed": "b"}, memory=cap)
    obstacles = caught.value.in_the_way
    assert fitting or not obstacles
    for each in obstacles:
        peak = grown("mlp_adamw").plan(MESH, each.layout).memory.donated.peak_bytes
        assert each.peak_bytes == peak <= most
        assert f"Without {each.constraint}, " in str(caught.value)
    assert "too much, at `" in str(caught.value)


def test_without_constraints_nothing_is_said_of_any() -> None:
    with pytest.raises(ml.auto.NothingFits) as caught:
        ml.auto.layout(grown("mlp_adamw"), MESH, memory="1 kB")
    assert caught.value.in_the_way == ()
    assert "Without" not in str(caught.value)


def test_memory_is_a_share_or_a_text() -> None:
    free = ml.auto.layout(grown("mlp_adamw"), MESH, memory=None)
    peak = free.plan.memory.donated.peak_bytes
    share = ml.auto.layout(grown("mlp_adamw"), MESH, memory=0.9 * peak / CAPACITY)
    text = ml.auto.layout(grown("mlp_adamw"), MESH, memory=f"{0.9 * peak / 1e6:.6f} MB")
    assert share.layout == text.layout
    assert text.plan.memory.donated.peak_bytes <= 0.9 * peak
    for wrong in ("60 GX", "much", "0 GB", 1.5, 0, True):
        with pytest.raises(
            ml.MeshlabError, match=r"is not a share of a device's memory: give 0.9, say, a text such as"
        ):
            ml.auto.layout(grown("mlp_adamw"), MESH, memory=wrong)
