"""The layout on the board in forms that can be pasted elsewhere.

forms_view(explorer)["forms"]       [{"name": "dict", "text": "{'batch': 'data'}"}, {"name": "JSON", …}]
"""

from __future__ import annotations

import json

from ..state.explorer_state import ExplorerState


def forms_view(explorer: ExplorerState) -> dict:
    """Describes the present layout in each form."""
    rules = explorer.layout.to_dict()
    return {"forms": [{"name": "dict", "text": repr(rules)}, {"name": "JSON", "text": json.dumps(rules)}]}
