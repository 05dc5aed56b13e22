"""Code: a jaxpr comes in; out go numbered operations in nested blocks, with source lines."""
