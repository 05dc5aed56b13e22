"""Step time: a plan on a machine comes in; out goes its `Time`: seconds of matmuls, memory traffic and collectives."""
