"""State: intents come in; out goes the next state of an Explorer, or why not."""
