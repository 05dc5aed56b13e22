"""Gates: what would end by itself is held until a test lets it, so that no test hopes that something takes long."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from meshlab.auto.objective import OBJECTIVES
from meshlab.auto.proof import Proof
from meshlab.cost.workload.options import Options
from meshlab.widgets.documents.costing import Costing
from meshlab.widgets.documents.intents import Auto
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state import searches
from meshlab.widgets.state.searches import Search


class Gate:
    """Holds whatever is worked out of documents until it is opened; nobody who draws waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, costing: Costing):
        self.reached, self.open, self._work = threading.Event(), threading.Event(), costing.work
        monkeypatch.setattr(costing, "work", self.work)
        monkeypatch.setattr(costing, "patience", 0.0)

    def work(self, plan, document):
        self.reached.set()
        assert self.open.wait(60)
        return self._work(plan, document)


@dataclasses.dataclass(frozen=True)
class Found:
    """What `ml.auto.layout` gives, as far as the Explorer looks at it."""

    plan: Any
    objective: str

    @property
    def layout(self) -> Any:
        return self.plan.layout

    @property
    def proof(self) -> Proof:
        value = OBJECTIVES[self.objective].of_plan(self.plan, Options())
        return Proof("hand", self.objective, "one layout", "all others", 1, value, value, 0.0, 0.0)


FINDS = {"traffic": "hidden:model", "memory": "batch:data hidden:model"}


class Gates:
    """Searches that end when they are let: at the gate of their objective, whether they were cancelled or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(searches, "best", self.best)
        self.waiting, self.open = ({objective: threading.Event() for objective in FINDS} for _ in range(2))
        self.threads: list[threading.Thread] = []

    def best(self, search: Search, progress: Any) -> Found:
        self.threads.append(threading.current_thread())
        self.waiting[search.objective].set()
        assert self.open[search.objective].wait(60)
        return Found(search.program.plan(search.mesh, FINDS[search.objective]), search.objective)

    def ask(self, explorer: Explorer, objective: str) -> None:
        """Asks for a search in the background, and waits until it is at its gate."""
        assert explorer.apply(Auto(objective))
        assert self.waiting[objective].wait(60)

    def end(self, objective: str) -> None:
        """Lets the searches for an objective end, and waits until none goes on that was let."""
        assert self.waiting[objective].wait(60)
        self.open[objective].set()
        for thread in self.threads:
            if objective in thread.name:
                thread.join(60)
                assert not thread.is_alive()


def costs_of(explorer: Explorer) -> threading.Event:
    """Is set when the explorer next has the costs of its plan."""
    there = threading.Event()
    explorer.subscribe(lambda what: there.set() if what == "costs" else None)
    return there
