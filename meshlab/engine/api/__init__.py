"""The doors: a function comes in; out go a `Program` and its `Plan`s, with all that users ask of them."""
