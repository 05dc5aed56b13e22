"""Plans: steps come in; out goes a `Plan` and its collectives, with their bytes, causes and remedies."""
