"""Classes of primitives that the costs of time and of memory both ask for, by their traits (`engine/rules/traits`)."""

from __future__ import annotations

from ...engine.rules import names_where

# The result is the operand's bytes under another shape.
BITCASTS = names_where(lambda traits: traits.kind in ("bitcast", "mark"))
# Each element takes many instructions, so that compilers compute it once: the classes of XLA's
# `InstructionFusion::IsExpensive` (openxla/xla, xla/service/instruction_fusion.cc).
EXPENSIVE = names_where(lambda traits: traits.expensive)
REDUCING = names_where(lambda traits: traits.kind == "reduce")
MATMULS = names_where(lambda traits: traits.kind == "matmul")
# Each element can be computed where it is read.
FUSED = names_where(lambda traits: traits.kind in ("elementwise", "broadcast", "constant", "move", "concatenate"))
