"""Layouts with rules by scope: read, written, combined, and refused with what to write."""

import pytest

from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.layout import Layout

ULYSSES = {"batch": "data", "seq": "model", "@core": {"seq": None, "heads": "model"}}


def test_layouts_are_read_written_and_combined_with_their_scopes():
    layout = Layout.of(ULYSSES)
    assert str(layout) == "batch:data seq:model · @core: heads:model seq:whole"
    assert layout.to_dict() == {"batch": "data", "seq": "model", "@core": {"heads": "model", "seq": None}}
    assert Layout.of(layout.to_dict()) == layout
    assert dict(layout.scopes["@core"]) == {"heads": ("model",), "seq": ()}
    both = layout & {"ffn": "data", "@ffn": {"batch": None}}
    assert list(both.scopes) == ["@core", "@ffn"]
    assert layout & {"@core": {"seq": None}} == layout
    with pytest.raises(LayoutError, match="at `@core`, `heads` is on `model` in one and on `data` in the other"):
        _ = layout & {"@core": {"heads": "data"}}
    with pytest.raises(LayoutError, match=r"`@core` and `@co\*` may match one scope"):
        _ = layout & {"@co*": {"heads": "data"}}
    with pytest.raises(LayoutError, match="in `@core` is computed heads:model, seq:whole: the format has no rules"):
        layout.to_string()
    with pytest.raises(LayoutError, match="`@core` is a scope, whose rules are a dict"):
        Layout.of({"@core": "model"})
    with pytest.raises(LayoutError, match="`@` names no scope: write a name, such as `@core`"):
        Layout.of({"@": {"batch": "data"}})
    for nested in ({"@core": {"@scores": {"heads": "model"}}}, {"@core": {"scores": {"heads": "model"}}}):
        with pytest.raises(LayoutError, match='a scope is a path in one text: "@core/scores"'):
            Layout.of(nested)
    with pytest.raises(LayoutError, match=r'storage has no scope: write "params/\*" beside "@core", not inside it\.'):
        Layout.of({"@core": {"params/*": {"heads": "model"}}})
    with pytest.raises(LayoutError, match='write "out/0" beside .* or, if scopes are meant, "@core/out/0"'):
        Layout.of({"@core": {"out/0": {"heads": "model"}}})
    with pytest.raises(LayoutError, match=r'storage has no scope: write "@core" beside "params/\*", not inside it'):
        Layout.of({"params/*": {"@core": {"heads": "model"}}})
    with pytest.raises(LayoutError, match="scope_rules=5"):
        Layout((), (), 5)  # pyright: ignore[reportArgumentType]
