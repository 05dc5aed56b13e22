"""Finds experts that are written with a sort and ragged matmuls, and makes them operations; see `recognise`."""
