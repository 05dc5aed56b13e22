"""A commit runs a share of each large test: the same again, another one for another commit, all of it at night."""

from typing import Any

import pytest

from tests.share import ALL, left_out


class Item:
    """A case of a test, with one marker at most."""

    def __init__(self, nodeid, marker):
        self.nodeid, self.marker = nodeid, marker

    def get_closest_marker(self, name):
        return self.marker if self.marker and self.marker.name == name else None


def cases(test, count, marker) -> Any:
    return [Item(nodeid=f"{test}[{number}]", marker=marker) for number in range(count)]


def test_a_share_of_each_test_runs_and_never_none():
    items = cases("a.py::test_a", 8, pytest.mark.share(4).mark) + cases("a.py::test_b", 3, pytest.mark.share(5).mark)
    for commit in ("abc", "def", ""):
        kept = [item.nodeid for item in items if item not in left_out(items, commit)]
        assert [name[:12] for name in kept] == ["a.py::test_a", "a.py::test_a", "a.py::test_b"]


def test_a_share_may_be_of_a_files_tests():
    mark = pytest.mark.share(3, of="file").mark
    items: Any = [Item(nodeid=f"a.py::test_{name}", marker=mark) for name in "abcdef"]
    for commit in ("abc", "def", ""):
        assert len(left_out(items, commit)) == 4


def test_a_share_may_be_of_tests_of_several_files():
    mark = pytest.mark.share(4, of="pages").mark
    items: Any = [Item(nodeid=f"{file}.py::test_{name}", marker=mark) for file in "ab" for name in "cdef"]
    drawn = [{item.nodeid for item in items if item not in left_out(items, str(commit))} for commit in range(40)]
    assert {len(kept) for kept in drawn} == {2}
    assert len(set().union(*drawn)) == 8


def test_a_commit_draws_the_same_again_and_another_commit_others():
    items = cases("a.py::test_a", 40, pytest.mark.share(4).mark)

    def share(commit):
        return {item.nodeid for item in items if item not in left_out(items, commit)}

    assert share("abc") == share("abc") != share("def")
    drawn = set().union(*(share(str(commit)) for commit in range(40)))
    assert len(drawn) == 40


def test_what_is_nightly_and_all_cases_run_at_night_alone():
    nightly, plain = cases("a.py::test_a", 1, pytest.mark.nightly.mark), cases("a.py::test_b", 2, None)
    shared = cases("a.py::test_c", 4, pytest.mark.share(4).mark)
    items = nightly + plain + shared
    out = left_out(items, "abc")
    assert set(nightly) <= out
    assert not out & set(plain)
    assert len(out & set(shared)) == 3
    assert not left_out(items, ALL)
