"""Builds `eas._metal`, the Metal runtime: on a Mac with its Command Line Tools; on Linux, with EAS_METAL=software, against the fake Metal.

    python tools/build_metal_ext.py
    EAS_METAL=software python tools/build_metal_ext.py

`setup.py` calls it for `pip install` on a Mac.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE, FAKE, SIM = (ROOT / "eas" / name for name in ("metal_native", "metal_fake", "metal_sim"))
RESULT = ROOT / "eas" / "_metal.abi3.so"
MACOS = "14.0"  # the first one with Metal 3.1
FIRST_PYTHON = "cp311"  # of the stable ABI that the extension is made for
COMMON = ("-std=c++17", "-fobjc-arc", "-fblocks", "-fno-exceptions", "-fno-rtti", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall")
# Without CoreGraphics MTLCreateSystemDefaultDevice can be nil in programs without windows.
ON_MAC = ("-arch", "arm64", f"-mmacosx-version-min={MACOS}", "-framework", "Metal", "-framework", "Foundation", "-framework", "CoreGraphics")
ON_FAKE = ("-fobjc-runtime=gnustep-2.0", "-fno-objc-exceptions", "-fvisibility=default", "-I", str(FAKE), "-I", str(FAKE / "include"))


def main() -> int:
    """Build the extension for this machine; 1 and a sentence if it cannot be built here."""
    why = why_not()
    if why is not None:
        return _refuse(why)
    failed = build(RESULT)
    if not failed:
        print(f"built {RESULT.relative_to(ROOT)}")
    return failed


def why_not() -> str | None:
    """Why the extension cannot be built here, with what to do about it, or None."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "eas._metal needs Python's lock: free-threaded builds are not supported; use a Python without the t in its name"
    if sys.platform == "darwin":
        return _why_not_on_a_mac()
    if os.environ.get("EAS_METAL") != "software":
        return f"Metal needs macOS, this is {sys.platform}; EAS_METAL=software builds it against the software Metal"
    return None if importlib.util.find_spec("ziglang") else "it needs a compiler: pip install ziglang"


def _why_not_on_a_mac() -> str | None:
    if platform.machine() != "arm64":
        return f"eas runs on Apple GPUs, this Mac has a processor of kind {platform.machine()}"
    found = shutil.which("clang++") and subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode == 0
    return None if found else "there is no clang++: install Apple's Command Line Tools with `xcode-select --install`"


def build(result: Path) -> int:
    """Compile and link the extension to a file; the status of the first command that failed, or 0."""
    result.parent.mkdir(parents=True, exist_ok=True)
    return _run(mac_command(result)) if sys.platform == "darwin" else _build_on_the_fake(result)


def mac_command(result: Path) -> list[str]:
    """The one command that a Mac needs. Metal text is compiled by the system at run time, never by `xcrun metal`."""
    sources = [str(path) for path in sorted(NATIVE.glob("*.mm"))]
    include = sysconfig.get_paths()["include"]
    return ["clang++", "-x", "objective-c++", *COMMON, *ON_MAC, "-bundle", "-undefined", "dynamic_lookup", "-I", include, *sources, "-o", str(result)]


def _build_on_the_fake(result: Path) -> int:
    zig = str(Path(str(importlib.import_module("ziglang").__file__)).parent / "zig")
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as scratch:
        objects = []
        for source in [*sorted(NATIVE.glob("*.mm")), *sorted(FAKE.glob("*.mm")), *sorted(FAKE.glob("*.cpp"))]:
            objects.append(f"{scratch}/{source.parent.name}_{source.stem}.o")
            objc = ("-x", "objective-c++", *COMMON, *ON_FAKE, "-I", include)
            plain = ("-std=c++17", "-O2", "-fPIC", "-fno-exceptions", "-fno-rtti", "-w", "-I", str(FAKE), "-I", str(SIM / "engine"), "-I", str(SIM / "include"))
            # Compiled only: a link by zig would first build a C++ library that nothing here uses.
            failed = _run([zig, "c++", "-c", *(objc if source.suffix == ".mm" else plain), str(source), "-o", objects[-1]])
            if failed:
                return failed
        return _run([zig, "ld.lld", "-shared", *objects, "-o", str(result)])


def _refuse(why: str) -> int:
    print(f"build_metal_ext: {why}", file=sys.stderr)
    return 1


def _run(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
