"""Whether a kernel is being traced on this thread; apart from the builder, so that a launch can ask cheaply."""

from __future__ import annotations

import threading

CURRENT = threading.local()
"""`CURRENT.builder` is the builder of the trace in progress."""


def is_tracing() -> bool:
    return getattr(CURRENT, "builder", None) is not None
