"""Builds `eas._metal`, the Metal runtime: on a Mac with its Command Line Tools; on Linux, with EAS_METAL=software, against the fake Metal.

    python tools/build_metal_ext.py
    EAS_METAL=software python tools/build_metal_ext.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE, FAKE, SIM = (ROOT / "eas" / name for name in ("metal_native", "metal_fake", "metal_sim"))
RESULT = ROOT / "eas" / "_metal.abi3.so"
COMMON = ("-std=c++17", "-fobjc-arc", "-fblocks", "-fno-exceptions", "-fno-rtti", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall")
ON_MAC = ("-mmacosx-version-min=14.0", "-framework", "Metal", "-framework", "Foundation", "-framework", "CoreGraphics")
ON_FAKE = ("-fobjc-runtime=gnustep-2.0", "-fno-objc-exceptions", "-fvisibility=default", "-I", str(FAKE), "-I", str(FAKE / "include"))


def main() -> int:
    """Build the extension for this machine; 1 and a sentence if it cannot be built here."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return _refuse("eas._metal needs Python's lock: free-threaded builds are not supported")
    if sys.platform == "darwin":
        return _build_on_a_mac()
    if os.environ.get("EAS_METAL") == "software":
        return _build_on_the_fake()
    return _refuse(f"Metal needs macOS, this is {sys.platform}; EAS_METAL=software builds it against the software Metal")


def _refuse(why: str) -> int:
    print(f"build_metal_ext: {why}", file=sys.stderr)
    return 1


def _build_on_a_mac() -> int:
    sources = [str(path) for path in sorted(NATIVE.glob("*.mm"))]
    include = sysconfig.get_paths()["include"]
    flags = ["-x", "objective-c++", *COMMON, *ON_MAC, "-bundle", "-undefined", "dynamic_lookup", "-I", include]
    return _run(["clang++", *flags, *sources, "-o", str(RESULT)]) or _done()


def _build_on_the_fake() -> int:
    try:
        import ziglang
    except ImportError:
        return _refuse("it needs a compiler: pip install ziglang")
    zig = str(Path(ziglang.__file__).parent / "zig")
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
        return _run([zig, "ld.lld", "-shared", *objects, "-o", str(RESULT)]) or _done()


def _run(command: list[str]) -> int:
    return subprocess.run(command, check=False).returncode


def _done() -> int:
    print(f"built {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
