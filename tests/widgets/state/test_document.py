"""Documents: JSON and back, what is refused, and the history."""

from __future__ import annotations

import json

import pytest

from meshlab.engine.specs.layout import Layout
from meshlab.widgets.documents.document import Document, ExplorerError, read_document
from meshlab.widgets.documents.history import History
from meshlab.widgets.explorer import Explorer


def document(layout: object = None) -> Document:
    return Document((("batch", 8), ("hidden", 16)), (("model", 4), ("data", 2)), Layout.of(layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "layout",
    [None, "batch:data hidden:model+data", {"batch": "data", "z/*": {"hidden": "data"}, "a/*": {"hidden": None}}],
)
def test_json_gives_the_document_back(layout: object) -> None:
    before = document(layout)
    after = read_document(before.to_json())
    assert after.layout == before.layout
    assert after.mesh == before.mesh
    assert dict(after.dims) == dict(before.dims)
    assert after.to_json() == before.to_json()


def test_equal_layouts_give_equal_text() -> None:
    assert document("hidden:model batch:data").to_json() == document({"batch": "data", "hidden": ["model"]}).to_json()


def test_unknown_schema_is_refused() -> None:
    data = json.loads(document().to_json()) | {"schema": 5}
    with pytest.raises(ExplorerError, match=r"has schema 5; this version of meshlab reads schema 1 to 4"):
        read_document(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("batch:data", "Invalid document of the Explorer: it is not JSON"),
        ("[1]", "it has no `schema`"),
        ('{"layout": {}}', "it has no `schema`"),
        ('{"schema": 1, "layout": {}}', "lacks dims, mesh; was it cut short.* Use the text from `explorer.to_json"),
        (
            '{"schema": 1, "dims": {"a": 3.0}, "mesh": [], "layout": {}}',
            r"1. `dims` is {'a': 3.0}; it must be sizes by name: .* \(Expected `int`, got `float`\)",
        ),
        ('{"dims": {}', r"it is not JSON \(.*\). Use the text from `explorer.to_json\(\)`"),
        ("[" * 100_000, r"it is not JSON \(.*\). Use the text"),
        ("1" * 5_000, r"it is not JSON \(.*\). Use the text"),
        (
            '{"schema": 1, "dims": 3, "mesh": 4, "layout": {}}',
            r"1. `dims` is 3; it must be .*\n  2. `mesh` is 4; it must",
        ),
    ],
)
def test_other_text_is_refused(text: str, match: str) -> None:
    with pytest.raises(ExplorerError, match=match):
        read_document(text)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"schema": True}, "has schema True; this version"),
        (
            {"mesh": {"data": -1}},
            r"1. `mesh` is {'data': -1}; it must be a list of names and sizes: .* \(Expected `array`, got `object`\)",
        ),
        (
            {"mesh": [["data", 2], ["data", 2, 3]]},
            r"`mesh` is .*; it must be a list of .* \(Expected `array` of length 2, got 3 - at `\$\[1\]`\)",
        ),
        ({"mesh": [["data", {"serial": 8}], ["data", {"x": 8}]]}, "the size of `data` is {'x': 8}"),
        (
            {"mesh": [["data", 2], ["model", "2"]]},
            r"`mesh` is .*\(Expected `int \| object`, got `str` - at `\$\[1\]\[1\]`",
        ),
        ({"dims": ["batch"]}, r"1. `dims` is \['batch'\]; it must be sizes by name: {\"batch\": 8}"),
        ({"dims": {"batch": 0}}, r"`dims` is {'batch': 0}; it must be sizes by name: .* \(Expected `int` >= 1\)"),
        ({"options": {"prefech": True}}, r"it must be assumptions: {\"attention\": .*, \"prefetch\": .*'prefech'"),
        ({"options": {"prefetch": "no"}}, "`prefetch` must be True or False, not 'no'"),
        ({"options": []}, r"`options` is \[\]; it must be assumptions"),
        (
            {"along": {"data": "up"}},
            "`along` is {'data': 'up'}; it must be placements by mesh axis: .*Invalid enum value 'up'",
        ),
        ({"along": None, "layout": 3}, r"1. `layout` is 3; .* 2. `along` is None; it must be placements by mesh axis"),
        ({"pad": 1}, "`pad` is 1; it must be true or false"),
        ({"pad": 1, "pins": []}, r"1. `pad` is 1; .*\n  2. `pins` is \[\]; it must be mesh axes by dim"),
        ({"pins": {"batch": 3}}, "`pins` is {'batch': 3}; it must be mesh axes by dim"),
        ({"renamed": {"~seq": None}}, "`renamed` is {'~seq': None}; it must be new names by old ones"),
        ({"resized": {"batch": True}}, "`resized` is {'batch': True}; it must be sizes by dim"),
    ],
)
def test_documents_that_were_changed_are_refused(changed: dict, match: str) -> None:
    with pytest.raises(ExplorerError, match=f"(?s){match}"):
        read_document(json.dumps(json.loads(document().to_json()) | changed))


@pytest.mark.parametrize("key", ["options", "along", "machine"])
def test_only_documents_of_schema_1_know_no_machine(key: str) -> None:
    data = json.loads(document().to_json())
    del data[key]
    with pytest.raises(ExplorerError, match=f"lacks {key}; was it cut short"):
        read_document(json.dumps(data))
    assert read_document(json.dumps(data | {"schema": 1})) == document()


@pytest.mark.parametrize("key", ["pad", "pins", "renamed", "resized"])
def test_only_documents_before_schema_3_know_no_edits(key: str) -> None:
    data = json.loads(document().to_json())
    del data[key]
    with pytest.raises(ExplorerError, match=f"lacks {key}; was it cut short"):
        read_document(json.dumps(data))
    assert read_document(json.dumps(data | {"schema": 2})) == document()


def test_history_goes_back_and_forth() -> None:
    one, two, three = (document(f"hidden:{axis}") for axis in ("data", "model", "data+model"))
    history = History(one).commit(two).commit(three)
    assert history.undo().present == two
    assert history.undo().undo().undo().present == one
    assert history.undo().undo().redo().present == two
    assert history.redo() is history
    assert history.undo().commit(one).future == ()


def test_an_explorer_is_opened_from_its_json(explorer: Explorer) -> None:
    explorer.load({"hidden": "model", "params/*": {"classes": "data"}})
    again = Explorer.from_json(explorer.to_json(), explorer.program)
    assert again.layout == explorer.layout
    assert again.mesh == explorer.mesh
    assert again.plan.wire_bytes == explorer.plan.wire_bytes


def test_json_of_another_program_is_refused(explorer: Explorer) -> None:
    text = document("hidden:model").to_json()
    with pytest.raises(
        ExplorerError,
        match=r"for a program with the dims .*'hidden': 16.* the given program has"
        r" .* Open it with its own program, or load only its layout: explorer.load\(layout\)",
    ):
        Explorer.from_json(text, explorer.program)
