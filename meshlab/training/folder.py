"""A folder of checkpoints on disk, written and read by Orbax: one folder in it for each step that was saved.

    writer = Writer(folder("runs/llama"), keep=3)
    writer.save(200, arrays, meta)      writes in the background; what failed is raised by the next call
    writer.close()

Orbax writes under another name and renames the folder last, so that a folder with a number is whole; what a process
that was killed has left under the other name is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from ..engine.errors import RunError, shown
from ..engine.processes import all_agree, is_first

_UNFINISHED = "*.orbax-checkpoint-tmp*"
# What is in the folder of a step, one of which is enough to know it.
_PARTS = ("meta", "state", "_CHECKPOINT_METADATA")
# The most characters of an error of others that are shown.
_LONGEST = 300


def orbax() -> Any:
    """Imports Orbax, or says how to install it."""
    try:
        import orbax.checkpoint  # noqa: PLC0415 - an extra, needed for checkpoints alone
    except ImportError as error:
        raise RunError(f'Checkpoints need Orbax ({error}): pip install "meshlab[checkpoints]".') from None
    return orbax.checkpoint


def folder(path: Any) -> Path:
    """Returns the folder at a path; refuses an address of a cloud."""
    if not isinstance(path, str | os.PathLike) or "://" in os.fspath(path):
        raise RunError(
            f"checkpoint={shown(path)} is not a folder of a file system; give one on a disk that all processes share:"
            ' checkpoint="runs/llama".'
        )
    return Path(path).absolute()


def steps(path: Path) -> list[int]:
    """Returns the steps that have a checkpoint in a folder, in order; other folders in it are not ours."""
    if not path.is_dir():
        return []
    numbered = (each for each in path.iterdir() if each.name.isascii() and each.name.isdecimal())
    return sorted(int(each.name) for each in numbered if any((each / part).exists() for part in _PARTS))


def set_aside(path: Path, step: int) -> Path:
    """Renames a checkpoint, so that its step can be saved again; called in all processes."""
    names = (path / f"{step}.damaged{number}" for number in ("", *(f".{i}" for i in range(2, 1000))))
    other = next(name for name in names if not name.exists())
    _once(lambda: (path / str(step)).rename(other))
    return other


def _once(change: Callable[[], Any]) -> None:
    """Changes something on disk in the first process, while the others wait."""
    all_agree(True)
    if is_first():
        change()
    all_agree(True)


class Writer:
    """Writes checkpoints into a folder, in the background.

    Args:
        path: the folder, which is made where it is not there.
        keep: how many are kept, the last ones; None for all.
    """

    def __init__(self, path: Path, keep: int | None):
        ocp = orbax()
        self.path, self.keep, self._saving = path, keep, 0
        with _failures(path, 0):
            path.mkdir(parents=True, exist_ok=True)
            _once(self._clear)
        self._orbax = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())

    def save(self, step: int, arrays: Mapping[str, jax.Array], meta: str) -> None:
        """Begins to write a checkpoint, once the one before is written: raises what went wrong with that, too.

        Args:
            step: its step.
            arrays: its arrays by name; they may be overwritten once this returns.
            meta: a text that is kept with them.
        """
        ocp = orbax().args
        self.finish()
        with self._cleared(step):
            what = ocp.Composite(state=ocp.StandardSave(dict(arrays)), meta=ocp.JsonSave({"meta": meta}))
            self._orbax.save(self.path / str(step), args=what)
        self._saving = step

    def finish(self) -> None:
        """Waits until what was begun is written, and removes checkpoints beyond those that are kept."""
        with self._cleared(self._saving):
            self._orbax.wait_until_finished()
        self._saving = 0
        old = steps(self.path)[: -self.keep] if self.keep else []
        if old and is_first():
            for step in old:
                shutil.rmtree(self.path / str(step), ignore_errors=True)

    def close(self) -> None:
        """Waits for what was begun, and ends the threads."""
        try:
            self.finish()
        finally:
            with contextlib.suppress(Exception):  # what it failed with was raised above
                self._orbax.close()

    @contextlib.contextmanager
    def _cleared(self, step: int) -> Iterator[None]:
        """Removes what a failure leaves, since the disk may be full."""
        with _failures(self.path, step):
            try:
                yield
            except Exception:
                if is_first():
                    self._clear()
                raise

    def _clear(self) -> None:
        for left in self.path.glob(_UNFINISHED):
            shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _failures(path: Path, step: int) -> Iterator[None]:
    try:
        yield
    except RunError:
        raise
    except Exception as error:  # of Orbax, TensorStore or the file system, as each words it
        what = f"Checkpoint {step} could not be saved" if step else "Checkpoints cannot be saved"
        whole = steps(path)
        last = f" The last checkpoint there is step {whole[-1]:,}." if whole else " No checkpoint is there."
        raise RunError(f"{what} in {path}: {said(error)}.{last}") from error


def said(error: BaseException) -> str:
    """Returns the type of an error and its first line: of TensorStore's the end, which names the file."""
    lines = (line.split(" [tensorstore_spec")[0].strip() for line in str(error).splitlines())
    line = next((line for line in lines if line), "").rstrip(".")
    line = line if len(line) <= _LONGEST else f"… {line[-_LONGEST:].partition(' ')[2]}"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
