"""The engine: names, tracing, rules, plans, lowering, running, verifying. It knows nothing of the folders beside it."""
