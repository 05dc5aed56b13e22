"""The program as a tree: what of the plan is listed, and the columns in which it is sent."""
