"""Palettes are told apart by everyone: distances under simulated colour blindness, and contrast, are computed.

Colour blindness is simulated as of Machado, Oliveira and Fernandes (2009), at full severity; distances are those of
CAM02-UCS, in which 1 can just be seen side by side. The contrast is WCAG's.
"""

from __future__ import annotations

import itertools
import pathlib
import re

import numpy as np
import pytest
from colorspacious import cspace_convert, deltaE

import meshlab.widgets
from meshlab.widgets.render import palette
from meshlab.widgets.state.marks import SEVERAL

CSS = pathlib.Path(meshlab.widgets.__file__).parent / "js" / "src"
SIGHTS = ("all three cones", "protanomaly", "deuteranomaly", "tritanomaly")
LEAST = 12.0


def colours(theme: str) -> dict[str, str]:
    """Returns the variables of a theme, as all style sheets together set them."""
    text = "".join(path.read_text() for path in sorted(CSS.glob("*.css")))
    found: dict[str, str] = {}
    for selector, block in re.findall(r"([^{}]*)\{([^{}]*)\}", text):
        dark = 'data-theme="dark"' in selector
        if not dark or theme == "dark":
            found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", block))
    return found


def numbered(theme: str) -> dict[str, list[str]]:
    """Returns the palettes of a theme: colours whose names differ by a number."""
    families: dict[str, list[str]] = {}
    for name, colour in colours(theme).items():
        if match := re.fullmatch(r"([\w-]+)-\d+", name):
            families.setdefault(match[1], []).append(colour)
    return families


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def seen(colour: str, sight: str) -> np.ndarray:
    if sight == SIGHTS[0]:
        return rgb(colour)
    return np.clip(
        cspace_convert(rgb(colour), {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100}, "sRGB1"), 0, 1
    )


def nearest(palette_of: list[str], sight: str) -> float:
    pairs = itertools.combinations([seen(colour, sight) for colour in palette_of], 2)
    return min(float(deltaE(a, b, input_space="sRGB1", uniform_space="CAM02-UCS")) for a, b in pairs)


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        return float(cspace_convert(rgb(colour), "sRGB1", "XYZ1")[1])

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_are_told_apart(theme: str, sight: str) -> None:
    families = {name: each for name, each in numbered(theme).items() if name not in ("tint", "on")}
    assert len(families["solid"]) == 6
    for name, each in families.items():
        assert nearest(each, sight) >= LEAST, name


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_kernels_are_told_apart_from_every_mark(theme: str, sight: str) -> None:
    used = colours(theme)["used"]
    for solid in (*numbered(theme)["solid"], colours(theme)["soft"]):
        assert nearest([used, solid], sight) >= LEAST, solid


def test_a_palette_that_is_not_is_noticed() -> None:
    """The colours of before: blue and purple are one to those who see no green."""
    assert nearest(["#2563c9", "#7a45c4"], "deuteranomaly") < 2
    assert nearest(["#2563c9", "#7a45c4"], SIGHTS[0]) > 15


def arm(name: str) -> list[str]:
    """Returns the colours of a heat map on one side of 0, from 0 on."""
    found = re.search(rf"const {name}(?:: [^=]*)? = \[(.*?)\]", (CSS / "heat_scale.ts").read_text())
    assert found
    return re.findall(r"#[0-9a-f]{6}", found[1])


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_of_numbers_tell_how_much_and_of_which_sign(sight: str) -> None:
    above, below = arm("ABOVE"), arm("BELOW")
    assert above[0] == below[0]
    assert len(above) == len(below) == 6
    for side in (above, below):
        lightness = [cspace_convert(seen(colour, sight), "sRGB1", "CAM02-UCS")[0] for colour in side]
        steps = [one - other for one, other in itertools.pairwise(lightness)]
        assert min(steps) >= 4, "the further from 0 the darker"
        assert min(nearest(list(pair), sight) for pair in itertools.pairwise(side)) >= 9
    assert min(nearest([one, other], sight) for one, other in zip(above[1:], below[1:], strict=True)) >= LEAST


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_drawn_stands_out(theme: str) -> None:
    known = colours(theme)
    grounds = [known["page"], known["card"]]
    drawn = [*numbered(theme)["solid"], known["used"], known["action"]]
    assert min(contrast(colour, ground) for colour in drawn for ground in grounds) >= 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_read(theme: str) -> None:
    known = colours(theme)
    pairs = [(f"on-{i}", f"tint-{i}") for i in range(6)]
    pairs += [(text, ground) for text in ("ink", "soft", "faint") for ground in ("page", "card", "quiet")]
    pairs += [("action-ink", "action"), ("good", "good-tint"), ("bad", "bad-tint"), ("good", "card"), ("bad", "card")]
    for text, ground in pairs:
        assert contrast(known[text], known[ground]) >= 4.5, (text, ground)


def test_charts_and_snapshots_have_the_board_s_light_colours() -> None:
    known = colours("light")
    assert list(palette.SOLID) == [*numbered("light")["solid"], known["soft"]]
    assert list(palette.TINT) == [*numbered("light")["tint"], known["quiet"]]
    assert len(palette.SOLID) == len(palette.PATTERN) == len(palette.DASH) == SEVERAL + 1
    assert (palette.INK, palette.SOFT, palette.NEUTRAL) == (known["ink"], known["soft"], known["used"])
