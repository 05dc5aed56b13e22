"""What a plan will cost: machines as data, collectives, compute and memory. It knows the engine, and nothing above."""

from ..engine.plans.data import enter_estimate
from .peak_memory.memory import memory_of
from .step_time.time import time_of
from .workload.attention import DEFAULT
from .workload.scenario import at_plan_sizes

enter_estimate("memory", lambda plan: memory_of(plan).given(DEFAULT))
enter_estimate("time", lambda plan: time_of(at_plan_sizes(plan)))
