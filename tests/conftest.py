"""What every test runs under: eight simulated CPU devices, strict JAX, reproducible hypothesis.

The devices must be asked for before anything makes the first array, which is why it happens here, on import. Tests
never touch an accelerator, so that they mean the same on every machine.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
# Machine code that is compiled without optimization is compiled three times as fast; the collectives are the same.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import hypothesis
import jax

jax.config.update("jax_num_cpu_devices", 8)

# Nothing here is timed by hypothesis: on two shared cores a deadline would only measure the neighbours.
hypothesis.settings.register_profile("local", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")
