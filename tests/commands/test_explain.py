"""`meshlab explain`: the user's own jit, as a table, as JSON, and as an exit status for CI."""

import json
import re

import pytest

from tests.commands.small import SOURCE, TRAIN, called, process, written

pytestmark = pytest.mark.share(2, of="file")

PLANNED = f'{SOURCE}\n\ndef plan():\n    return program.plan(ml.mesh(data=4), "batch:data")\n'


def explained(capsys, folder, *options, name="compiled"):
    return called(capsys, "explain", f"{written(folder, TRAIN, 'train.py')}:{name}", *options)


def test_a_table_and_json(tmp_path, capsys):
    status, table, _ = explained(capsys, tmp_path)
    assert status == 0
    line = 1 + TRAIN.splitlines().index("    hidden = jax.nn.relu(x @ up)")
    assert f"all-gather over data, 49,152 B sent   train.py:{line}  hidden = jax.nn.relu(x @ up)" in table
    status, text, _ = explained(capsys, tmp_path, "--json", name="explained")
    assert status == 0
    assert [row["kind"] for row in json.loads(text)["collectives"]] == ["all-gather"] * 2


@pytest.mark.parametrize(
    ("forbidden", "status", "told"),
    [
        ("all-gather:data:1MB", 0, ""),
        ("all-reduce:data", 0, ""),
        ("any:model", 0, ""),
        (
            "all-gather:data:10kB",
            1,
            "all-gathers over data send 98.3 kB, of which 10.0 kB are allowed. The largest is at",
        ),
        ("any:data", 1, "collectives over data send 98.3 kB, of which nothing is allowed."),
    ],
)
def test_what_is_forbidden_fails(forbidden, status, told, tmp_path, capsys):
    found, out, err = explained(capsys, tmp_path, "--forbid", forbidden)
    assert found == status
    assert out
    assert told in err
    assert bool(told) == ("are allowed" in err or "is allowed" in err)


def test_on_a_machine_and_beside_a_plan(tmp_path, capsys):
    status, table, _ = explained(capsys, tmp_path, "--mesh", "data=4,model=2", "--on", "h100:1x8")
    assert status == 0
    assert re.search(r"all-gather over data, 49,152 B sent, [\d.]+ µs   train.py", table)
    status, table, _ = called(capsys, "explain", f"{written(tmp_path, PLANNED, 'planned.py')}:plan")
    assert status == 0
    assert "XLA's program beside the plan" in table
    status, _, err = called(capsys, "explain", f"{tmp_path / 'planned.py'}:plan", "--mesh", "data=4")
    assert status == 2
    assert "has its own mesh: leave out --mesh and --on" in err


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("compiled", ("--forbid", "all-gater:data", "--forbid", "x"), "there is no collective 'all-gater'"),
        ("compiled", ("--forbid", "x"), "it is written KIND:AXIS"),
        ("compiled", ("--on", "h100:1x8"), "--on needs --mesh"),
        ("compiled", ("--mesh", "data=8"), "the mesh data=8, but the shardings are on `data=4, model=2`"),
        ("compiled", ("--forbid", "any:data:many"), "--forbid any:data:many"),
        ("compiled", ("--forbid", "any:modle"), "--forbid names `modle`; the mesh has `data`, `model`."),
        ("mesh", (), "it must return the jitted function and its arguments"),
        ("complied", (), "Did you mean `compiled`?"),
        ("failing", (), "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_explained_is_told(name, options, told, tmp_path, capsys):
    status, out, err = explained(capsys, tmp_path, *options, name=name)
    assert (status, out) == (2, "")
    assert told in err


def test_a_file_alone_names_no_function(capsys):
    assert called(capsys, "explain", "train.py")[0] == 2


def test_what_the_file_prints_is_no_part_of_the_json(tmp_path):
    ended = process("explain", f"{written(tmp_path, TRAIN, 'train.py')}:compiled", "--json")
    assert json.loads(ended.stdout)["function"] == "forward"
    assert "printed by the file" in ended.stderr
