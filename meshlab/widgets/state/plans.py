"""The plans of documents, the latest of them kept, all on one mesh for each placement.

Plans on the same mesh share what was worked out for the steps that they have in common (`cost/workload/scenario.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping
from typing import Any

from ...api.stages import make_plan
from ...cost.machines.hardware import Hardware
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from .document import Document, check_document
from .machines import mesh_on
from .retraced import Programs

# As many as the zones of a large board: each is priced twice, by its time and then by its peak.
KEPT = 40


class Plans:
    """The plans of an Explorer's documents.

    Args:
        programs: the program, by its dims.
        lock: the Explorer's.
    """

    def __init__(self, programs: Programs, lock: threading.RLock):
        self._programs, self._lock = programs, lock
        self._known: dict[Document, Any] = {}
        self._meshes: dict[Any, Mesh] = {}

    def of(self, document: Document, custom: Mapping[str, Hardware]) -> Any:
        check_document(document)
        document = document.unpinned
        with self._lock:
            if document not in self._known:
                placed = document.machine, document.mesh
                if placed not in self._meshes:
                    self._meshes[placed] = mesh_on(*placed, custom)
                program, mesh = self._programs.at(document), self._meshes[placed]
                plan = make_plan(program, mesh, document.layout, document.pad or None)
                # A remedy is tried by the plan that its price is of.
                under = functools.partial(self._under, document, custom)
                self.put(document, dataclasses.replace(plan, under=under))
            return self._known[document]

    def _under(self, document: Document, custom: Mapping[str, Hardware], layout: Layout) -> Any:
        return self.of(dataclasses.replace(document, layout=layout), custom)

    def put(self, document: Document, plan: Any) -> None:
        """Keeps a plan as a document's: one that was made elsewhere, or a broken one, to see that runs tell."""
        with self._lock:
            while len(self._known) >= KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[document.unpinned] = plan

    def forget(self, document: Document) -> None:
        """Forgets the plan of a document: it has its costs as well."""
        with self._lock:
            self._known.pop(document.unpinned, None)

    def clear(self) -> None:
        """Forgets all, since a machine has changed."""
        with self._lock:
            self._known.clear()
            self._meshes.clear()
