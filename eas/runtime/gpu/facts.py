"""What was measured on a GPU, kept in the cache directory, and the target that follows from its family and those facts."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eas.base import config
from eas.runtime.disk_cache import read_own_file
from eas.schedule.gpu.target import APPLE7, APPLE8, APPLE9, MetalTarget, newest_language

KINDS: Mapping[str, type] = {
    "simd_width": int, "max_threads": int, "has_ulong_min_max": bool, "has_ulong_atomics": bool, "usual_threads": int, "elements_per_thread": int,
}  # fmt: skip
"""Facts that are fields of `MetalTarget` as they are; "fragment_map" is one as well, by its name or "unknown"."""
_LIMITS = {"simd_width": (32, 32), "max_threads": (32, 1024), "usual_threads": (32, 1024), "elements_per_thread": (1, 16)}


def path_of(gpu: str) -> Path:
    """The file of the facts of a GPU."""
    return config.cache_dir() / "gpu" / (re.sub(r"\W+", "-", gpu).strip("-") + ".json")


def write(gpu: str, facts: Mapping[str, Any]) -> Path | None:
    """Keep facts for later processes; None if the cache is off or takes no files."""
    if not config.cache_enabled():
        return None
    path = path_of(gpu)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(dict(facts), indent=1, sort_keys=True), encoding="utf-8")
        new.replace(path)
        return path
    return None


def read(gpu: str) -> dict[str, Any]:
    """The facts that are known of a GPU, if any; a file that cannot be read, or that others may write, knows none."""
    if not config.cache_enabled():
        return {}
    with contextlib.suppress(OSError, ValueError):
        facts = json.loads(read_own_file(path_of(gpu)) or b"")
        if isinstance(facts, dict):
            return facts
    return {}


def refined(target: MetalTarget, facts: Mapping[str, Any]) -> MetalTarget:
    """The target with what was measured in place of what we had reasoned; what no GPU can have is ignored."""
    known = {name: facts[name] for name, kind in KINDS.items() if type(facts.get(name)) is kind and _is_sensible(name, facts[name])}
    if facts.get("fragment_map") == "unknown":
        known["fragment_map"] = None
    return replace(target, **known)


def _is_sensible(name: str, value: int) -> bool:
    """Whether code can be made for such a number: a power of two between its least and its most."""
    least, most = _LIMITS.get(name, (0, 1))
    return name not in _LIMITS or (least <= value <= most and value & (value - 1) == 0)


def target_of(gpu: str, family: int, macos: str = "") -> MetalTarget:
    """The target of a GPU: that of its family and system, with the facts that `python -m eas verify` has measured there."""
    target = APPLE9 if family >= 9 else APPLE8 if family == 8 else APPLE7
    language = newest_language(macos)
    return refined(replace(target, language=language) if language else target, read(gpu))
