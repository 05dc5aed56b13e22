"""Rules say how each primitive is sharded: one small function a primitive, registered with the primitive's traits."""

from . import attention as attention
from . import convolution as convolution
from . import cumulative as cumulative
from . import elementwise as elementwise
from . import experts as experts
from . import gathering as gathering
from . import indexing as indexing
from . import linear_algebra as linear_algebra
from . import marks as marks
from . import ordering as ordering
from . import ragged as ragged
from . import random as random
from . import reducing as reducing
from . import scattering as scattering
from . import shaping as shaping
from . import shift as shift
from . import stacking as stacking
from . import windows as windows
from .per_shard import PER_SHARD as PER_SHARD
from .table import Factors as Factors
from .table import Facts as Facts
from .table import factors_of as factors_of
from .traits import TRAITS as TRAITS
from .traits import Traits as Traits
from .traits import names_where as names_where

# Primitives that compute each element from those at the same place.
ELEMENTWISE = names_where(lambda traits: traits.kind == "elementwise")
# Primitives that hand an array on as it is, with a name, say.
MARKS = names_where(lambda traits: traits.kind == "mark")
# Primitives that read only a part of their first operand.
READ_IN_PART = names_where(lambda traits: traits.reads_part)
