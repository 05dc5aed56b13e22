"""Machines: TOML and measurements come in; out go figures, placements and seconds of collectives."""
