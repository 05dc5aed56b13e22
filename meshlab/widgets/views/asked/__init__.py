"""What the board shows once somebody has asked for it: an Explorer comes in, out go JSON-like data, or nothing."""
