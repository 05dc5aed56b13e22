"""What a plan will cost: machines as data, collectives, compute and memory. It knows the engine, and nothing above."""

from ..engine.estimates import enter
from .setting import own
from .time import time_of

enter("time", lambda plan: time_of(own(plan)))
