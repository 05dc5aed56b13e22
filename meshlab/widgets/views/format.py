"""Numbers as the board writes them: shares, bytes, and quantities with a unit. See js/src/format.js."""

from __future__ import annotations


def percent(share: float) -> str:
    """Returns 0.125 as "12.5%", in three digits, as the board writes it."""
    return f"{float(f'{100 * share:.3g}'):g}%"


def count_bytes(count: int) -> str:
    """Returns 1628116 as "1.63 MB", in powers of 1000, as the board writes it."""
    value, unit = float(abs(count)), 0
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    while value >= 999.5 and unit < len(units) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{'−' if count < 0 else ''}{value:.{digits}f} {units[unit]}"


def scaled(value: float, unit: str) -> str:
    """Returns 8.1e11 as "810 GB/s", in powers of 1000."""
    prefixes = ("", "k", "M", "G", "T", "P", "E")
    power = 0
    while value >= 999.5 and power < len(prefixes) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {prefixes[power]}{unit}"
