"""Background: work that nobody waits for comes in; out go its results, once nobody is at a board."""
