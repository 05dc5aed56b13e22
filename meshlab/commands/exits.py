"""The exit statuses of the commands, and how a command says that it fails.

0    done; of a plan: it fits, or no machine is named; of two plans: the second is no worse
1    of a plan: it does not fit, or nothing does; of two plans: the second is worse; else whatever has failed
2    invalid arguments, as argparse has it: they are told on stderr, as the library words them
70   meshlab itself has failed, which is no verdict: `EX_SOFTWARE` of sysexits.h
130  stopped by Ctrl-C, as shells have it
"""

from __future__ import annotations

import sys

from ..engine.errors import MeshlabError

DONE, WORSE, WRONG, BROKEN, STOPPED = 0, 1, 2, 70, 130


class UsageError(MeshlabError):
    """Invalid words on the command line, or a file that they name and that cannot be used."""


def fail(message: str, status: int = WORSE) -> int:
    print(message, file=sys.stderr)
    return status
