"""Another model on the board: its layout, its history, its documents, and the list to choose from."""

from __future__ import annotations

import json
import threading

import pytest

import meshlab as ml
from meshlab.layouts.carried import within
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Accepted, ListModels, Open, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.board import session_part
from tests.widgets import small

pytestmark = pytest.mark.share(3, of="file")

MESH = ml.mesh(data=2, model=2)


def opened(explorer: Explorer, name: str, **sizes: int) -> str:
    answer = explorer.open(name, **sizes)
    assert isinstance(answer, Accepted), answer
    return answer.note


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ("batch:data", "batch:data", "The layout stays."),
        ("batch:data ffn:model", "batch:data ffn:model", "The layout stays."),
        ("batch:data buckets:model", "batch:data", "The layout is this model's DP."),
        (
            "seq:data buckets:model",
            "seq:data",
            "The layout is kept, except for `buckets`, which this model does not have.",
        ),
        ("buckets:model", "batch:data", "The layout is this model's DP."),
        ("", "", ""),
    ],
)
def test_a_layout_stays_as_far_as_its_dims_are_there(before: str, after: str, note: str) -> None:
    explorer = explore("t5", MESH, before)
    assert opened(explorer, "gpt2_adamw") == note
    assert str(explorer.layout) == after
    assert explorer.plan.program.dims == ml.named_models()["gpt2_adamw"].trace().dims


@pytest.mark.parametrize("layout", ["", "batch:data"])
def test_what_searches_need_not_keep_to_any_more_is_said(layout: str) -> None:
    explorer = explore("t5", MESH, layout)
    for change in (
        explorer.pin("buckets", "model"),
        explorer.pin("batch", "data"),
        explorer.forbid("buckets", "data"),
        explorer.silence("model"),
    ):
        assert change
    said = "The pin of `buckets` is gone. Nothing keeps `buckets` off `data` any more."
    assert opened(explorer, "gpt2_adamw") == (f"The layout stays. {said}" if layout else said)
    assert explorer.document.kept == {"pin": {"batch": "data"}, "silent": ["model"]}


def test_a_preset_stays_that_preset() -> None:
    explorer = explore("gpt2_adamw", MESH)
    explorer.preset("fsdp")
    assert opened(explorer, "mlp_adamw") == "The layout is this model's FSDP."
    assert explorer.layout == ml.layouts.fsdp(explorer.program, explorer.mesh)


def test_sizes_that_were_set_stay() -> None:
    """The same model again took batch from 64 to 8, and wiped the layout without a word."""
    explorer = explore("gpt2_adamw", ml.mesh(data=16, model=4), "batch:data", batch=64)
    before = explorer.document
    assert opened(explorer, "gpt2_adamw") == ""
    assert explorer.document == before
    assert opened(explorer, "llama_adamw") == "As before: `batch` 64. The layout stays."
    assert explorer.program.dims["batch"] == 64
    explorer.resize_dim("seq", 32)
    assert opened(explorer, "gpt2_adamw") == "As before: `batch` 64, `seq` 32. The layout stays."
    assert {**explorer.program.dims, "batch": 64, "seq": 32} == explorer.program.dims
    assert opened(explorer, "vit", batch=16) == "The layout stays."
    assert explorer.program.dims["batch"] == 16


def test_a_batch_that_the_mesh_does_not_divide_grows() -> None:
    explorer = explore("mlp", ml.mesh(data=16, model=4), "batch:data")
    note = opened(explorer, "gpt2_adamw")
    assert note == "`batch` is 16: the model's own batch of 8 is not divisible by `data`=16. The layout stays."
    assert explorer.program.dims["batch"] == 16
    # Nobody has set it: another model has its own again.
    assert opened(explorer, "autoencoder") == "The layout stays."
    assert explorer.program.dims["batch"] == 64


def test_rules_of_places_and_scopes_go_with_them() -> None:
    program = small.program()
    layout = ml.Layout.of(
        {"hidden": "model", "params/*": {"hidden": "data", "ffn": "model"}, "grads/*": {"ffn": "data"}}
    )
    assert (
        within(layout, program).to_dict() == ml.Layout.of({"hidden": "model", "params/*": {"hidden": "data"}}).to_dict()
    )


def test_undo_goes_back_to_the_model_before() -> None:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=2), "batch:data")
    document, first = explorer.document, explorer.source
    explorer.beside("fsdp")
    opened(explorer, "gpt2_adamw", batch=16)
    assert (explorer.source.name, explorer.source.text) == ("gpt2_adamw", '"gpt2_adamw"')
    assert explorer.program.dims["batch"] == 16
    assert explorer.mesh.on is not None
    # Nothing of the model before stands beside it, and it is compared with itself.
    assert explorer.other is None
    assert explorer.tried.baseline.name == "gpt2_adamw"
    view = explorer.view()
    assert view["title"] == "gpt2_adamw"
    assert view["selection"]["place"] in explorer.program.places_values
    assert explorer.undo()
    assert (explorer.document, explorer.source) == (document, first)
    assert explorer.tried.baseline.name == "start"
    assert {card["mesh"] for card in explorer.view()["comparison"]["cards"]} == {"", "gpt2_adamw, data × 2, model × 2"}
    assert explorer.redo()
    assert explorer.program.dims["batch"] == 16


