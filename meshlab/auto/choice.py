"""A layout that was chosen, and the questions that it answers: why it is the best, and why another is slower.

choice = ml.auto.layout(program, ml.mesh("v5p:4x4x4", data=16, model=4))
choice.layout       batch:data+model · params/*: embed:data …
choice.plan         its plan
choice.proof        what was minimised, the proven bound, how it was found
choice.compare("batch:data ffn:model")
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Callable, Iterable
from typing import Any

from ..api.stages import Plan
from ..engine.argument_checks import whole_number
from ..engine.errors import MeshlabError, shown
from ..engine.gc_pause import no_collection
from ..engine.running.compiler_process import Cancel
from ..engine.specs.layout import Layout, LayoutLike
from .best_first.fastest import Fastest
from .best_first.pricer import LayoutPrice
from .best_first.solved_bounds import SolvedBound, solved_bounds
from .compare import Comparison, Row
from .proof import Proof
from .reasons.binding import Binding, binding
from .reasons.crossovers import Crossovers, crossovers, exact_crossovers
from .reasons.front import FrontPoint, front, searched_front
from .reasons.ranking import Rank, rank
from .reasons.regrets import Regret, exact_regrets, regrets
from .reasons.waterfall import Waterfall, waterfall
from .request.answer import Answer, Asked
from .request.stopping import Watch

# The share of memory that each point of a front that is searched for takes less than the one before.
_LESS = 0.1


@dataclasses.dataclass(frozen=True)
class Choice:
    """A layout that was chosen.

    Attributes:
        layout: the layout.
        plan: its plan.
        proof: why it is the best.
        asked: what the search was asked.
        answer: what it answered.
        name: of several programs, that of the one that was chosen.
    """

    layout: Layout
    plan: Plan
    proof: Proof
    asked: Asked = dataclasses.field(repr=False)
    answer: Answer = dataclasses.field(repr=False)
    name: str = ""

    def compare(self, layout: LayoutLike = None) -> Comparison:
        """Sets the chosen layout beside another.

        Args:
            layout: the other one, in any spelling; None splits nothing.

        Returns:
            A `Comparison`: a table, and `.figure()`.

        Raises:
            LayoutError: the other layout is not legal.
        """
        yours, options = self.plan.program.plan(self.plan.mesh, layout), self.asked.options
        return Comparison((Row("yours", yours, options), Row("auto", self.plan, options)), self.proof)

    @functools.cached_property
    def alternatives(self) -> tuple[LayoutPrice, ...]:
        """The layouts that the search has priced as possible answers, those that cost least first, fitting or not."""
        search = self._search("alternatives")
        return tuple(sorted(search.met.values(), key=lambda price: (search.cost(price), price.rules)))

    @functools.cached_property
    def pareto(self) -> tuple[FrontPoint, ...]:
        """The front of step time and peak memory over the layouts met, the fastest first, each with its bound."""
        with no_collection():
            return front(self._search("pareto").met.values(), self.proof.bound)

    def exact_pareto(self, points: int = 8) -> tuple[FrontPoint, ...]:
        """Searches for the front of step time and peak memory: each point takes 10 % less memory than the one before.

        Args:
            points: their number, at most.

        Raises:
            Cancelled: the search's `cancel` was set.
            MeshlabError: `points` is not an integer of at least 1.
        """
        most = whole_number("exact_pareto()", "number of points", points, least=1)
        return searched_front(self._search("exact_pareto"), self.asked.limits, _LESS, most)

    @functools.cached_property
    def regrets(self) -> tuple[Regret, ...]:
        """What each decision otherwise costs, between bounds: by what the search has met and left behind."""
        with no_collection():
            return regrets(self._search("regrets"), self.layout)

    def exact_regrets(
        self, *, progress: Callable[[tuple[Regret, ...]], Any] | None = None, cancel: Cancel | None = None
    ) -> tuple[Regret, ...]:
        """Searches for the cost of reversing each decision, with all others chosen again, to the search's tolerance.

        Args:
            progress: called with all regrets as they are known so far, after each that was searched for (`exact`).
            cancel: ends it soon after it is set; by default the search's.

        Raises:
            Cancelled: `cancel` was set.
            MeshlabError: `progress` is not a function, or `cancel` not an event.
        """
        search = self._search("exact_regrets")
        if progress is not None and not callable(progress):
            raise MeshlabError(f"exact_regrets() was given progress={shown(progress)}; give a function, or None.")
        limits = self.asked.limits if cancel is None else dataclasses.replace(self.asked.limits, watch=Watch(cancel))
        return exact_regrets(search, self.layout, limits, progress or (lambda _: None))

    @functools.cached_property
    def binding(self) -> Binding:
        """What binds the chosen layout: the part of the step that takes longest, and memory."""
        search = self._search("binding")
        return binding(search, search.met[self.layout])

    def waterfall(self, layout: LayoutLike = None, *, pause: Callable[[], Any] | None = None) -> Waterfall:
        """Goes from another layout to the chosen one, one change at a time.

        The order is one in which no step is slower than both ends where such a one is met; else `order` says so.

        Args:
            layout: the other one, in any spelling; None splits nothing.
            pause: called before each plan; it may wait.

        Raises:
            LayoutError: the other layout is not legal.
        """
        search = self._search("waterfall")
        yours = self.plan.program.plan(self.plan.mesh, layout)
        if pause is not None and not callable(pause):
            raise MeshlabError(f"waterfall() was given pause={shown(pause)}; give a function, or None.")
        return waterfall(search.pricer, yours.layout, self.layout, pause or (lambda: None))

    def crossovers(self, **varied: Iterable[float]) -> Crossovers:
        """Tells where another of the layouts that were met gets the fastest: along a dim, a mesh axis or the bandwidth.

        Args:
            varied: one name with its values: `batch=[256, 1024]`, `data=[4, 8, 16]`, or `bandwidth=[0.5, 1, 2]`, what
                the bytes/s of all links are multiplied by.

        Raises:
            MeshlabError: the arguments are invalid.
            HardwareError: the payload of an operation at other sizes is unknown.
        """
        return crossovers(self._search("crossovers"), self.asked, varied)

    def exact_crossovers(self, **varied: Iterable[float]) -> Crossovers:
        """Searches at each value for where another layout becomes the fastest; takes the arguments of `crossovers`.

        Raises:
            MeshlabError: the arguments are invalid, or the program cannot be traced at a size.
            HardwareError: there is no slice for a size of a mesh axis.
            Cancelled: the search's `cancel` was set.
        """
        self._search("exact_crossovers")
        return exact_crossovers(self.asked, varied)

    def rank(self, layout: LayoutLike = None) -> Rank:
        """Tells how many ways to compute are certainly faster than a layout, and how many certainly slower.

        Args:
            layout: the layout, in any spelling; None splits nothing.

        Raises:
            LayoutError: it is not legal.
        """
        search = self._search("rank")
        yours = self.plan.program.plan(self.plan.mesh, layout)
        price = search.pricer.price(yours.layout)
        assert price is not None, "it was planned"
        return rank(search, price.seconds)

    def solved_bounds(self) -> tuple[SolvedBound, ...]:
        """Proves once more, by each solver that is installed, the bounds of the search that add up over the program.

        Returns:
            The least seconds of kernels, and the least bytes at the peak, of all ways to compute.

        Raises:
            MeshlabError: a solver has not proved its answer, or has another than the search.
        """
        search = self._search("solved_bounds")
        unsplit = search.pricer.price(Layout())
        assert unsplit is not None, "a layout without rules is legal"
        return solved_bounds(search.space, unsplit)

    def _search(self, wanted: str) -> Fastest:
        if not isinstance(self.answer.search, Fastest):
            raise MeshlabError(
                f"choice.{wanted} explains the fastest layout, but this search minimised"
                f' {self.proof.objective}; write ml.auto.layout(program, mesh, objective="time").'
            )
        return self.answer.search

    def __str__(self):
        return f"{str(self.layout) or 'nothing sharded'}: {self.proof}"

    def _repr_html_(self) -> str:
        name = html.escape(str(self.layout) or "nothing sharded")
        return f"<p><code>{name}</code></p><p>{html.escape(str(self.proof))}</p>"
