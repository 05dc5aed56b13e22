"""The error of what cannot be explained."""

from __future__ import annotations

from ...engine.errors import MeshlabError


class OwnError(MeshlabError):
    """The user's own compiled program cannot be explained."""
