"""A board is written to one file, whole or not at all; equal boards give equal files, and what is in them is said."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.frozen import share as sharing
from meshlab.widgets.frozen.page import LETTERS, ONE, PAIR, as_text
from meshlab.widgets.frozen.pool import Pool
from meshlab.widgets.frozen.questions import LEFT_OUT, RECORDED
from meshlab.widgets.frozen.record import GESTURES, Recorder
from meshlab.widgets.frozen.scope import scope_of
from meshlab.widgets.state.handlers import OPERATIONS
from meshlab.widgets.views.reads import READS
from tests.widgets import small
from tests.widgets.frozen.test_walk import readme

pytestmark = pytest.mark.share(2, of="file")

FEW: dict[str, Any] = {"dims": ["batch", "hidden"]}


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data")


def table(page: str) -> list[str]:
    (packed,) = re.findall(r'id="table">([^<]*)<', page)
    return gzip.decompress(of_text(packed)).decode().split("\n")


def of_text(text: str) -> bytes:
    """Returns the bytes of letters: 13 bits of two, 6 of one at the end."""
    bits = ""
    for first, second in itertools.zip_longest(text[::2], text[1::2]):
        pair = second is not None
        value = LETTERS.index(first) * len(LETTERS) + LETTERS.index(second) if pair else LETTERS.index(first)
        bits = f"{value:0{PAIR if pair else ONE}b}{bits}"
    return int(bits or "0", 2).to_bytes(-(-len(bits) // 8), "little")[: len(bits) // 8]


@pytest.mark.parametrize("size", [*range(30), 997])
def test_bytes_are_text_and_back(size: int) -> None:
    data = random.Random(size).randbytes(size)
    for each in (data, b"\xff" * size, b"\x00" * size):
        text = as_text(each)
        assert of_text(text) == each
        assert len(text) <= -(-8 * size // PAIR) * 2
        assert not set(text) & set('<"\\ ')


def test_the_readmes_mlp_with_all_that_drops_lead_to_takes_a_quarter_of_a_megabyte(tmp_path: Path) -> None:
    shared = explore(readme(), ml.mesh("v5e:2x2", data=2, model=2), "batch:data").share(tmp_path / "board.html")
    assert shared.bytes == (tmp_path / "board.html").stat().st_size <= 250_000
    assert shared.layouts > 47
    assert shared.said.startswith(f"{shared.layouts} layouts are recorded: all that drops lead to, and ")


def test_the_explorer_stays_as_it_is(explorer: Explorer, tmp_path: Path) -> None:
    explorer.place("hidden", "model")
    told: list[str] = []
    explorer.subscribe(told.append)
    before = explorer.document, explorer.history, explorer.tried, explorer.revision
    explorer.share(tmp_path / "board.html", **FEW)
    assert (explorer.document, explorer.history, explorer.tried, explorer.revision) == before
    assert told == []


def test_equal_boards_give_equal_files(explorer: Explorer, tmp_path: Path) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    explorer.share(one, **FEW)
    explore(small.program(), ml.mesh("v5e", data=2, model=4), "batch:data").share(other, **FEW)
    assert one.read_text() == other.read_text()


def test_what_the_board_is_stands_at_the_top_and_opens_it_again(tmp_path: Path) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data hidden:model")
    explorer.share(tmp_path / "board.html", limit=1)
    page = (tmp_path / "board.html").read_text()
    assert "<h1>step: data=2 × model=4</h1>" in page
    (code,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    again: dict[str, Any] = {"program": small.program()}
    exec(code.replace("&quot;", '"').replace("ml.explore(", "opened = ml.explore("), again)
    assert again["opened"].document == explorer.document


def test_a_board_that_was_changed_is_opened_again_by_its_document(tmp_path: Path) -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data")
    explorer.pad(True)
    explorer.share(tmp_path / "board.html", limit=1)
    (code,) = re.findall(r"<pre[^>]*>(.*?)</pre>", (tmp_path / "board.html").read_text(), re.DOTALL)
    again: dict[str, Any] = {"program": small.program()}
    exec(code.replace("&quot;", '"').replace("&#x27;", "'"), again)
    assert again["explorer"].document == explorer.document


def test_names_are_text_and_nothing_else(explorer: Explorer, tmp_path: Path) -> None:
    explorer.source = type(explorer.source)("<script>alert(1)</script>")
    explorer.share(tmp_path / "board.html", limit=1)
    assert "<script>alert" not in (tmp_path / "board.html").read_text()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"columns": ["prams"]}, "'prams' among its `columns`; there is no such column. Did you mean `params`"),
        ({"dims": ["hiden"]}, "'hiden' among its `dims`; there is no such dim. Did you mean `hidden`"),
        ({"limit": 0}, "limit"),
        ({"path": ""}, "write a path"),
    ],
)
def test_what_there_is_not_is_refused(explorer: Explorer, tmp_path: Path, given: dict[str, Any], error: str) -> None:
    with pytest.raises(ExplorerError, match=re.escape(error)):
        explorer.share(**{"path": tmp_path / "board.html", **given})


def test_a_folder_is_no_file_and_one_that_is_not_there_is_named(explorer: Explorer, tmp_path: Path) -> None:
    with pytest.raises(ExplorerError, match="was given the folder"):
        explorer.share(tmp_path)
    with pytest.raises(ExplorerError, match="there is no folder"):
        explorer.share(tmp_path / "none" / "board.html")


def test_of_more_than_the_limit_those_that_one_drop_leads_to_are_recorded(explorer: Explorer, tmp_path: Path) -> None:
    shared = explorer.share(tmp_path / "board.html", limit=20)
    assert shared.layouts <= 20
    assert "all within one drop (more drops lead to over 20)" in shared.said


def test_what_is_refused_is_not_missing(tmp_path: Path) -> None:
    """An axis in time takes some drops that no iteration can compute: each drop there says why."""
    board = explore(puzzles.P19.program, puzzles.P19.mesh)
    scope = scope_of(board, (), None, 2000)
    recorder, count, _ = sharing.recorded(board, scope)
    assert set(recorder.refused) & set(scope.dropped)
    shared = board.share(tmp_path / "board.html")
    assert shared.said.startswith(f"{count} layouts are recorded: all that drops lead to")


def test_a_file_is_no_longer_than_one_wants(
    explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = explorer.share(tmp_path / "whole.html")
    monkeypatch.setattr(sharing, "LARGEST", whole.bytes - 10_000)
    monkeypatch.setattr(sharing, "LOOK", 8)
    shared = explorer.share(tmp_path / "board.html")
    assert shared.bytes <= whole.bytes - 10_000
    assert 1 < shared.layouts < whole.layouts
    assert "the nearest " in shared.said


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C interrupts here, where the tests run in the background as well."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_no_half_file(explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "board.html"
    target.write_text("as it was")
    real = Recorder.add

    def interrupted(self: Recorder, document: Any) -> None:
        real(self, document)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Recorder, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explorer.share(target)
    assert target.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["board.html"]


def test_one_layout_beside_those_of_drops_is_one_other(explorer: Explorer) -> None:
    scope = scope_of(explorer, (), FEW["dims"], 2000)
    said = [scope.said(scope.layouts[:count]).partition(", and ")[2] for count in range(1, len(scope.layouts) + 1)]
    assert "1 other: presets, tried layouts and Auto's." in said
    assert "2 others: presets, tried layouts and Auto's." in said


def test_whatever_can_be_asked_is_recorded_or_left_out_on_purpose() -> None:
    assert {*RECORDED, *LEFT_OUT} == set(READS)
    assert set(GESTURES) <= set(OPERATIONS)


def test_a_pool_keeps_equal_values_once_and_refers_to_them() -> None:
    """But for what is short and referred to once: no line is made of it."""
    pool, text, once, long = (
        Pool(),
        "a text that is longer than a reference",
        "this is longer too, but alone",
        "x" * 400,
    )
    value = {"first": [text, text], "second": {"third": text, "fourth": [{"fifth": once}, long]}}
    one = pool.put(value, "kind")
    assert pool.put(value["second"], "another") == pool.put(value["second"], "kind")
    lines = pool.lines(one)
    assert [lines.count(json.dumps(each)) for each in (text, once, long)] == [1, 0, 1]

    def opened(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"@"}:
            return opened(json.loads(lines[value["@"]]))
        if isinstance(value, dict):
            return {name: opened(each) for name, each in value.items()}
        return [opened(each) for each in value] if isinstance(value, list) else value

    assert opened(json.loads(lines[-1])) == value


def test_the_table_of_a_file_is_what_was_recorded(explorer: Explorer, tmp_path: Path) -> None:
    shared = explorer.share(tmp_path / "board.html", **FEW)
    lines = table((tmp_path / "board.html").read_text())
    assert all(json.loads(line) is not None for line in lines)
    assert len({*lines}) >= shared.layouts
