"""The layout that sends least: bytes that one device sends in one run, among layouts that divide the work.

Two integer programs, each proved: the least work that any layout reaches (`work`), then the least traffic of those that
do hardly more. The first one's answer leaves few parts of layouts in question, so that the tables of the second are
filled from a few dozen plans.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.api.stages import Program
from ...engine.planning.provenance import provenance
from ...engine.specs.mesh import Mesh
from ..request.stopping import NEVER, Watch
from .ilp import Model
from .pulp_compat import method
from .sent_bytes import sent_by_value
from .solution import Solution, best_of
from .space import Dims, Space, Splits
from .tables import parts_of, total, traffic_tables
from .work import SLACK, amounts_of, work_bound, work_tables


def least_traffic(program: Program, mesh: Mesh, space: Space, watch: Watch = NEVER) -> Solution:
    """Finds the layout that sends least.

    Args:
        program: the program.
        mesh: the mesh.
        space: the legal layouts.
        watch: whether the search is to stop.

    Raises:
        Cancelled: it was.
    """
    amounts = amounts_of(program)
    work = work_tables(amounts, space)
    sets = [table.dims for table in work]
    first = Model(space, parts_of(space, sets), watch)
    most_divided, _ = first.minimise(first.cost(work))
    most = total(work, most_divided) * (1 + SLACK)

    follows = provenance(program)
    sets += [space.free(dims) for dims in follows.values()]

    def divides(part: Splits, decided: Dims) -> bool:
        watch.check()
        return work_bound(amounts, space, part, decided) <= most

    def sent(splits: Splits) -> Mapping[int, float]:
        watch.check()
        return sent_by_value(program.plan(mesh, dict(splits)))

    parts = parts_of(space, sets, divides)
    tables = traffic_tables(space, parts, follows, sent)
    model = Model(space, parts, watch)
    model.limit(model.cost(work), most)
    least, bound = model.minimise(model.cost(tables))
    model.minimise(model.splits())
    splits = best_of(least, model.in_order(), lambda layout: total(tables, layout))
    return Solution(splits, total(tables, splits), bound, method(), most)
