"""What a search is asked: which layouts count, what ends it, and what it answers."""
