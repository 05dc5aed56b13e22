"""Training: a plan, a state and batches come in; out go the state after many steps, losses, and checkpoints."""
