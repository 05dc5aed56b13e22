"""What stands in the place of a view that is still being worked out."""

from __future__ import annotations

from typing import Literal, TypedDict


class PendingView(TypedDict):
    """It is being worked out: the page keeps what it has, and asks again."""

    pending: Literal[True]


PENDING: PendingView = {"pending": True}
