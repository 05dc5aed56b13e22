"""What values and axes of the user's program are called: a program goes in, names come out, each that of one value."""
