"""Running: a plan and arrays come in; out go compiled executables and results, on attached or simulated devices."""
