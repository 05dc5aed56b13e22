"""Finds an installed Chromium or Chrome, and says how it is started for a test.

Nothing is downloaded: Debian's package `chromium`, a Mac's Chrome, or whatever MESHLAB_CHROMIUM names. Run as a script
this prints the path, or fails with a message (`scripts/browser.sh` asks it so, before anything else is installed, which
is why it imports nothing but the standard library).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)

# No traffic but to this machine: the last flag answers every other name with "not found".
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class NoBrowserError(RuntimeError):
    """There is no browser that the tests could drive."""


def find() -> str:
    """Returns the path of the browser to test with."""
    asked = os.environ.get("MESHLAB_CHROMIUM")
    if asked:
        if not Path(asked).exists():
            raise NoBrowserError(f"MESHLAB_CHROMIUM names {asked}, which does not exist.")
        return asked
    paths = [path for name in NAMES if (path := shutil.which(name))]
    paths += [path for path in APPLICATIONS if Path(path).exists()]
    if not paths:
        raise NoBrowserError(
            f"No Chromium or Chrome: looked for {', '.join(NAMES)} on PATH and {', '.join(APPLICATIONS)}. "
            "Debian: apt-get install chromium fonts-dejavu-core; macOS: brew install --cask google-chrome. "
            "MESHLAB_CHROMIUM=/path/to/it names another; MESHLAB_NO_BROWSER=1 skips these tests."
        )
    return paths[0]


def flags() -> list[str]:
    """Returns the flags to start it with; the sandbox is given up only where it cannot work, as root."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*FLAGS, *(["--no-sandbox"] if root else [])]


if __name__ == "__main__":
    try:
        print(find())
    except NoBrowserError as error:
        sys.exit(str(error))
