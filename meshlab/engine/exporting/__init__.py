"""In: a plan. Out: the program of each device as Python that needs JAX alone (`plan.code`)."""
