"""The processes that a test has started and that have not ended."""

import os
import subprocess


def children(word: str) -> list[str]:
    """The commands of this process's own children that a word stands in."""
    listing = subprocess.run(["ps", "-wweo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    lines = (line.split(None, 1) for line in listing.splitlines())
    return [args for parent, args in lines if parent == str(os.getpid()) and word in args]
