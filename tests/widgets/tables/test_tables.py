"""Tables of raw numbers: their rows add up to what the plan says, and CSV and JSON have all of them."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.version import __version__
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.files import CODE, NO_ROWS, PANELS, FileOfferView, file_view, files_view
from meshlab.widgets.tables.table import MOST_PRINTED, MOST_SHOWN, Table
from meshlab.widgets.tables.tables import TABLES
from meshlab.widgets.views.pending import PENDING
from tests.widgets import small
from tests.widgets.printed import BOARDS, of_digits, of_llama, of_mixtral

pytestmark = pytest.mark.share(2, of="file")

FULL = [name for name in TABLES if name != "regrets"]


def column(table: Table, name: str) -> list[Any]:
    return [row[name] for row in table]


@pytest.mark.parametrize("name", FULL)
def test_csv_and_json_have_every_row(name: str) -> None:
    table = of_digits().table(name)
    read = list(csv.DictReader(io.StringIO(table.csv())))
    assert len(read) == len(table) > 0
    assert list(read[0]) == [*table.columns, *(f"about_{what}" for what in table.about)]
    for written, row in zip(read, table, strict=True):
        for key in table.columns:
            value = row.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert float(written[key]) == value
            elif isinstance(value, bool) or value is None:
                assert written[key] == {True: "true", False: "false", None: ""}[value]
            else:
                assert written[key].split() == str(value).split()
    assert all(math.isfinite(x) for row in table for x in row.values() if isinstance(x, float))
    data = json.loads(table.json())
    assert data["rows"] == [dict(row) for row in table]
    sizes = "hidden 256 · batch 128 · classes 10 · rows 8 · cols 8"
    assert (data["program"], data["sizes"]) == ("_step", sizes)
    # In CSV in each row, so that the rows of two files stay apart.
    assert all({what: row[f"about_{what}"] for what in table.about} == table.about for row in read)
    assert {what: data[what] for what in table.about} == table.about
    assert (data["table"], data["meshlab"], data["machine"]) == (name, __version__, "Google TPU v5e, 2x4")
    named = "DP over data + TP over model (batch:data hidden:model)"
    assert (data["mesh"], data["layout"]) == ("data 4 × model 2", named)


def test_what_is_sent_adds_up() -> None:
    for explorer in (of_digits(), of_llama(), of_mixtral()):
        plan = explorer.plan
        sent = explorer.table("collectives")
        assert len(sent) == len(plan.collectives)
        assert sum(row["wire_bytes_each"] * row["times"] for row in sent) == pytest.approx(plan.wire_bytes)
        # `wire_bytes` is of a step in every table.
        assert sum(column(sent, "wire_bytes")) == pytest.approx(plan.wire_bytes)
        assert all(row["payload_bytes"] == row["payload_bytes_each"] * row["times"] for row in sent)
        assert sum(column(explorer.table("communication"), "wire_bytes")) == pytest.approx(plan.wire_bytes, abs=5)
        assert sum(column(explorer.table("lines"), "wire_bytes")) == pytest.approx(plan.wire_bytes, abs=50)
        nodes = [row for row in explorer.table("program") if row["wire_bytes"] is not None]
        assert sum(row["wire_bytes"] for row in nodes) == pytest.approx(plan.wire_bytes)
        assert all(row["wire_bytes"] == row["wire_bytes_each"] * row["times"] for row in nodes)


def test_time_adds_up_lane_by_lane() -> None:
    for explorer in (of_digits(), of_llama(), of_mixtral()):
        time = explorer.time
        assert time is not None
        lanes: dict[str, float] = {}
        for row in explorer.table("timeline"):
            lanes[row["lane"]] = lanes.get(row["lane"], 0.0) + row["running_seconds"]
        assert lanes.pop("exposed", 0.0) == pytest.approx(float(time.exposed), rel=1e-3, abs=1e-12)
        assert lanes.pop("kernels") == pytest.approx(float(time.compute))
        assert lanes == pytest.approx({axes: float(s) for axes, s in time.communication.items() if s})
        parts = {row["part"]: row["seconds"] for row in explorer.table("time")}
        assert parts["step, estimate"] == time.estimate
        assert (parts["step, lower"], parts["step, upper"]) == (time.lower, time.upper)
        # What is a part is told apart from what is of the whole step.
        alone = [row["part"] for row in explorer.table("time") if row["kind"] == "part"]
        assert alone == [part["label"] for part in explorer.view()["time"]["parts"]]
        assert {row["kind"] for row in explorer.table("time")} == {"part", "step"}
        assert sum(column(explorer.table("roofline"), "seconds")) == pytest.approx(float(time.compute))


def test_memory_adds_up() -> None:
    for explorer in (of_llama(), of_mixtral()):
        memory = explorer.plan.memory.donated
        roles = {row["role"]: row["bytes"] for row in explorer.table("memory")}
        assert roles.pop("all") == sum(roles.values()) == memory.peak_bytes
        parts = [row["bytes"] for row in explorer.table("memory") if row["kind"] == "part"]
        assert sum(parts) == memory.peak_bytes
        moments = explorer.table("moments")
        assert column(moments, "bytes") == [int(point.bytes) for point in memory.timeline]
        assert max(column(moments, "bytes")) == memory.peak_bytes


def test_without_a_machine_memory_is_what_is_stored(explorer: Explorer) -> None:
    stored = {row["value"]: row["bytes"] for row in explorer.table("memory")}
    assert stored == dict(explorer.plan.stored.parts)


def test_devices_say_what_each_one_holds() -> None:
    explorer = explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data hidden:model")
    explorer.select("params/w1")
    table = explorer.table("devices")
    for row in table:
        ranges = explorer.plan.shard("params/w1", row["device"])
        assert [(row[f"{dim}_begin"], row[f"{dim}_end"]) for dim in ("rows", "cols", "hidden")] == list(ranges)
        assert explorer.mesh.coordinates(row["device"]) == {"data": row["data_index"], "model": row["model_index"]}


def test_the_layout_has_every_rule(explorer: Explorer) -> None:
    explorer.load({"batch": "data", "params/*": {"hidden": None}, "params/w2": {"hidden": "model"}})
    rows = {(row["at"], row["dim"]): (row["mesh_axes"], row["size_on_device"]) for row in explorer.table("layout")}
    assert rows[("", "batch")] == ("data", 4)
    assert rows[("", "rows")] == ("", 4)
    assert (rows[("params/*", "hidden")], rows[("params/w2", "hidden")]) == (("", None), ("model", None))


def test_the_comparison_has_the_board_s_totals_and_what_auto_met() -> None:
    explorer = of_digits()
    table = explorer.table("comparison")
    cards = explorer.view()["comparison"]["cards"]
    assert [row["name"] for row in table if row["name"]] == [card["name"] for card in cards]
    for row, card in zip(table, cards, strict=False):
        assert (row["seconds"], row["peak_bytes"]) == (card["totals"]["seconds"], card["totals"]["peak"])
    assert explorer.choice is not None
    met = [row["seconds"] for row in table if not row["name"]]
    assert sorted(met) == sorted(price.seconds for price in explorer.choice.alternatives)


def test_losses_are_those_of_the_runs() -> None:
    explorer = of_digits()
    losses = [loss for run in explorer.runs for loss in run.losses]
    assert column(explorer.table("loss"), "loss") == losses
    assert column(explorer.table("runs"), "last_loss") == [run.losses[-1] for run in explorer.runs]


def test_a_table_is_a_list_of_rows_and_shows_itself() -> None:
    table = of_mixtral().table("moments")
    assert table[0] == table.rows[0]
    assert [*table] == list(table.rows)
    html = table._repr_html_()
    assert html.count("<tr>") == MOST_SHOWN + 1
    assert f"and {len(table) - MOST_SHOWN:,} more rows" in html
    printed = repr(table).splitlines()
    assert printed[0] == f"Table moments: {len(table):,} rows"
    assert printed[1].split() == table.columns
    assert [line.split()[0] for line in printed[2:-1]] == [f"{row['operation']}" for row in table[:MOST_PRINTED]]
    assert f"{table[0]['bytes']:,}" in printed[2]
    assert printed[-1] == f"and {len(table) - MOST_PRINTED:,} more rows"


@pytest.mark.parametrize("name", FULL)
def test_the_texts_of_a_table_are_plain(name: str) -> None:
    marked = [value for row in of_digits().table(name) for value in row.values() if "`" in str(value)]
    assert marked == []


def test_a_table_is_set_in_markdown_and_latex() -> None:
    table = of_llama().table("collectives")
    sent = f"{int(table[0]['wire_bytes']):,}"
    markdown = table.markdown().splitlines()
    assert len(markdown) == len(table) + 2
    assert markdown[0] == f"| {' | '.join(table.columns)} |"
    assert [bar == "---:" for bar in markdown[1][2:-2].split(" | ")] == [
        "bytes" in c or c == "times" for c in table.columns
    ]
    assert sent in markdown[2]
    latex = table.latex().splitlines()
    assert latex[0].startswith("% collectives: program llama3-8b, sizes batch 64 · seq 8,192 · ")
    assert "mesh replica 2 × data 8 × model 4, machine Google TPU v5p" in latex[0]
    assert latex[2] == r"\begin{tabular}{lllllrrrrrlll}"
    assert latex[4].startswith(r"kind & mesh\_axes & value")
    assert (latex[3], latex[5], latex[-2]) == (r"\toprule", r"\midrule", r"\bottomrule")
    rows = latex[6:-2]
    assert len(rows) == len(table)
    assert sent in rows[0]
    assert all(row.count(" & ") == len(table.columns) - 1 and row.endswith(r" \\") for row in rows)


def test_what_latex_and_markdown_read_as_their_own_is_escaped() -> None:
    table = Table("one", {}, ({"a_b": r"50% of $x_1 & {y}\z|*`", "n": 2.0, "none": None, "yes": True, "half": 0.5},))
    assert r"50\% of \$x\_1 \& \{y\}\textbackslash{}z\textbar{}*` & 2 &  & true & 0.5 \\" in table.latex()
    assert r"| 50% of $x\_1 & {y}\\z\|\*\` | 2 |  | true | 0.5 |" in table.markdown()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("collective", r"There is no table 'collective'; there are .*runs.*\. Did you mean `collectives`"),
        ("time", "No machine is chosen, so there are no times"),
        ("roofline", "No machine is chosen, so there are no times"),
        ("timeline", "No machine is chosen, so there are no times"),
        ("moments", "No machine is chosen, so no peak is predicted"),
        ("comparison", "There is no layout to compare with yet"),
        ("waterfall", "Auto has not found the fastest layout"),
        ("regrets", "Auto has not found the fastest layout"),
        ("loss", "There is no run with a loss yet"),
        ("runs", "There is no run with a loss yet"),
        ("numbers", "There are no numbers before a run"),
    ],
)
def test_a_table_that_has_no_rows_yet_says_why(explorer: Explorer, name: str, reason: str) -> None:
    with pytest.raises(ExplorerError, match=reason):
        explorer.table(name)


def offered(explorer: Explorer, panel: str) -> list[FileOfferView]:
    answer = files_view(explorer, panel)
    assert not isinstance(answer, Refused)
    return answer["files"]


def test_what_has_no_rows_is_offered_with_the_reason(explorer: Explorer) -> None:
    explorer.load({})
    offers = {each["name"]: each["why"] for panel in PANELS for each in offered(explorer, panel)}
    for name, why in offers.items():
        made: Any = file_view(explorer, name, "py" if name == CODE else "csv" if name in TABLES else "svg")
        if why == NO_ROWS:
            assert made["said"] == "0 rows", name
        else:
            assert (made.reason if isinstance(made, Refused) else "") == why, name
            assert "explorer." not in why, name
    not_yet = "Auto has not found the fastest layout for this board; choose a machine, then press Auto."
    assert offers["waterfall"] == not_yet
    assert offers["loss"] == "There is no run with a loss yet; press Run first."
    assert offers["communication"] == offers["collectives"] == NO_ROWS
    assert offers["layout"] == offers["board"] == ""
    assert of_digits().searches.fastest is not None
    assert not any(each["why"] for each in offered(of_digits(), "compare"))


def test_a_table_without_rows_is_nothing(explorer: Explorer) -> None:
    table = explorer.table("communication")
    assert (len(table), table.csv(), table._repr_html_()) == (0, "", "<p>no rows</p>")
    assert (table.markdown(), table.latex(), repr(table)) == ("", "", "Table communication: 0 rows")


def test_a_table_is_saved_as_its_name_ends(tmp_path: Path) -> None:
    table = of_digits().table("collectives")
    table.save(tmp_path / "sent.csv")
    table.save(tmp_path / "sent.json")
    assert (tmp_path / "sent.csv").read_bytes().decode() == table.csv()
    assert (tmp_path / "sent.json").read_text() == table.json()
    table.save(tmp_path / "sent.tex")
    table.save(tmp_path / "sent.md")
    assert (tmp_path / "sent.tex").read_text() == table.latex()
    assert (tmp_path / "sent.md").read_text() == table.markdown()
    with pytest.raises(ExplorerError, match=r"the name must end in .*\.csv.*\.json.*\.tex.*\.md"):
        table.save(tmp_path / "sent.xlsx")


def test_every_board_has_every_table_of_its_plan() -> None:
    for opened in BOARDS.values():
        for name in ("layout", "devices", "program", "collectives", "communication", "lines", "memory", "timeline"):
            assert len(opened().table(name)) > 0


def written_code(explorer: Explorer) -> Any:
    """What a page is sent of the code, once it is written."""
    assert file_view(explorer, CODE, "py") == PENDING
    job = explorer.writing.last
    assert job is not None
    assert job.ended.wait(120)
    return file_view(explorer, CODE, "py")


def test_the_code_of_each_device_is_written_in_the_background(explorer: Explorer) -> None:
    made = written_code(explorer)
    assert (made["file"], made["text"]) == ("step.py", explorer.plan.code())
    assert made["said"] == f"{len(made['text'].splitlines()):,} lines"
    assert file_view(explorer, CODE, "py") == made, "it is written once"
    # What is saved is what is on the board then.
    explorer.load("batch:data")
    other = written_code(explorer)
    assert other["text"] == explorer.plan.code() != made["text"]
    for name, kind in ((CODE, "csv"), ("layout", "py")):
        refused = file_view(explorer, name, kind)
        assert isinstance(refused, Refused)
        assert refused.reason == f"'{name}' is not saved as '{kind}'."


def test_what_code_cannot_say_is_listed(explorer: Explorer) -> None:
    explorer.pad(True)
    explorer.load("classes:model")
    refused = written_code(explorer)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("This plan cannot be written as Python without meshlab:\n")
    assert "`params/w2`, which is padded to (16, 12)" in refused.reason
