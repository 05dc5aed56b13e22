"""The layout in forms that can be pasted elsewhere: Python, JSON, what `jax.jit` takes, other systems' rules."""
