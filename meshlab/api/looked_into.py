"""A plan whose step can be looked into: what its values are, where a NaN begins, how long it takes, and its code."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..engine.exporting import code
from ..engine.inside import find_nan, watch
from ..engine.programs.values import Value
from . import priced, profile


class Plan(priced.Plan):
    """A plan, with methods that look into its step."""

    def watch(self, *args: object, values: Sequence[str | Value]) -> watch.Seen:
        """Runs the plan, and returns values of its step beside the results that `run` returns.

        Args:
            *args: as for `run`.
            values: the values to return: places (`"params/w1"`, a tag), globs over places (`"grads/*"`), names that
                lines assign (`"hidden"`), lines (`"model.py:17"`), or `program.values`.

        Returns:
            A mapping from each name to its value, with the results in `.result`. Values come from a second program,
            which returns them too; `.exact` says whether the results of both programs are equal bit by bit.

        Raises:
            RunError: an argument does not fit; a value does not exist, or is inside a `while`, a branch or a pipeline.

        Example:
            >>> seen = plan.watch(params, images, labels, values=["hidden"])
            >>> seen["hidden"].whole.shape
            (100, 1024)
        """
        return watch.watch(self, args, values)

    def find_nan(self, *args: object) -> find_nan.NotFinite | None:
        """Runs the plan, and finds the first NaN of its step; without one, the first infinity that reaches a result.

        Args:
            *args: as for `run`.

        Returns:
            The value with its line, its iteration (from 0) and its devices; None if all results are finite.

        Raises:
            RunError: an argument does not fit.
        """
        return find_nan.find_nan(self, args)

    def profile(self, *args: object, runs: int = 5) -> profile.Profile:
        """Runs the plan under JAX's profiler, and measures each step, line and collective.

        Args:
            *args: as for `run`; without any, on random data.
            runs: how often it runs; the run of median length is reported.

        Returns:
            A `Profile`, which prints as a table: `.lines`, `.collectives`, `.steps`, with the predicted seconds if the
            mesh is on a machine.

        Raises:
            RunError: an argument does not fit; there are several processes; another profile is being recorded; or the
                profiler does not name the instructions of these devices.
        """
        return profile.profile(self, args, runs)

    def code(self, path: str | os.PathLike[str] | None = None) -> str:
        """Writes the program of each device as Python that needs only JAX: one `jax.shard_map`, to read or to run.

        Args:
            path: the file, which is replaced: `"step.py"`; without one, nothing is written.

        Returns:
            The text. It was traced again, and computes and sends what `run` does.

        Raises:
            RunError: parts of the program cannot be written, and the error lists them; or the file cannot.

        Example:
            >>> print(plan.code("step.py"))
        """
        return code.code(self, path)
