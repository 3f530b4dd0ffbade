"""Compiles eas/native/*.c to LLVM text that is checked in, one file per platform: `python tools/build_native.py`.

`--check` writes nothing and says which texts are not what the sources give. See docs/design/0008-native.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

NATIVE = Path(__file__).resolve().parent.parent / "eas" / "native"
TARGETS = {
    "linux-x86_64": "x86_64-linux-gnu",
    "linux-aarch64": "aarch64-linux-gnu",
    "macos-x86_64": "x86_64-macos",
    "macos-aarch64": "aarch64-macos",
}
FLAGS = (
    "-std=c11", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "-O2", "-g0", "-fPIC", "-mcpu=baseline",
    "-fno-strict-aliasing", "-fwrapv", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fno-jump-tables",
    "-fno-stack-protector", "-fno-sanitize=undefined", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer",
)  # fmt: skip

# What LLVM may assume of values and functions. It has served the optimiser, and releases of LLVM spell it in different ways.
_ASSUMPTIONS = re.compile(
    r" (?:noundef|nonnull|noalias|nocapture|readonly|writeonly|readnone|returned|nofree|local_unnamed_addr|unnamed_addr|dso_local|immarg|dead_on_unwind"
    r"|samesign|(?:captures|dereferenceable|dereferenceable_or_null|initializes|memory)\((?:[^()]|\([^()]*\))*\)|range\([^()]*\))(?![\w(])"
)
_REFERENCES = re.compile(r", ![a-z.]+ !\d+| #\d+")  # to metadata and groups of attributes
_DROPPED = re.compile(r"; ModuleID|source_filename|target |!|attributes |; Function Attrs|.*@llvm\.lifetime\.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all texts, or compare them; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare the texts with the sources")
    only_checks = parser.parse_args(arguments).check
    reason = why_not()
    if reason is not None:
        print(f"build_native: {reason}", file=sys.stderr)
        return 1
    wrong = []
    for platform in TARGETS:
        path, text = path_of(platform), text_of(platform)
        if only_checks:
            wrong += [platform] if not path.exists() or path.read_text() != text else []
        else:
            path.write_text(text)
    if wrong:
        print(f"build_native: run tools/build_native.py, these texts are not of the sources: {', '.join(wrong)}", file=sys.stderr)
    return bool(wrong)


def why_not() -> str | None:
    """What is missing to compile here, or None."""
    return None if importlib.util.find_spec("ziglang") else "it needs a compiler: pip install ziglang"


def path_of(platform: str) -> Path:
    return NATIVE / "text" / f"{platform}.ll"


def origin() -> str:
    """The first line of a text: of which sources it is. Another compiler writes another text of the same sources."""
    digest = hashlib.sha256()
    for path in sorted([*NATIVE.glob("*.c"), *NATIVE.glob("*.h")]):
        digest.update(f"{path.name}\0{path.read_text()}\0".encode())
    return f"; tools/build_native.py made this of the C sources with the digest {digest.hexdigest()[:32]}"


def compiler() -> str:
    """The second line of a text: who has compiled it."""
    return f"; compiled by ziglang {importlib.metadata.version('ziglang')}"


def text_of(platform: str) -> str:
    """The text of all sources as one module."""
    unit = "".join(f'#include "{path.name}"\n' for path in sorted(NATIVE.glob("*.c")))
    zig = str(Path(str(importlib.import_module("ziglang").__file__)).parent / "zig")
    with tempfile.TemporaryDirectory() as scratch:
        environment = {"ZIG_GLOBAL_CACHE_DIR": scratch, "ZIG_LOCAL_CACHE_DIR": scratch, "TMPDIR": scratch, "HOME": scratch}
        Path(scratch, "eas.c").write_text(unit)
        command = [zig, "cc", "-target", TARGETS[platform], *FLAGS, "-I", str(NATIVE), "-S", "-emit-llvm", "eas.c", "-o", "eas.ll"]
        done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}{done.stderr}build_native: the sources do not compile for {platform}")
        made = Path(scratch, "eas.ll").read_text()
    return "\n".join([origin(), compiler(), *_plain(made)]) + "\n"


def _plain(text: str) -> Iterator[str]:
    """The lines without what says more than the code: names of files and machines, assumptions, metadata, blank lines."""
    for line in text.splitlines():
        if not line or _DROPPED.match(line):
            continue
        kept = _ASSUMPTIONS.sub("", _REFERENCES.sub("", re.sub(r" +; preds = .*", "", line)))
        yield kept.removesuffix(" {") + " nounwind {" if kept.startswith("define ") else kept


if __name__ == "__main__":
    raise SystemExit(main())
