"""The literature's parallelisms as functions that return layouts: a program and a mesh come in, a `Layout` goes out.

    mesh = ml.mesh(data=4, model=2)
    ml.layouts.fsdp(program, mesh)                                             rules over `data`
    ml.layouts.fsdp(program, mesh) & ml.layouts.tensor_parallel(program, mesh) over `data` and `model`
    ml.layouts.fsdp(program, mesh, data="model", params="weights/*")           what is not found is said

    ml.layouts.from_axis_rules([("batch", "data"), ("mlp", "model")], program, mesh)    as T5X and MaxText write it
    ml.layouts.from_partition_specs(plan.partition_specs[0], program, mesh)             as `jax.jit` takes it
    ml.layouts.from_levanter({"fsdp_axis": "embed"}, program, mesh)                     as Levanter's trainer has it

What comes out is written as a user would write it, and may be changed like any layout. A preset that a program has
nothing for is refused with what is missing and the dims that it could take.
"""

from .accumulation import accumulate as accumulate
from .axis_rules import from_axis_rules as from_axis_rules
from .context import context_parallel as context_parallel
from .data_parallel import data_parallel as data_parallel
from .data_parallel import fsdp as fsdp
from .data_parallel import hsdp as hsdp
from .data_parallel import zero1 as zero1
from .data_parallel import zero2 as zero2
from .data_parallel import zero3 as zero3
from .experts import expert_parallel as expert_parallel
from .levanter import from_levanter as from_levanter
from .levanter import to_levanter as to_levanter
from .model import sequence_parallel as sequence_parallel
from .model import tensor_parallel as tensor_parallel
from .naming import Named as Named
from .naming import NamedPart as NamedPart
from .naming import named as named
from .partition_specs import from_partition_specs as from_partition_specs
from .pipeline import pipeline_parallel as pipeline_parallel
