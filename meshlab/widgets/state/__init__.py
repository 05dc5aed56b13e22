"""State: intents come in; out goes the next state of an Explorer, or a refusal with its reason and a fix."""
