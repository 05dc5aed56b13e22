"""The layout chooser: a program and a mesh come in; the best of all legal layouts goes out, with proof."""

from .arrangements import MeshChoice as MeshChoice
from .arrangements import mesh as mesh
from .best_first.answers import NothingAllowed as NothingAllowed
from .best_first.answers import NothingFits as NothingFits
from .choice import Choice as Choice
from .choosing import layout as layout
from .compare import Comparison as Comparison
from .compare import Row as Row
from .proof import Proof as Proof
from .reasons.crossovers import Crossovers as Crossovers
from .reasons.front import FrontPoint as FrontPoint
from .reasons.regrets import Regret as Regret
from .reasons.waterfall import Waterfall as Waterfall
from .request.answer import Found as Found
from .request.stopping import Cancelled as Cancelled
