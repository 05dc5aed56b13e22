"""The runs as JSON-like data, for the table and the loss curve of the Run panel."""

from __future__ import annotations

from ..state.document import Document
from ..state.explorer_state import ExplorerState
from ..state.runs import Run

MOST_RUNS = 8
MOST_LOSSES = 120


def job_view(explorer: ExplorerState) -> dict:
    """Describes the latest run, and the last few, latest first."""
    runs = [run_view(run, explorer.document) for run in reversed(explorer.runs)]
    return {"current": runs[0] if runs else None, "runs": runs[:MOST_RUNS]}


def run_view(run: Run, current: Document) -> dict:
    """Describes a run.

    Args:
        run: the run.
        current: the present document; a run of another layout is stale.

    Returns:
        Plain data; at most 120 points of the loss curve.
    """
    losses = list(run.losses)
    stride = max(1, -(-len(losses) // MOST_LOSSES))
    return {
        "number": run.number,
        "revision": run.revision,
        "layout": str(run.document.layout),
        "stale": run.document.layout != current.layout,  # the machine changes no result
        "phase": run.phase,
        "taken": run.taken,
        "steps": run.steps,
        "first_loss": losses[0] if losses else None,
        "loss": losses[-1] if losses else None,
        "losses": losses[::stride],
        "stride": stride,
        "error": run.error,
    }
