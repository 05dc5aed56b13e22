"""The rules, one small function per primitive, in one table."""

from . import elementwise as elementwise
from . import indexing as indexing
from . import marks as marks
from . import reducing as reducing
from . import shaping as shaping
from . import shift as shift
from .local import LOCAL_FORMS as LOCAL_FORMS
from .table import Factors as Factors
from .table import Facts as Facts
from .table import factors_of as factors_of
