"""All refusals are of one grammar: a reason about a rule, and what fits."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

import pytest

import meshlab as ml
from meshlab.engine.legality.refusal import Refusal
from meshlab.engine.programs.scoped import scopes
from meshlab.engine.verifying.drawn_meshes import MESHES, MESHES_IN_TIME
from meshlab.models.zoo import models

# What a fix begins with: a command, a close name, or what there is.
FIXES = re.compile(
    r"(Put|Take|Write|Name|Leave|Give|Store|Trace|To store it sharded, write|Did you mean|Sizes that fit:"
    r"|Its (axes|dims|places|scopes) are|The dims there are|It is a place, whose rules are|Argument `|The function) ?"
)
# What a reason begins with: where the rule stands, and then the rule, or the line that it meets.
REASONS = re.compile(r"(At `|At .*: `|In `|`|The layout uses|The parts of `|An output )")
NAMES = ("mlp", "moe", "transformer", "diffusion", "state_space_adamw")


def refused(program: ml.Program, draws: int, chance: random.Random) -> Iterator[Refusal]:
    """Yields the refusals of layouts of which nothing says that they be legal."""
    dims = [*program.dims, "zebra"]
    places = [
        *program.places,
        "params/*",
        "params/zebra",
        *(f"@{name}" for scope in scopes(program) for name in scope),
        "@z",
    ]

    def rules(mesh: ml.Mesh, most: int) -> dict[str, Sequence[str]]:
        axes = [*mesh.axes, "nope"] if chance.random() < 0.3 else [*mesh.axes]
        some = chance.sample(dims, min(most, len(dims)))
        return {dim: tuple(chance.choices(axes, k=chance.choice((1, 1, 2)))) for dim in some}

    for _ in range(draws):
        mesh = chance.choice((*MESHES, *MESHES_IN_TIME))
        layout = {**rules(mesh, chance.randint(1, 3)), chance.choice(places): rules(mesh, 2)}
        try:
            program.plan(mesh, layout)
        except ml.LayoutError as error:
            yield from error.problems


@pytest.mark.share(2)
@pytest.mark.parametrize("name", NAMES)
def test_a_reason_is_about_a_rule_and_a_fix_is_a_command_or_what_there_is(name: str):
    program = next(model for model in models() if model.name == name).trace()
    seen = list(refused(program, 60, random.Random(name)))
    assert {"unknown_dim", "unknown_axis", "conflict"} < {refusal.code for refusal in seen}
    for refusal in seen:
        assert REASONS.match(refusal.text), refusal
        assert FIXES.match(refusal.fix), refusal
        assert refusal.text.endswith("."), refusal
        assert refusal.fix.endswith((".", "?")), refusal
        assert str(refusal) == f"{refusal.text} {refusal.fix}"
