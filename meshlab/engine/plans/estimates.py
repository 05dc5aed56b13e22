"""Estimates: what other packages predict of a plan, by name.

The engine knows no machine, and no package above it. Those that predict enter their functions here, and a plan asks for
them: `plan.time` is whatever was entered as "time".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import Plan

_functions: dict[str, Callable[[Plan], Any]] = {}


def enter(name: str, function: Callable[[Plan], Any]):
    """Enters what predicts something of a plan."""
    _functions[name] = function


def estimate(name: str, plan: Plan) -> Any:
    """Returns what is predicted of a plan."""
    return _functions[name](plan)
