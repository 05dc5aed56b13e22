"""Questions of numbers and of names: the first prediction counts, and is answered at once."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.puzzles import Question


def test_a_number_is_answered_with_why():
    question = Question("Q", "How many", lambda: 3_072, because="Each device sends 3/4 of 4,096.")
    assert str(question) == "Q. How many?"
    assert str(question.predict(4096)) == "✗ 3,072, not 4,096. Each device sends 3/4 of 4,096."
    assert str(question.predict(3072)) == "✗ 3,072, not 4,096. Each device sends 3/4 of 4,096."
    assert str(question) == "Q. How many? ✗ 3,072, not 4,096. Each device sends 3/4 of 4,096."


def test_nothing_is_worked_out_before_the_prediction():
    worked_out = []
    question = Question("Q", "How many", lambda: worked_out.append(1) or 2)
    assert str(question) == "Q. How many?"
    assert not worked_out
    assert question.predict(2)


def test_an_ellipsis_is_no_prediction():
    question = Question("Q", "How many", lambda: 2)
    assert question.predict(...) is question
    assert question.predict(2)


@pytest.mark.parametrize(("predicted", "right"), [(2, True), (2.19, True), (2.21, False), (0, False), (-2, False)])
def test_a_number_may_be_near(predicted, right):
    assert bool(Question("Q", "How long", lambda: 2.0, near=0.1).predict(predicted)) is right


@pytest.mark.parametrize(("predicted", "right"), [("hidden batch", True), ("batch", False), ("", False)])
def test_names_are_in_no_order(predicted, right):
    assert bool(Question("Q", "Which dims", lambda: "batch hidden").predict(predicted)) is right


def test_no_dims_are_none():
    assert str(Question("Q", "Which dims", lambda: "").predict("batch")) == "✗ none, not batch."


@pytest.mark.parametrize(("value", "predicted"), [(2, "two"), (2, True), (2, None), ("batch", 2), ("batch", None)])
def test_another_kind_of_answer_is_refused_and_not_kept(value, predicted):
    question = Question("Q", "What", lambda: value)
    with pytest.raises(ml.MeshlabError, match=r"Q: What\? Predict "):
        question.predict(predicted)
    assert question.predict(value)
