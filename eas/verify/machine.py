"""What machine a report is about; asked in a process of its own, for a driver can end it: `python -m eas.verify.machine [BACKEND ...]`."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from eas._version import __version__
from eas.base import config
from eas.runtime import BACKENDS, get_runtime
from eas.runtime.native.host_target import host_target

SECONDS = 120  # a first look at a GPU may start its compiler


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is: the machine, the backends with the reasons why not, and what the process said if it died."""

    machine: dict[str, Any]
    backends: dict[str, str | None]
    last_lines: tuple[str, ...] = ()


def survey(asked: tuple[str, ...] = ()) -> Survey:
    """Ask for the machine in a process of its own."""
    try:
        done = subprocess.run([sys.executable, "-m", __name__, *asked], capture_output=True, text=True, timeout=SECONDS, check=False)
        said, status = done.stdout + done.stderr, f"status {done.returncode}"
        if done.returncode == 0:
            machine, found = json.loads(done.stdout.splitlines()[-1])
            return Survey(machine, found)
    except subprocess.TimeoutExpired:
        said, status = "", f"after {SECONDS} s"
    why = f"asking for it ended the process with {status}"
    return Survey(host(), {"cpu": None, "mps": why}, tuple(said.splitlines()[-25:]) or (why,))


def host() -> dict[str, Any]:
    """Versions and processor, as a flat table of texts."""
    return {
        "eas": __version__,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpu": f"{platform.processor() or platform.machine()} ({host_target().name}), {os.cpu_count()} cores",
    }


def gpu() -> dict[str, Any]:
    """What the Metal device says of itself, or why there is none."""
    runtime = get_runtime("mps")
    why = runtime.why_unavailable()
    if why is not None:
        return {"gpu": f"none: {why}"}
    from eas.runtime.metal import MetalRuntime

    assert isinstance(runtime, MetalRuntime)
    info = runtime.extension().device_info()
    return {"gpu": f"{info['name']}, family Apple {info['family']}"}


def backends(asked: tuple[str, ...] = ()) -> dict[str, str | None]:
    """The backends to look at, each with the reason why it is not available; who has a GPU need not wait for the software Metal."""
    names = asked or tuple(row.name for row in BACKENDS if row.target)
    found = {name: get_runtime(name).why_unavailable() for name in names}
    if not asked and found["mps"] is None and config.metal() == "native":
        del found["sim"]
    return found


if __name__ == "__main__":
    print(json.dumps([host() | gpu(), backends(tuple(sys.argv[1:]))]))
