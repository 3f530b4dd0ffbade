"""Stage "examples": every program of the folder `examples` beside the package, as a user starts it."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import runpy
import sys
from pathlib import Path

import eas
from eas.verify.events import Recorder
from eas.verify.raw_metal import is_software

FOLDER = Path(eas.__file__).parent.parent / "examples"
NO_PROGRAMS = frozenset({"__init__", "command_line"})
TORCH = frozenset({"gpt"})
SHORT = ("add", "softmax")
OPTIONS = {"gpt": ("--steps", "3", "--batch", "2")}  # the others take a backend, this one asks the environment


def names() -> list[str]:
    """The examples there are."""
    return sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in NO_PROGRAMS)


def run(record: Recorder, backend: str) -> None:
    """Each example compares its result with NumPy's and ends with a status."""
    todo = names()
    if not todo:
        record.skipped("examples", f"no folder {FOLDER}: they are part of the repository, not of the package")
        return
    sys.path.insert(0, str(FOLDER.parent))
    todo = [name for name in todo if not record.is_short or name in SHORT]
    for n, name in enumerate(todo):
        if name in TORCH and importlib.util.find_spec("torch") is None:
            record.skipped(name, "it needs torch")
        elif name in TORCH and backend != "cpu" and is_software(backend):
            record.skipped(name, "a training takes minutes on the software Metal")
        elif record.seconds_left < 0:
            record.skipped(name, "no time left; --full runs all examples")
        else:
            _run(record, name, backend)
        record.progress(n + 1, len(todo))


def _run(record: Recorder, name: str, backend: str) -> None:
    printed = io.StringIO()
    before, sys.argv = sys.argv, [name, *OPTIONS.get(name, ("--backend", backend))]
    sys.modules.pop(f"examples.{name}", None)  # another example may have imported it
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module(f"examples.{name}", run_name="__main__")
        status: object = 0
    except SystemExit as end:
        status = end.code or 0
    except Exception as error:  # one example must not end the others
        status = f"{type(error).__name__}: {error}"
    finally:
        sys.argv = before
    record.check(name, status == 0, printed.getvalue().strip()[-400:] + (f" (status {status})" if status != 0 else ""))
