"""Training: a program with the values that it starts from comes in; out goes what each step is fed."""
