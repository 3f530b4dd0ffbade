"""`python -m eas triton script.py ...`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program and what it is given."""
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, as for python -m")
    parser.add_argument("program", help="a script, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program finds in sys.argv")


def run(options: argparse.Namespace) -> int:
    """Run a program as Python would, with `triton` found in eas."""
    import eas.triton

    eas.triton.install(replace=True)
    sys.argv = [options.program, *options.arguments]
    sys.path[0] = os.getcwd() if options.module else os.path.dirname(os.path.abspath(options.program))
    if options.module:
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(options.program, run_name="__main__")
    return 0
