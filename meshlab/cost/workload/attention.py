"""Says how attention is run: fused attention kernels (FlashAttention) never store its scores in memory.

In the backward pass such a kernel recomputes the scores: five matmuls where the forward pass has two. A program that
stores them has four, and is charged for the fifth.

How it is run is an assumption (`ATTENTION`): users of GPUs and TPUs run fused kernels, which leave out the tiles that a
causal mask hides. Scores that a collective sends, partial sums over a split head say, are in memory however it is run.

Source: Dao et al. 2022, FlashAttention (https://arxiv.org/abs/2205.14135), section 3 and appendix B.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ...engine.attention.scores import Scores, attentions, scores_of
from ...engine.planning.shared_steps import counted_only
from ...engine.planning.steps import Move
from ...engine.plans.plan_data import Plan
from ...engine.programs.program import Program, analysis
from .causal_masks import causal_masks

# How attention is run: as users of the platform do; its scores stored, as the program has them; in a fused kernel; in
# one that leaves out what a causal mask hides.
ATTENTION = DEFAULT, STORED, FLASH, CAUSAL = "default", "stored", "flash", "causal"


def as_run(attention: str, platform: str, plan: Plan) -> str:
    """Returns how attention is run, "stored", "flash" or "causal"; `DEFAULT` is as users of a platform run it."""
    if attention != DEFAULT:
        return attention
    if platform == "cpu" or not fusable(plan):
        return STORED
    return CAUSAL if masked(plan.program) else FLASH


def fusable(plan: Plan) -> Mapping[int, Scores]:
    """Returns each value that is a score, its mask or its gradient, of kinds of which no collective sends any."""
    return plan.once(_fusable)


def _fusable(plan: Plan) -> Mapping[int, Scores]:
    scores = scores_of(plan.program)
    if not scores:
        return scores
    moves = (step for step, _ in counted_only(Move, plan.planned.steps) if step.collective)
    sent = {scores[step.value] for step in moves if step.value in scores}
    return {value: kind for value, kind in scores.items() if kind not in sent} if sent else scores


@analysis
def masked(program: Program) -> Mapping[Scores, tuple[str, str]]:
    """Returns the kinds of scores that a causal mask hides, with the dims of the positions of queries and keys."""
    pairs = {}
    for kind, mask in itertools.product(attentions(program), causal_masks(program)):
        queries, keys = kind.queries & mask, kind.keys & mask
        if len(queries) == 1 and keys == kind.keys and len(mask - queries) == 1:
            pairs[kind] = (*queries, *keys)
    return pairs


@analysis
def supposed(program: Program) -> Mapping[Scores, tuple[str, str]]:
    """Returns the kinds of scores that a causal mask hides if all do: of as many queries as keys."""
    pairs, dims = {}, program.dims
    for kind in attentions(program):
        for query, key in itertools.product(kind.queries, kind.keys):
            if len(kind.keys) == 1 and query is not None and key is not None and dims.get(query) == dims.get(key):
                pairs[kind] = query, key
    return masked(program) or pairs
