"""A user's file is imported, its program found, and its own exceptions told with their traceback."""

import pytest

from tests.commands.small import SOURCE, called, process, written

RENAMED = SOURCE.replace("program = ", "mine = ").replace("return program", "return mine")
MADE = RENAMED.replace("mine", "_mine").replace("def make", "def program")
OTHERS = "\n\nsecond = make\nother = ml.trace(lambda x: x, ml.f32[Batch])\n"
TRAIN = "x = 1\n\n\ndef train():\n    return x\n"


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        pytest.param(SOURCE, "", "step.py:program", id="default"),
        pytest.param(SOURCE, ":program", "step.py:program", id="named"),
        pytest.param(SOURCE, ":make", "step.py:make", id="made"),
        pytest.param(RENAMED, "", "step.py:mine", id="the only one"),
        pytest.param(MADE, "", "step.py:program", id="default, made"),
    ],
)
def test_programs_are_found(text, name, told, tmp_path, capsys):
    status, out, _ = called(capsys, "plan", written(tmp_path, text) + name)
    assert status == 0
    assert out.splitlines()[0].split() == ["program", told]


def test_a_file_imports_what_lies_beside_it_and_is_not_main(tmp_path, capsys):
    written(tmp_path, SOURCE, "beside_it.py")
    text = "from beside_it import make as program\nassert __name__ != '__main__'\n"
    assert called(capsys, "plan", written(tmp_path, text))[0] == 0


NONE = {
    "no name": (SOURCE, ":prog", "step.py has no `prog`. Did you mean `program`? Its programs are `program`."),
    "a colon": (SOURCE, ":", "step.py:` ends with a colon and names no program; write "),
    "no program": (
        TRAIN,
        "",
        "step.py has no `program`, and no other program. Its functions are `train`;"
        " `program = ml.trace(step, ...)` makes a program. Name one: step.py:NAME.",
    ),
    "returned": (TRAIN, ":train", "step.py returned 1, which is not a program: make one with ml.trace(step, ...)"),
    "is": (TRAIN, ":x", "step.py is 1, which is not a program"),
    "two": (RENAMED + OTHERS, "", "step.py has 2 programs. Its programs are `mine`, `other`. Name one: step.py:NAME."),
}


@pytest.mark.parametrize(("text", "name", "error"), NONE.values(), ids=NONE)
def test_what_is_no_program_is_2(text, name, error, tmp_path, capsys):
    status, out, err = called(capsys, "plan", written(tmp_path, text) + name)
    assert (status, out) == (2, "")
    assert error in err
    assert "Traceback" not in err


def test_a_file_that_is_not_there_is_told_with_the_closest(tmp_path, capsys):
    written(tmp_path)
    status, _, err = called(capsys, "plan", tmp_path / "stp.py")
    assert status == 2
    assert f"there is no file `{tmp_path / 'stp.py'}`. Did you mean `step.py`?" in err
    (tmp_path / "folder.py").mkdir()
    status, _, err = called(capsys, "plan", tmp_path / "folder.py")
    assert status == 2
    assert "cannot be read: Is a directory." in err


def test_a_file_without_its_ending_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SOURCE, "step")
    status, _, err = called(capsys, "plan", "step")
    assert status == 2
    assert "To plan the file `step`, call it `step.py`." in err


def test_batch_and_seq_are_not_for_files(tmp_path, capsys):
    status, _, err = called(capsys, "plan", written(tmp_path), "--batch", "8", "--seq", "2")
    assert status == 2
    assert "is a file, and --batch and --seq are only for the models of `meshlab models`; write --size batch=8" in err
    status, _, err = called(capsys, "plan", written(tmp_path), "--batch", "8")
    assert status == 2
    assert "is a file, and --batch is only for the models of `meshlab models`; write --size batch=8." in err


RAISING = {
    "import": (
        "def inner():\n    raise KeyError('mine')\n\n\ninner()\n",
        ["KeyError: 'mine'", "line 5, in <module>", "line 2, in inner"],
    ),
    "call": ("def program():\n    raise KeyError('mine')\n", ["KeyError: 'mine'", "line 2, in program"]),
    "syntax": ("x = (\n", ["SyntaxError: '(' was never closed", "line 1"]),
    "library": ("import meshlab as ml\n\nml.trace(1)\n", ["TraceError: ", "line 3, in <module>"]),
    "exit": ("import sys\n\nsys.exit('no')\n", ["SystemExit: no", "line 3, in <module>"]),
    "arguments": ("def program(config):\n    return config\n", ["program() missing 1 required positional argument"]),
}


@pytest.mark.parametrize(("text", "lines"), RAISING.values(), ids=RAISING)
def test_exceptions_of_the_file_have_their_traceback(text, lines, tmp_path, capsys):
    status, out, err = called(capsys, "plan", written(tmp_path, text))
    assert (status, out) == (2, "")
    assert f"{tmp_path / 'step.py'} raises " in err
    assert all(line in err for line in lines), err
    assert "meshlab/commands" not in err
    assert "importlib" not in err


def test_a_process_tells_them_too(tmp_path):
    done = process("plan", written(tmp_path, "1 / 0\n"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_exceptions_at_another_size_are_told_with_their_line(tmp_path, capsys):
    text = SOURCE.replace("    return value, jax", "    assert x.dims[0].size == 64, 'batch'\n    return value, jax")
    status, _, err = called(capsys, "plan", written(tmp_path, text), "--size", "batch=8")
    assert status == 2
    assert "`step` could not be traced: AssertionError: batch\nIt was raised at step.py:16: `assert x.dims" in err
    assert "Traceback" not in err
