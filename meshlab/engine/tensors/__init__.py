"""Tensors: what models are written in. Arrays and dims come in; out go arrays whose axes have names."""
