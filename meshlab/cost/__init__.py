"""What a plan will cost: machines as data, collectives, compute and memory. It knows the engine, and nothing above."""
