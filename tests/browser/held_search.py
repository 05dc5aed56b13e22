"""A search that goes on for as long as a test looks at it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import meshlab as ml
from meshlab.widgets.state import searches


class Held:
    """A search that tells of two layouts, and goes on until it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.told, self.more, self.further, self.open = (threading.Event() for _ in range(4))
        monkeypatch.setattr(searches, "best", self.best)
        monkeypatch.setattr(searches, "OFTEN", 0.0)

    def best(self, search: Any, progress: Any) -> Any:
        plan = search.program.plan(search.mesh, "batch:a+b")
        estimate = plan.time.estimate
        progress(ml.auto.Found(plan, estimate, 0.5 * estimate, 12, 0.25))
        self.told.set()
        assert self.more.wait(60)
        progress(ml.auto.Found(plan, estimate, 0.8 * estimate, 1_234, 0.5))
        self.further.set()
        assert self.open.wait(60)
        return ml.auto.layout(search.program, search.mesh)

    def end(self) -> None:
        """Lets the search end, and waits for it."""
        self.more.set()
        self.open.set()
        for thread in threading.enumerate():
            if thread.name.startswith("meshlab-auto"):
                thread.join(60)
