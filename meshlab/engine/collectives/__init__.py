"""Collectives: their kinds, in a table; reshards, which are chains of them; and what one device asks of the others."""
