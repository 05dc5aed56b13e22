"""The command `meshlab`: plans, compares and measures, lists models, writes boards, runs files, opens the notebooks.

    meshlab plan llama3-8b --mesh data=8,model=4 --on v5p:4x4x2 --layout "batch:data ffn:model"
    meshlab diff before.json after.json
    meshlab report step.py --mesh data=2,model=2 --out board.html
    meshlab explain train.py:compiled --forbid all-gather:data:1MB
    meshlab profile step.py --mesh data=2,model=2 --layout "batch:data"
    meshlab run train.py --processes 4
    meshlab models
    meshlab lab
    meshlab calibrate
    meshlab doctor

Each is a module of `meshlab.commands`, which adds its options and runs. What the library refuses is told on stderr as
it words it, and the exit status says what has happened: see `meshlab.commands.exits`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from meshlab.version import __version__

from .auto.best_first.answers import NothingFits
from .commands import calibrate, diff, doctor, explain, lab, models, plan, profile, report, run
from .commands.exits import BROKEN, STOPPED, WORSE, WRONG, fail
from .commands.searching import Stopped
from .engine.errors import MeshlabError, closest, listed

# In the order of the help.
COMMANDS = (plan, diff, report, explain, profile, run, models, lab, calibrate, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    Args:
        arguments: the words after `meshlab`; the process's own when `None`.
    """
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if "run" not in options:
        parser.error(_without_verb(others))
    if others and not options.hands_on:
        return fail(_unknown(options.parser, others), WRONG)
    try:
        status = options.run(options, others)
        sys.stdout.flush()
        return status
    except NothingFits as error:  # which is an answer, and says nothing against the arguments
        return fail(str(error), WORSE)
    except MeshlabError as error:
        return fail(str(error), WRONG)
    except Stopped as error:
        return fail(str(error), STOPPED)
    except KeyboardInterrupt:
        return fail("Stopped.", STOPPED)
    except BrokenPipeError:  # whoever read the output has ended: nothing more is to be written, not at exit either
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return WORSE
    except Exception:  # a fault of ours, which no status of a plan may stand for
        return fail(f"{traceback.format_exc()}This is a bug in meshlab.", BROKEN)


class _Once(argparse.Action):
    """Stores the value of an option that may be given once: of two, the last would count in silence."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None):
        if option_string is not None and getattr(namespace, self.dest, None) is not self.default:
            raise argparse.ArgumentError(self, "it appears twice; give it once")
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """A parser whose options, and those of its verbs, may each be given once."""

    def __init__(self, **given: Any):
        super().__init__(**given)
        self.register("action", None, _Once)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="meshlab", description="Plan how a JAX model is sharded over devices.")
    parser.add_argument("--version", action="version", version=f"meshlab {__version__}")
    parser.set_defaults(hands_on=False)
    verbs = parser.add_subparsers(metavar="VERB")
    for command in COMMANDS:
        command.add(verbs)
    return parser


def _without_verb(others: Sequence[str]) -> str:
    """The error where no verb is given: the verb is missing, or an option was meant."""
    if not others:
        return "the following arguments are required: VERB"
    hint = closest(others[0], ("--version", "--help"))
    return f"there is no option {listed(others)}.{hint} `meshlab --help` lists the commands."


def _unknown(parser: argparse.ArgumentParser, others: Sequence[str]) -> str:
    """The error for words that a command does not know."""
    # By their words: with dashes all short options are alike.
    near = closest(others[0].partition("=")[0].lstrip("-"), re.findall(r"--([a-z]+)", parser.format_usage()))
    hint = re.sub(r"`(\w+)`", r"`--\1`", near)
    text = f"{parser.prog} does not know {' '.join(others)}{f'.{hint}' if hint else ';'}"
    return f"{text} `{parser.prog} --help` lists its options."


if __name__ == "__main__":
    sys.exit(main())
