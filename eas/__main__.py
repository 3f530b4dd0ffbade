"""The command line: `python -m eas doctor | env | sim | --version`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from eas import config
from eas._version import __version__
from eas.errors import EasError, printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status; argparse exits with 2 for an unknown one."""
    parser = argparse.ArgumentParser(prog="eas", description="Look at this installation of eas.")
    parser.add_argument("--version", action="version", version=f"eas {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="{doctor,env,sim}", required=True)
    commands.add_parser("doctor", help="what this machine has: backends, compilers, torch, cache")
    commands.add_parser("env", help="the environment variables and their values")
    sim = commands.add_parser("sim", help="the kernels of a Metal text, listed or run on this computer")
    asked = list(sys.argv[1:] if argv is None else argv)
    if asked[:1] == ["sim"]:
        from eas.metal_sim import command  # the other commands must not wait for it

        command.add_arguments(sim)
    options = parser.parse_args(asked)
    try:
        if options.command == "sim":
            return command.run(options)
        return _doctor() if options.command == "doctor" else _env()
    except EasError as error:
        print(f"eas: {printable(str(error), keep=chr(10))}", file=sys.stderr)
        return 1


def _doctor() -> int:
    from eas import doctor  # looks for torch and compilers, which `env` must not wait for

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
