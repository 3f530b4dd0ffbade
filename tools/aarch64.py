"""Runs Python on an emulated aarch64 processor: `python tools/aarch64.py -m pytest tests/backend --backend cpu`.

The first call unpacks the distribution's arm64 Python (apt-get) and aarch64 wheels (pip) into a folder of the user's
cache, which takes half a minute; qemu-user runs them there. Nothing is installed on this machine, and nobody needs to be root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

EMULATOR = "qemu-aarch64"
PROCESSOR = "max,sve=off"  # what a Mac has: vectors of 16 bytes, and every extension of Armv8.5
DEBIAN = ("python3", "libstdc++6")
TEST_TOOLS = ("pytest>=8", "hypothesis>=6.100")
WHEELS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")

# /proc/cpuinfo of an Apple M1: LLVM takes name and extensions of the processor from here. Emulators that make
# this file themselves describe PROCESSOR.
CPUINFO = """\
processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 \
asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg dcpodp flagm2 frint
CPU implementer\t: 0x61
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0x023
CPU revision\t: 1

"""

_REPOSITORY = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str]) -> int:
    """Make what is missing; then become Python on the emulated processor, unless there is nothing for it to do."""
    if arguments[:1] in ([], ["-h"], ["--help"]):
        print(__doc__, "\n`python tools/aarch64.py --make` only makes the folder.", sep="")
        return 0
    needed = (EMULATOR,) if is_made() else (EMULATOR, "apt-get", "dpkg-deb")
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        print(f"tools/aarch64.py needs {', '.join(missing)} (Debian: apt-get install qemu-user)", file=sys.stderr)
        return 1
    if not is_made():
        make(folder())
    if arguments[0] != "--make":
        os.execv(interpreter(), [str(interpreter()), *arguments])
    return 0


def why_unavailable() -> str | None:
    """What is missing to run something here, as a sentence with the next step, or None."""
    if not shutil.which(EMULATOR):
        return f"{EMULATOR} is not installed (Debian: apt-get install qemu-user)"
    return None if is_made() else "no aarch64 Python is unpacked here (python tools/aarch64.py --make)"


def folder() -> Path:
    """Where the root file system is."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eas-aarch64"


def interpreter() -> Path:
    """A program that takes the arguments of Python."""
    return folder() / "python"


def is_made() -> bool:
    """Whether the folder holds what this file and pyproject.toml ask for."""
    stamp = folder() / "recipe"
    return stamp.exists() and stamp.read_text() == _recipe()


def make(target: Path) -> None:
    """Unpack everything beside the folder, then put it in its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        new = Path(scratch, "new")
        root = new / "root"
        root.mkdir(parents=True)
        _unpack_debian(Path(scratch, "apt"), root)
        version = next(root.glob("usr/bin/python3.*[0-9]")).name.removeprefix("python")
        packages = root / "usr/lib/python3/dist-packages"
        _install_wheels(packages, version)
        (root / "proc").mkdir()
        (root / "proc/cpuinfo").write_text(CPUINFO)
        there = target / "root"
        command = [EMULATOR, "-cpu", PROCESSOR, "-L", str(there), f"{there}/usr/bin/python{version}"]
        (new / "python").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (new / "python").chmod(0o755)
        # Tests that start Python start it like this too.
        (packages / "executable.pth").write_text(f"import sys; sys.executable = {str(target / 'python')!r}\n")
        (new / "recipe").write_text(_recipe())
        shutil.rmtree(target, ignore_errors=True)
        new.rename(target)


def _requirements() -> list[str]:
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *TEST_TOOLS]


def _recipe() -> str:
    return "\n".join([*DEBIAN, *_requirements(), *WHEELS, PROCESSOR, CPUINFO])


def _unpack_debian(state: Path, root: Path) -> None:
    """Packages and what they depend on, from where this machine has its own, with lists of their own."""
    for part in ("lists/partial", "archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()  # nothing is installed
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"])
    _run([*apt, "-y", "--no-install-recommends", "--download-only", "install", *DEBIAN])
    for package in sorted(state.glob("archives/*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(root)])


def _install_wheels(packages: Path, version: str) -> None:
    kinds = [f"--platform={kind}" for kind in WHEELS]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:", f"--python-version={version}", *kinds]
    _run([*pip, "--target", str(packages), *_requirements()])


def _run(command: Sequence[str]) -> None:
    """Run a command that is silent unless it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\ntools/aarch64.py: failed: {shlex.join(command)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
