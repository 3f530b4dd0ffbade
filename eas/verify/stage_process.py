"""The process of one stage: `python -m eas.verify.stage_process STAGE BACKEND EVENTS SECONDS [--short]`."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from pathlib import Path

from eas.verify.events import Recorder
from eas.verify.stage_table import STAGES


def main(argv: list[str]) -> int:
    """Run a stage; what it finds is in the file of its events."""
    name, backend, events, seconds, *options = argv
    faulthandler.enable()
    if backend:
        os.environ["EAS_BACKEND"] = backend
    stage = next(s for s in STAGES if s.name == name)
    record = Recorder(Path(events), float(seconds), is_short="--short" in options)
    module, _, function = stage.run.partition(":")
    getattr(importlib.import_module(f"eas.verify.stages.{module}"), function)(record, backend)
    record.complete()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
