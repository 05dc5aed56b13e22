"""The scope of a block: its steps so far, and where its values are available."""

from __future__ import annotations

from ..specs.spec import Spec
from .steps import Step


class Scope:
    """The steps of one block, and the specs in which its values are available.

    Attributes:
        depth: in how many blocks it stands.
    """

    def __init__(self, depth: int = 0):
        self.depth = depth
        self.steps: list[Step] = []
        self.available: dict[int, tuple[Spec, ...]] = {}
