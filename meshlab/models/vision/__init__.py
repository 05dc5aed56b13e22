"""Vision models: sizes come in; out go parameters and functions of images."""
