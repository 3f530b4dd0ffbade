"""Collects every distinct Metal text that the tests generate into `eas/verify/corpus.xz`, for `python -m eas verify`.

    python tools/make_corpus.py [pytest options]
    python tools/make_corpus.py --twins       # only texts that must be refused, with their valid twins, into `eas/verify/twins.xz`

The tests run as for the software Metal, but each launch only asks for its text and is then done by the CPU backend:
results stay right, so that no test stops early, and no C++ compiler runs. Texts that differ in names alone are one text.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
FOLDER = "EAS_CORPUS_FOLDER"
TESTS = ("tests/backend", "tests/fuzz", "tests/unit/test_golden_msl.py", "tests/unit/test_msl.py", "tests/unit/test_msl_atomics.py", "tests/unit/test_fragments.py", "tests/unit/test_fragment_map.py")
_COMMENT = re.compile(r"//[^\n]*")
_TOKEN = re.compile(r"\[\[[^\]]*\]\]|[A-Za-z_]\w*(?=\s*[(<:])|[A-Za-z_]\w*|\.\w+|0[xX][0-9a-fA-F]+\w*|\d[\w.]*|\s+|.", re.DOTALL)
_KEPT = re.compile(
    r"u?(char|short|int|long)\d?|(half|b?float|bool)\d?|u?int\d+_t|atomic_\w+|simdgroup_\w+|memory_order_\w+|mem_\w+|M_\w+|FLT_\w+|INFINITY|NAN|NULL"
    r"|auto|bool|break|const|constant|constexpr|continue|device|do|else|false|for|if|inline|kernel|metal|namespace|return|size_t|static|struct|template|thread"
    r"|threadgroup|true|typedef|typename|uint|uchar|ushort|ulong|using|void|volatile|while|__restrict|pragma|METAL|unroll|include|define|fp|contract|off|unsigned|vec"
)


def names_apart(text: str, kernel: str) -> str:
    """The text with every name of its own replaced by a number, in the order of appearance: equal for texts that differ in names alone."""
    numbers: dict[str, str] = {}

    def token(match: re.Match[str]) -> str:
        word = match[0]
        is_name = word[0].isalpha() or word[0] == "_"
        is_called = is_name and match.end() < len(plain) and plain[match.end() :].lstrip()[:1] in ("(", "<", ":")
        if not is_name or _KEPT.fullmatch(word) or (is_called and word != kernel):
            return word
        return numbers.setdefault(word, f"n{len(numbers)}")

    plain = re.sub(rf"\b{re.escape(kernel)}_args\b", "kernel_args", _COMMENT.sub("", text))
    return _TOKEN.sub(token, plain)


def twins() -> list[Any]:
    """The pairs of the tests of the software Metal: what Metal refuses, beside what it takes."""
    from eas.verify.corpus import Twins
    from tests.unit.refused_texts import whole
    from tests.unit.test_metal_strict import TABLES, language_of

    return [Twins(f"{table}: {row[0]}", language_of(row), whole(row[1]), whole(row[2])) for table, rows in TABLES.items() for row in rows]


# --- as a plugin of pytest ------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    """Keep what the code generator makes, and let the CPU run what would run on the software Metal."""
    if FOLDER not in os.environ:
        return
    from eas.codegen.msl.generate import generate as msl
    from eas.runtime import get_runtime
    from eas.runtime.sim import SimRuntime

    generate = msl.generate_msl

    def generate_and_keep(*args: Any, **options: Any) -> Any:
        code = generate(*args, **options)
        _keep(code)
        return code

    def run(self: SimRuntime, executable: Any, args: Any, grid: Any, **options: Any) -> None:
        _ = executable.metal
        get_runtime("cpu").run(executable, args, grid, **options)

    msl.generate_msl = generate_and_keep
    SimRuntime.run = run  # type: ignore[method-assign]


def _keep(code: Any) -> None:
    """One file per text; of texts that differ in names alone the first one in alphabetical order."""
    from eas.verify.corpus import Text, packed

    key = hashlib.sha256(f"{code.language} {code.math_mode} {names_apart(code.text, code.name)}".encode()).hexdigest()
    path = Path(os.environ[FOLDER], key)
    text = packed(Text(code.name, code.language, code.math_mode, code.text))
    if not path.exists() or text < path.read_text():
        path.write_text(text)


# --- as a command ---------------------------------------------------------------------------------


def main(options: list[str]) -> int:
    """Run the tests and write the corpus."""
    from eas.verify import corpus

    corpus.write_twins(twins())
    print(f"{len(corpus.read_twins())} pairs, {corpus.TWINS_PATH.stat().st_size} bytes in {corpus.TWINS_PATH.relative_to(ROOT)}")
    if options == ["--twins"]:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, FOLDER: folder, "EAS_VERIFY": "0", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.make_corpus", "--backend", "sim", *TESTS, *options]
        subprocess.run(command, cwd=ROOT, env=env, check=False)
        texts = [corpus.unpacked(path.read_text()) for path in sorted(Path(folder).iterdir())]
    corpus.write(texts)
    print(f"{len(texts)} texts, {corpus.PATH.stat().st_size} bytes in {corpus.PATH.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