def test_a_document_names_its_model_and_brings_it_along() -> None:
    explorer = explore(small.program(), MESH, "batch:data")
    plain = explorer.to_json()
    assert json.loads(plain)["schema"] == 3
    assert "model" not in json.loads(plain)
    opened(explorer, "gpt2_adamw", batch=16)
    explorer.resize_dim("seq", 32)
    text = explorer.to_json()
    assert json.loads(text)["model"] == {"name": "gpt2_adamw", "sizes": {"batch": 16}}
    other = explore(small.program(), MESH)
    assert other.restore(text)
    assert other.to_json() == text
    assert other.program.dims["seq"] == 32
    assert other.restore(plain)
    assert other.source.name == "step"


def test_a_saved_document_opens_the_model_that_it_names(tmp_path) -> None:
    explorer = explore("gpt2_adamw", MESH, "batch:data", batch=16)
    explorer.save(tmp_path / "layout.json")
    again = explore("mlp", MESH, document=tmp_path / "layout.json")
    assert again.document == explorer.document
    assert again.source == explorer.source
    # An older one, that names none, is of the model that it is opened with.
    data = json.loads(explorer.to_json())
    del data["model"]
    (tmp_path / "older.json").write_text(json.dumps(data | {"schema": 3}))
    assert explore("gpt2_adamw", MESH, document=tmp_path / "older.json", batch=16).document == explorer.document
    program = ml.named_models()["gpt2_adamw"].trace(batch=16)
    assert Explorer.from_json(explorer.to_json(), program).document == explorer.document


@pytest.mark.parametrize(
    ("name", "sizes", "reason"),
    [
        ("lama3-8b", {}, "There is no model `lama3-8b`. Did you mean `llama3-8b`"),
        ("gpt2", {"bach": 8}, "`bach` is not a dim of this program. Did you mean `batch`"),
        ("gpt2", {"batch": 0}, "0"),
    ],
)
def test_what_cannot_be_opened_is_refused(name: str, sizes: dict[str, int], reason: str) -> None:
    explorer = explore("mlp", MESH, "batch:data")
    before = explorer.document
    answer = explorer.open(name, **sizes)
    assert isinstance(answer, Refused)
    assert reason in answer.reason
    assert explorer.document == before
    assert explorer.view()["tracing"]["phase"] == "refused"
    with pytest.raises(ExplorerError, match=r"open\(\) was given 7 for a model"):
        explorer.open(7)  # type: ignore[arg-type]


def test_an_explorer_that_was_given_no_models_opens_none() -> None:
    explorer = Explorer(small.program(), MESH)
    answer = explorer.open("gpt2")
    assert isinstance(answer, Refused)
    assert "opens no other model" in answer.reason
    assert not {"open", "list_models"} & {*session_part(explorer)["can"]}
    assert {"open", "list_models"} <= {*session_part(explore("mlp", MESH))["can"]}


def test_opening_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = explore("mlp", MESH, "batch:data")
    model, reached, go_on = type(ml.named_models()["gpt2"]), threading.Event(), threading.Event()
    trace = model.trace

    def held(self, **sizes):
        reached.set()
        assert go_on.wait(60)
        return trace(self, **sizes)

    monkeypatch.setattr(model, "trace", held)
    answer = explorer.apply(Open("gpt2"))
    assert isinstance(answer, Accepted)
    assert answer.note == "`gpt2` is traced."
    assert reached.wait(60)
    tracing = explorer.view()["tracing"]
    assert (tracing["model"], tracing["phase"]) == ("gpt2", "tracing")
    assert explorer.place("hidden", "model")  # the board goes on meanwhile
    assert explorer.undo()
    go_on.set()
    assert explorer.view()["tracing"]["phase"] == "cancelled"
    assert explorer.source.name == "mlp"


def test_the_data_of_a_training_are_those_of_the_program() -> None:
    explorer = explore(small.program(), small.mesh(), run=small.training())
    opened(explorer, "gpt2_adamw")
    with pytest.raises(ExplorerError, match="The data belong to the program that the board was opened with"):
        explorer.run()


def test_the_list_has_every_model_with_its_parameters() -> None:
    explorer = explore("mlp", MESH)
    assert explorer.view()["models"] is None
    whole = threading.Event()
    explorer.subscribe(lambda what: whole.set() if what == "models" and explorer.listing.whole else None)
    assert explorer.apply(ListModels())
    assert whole.wait(120)
    models = ml.named_models()
    rows = explorer.view()["models"]["rows"]
    assert [row["name"] for row in rows] == [*models]
    by_name = {row["name"]: row for row in rows}
    assert by_name["llama3-8b"] == {
        "name": "llama3-8b",
        "group": "Language, at published sizes",
        "parameters": 8_030_261_248,
        "sizes": {"batch": 8, "seq": 8192},
    }
    assert by_name["resnet50"]["group"] == "Vision, at published sizes"
    assert by_name["mlp"]["group"] == "Small, for trying out"
    assert by_name["mlp"]["parameters"] == models["mlp"].parameters
