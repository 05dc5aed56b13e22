"""Scopes: what a plan has made so far in one block."""

from __future__ import annotations

from .spec import Spec
from .steps import Step


class Scope:
    """The steps of one block, and the specs in which its values are available."""

    def __init__(self):
        self.steps: list[Step] = []
        self.available: dict[int, tuple[Spec, ...]] = {}
