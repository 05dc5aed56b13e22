"""The layout chooser: the best of all legal layouts, with proof."""

from .choice import Choice as Choice
from .choice import Proof as Proof
from .choice import layout as layout
from .compare import Comparison as Comparison
from .compare import Row as Row
from .stopping import Cancelled as Cancelled
