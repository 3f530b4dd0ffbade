"""The command line: `python -m eas demo | show | msl | bench | doctor | env | sim | triton | verify | --version`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

from eas._version import __version__
from eas.base import config
from eas.base.errors import EasError, printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status; argparse exits with 2 for an unknown one."""
    parser = argparse.ArgumentParser(prog="eas", description="Look at this installation of eas.")
    parser.add_argument("--version", action="version", version=f"eas {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("doctor", help="what this machine has: backends, compilers, torch, cache")
    commands.add_parser("env", help="the environment variables and their values")
    sim = commands.add_parser("sim", help="the kernels of a Metal text, listed or run on this computer")
    verify = commands.add_parser("verify", help="whether all that eas promises holds on this machine: a table, a JSON file and a page")
    triton = commands.add_parser("triton", help="run a Python program whose `import triton` finds eas.triton")
    own = {"sim": sim, "triton": triton, "verify": verify, "demo": commands.add_parser("demo", help="one kernel on this machine: its speed, its Metal text, an error; a few seconds")}
    for name, text in (("show", "a kernel as it was compiled: arguments, accesses, IR"), ("msl", "the Metal text of a kernel"), ("bench", "how long a launch of a kernel takes")):
        own[name] = commands.add_parser(name, help=f"{text}; python -m eas {name} file.py:kernel")
    asked = list(sys.argv[1:] if argv is None else argv)
    if not asked:
        parser.print_help()
        return 0
    run = _run_of(asked[0], own)
    options = parser.parse_args(asked)
    try:
        if run is not None:
            return run(options)
        return _doctor() if options.command == "doctor" else _env()
    except EasError as error:
        print(f"eas: {printable(str(error), keep=chr(10))}", file=sys.stderr)
        return 1


def _run_of(command: str, parsers: dict[str, argparse.ArgumentParser]) -> Callable[[argparse.Namespace], int] | None:
    """What runs a command with options of its own, which are added; the other commands must not wait for its modules."""
    if command not in parsers:
        return None
    module = importlib.import_module({"sim": "eas.metal_sim.command", "triton": "eas.command_line.triton", "verify": "eas.verify.command", "demo": "eas.command_line.demo"}.get(command, "eas.command_line.kernels"))
    module.add_arguments(parsers[command])
    run: Callable[[argparse.Namespace], int] = module.run
    return run


def _doctor() -> int:
    from eas.command_line import (
        doctor,  # looks for torch and compilers, which `env` must not wait for
    )

    print(doctor.report())
    return 0


def _env() -> int:
    """Print the table; 1 if a variable holds an invalid value or is not one of ours."""
    rows: list[tuple[config.Setting[object], str]] = []
    problems: list[str] = []
    for setting in config.SETTINGS:
        try:
            rows.append((setting, _shown(setting())))
        except config.InvalidSetting as error:
            rows.append((setting, "(invalid)"))
            problems.append(str(error))
    for name, near in config.unknown_variables().items():
        problems.append(f"{name} is not a variable of eas" + (f"; did you mean {near}?" if near else ""))
    names, values = (max(map(len, column)) for column in zip(*((s.name, v) for s, v in rows), strict=True))
    for setting, value in rows:
        origin = "set" if setting.is_set else "default"
        print(f"{setting.name:<{names}}  {value:<{values}}  {origin:<7}  {setting.kind.allowed}")
        print(f"    {setting.describe()}")
    for problem in problems:
        print(f"\n{problem}")
    return 1 if problems else 0


def _shown(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(main())
