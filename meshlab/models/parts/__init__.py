"""Parts of models: dims come in; out go layers, initial weights and train steps that the families share."""
