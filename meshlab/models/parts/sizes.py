"""Sizes of a model, and dims of them by name: the base of most `Config`s.

    @dataclasses.dataclass(frozen=True)
    class Config(Sizes):
        batch: int = 8
        seq: int = 16

    Config().dims("batch seq")                         # (Dim("batch", 8), Dim("seq", 16))

A field is called as the dim that it is the size of, so that a program reads like its config.
"""

from __future__ import annotations

import meshlab as ml


class Sizes:
    """Looks up dims by the names of fields; a frozen dataclass of sizes inherits it.

    Attributes:
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    unrolled = False

    def __getitem__(self, name: str) -> ml.Dim:
        return ml.Dim(name, getattr(self, name))

    def dims(self, names: str) -> tuple[ml.Dim, ...]:
        """Returns dims by their names: `config.dims("batch seq")`."""
        return tuple(self[name] for name in names.split())
