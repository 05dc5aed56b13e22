"""The models that have names, as the board has them: how one is traced, and the list to choose from.

    models.trace(Model("llama3-8b", (("batch", 32),)))      its program
    listing.begin(); listing.rows                           (ListedModel("llama3-8b", "Language", 8030261248, …), …)

The models themselves stand above the board (`meshlab/opening`), which is given them when it is opened. How many
parameters each has is worked out in the background, once: Flax and Equinox are imported for some of them, which takes
seconds.
"""

from __future__ import annotations

import dataclasses
import threading
import time as clock
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ...engine.errors import MeshlabError
from .one_by_one import Background
from .quiet import QUIET

Sizes = tuple[tuple[str, int], ...]
# Seconds between two tellings of how far the list is.
OFTEN = 0.3


@dataclasses.dataclass(frozen=True)
class Model:
    """A model that has a name, as it was traced: `ml.named_models()[name].trace(**sizes)`.

    Args:
        name: its name.
        sizes: of its dims, where they are not its own.
    """

    name: str
    sizes: Sizes = ()


class NamedModel(Protocol):
    """A model that has a name; see `meshlab.opening.named_models.Named`."""

    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def parameters(self) -> int: ...
    @property
    def inputs(self) -> Mapping[str, int]: ...
    def trace(self, **sizes: int) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Models:
    """The models that an Explorer can open.

    Attributes:
        opened: the model that the program is that it was opened with; None for a program of the user's own.
        find: returns the model of a name, and refuses one that there is not; None where models cannot be opened.
        every: returns all of them.
    """

    opened: Model | None = None
    find: Callable[[str], NamedModel] | None = None
    every: Callable[[], Mapping[str, NamedModel]] = dict

    def trace(self, model: Model | None) -> Any:
        """Traces a model."""
        if model is None or self.find is None:
            name = "the user's own program" if model is None else f"the model `{model.name}`"
            raise MeshlabError(f'This Explorer cannot open {name}. Open it by its name: ml.explore("llama3-8b", mesh).')
        return self.find(model.name).trace(**dict(model.sizes))


NO_MODELS = Models()


@dataclasses.dataclass(frozen=True)
class ListedModel:
    """A model in the list.

    Attributes:
        name: its name.
        group: what it is listed under.
        parameters: how many it has.
        sizes: of the dims of its inputs, where it is opened without others.
    """

    name: str
    group: str
    parameters: int
    sizes: tuple[tuple[str, int], ...]


class Listing:
    """The list of models, made once.

    Args:
        models: gives them.
        lock: guards the Explorer.
        tell: called under the lock when it is longer, or whole.

    Attributes:
        rows: the models listed so far; None while nobody has asked.
        error: why there are no more.
        whole: whether it is.
    """

    def __init__(self, models: Models, lock: threading.RLock, tell: Callable[[], Any]):
        self._models, self._lock, self._tell = models, lock, tell
        self._background = Background()
        self.rows: tuple[ListedModel, ...] | None = None
        self.error, self.whole = "", False

    def begin(self) -> None:
        """Makes the list in the background, unless it was begun before."""
        with self._lock:
            if self.rows is not None and not self.error:
                return
            self.rows, self.error = (), ""
            self._tell()
        self._background.follow(self, self._work)

    def _work(self) -> None:
        rows: list[ListedModel] = []
        told = clock.monotonic()
        try:
            for model in self._models.every().values():
                QUIET.wait()
                rows.append(ListedModel(model.name, model.group, model.parameters, tuple(model.inputs.items())))
                if clock.monotonic() - told > OFTEN:
                    self._show(rows)
                    told = clock.monotonic()
        except Exception as error:  # shown on the board
            self.error = str(error)
        self.whole = not self.error
        self._show(rows)

    def _show(self, rows: list[ListedModel]) -> None:
        with self._lock:
            self.rows = tuple(rows)
            self._tell()
