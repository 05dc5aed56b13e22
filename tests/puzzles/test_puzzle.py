"""A puzzle of one's own: predictions, tries, hints, receipts, and the ways around it that are closed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import meshlab as ml
from meshlab import puzzles
from meshlab.puzzles import Ask, Puzzle, Unsolved
from meshlab.puzzles.play.attempts import Attempts
from meshlab.puzzles.play.receipts import mark
from meshlab.widgets.notebook.protocol import answer, shared_state
from tests.widgets.frozen.test_share import table


def two_layers() -> Any:
    Batch, Feat, Wide = ml.dims(batch=16, feat=32, wide=64)
    forward = lambda x, a, b: ml.dot(ml.gelu(ml.dot(x, a, "feat")), b, "wide")  # noqa: E731
    return ml.trace(forward, ml.f32[Batch, Feat], ml.f32[Feat, Wide], ml.f32[Wide, Feat])


def one_sum(program: Any) -> Any:
    return ml.goal(keeps={"batch": None}, sends=1.5 * 4 * program.dims["batch"] * program.dims["feat"])


ASKED = Ask("How many bytes does a device send under `wide:x`", lambda plan: plan.wire_bytes, "wide:x")


def mine(**changed: Any) -> Puzzle:
    given: dict[str, Any] = {
        "build": two_layers,
        "mesh": ml.mesh(x=4),
        "task": "All four devices, batch whole, one all-reduce.",
        "ask": ASKED,
        "drawn": ("batch", "feat", "wide"),
        "wrong": ("batch:x", None),
        "answer": "wide:x",
        "goal": one_sum,
    }
    return Puzzle("T1", "One sum", **given | changed)


def test_the_first_prediction_counts():
    puzzle = mine()
    assert puzzle.predict(3000) == "Locked: 3,000. ✗ It is 3,072."
    assert puzzle.predict(3072) == "The first prediction counts: 3,000. ✗ It is 3,072."
    assert puzzle.check("wide:x").prediction == (
        "How many bytes does a device send under `wide:x`? 3,072; you predicted 3,000."
    )
    assert "predicted 3,000, wrong" in puzzle.attempts.receipt


@pytest.mark.parametrize("number", ["3072", None, True, float("nan"), float("inf")])
def test_what_is_no_number_is_no_prediction(number):
    puzzle = mine()
    with pytest.raises(ml.MeshlabError, match="a prediction is a number"):
        puzzle.predict(number)
    assert puzzle.attempts.predicted is None


class Anything(float):
    """A number that is near any other."""

    def __sub__(self, other: object) -> float:
        return 0.0

    __rsub__ = __sub__


def test_a_prediction_is_the_number_that_it_says():
    puzzle = mine()
    puzzle.predict(Anything(3000))
    assert "predicted 3,000, wrong" in puzzle.check("wide:x").receipt


def test_a_right_prediction_is_said_to_be_right_and_one_that_is_near_says_the_number():
    assert mine().predict(3072) == "Locked: 3,072. ✓ Right."
    near = dataclasses.replace(ASKED, near=0.1)
    assert mine(ask=near).predict(3000) == "Locked: 3,000. ✓ Right: it is 3,072."


def test_an_ellipsis_is_no_prediction():
    puzzle = mine()
    assert puzzle.predict(...) is puzzle
    assert puzzle.attempts.predicted is None


def test_a_puzzle_without_a_question_asks_for_none():
    puzzle = mine(ask=None)
    with pytest.raises(ml.MeshlabError, match="asks for no number"):
        puzzle.predict(1)
    assert puzzle.check("wide:x")


def test_the_board_asks_first_and_is_what_is_checked():
    puzzle = mine()
    board = puzzle.show()
    assert board.goal is not None
    assert board.goal.goal.quiet
    asked = board.view()["task"]
    assert (asked["heading"], asked["question"], asked["locked"]) == ("T1. One sum", ASKED.text, True)
    assert asked["number"] is asked["right"] is None
    board.place("wide", "x")
    assert "First predict" in str(puzzle.check())
    puzzle.predict(3072)
    assert puzzle.check()


def test_a_prediction_in_python_opens_every_board_and_one_on_a_board_is_pythons():
    puzzle = mine()
    boards, told = (puzzle.show(), puzzle.show()), list[str]()
    for board in boards:
        board.subscribe(told.append)
    assert boards[0].predict(2048)
    assert told == ["task", "task"]
    for board in boards:
        task = board.view()["task"]
        assert (task["locked"], task["predicted"], task["number"], task["right"]) == (False, 2048, 3072, False)
    assert puzzle.attempts.predicted == 2048
    assert puzzle.predict(3072) == "The first prediction counts: 2,048. ✗ It is 3,072."
    assert not puzzle.show().predict(3072)
    assert puzzle.show().view()["task"]["predicted"] == 2048


def test_a_locked_board_shows_no_figure_in_text_and_picture():
    puzzle = mine(start="wide:x")
    board = puzzle.show()
    assert "3,072" not in repr(board)
    assert "3.07 kB" not in board.snapshot().html
    assert "How many bytes does a device send under" in board.snapshot().html
    puzzle.predict(3072)
    assert "3,072" in repr(board)
    assert "3.07 kB" in board.snapshot().html
    assert "✓ 3,072; predicted: 3,072" in board.snapshot().html


def test_a_board_without_a_question_takes_no_prediction():
    board = mine(ask=None).show()
    assert (board.view()["task"]["locked"], board.view()["task"]["question"]) == (False, "")
    assert repr(board.predict(1)) == "Refused: The board asks for no number."
    with pytest.raises(ml.MeshlabError, match="must be a number"):
        board.predict("many")  # type: ignore[arg-type]


def test_a_page_predicts_once():
    puzzle = mine()
    board = puzzle.show()
    message = {"v": 2, "kind": "intent", "id": "1", "op": "predict", "args": {"number": 3072}}
    replies: list[Any] = [answer(board, message), answer(board, message)]
    assert [reply["kind"] for reply in replies] == ["ack", "nack"]
    assert replies[1]["reason"] == "The first prediction counts."
    assert shared_state(board, "task")["task"]["task"]["right"]
    assert puzzle.attempts.predicted == 3072


def test_a_file_asks_anew_and_one_that_no_drop_solves_is_refused(tmp_path: Path):
    puzzle = mine()
    puzzle.predict(3072)
    shared = puzzle.share(tmp_path / "t1.html")
    assert shared.bytes == shared.path.stat().st_size <= 200_000
    assert "<h1>T1. One sum</h1>" in shared.path.read_text()
    assert '"locked":true' in "".join(table(shared.path.read_text()))
    with pytest.raises(ml.MeshlabError, match="T1 cannot be solved in a file: .* its answer is 'wide:x'"):
        puzzle.share(tmp_path / "batch.html", dims=["batch"])
    assert [path.name for path in tmp_path.iterdir()] == ["t1.html"]


def test_the_columns_of_an_answer_are_recorded(tmp_path: Path):
    """Where the board that the puzzle starts with has none of them, nothing is written."""
    shared = puzzles.P11.share(tmp_path / "p11.html")
    assert "params/*" in shared.said
    assert shared.bytes <= 200_000
    columnless = dataclasses.replace(puzzles.P07, start=None)
    with pytest.raises(ml.MeshlabError, match="P07 cannot be solved in a file"):
        columnless.share(tmp_path / "p07.html")
    assert "in compute and `out`" in puzzles.P07.share(tmp_path / "p07.html").said


def test_hints_begin_again_with_another_layout_and_are_counted():
    puzzle = mine()
    puzzle.predict(1)
    puzzle.check("batch:x")
    assert puzzle.hint() == "Missed: each device keeps `batch` whole. Now: on `x`."
    assert re.fullmatch(r"`batch` is on `x` at test_puzzle.py:\d+ \(dot_general\)\.", puzzle.hint())
    assert puzzle.hint() == "Try this: take `batch` off the mesh, then put `wide` on `x`."
    assert puzzle.hint() == "Try this: take `batch` off the mesh, then put `wide` on `x`."
    puzzle.check(None)
    assert puzzle.hint().startswith("Missed: ")
    assert puzzle.attempts.hints == 5
    assert "| tries 3 | hints 5 |" in puzzle.check("wide:x").receipt


def test_what_is_not_legal_says_why():
    puzzle = mine()
    puzzle.predict(1)
    answer = puzzle.check("feat:x wide:x")
    assert "`feat` and `wide` cannot both be on `x`" in str(answer)
    assert puzzle.hint().startswith("The layout ")


def test_a_grader_sees_an_assertion_with_a_hint():
    puzzle = mine()
    puzzle.predict(3072)
    with pytest.raises(AssertionError, match=r"(?s)✗ keeps `batch` whole.*\nHint: Missed: "):
        puzzle.check("batch:x", strict=True)
    assert puzzle.check("wide:x", strict=True)
    assert issubclass(Unsolved, AssertionError)


def test_a_reader_has_sizes_of_their_own():
    puzzle = mine()
    names = [f"student{i:02}" for i in range(30)]
    sizes = {name: puzzle.of(name).program.dims for name in names}
    assert sizes["student00"] == puzzle.of("student00").program.dims
    assert len({puzzle.of(name).number for name in names}) > 10
    assert all(size % 4 == 0 for dims in sizes.values() for size in dims.values())
    ada = puzzle.of("ada")
    assert ada.number is not None
    ada.predict(ada.number)
    receipt = ada.check("wide:x").receipt
    assert "| ada |" in receipt
    assert puzzles.verify(receipt, puzzle).hold


# Proofs


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"answer": "batch:x"}, "The answer misses the goal"),
        ({"wrong": ("batch:x",)}, "It has 1 wrong tries, and needs 2"),
        ({"wrong": ("batch:x", "wide:x")}, "The wrong try 'wide:x' passes."),
        ({"wrong": ("batch:x", "wide:x feat:x")}, "The wrong try 'wide:x feat:x' is not legal"),
        ({"drawn": ("batch", "deep")}, "`deep` is in `drawn`, but is not a dim of the program."),
        ({"goal": ml.goal(keeps={"deep": None})}, "the program has no dim `deep`"),
        ({"ask": Ask("?", lambda plan: plan.wire_bytes, "wide:x batch:x")}, "cannot both be on `x`"),
    ],
)
def test_a_proof_says_what_is_wrong_with_a_puzzle(changed, problem):
    proof = mine(**changed).prove()
    assert not proof
    assert problem in str(proof)


def test_it_is_proved_at_the_sizes_of_readers():
    assert mine(drawn=("batch", "wide")).prove()
    fixed = mine(goal=ml.goal(sends="3,072 B", busy=False), drawn=("batch", "feat")).prove()
    assert "At the sizes drawn for a reader, `ada`, the answer misses the goal" in str(fixed)

    def closed_over():
        Batch, Wide = ml.dims(batch=8, wide=8)
        return ml.trace(lambda x, w: ml.dot(x, w, Wide), ml.f32[Batch, Wide], ml.f32[Wide])

    stuck = mine(build=closed_over, goal=ml.goal(sends="≤ 1 kB"), answer="batch:x", wrong=(), drawn=("wide",), ask=None)
    assert "`ada`, it does not fit: The program cannot be resized" in str(stuck.prove())


def test_a_goal_that_most_layouts_meet_is_no_puzzle():
    goal, wrong = ml.goal(busy=False, keeps={"batch": None}), ("batch:x", "batch:x wide:y")
    puzzle = mine(mesh=ml.mesh(x=2, y=2), goal=goal, wrong=wrong)
    assert "layouts pass, more than 3: the goal is too loose." in str(puzzle.prove())


# Ways around a puzzle


@pytest.mark.parametrize(
    "layout",
    [
        None,  # every device does all of it
        "batch:x",
        {"wide": "x", "a": {"wide": None}, "b": {"wide": None}, "batch": None, "@*": {"wide": None}},
        {"batch": "x", "@*": {"batch": None}},
    ],
)
def test_repeated_work_does_not_pass(layout):
    puzzle = mine()
    puzzle.predict(1)
    assert not puzzle.check(layout)


def test_rules_that_undo_each_other_keep_nothing():
    """`keeps` reads what devices do, not the letter of a rule."""
    puzzle = mine(goal=ml.goal(busy=False, keeps={"batch": "x"}), answer="batch:x", wrong=("wide:x", None))
    puzzle.predict(1)
    assert not puzzle.check({"batch": "x", "@*": {"batch": None}})


@pytest.mark.parametrize("layout", ["batch:y", "deep:x", "wide:x+y"])
def test_other_axes_and_dims_are_refused(layout):
    puzzle = mine()
    puzzle.predict(1)
    assert "✗ is legal" in str(puzzle.check(layout))


def test_nothing_is_padded():
    puzzle = mine(build=lambda: two_layers().resize(wide=66), drawn=(), ask=None)
    assert "does not divide" in str(puzzle.check("wide:x"))


@pytest.mark.parametrize("reader", ["ada | tries 1", "ada\nbea", " ada"])
def test_a_puzzle_and_its_reader_have_names_of_one_word_or_more(reader):
    with pytest.raises(ml.MeshlabError, match="are one line each, without `|`"):
        mine().of(reader)


@pytest.mark.parametrize(
    ("easier", "layout"),
    [
        ({"goal": ml.goal(busy=False, sends="1 GB")}, None),
        ({"mesh": ml.mesh(x=1)}, None),
        ({"mesh": ml.mesh(x=4, y=2), "goal": ml.goal(busy=False, keeps={"batch": None})}, "wide:x+y"),
        ({"build": lambda: two_layers().resize(batch=8), "drawn": ()}, "wide:x"),
        ({"ask": None}, "wide:x"),
    ],
)
def test_an_easier_copy_makes_no_receipt_of_the_puzzle(easier, layout):
    copy = mine(**easier)
    if copy.ask is not None:
        copy.predict(3072)
    receipt = copy.check(layout).receipt
    assert receipt.startswith("meshlab T1 | nobody | ")
    assert not puzzles.verify(receipt, mine()).hold


def test_what_cannot_be_closed_is_named_on_the_page():
    """Whoever has the product has its answers and numbers; docs/puzzles.md says so."""
    puzzle = mine()
    assert puzzle.number is not None
    puzzle.predict(puzzle.number)
    answer = puzzle.check(puzzle.answer)
    assert answer
    assert "right | tries 1 | hints 0" in answer.receipt


# Receipts


def solved() -> str:
    puzzle = mine()
    puzzle.predict(3072)
    return puzzle.check("wide:x").receipt


def test_a_receipt_is_worked_out_again():
    line = solved()
    pattern = (
        r"meshlab T1 \| nobody \| wide:x \| 3,072 B \| predicted 3,072, right \| tries 1 \| hints 0 \| [0-9a-f]{8}"
    )
    assert re.fullmatch(pattern, line)
    found = puzzles.verify([line, "", line], mine())
    assert found.hold
    assert len(found.each) == 2
    assert str(found).startswith("2 of 2 receipts hold")
    assert found.each[0].right


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("hints 0", "hints 1", "its text was changed"),
        ("T1", "P99", "There is no puzzle `P99`."),
        ("wide:x", "batch:x", "its layout does not meet the goal; its layout sends 0 B"),
        ("3,072 B", "3 B", "its layout sends 3,072 B"),
        ("predicted 3,072, right", "predicted 1, right", "its prediction does not match"),
        ("predicted 3,072, right | ", "", "it has no prediction"),
        ("predicted 3,072, right", "predicted e, right", "it has no prediction"),
        ("predicted 3,072, right", "predicted inf, right", "its prediction does not match"),
        ("wide:x", "wide:x feat:x", "has one problem"),
    ],
)
def test_a_changed_receipt_does_not_hold(old, new, because):
    *parts, written = solved().replace(old, new).split(" | ")
    line = " | ".join([*parts, written if old == "hints 0" else mark(parts)])
    (read,) = puzzles.verify(line, mine()).each
    assert not read.holds
    assert because in read.because


@pytest.mark.parametrize("line", ["", "meshlab", "a | b | c", "meshlab T1 | x"])
def test_what_is_no_receipt_is_none(line):
    assert all(not read.holds for read in puzzles.verify(f"{line}\n", mine()).each)


def test_a_report_lists_what_was_begun():
    puzzle = dataclasses.replace(mine(), attempts=Attempts())
    assert "T1" not in puzzles.report(puzzle)
    puzzle.predict(3072)
    puzzle.check("batch:x")
    puzzle.hint()
    puzzle.check("wide:x")
    page = puzzles.report(puzzle)
    assert "| T1. One sum | 3,072 | 3,072 | 2 | 1 | ✓ |" in page
    assert puzzle.attempts.receipt in page
