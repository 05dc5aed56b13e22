"""A layout goes into the next cell by IPython's own payload, and outside of a notebook the error says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError


def test_a_script_is_told_what_to_do(program: Any) -> None:
    explorer = explore(program, ml.mesh(data=2))
    with pytest.raises(ExplorerError, match=r'there is none here; use print\(explorer.form\("jit"\)\)'):
        explorer.next_cell("jit")


def test_what_cannot_be_said_stands_above_as_comments(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = explore(program, ml.mesh(data=2, model=4), {"hidden": "model", "params/*": {"classes": "data"}})
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(shell, "set_next_input", lambda text, replace: asked.append((text, replace)))
    explorer.next_cell("axis rules")
    ((text, replace),) = asked
    assert not replace
    assert text.splitlines()[0].startswith("# axis rules cannot express: at `params/*` is stored classes:data")
    assert eval(text) == [("hidden", "model")]
    with pytest.raises(ExplorerError, match="There is no form"):
        explorer.next_cell("jip")
    assert len(asked) == 1
