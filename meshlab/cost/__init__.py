"""What a plan will cost: machines as data, collectives, compute and memory. It knows the engine, and nothing above."""

from ..engine.estimates import enter
from .memory import memory_of
from .setting import own
from .time import time_of

enter("memory", memory_of)
enter("time", lambda plan: time_of(own(plan)))
