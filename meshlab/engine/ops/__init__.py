"""Operations on named tensors, one idea per module; `meshlab/__init__.py` is where users find them.

Each operation lists the dims that it uses up, and the rest ride along. Each traces to plain JAX primitives, as few as
it can, reshapes only where dims are merged, and marks its result with its names.
"""
